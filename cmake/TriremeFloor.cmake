# trireme_rooms(folder ...): adds each folder that has a list of its own already.
function(trireme_rooms)
  foreach(ROOM ${ARGN})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${ROOM}/CMakeLists.txt)
      add_subdirectory(${ROOM})
    endif()
  endforeach()
endfunction()

# trireme_floor(NAME FLOORS a b ... LIBRARIES x y ... EXCLUDE file ...): a static library of the folder's sources.
# FLOORS are the floors below that it may include from (public), LIBRARIES are third-party ones (private). OWN_FLAGS: it is
# compiled with more than trireme_flags. TRAINER: sources of training alone; NO_TRAINER: what stands for them in a program
# without a trainer.
function(trireme_floor NAME)
  cmake_parse_arguments(ARG "OWN_FLAGS" "" "FLOORS;LIBRARIES;EXCLUDE;TRAINER;NO_TRAINER" ${ARGN})
  if(TRIREME_TRAINER)
    list(APPEND ARG_EXCLUDE ${ARG_NO_TRAINER})
  else()
    list(APPEND ARG_EXCLUDE ${ARG_TRAINER})
  endif()
  file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(FILE ${ARG_EXCLUDE})
    list(REMOVE_ITEM SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${FILE})
  endforeach()
  add_library(trireme_${NAME} STATIC ${SOURCES})
  if(NOT ARG_OWN_FLAGS)
    trireme_precompile(trireme_${NAME})
    # Not with the room's others: a program without a trainer links no object of TRAINER's.
    trireme_together(trireme_${NAME} OBJECTS_OF_THEIR_OWN ${ARG_TRAINER} ${ARG_NO_TRAINER})
  endif()
  if(TRIREME_SANITIZE)  # only what its tests use
    set_target_properties(trireme_${NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(NOT TRIREME_TRAINER)  # a program without a trainer has no such room; its headers are types alone
    list(REMOVE_ITEM ARG_FLOORS optim)
  endif()
  list(TRANSFORM ARG_FLOORS PREPEND trireme_)
  target_link_libraries(trireme_${NAME} PUBLIC trireme_flags ${ARG_FLOORS} PRIVATE ${ARG_LIBRARIES})
endfunction()

# What tests do is in the libraries: their own code is compiled for the compiler's time (the checks of undefined behaviour are
# a third of it).
function(trireme_test_flags TARGET)
  if(TRIREME_SANITIZE)
    target_compile_options(${TARGET} PRIVATE -O0)
    if(TRIREME_SANITIZE MATCHES "undefined")
      target_compile_options(${TARGET} PRIVATE -fno-sanitize=undefined)
    endif()
  else()
    target_compile_options(${TARGET} PRIVATE -O1)
  endif()
endfunction()
function(trireme_test_code)
  foreach(TARGET ${ARGN})
    trireme_test_flags(${TARGET})
    trireme_precompile_test(${TARGET})
    trireme_together(${TARGET})
  endforeach()
endfunction()

# trireme_test(NAME FLOORS ... LIBRARIES ... LABELS ...): a GoogleTest program of tests/NAME/*.cpp (or the given folder's
# sources). Label faults: it injects faults and tells how many (tests/support/fault_count.h).
# A sanitizer build may lack floors (no cpu backend, no MPI): tests that need one of those are left out there. The thread
# sanitizer leaves out, too, what has nothing for it: SERIAL tests run on one thread, and the threads of KNOWN_THREADS ones
# are those of other tests (ranks of whole models: parity). NUMBERS: what is computed by code that other tests run, so that
# no sanitizer would see more.
function(trireme_test NAME)
  cmake_parse_arguments(ARG "SERIAL;KNOWN_THREADS;NUMBERS" "TIMEOUT" "FLOORS;LIBRARIES;LABELS" ${ARGN})
  file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cpp)
  string(REPLACE "/" "_" TARGET test_${NAME})
  list(TRANSFORM ARG_FLOORS PREPEND trireme_)
  if((ARG_SERIAL OR ARG_KNOWN_THREADS) AND TRIREME_SANITIZE MATCHES "thread")
    message(STATUS "left out of this sanitizer build: test ${NAME}, which has one thread or those of other tests")
    return()
  endif()
  if(ARG_NUMBERS AND TRIREME_SANITIZE)
    message(STATUS "left out of this sanitizer build: test ${NAME}, which runs what others run")
    return()
  endif()
  foreach(FLOOR ${ARG_FLOORS})
    if(NOT TARGET ${FLOOR} AND TRIREME_SANITIZE)
      message(STATUS "left out of this sanitizer build: test ${NAME}, which needs ${FLOOR}")
      return()
    endif()
  endforeach()
  add_executable(${TARGET} ${SOURCES})
  trireme_test_code(${TARGET})
  target_link_libraries(${TARGET} PRIVATE trireme_test_support ${ARG_FLOORS} ${ARG_LIBRARIES} GTest::gtest_main)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${NAME} COMMAND ${TARGET} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
