# Build options and the flags that every target shares.
set(TRIREME_ARCH native CACHE STRING "CPU to build for (-march); native, or a portable value such as x86-64-v3")
set(TRIREME_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread: builds the floors with the reference backend only")
option(TRIREME_BENCH "Build the benchmarks" OFF)
option(TRIREME_WERROR "Warnings are errors" OFF)
option(TRIREME_TRAINER "Training: the trainer, optim, kernels of backward passes. Without it train and memory refuse, all else works" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")

find_package(Threads REQUIRED)

add_library(trireme_flags INTERFACE)
target_include_directories(trireme_flags INTERFACE ${CMAKE_SOURCE_DIR})
# -Wno-restrict: gcc 12 finds overlaps in std::string that are none (its bug 105329).
# -ffp-contract=off: sums are fused only where the code says fma, so that backends and tiles agree bitwise.
target_compile_options(trireme_flags INTERFACE -march=${TRIREME_ARCH} -ffp-contract=off -Wall -Wextra -Wshadow -Wno-missing-field-initializers -Wno-restrict
  -fno-math-errno)
target_link_libraries(trireme_flags INTERFACE Threads::Threads)
if(TRIREME_WERROR)
  target_compile_options(trireme_flags INTERFACE -Werror)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g0)
  if(TRIREME_SANITIZE MATCHES "address")  # finds these two by itself, and they are a sixth of the compiler's work
    target_compile_options(trireme_flags INTERFACE -fno-sanitize=null,object-size)
  endif()
  target_link_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()
include(TriremeHardening)
