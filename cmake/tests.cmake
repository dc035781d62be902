# Tests: a binary of unit tests, one of conformance tests, one of benchmarks, one per fuzzer.
#
# Most of a build's time goes to the tests. So they are compiled in three ways:
#   with their library, by its compiler         any preset, for developers
#   with the libraries of another build         preset `tests`: GCC's libraries of preset `release`,
#     (SLUICE_LIBRARIES_OF)                     tests by clang without optimisation, in half the time
#   with a sanitizer                            the library optimised, the tests not
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

file(GLOB_RECURSE SLUICE_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.cc)
file(GLOB_RECURSE SLUICE_BENCH_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_bench.cc)
file(GLOB_RECURSE SLUICE_APP_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*_test.cc)
file(GLOB SLUICE_SIM_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/*_test.cc)
file(GLOB SLUICE_CONFORMANCE_SOURCES CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/tests/conformance/*.cc)

if(NOT SLUICE_LIBRARIES_OF)
  include(cmake/test_libraries.cmake)
endif()

set(SLUICE_TEST_FLAGS $<$<CONFIG:Release>:-O1>)
if(SLUICE_SANITIZE OR SLUICE_LIBRARIES_OF)
  set(SLUICE_TEST_FLAGS -O0)
  # Statistics and large products: these would run for longer than they compile.
  set(SLUICE_HOT_TESTS ${SLUICE_TEST_SOURCES})
  list(FILTER SLUICE_HOT_TESTS INCLUDE REGEX "/(saved_choices|tide_model|tide_accuracy|\
lossless_acceptance|lossless_hostile|random_statistics|waves|hadamard|fixedpoint|peeling_success|\
thc_accuracy|lanes|lhc_loss|reduction|sum_reader)_test\\.cc$")
  set_source_files_properties(${SLUICE_HOT_TESTS} PROPERTIES
    COMPILE_OPTIONS -O2 SKIP_PRECOMPILE_HEADERS ON)
endif()

function(sluice_test_binary name)
  add_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE ${SLUICE_TEST_FLAGS})
  if(SLUICE_FUZZ_GUIDED)
    target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
  # Before the tests: of an inline function the linker takes the first that it meets, and that
  # should be the library's, optimised, as users have it.
  target_link_options(${name} PRIVATE "SHELL:-Wl,--whole-archive $<TARGET_FILE:sluice> \
$<TARGET_FILE:sluice_simulator> $<TARGET_FILE:sluice_support> -Wl,--no-whole-archive")
  target_link_libraries(${name} PRIVATE sluice_support GTest::gtest
                                        GTest::gtest_main)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <fmt/format.h> <algorithm> <array>
                            <cmath> <cstring> <functional> <memory> <random> <string> <vector>)
  target_compile_definitions(${name} PRIVATE
    SLUICE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND ${name})
endfunction()

sluice_test_binary(unit_tests ${SLUICE_TEST_SOURCES} ${SLUICE_SIM_TEST_SOURCES}
                              ${SLUICE_APP_TEST_SOURCES})
sluice_test_binary(conformance_tests ${SLUICE_CONFORMANCE_SOURCES})
target_link_libraries(unit_tests PRIVATE sluice_cli sluiced_parts)
# What has threads, on its own, for the thread sanitizer.
set(SLUICE_THREAD_SOURCES ${SLUICE_TEST_SOURCES})
list(FILTER SLUICE_THREAD_SOURCES INCLUDE REGEX "/(carrier|group)/|/abi/queue|/device/bench")
sluice_test_binary(thread_tests ${SLUICE_THREAD_SOURCES})
set_target_properties(thread_tests PROPERTIES EXCLUDE_FROM_ALL ON)

if(SLUICE_LIBRARIES_OF)
  return()
endif()

add_executable(kernel_bench ${SLUICE_BENCH_SOURCES})
target_link_libraries(kernel_bench PRIVATE sluice_support sluice_flags benchmark::benchmark
                                           benchmark::benchmark_main fmt::fmt)

# Carrier stream beside a plain UDP echo.
file(GLOB SLUICE_STREAM_ECHO_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/stream_echo/*.cc)
add_executable(stream_echo ${SLUICE_STREAM_ECHO_SOURCES})
target_link_libraries(stream_echo PRIVATE sluice sluice_flags CLI11::CLI11 fmt::fmt)

if(SLUICE_FUZZERS)
  add_custom_target(fuzzers)
  file(GLOB_RECURSE SLUICE_FUZZ_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_fuzz.cc
       ${PROJECT_SOURCE_DIR}/apps/*_fuzz.cc ${PROJECT_SOURCE_DIR}/tests/*_fuzz.cc)
  foreach(source ${SLUICE_FUZZ_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE sluice_support sluice_cli sluiced_parts)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
    add_dependencies(fuzzers ${name})
  endforeach()
endif()
