# What makes a build without ccache short (a fresh machine, CI): standard headers, and GoogleTest's for tests, are parsed once
# instead of in each of 700 sources; and eight sources are compiled at a time (eight of framework/comm under the address sanitizer:
# 4 s instead of about 20), but for kernels as they run. ccache keeps nothing of sources that use a precompiled header, so a build
# with a launcher does without both: every source by itself, as it must compile, too.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(TRIREME_PRECOMPILE_DEFAULT OFF)
else()
  set(TRIREME_PRECOMPILE_DEFAULT ON)
endif()
option(TRIREME_PRECOMPILE "Precompiled headers, and sources compiled together; off where ccache keeps objects"
  ${TRIREME_PRECOMPILE_DEFAULT})

set(TRIREME_PRECOMPILED <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex>
  <numeric> <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <vector>)

# trireme_precompile(TARGET): the library's sources see them first. One precompiled header serves all targets with the flags of
# trireme_flags alone; ALONE: this target adds flags of its own.
function(trireme_precompile TARGET)
  cmake_parse_arguments(ARG "ALONE" "" "" ${ARGN})
  if(NOT TRIREME_PRECOMPILE)
    return()
  endif()
  if(ARG_ALONE)
    target_precompile_headers(${TARGET} PRIVATE ${TRIREME_PRECOMPILED})
    return()
  endif()
  if(NOT TARGET trireme_precompiled)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
    add_library(trireme_precompiled OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(trireme_precompiled PRIVATE trireme_flags)
    target_precompile_headers(trireme_precompiled PRIVATE ${TRIREME_PRECOMPILED})
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM trireme_precompiled)
endfunction()

# The same for the code of tests, with the flags of trireme_test_code.
function(trireme_precompile_test TARGET)
  if(NOT TRIREME_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET trireme_precompiled_test)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled_test.cpp CONTENT "")
    add_library(trireme_precompiled_test OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled_test.cpp)
    target_link_libraries(trireme_precompiled_test PRIVATE trireme_flags GTest::gtest)
    trireme_test_flags(trireme_precompiled_test)
    target_precompile_headers(trireme_precompiled_test PRIVATE ${TRIREME_PRECOMPILED} <filesystem> <fstream> <iostream>
      <gtest/gtest.h>)
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM trireme_precompiled_test)
endfunction()

# Sources whose local names are those of another of their room: compiled by themselves.
set(TRIREME_APART
  framework/backend/reference_infer.cpp framework/backend/reference_linear.cpp framework/base/program.cpp
  framework/base/storage/content_hash.cpp framework/checkpoint/hdf5_layout.cpp framework/data/records.cpp
  framework/data/token_file.cpp framework/data/tokenizers/json_tokenizer.cpp framework/data/tokenizers/pre_tokenizers.cpp
  recipes/commands/data_command.cpp recipes/commands/evaluate_command.cpp recipes/commands/evaluate_text.cpp
  recipes/commands/generate_text.cpp recipes/commands/opened_model.cpp recipes/memory/state_formulas.cpp recipes/models/mlp_classifier.cpp
  tests/conformance/comm/quick_cases.cpp tests/conformance/infer/infer_kernels_test.cpp tests/conformance/infer/quantized_test.cpp
  tests/framework/base/simulated_files_test.cpp tests/framework/checkpoint/writer_test.cpp
  tests/framework/data/chat/conversation_test.cpp tests/framework/data/token_crash_test.cpp tests/golden/families/cached_test.cpp
  tests/parity/lora_test.cpp tests/parity/parity_test.cpp tests/parity/relayout_test.cpp tests/pipeline/schedule_test.cpp
  tests/recipes/commands/memory_outlook_test.cpp tests/recipes/report/trace_test.cpp tests/recipes/train/save_session_test.cpp
  zero/unit_bytes.cpp)
list(TRANSFORM TRIREME_APART PREPEND ${CMAKE_SOURCE_DIR}/)

# trireme_together(TARGET): its sources are compiled eight at a time, but in a Debug build for daily work, where mostly one of them
# was touched. Called in the folder that made the target.
# OBJECTS_OF_THEIR_OWN: sources that go together with each other alone.
function(trireme_together TARGET)
  cmake_parse_arguments(ARG "" "" "OBJECTS_OF_THEIR_OWN" ${ARGN})
  if(NOT TRIREME_PRECOMPILE OR NOT (TRIREME_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Release))
    return()
  endif()
  get_target_property(SOURCES ${TARGET} SOURCES)
  set(OWN "")
  set(REST "")
  foreach(FILE ${SOURCES})
    get_filename_component(FILE ${FILE} ABSOLUTE)
    get_filename_component(NAME ${FILE} NAME)
    if(FILE IN_LIST TRIREME_APART)
      continue()
    elseif(NAME IN_LIST ARG_OBJECTS_OF_THEIR_OWN)
      list(APPEND OWN ${FILE})
    else()
      list(APPEND REST ${FILE})
    endif()
  endforeach()
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(PART OWN REST)
    set(INDEX 0)
    foreach(FILE ${${PART}})
      math(EXPR GROUP "${INDEX} / 8")
      math(EXPR INDEX "${INDEX} + 1")
      set_source_files_properties(${FILE} PROPERTIES UNITY_GROUP ${PART}${GROUP})
    endforeach()
  endforeach()
endfunction()
