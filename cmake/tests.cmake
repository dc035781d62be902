# Tests: a binary of unit tests, one of conformance tests, one of benchmarks, one per fuzzer.
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

file(GLOB_RECURSE SLUICE_APP_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*_test.cc)
file(GLOB SLUICE_SUPPORT_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cc)
file(GLOB SLUICE_CONFORMANCE_SOURCES CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/tests/conformance/*.cc)

# The simulator of src/protocol, and what it and the model check say.
file(GLOB SLUICE_SIM_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/*.cc)
set(SLUICE_SIM_TEST_SOURCES ${SLUICE_SIM_SOURCES})
list(FILTER SLUICE_SIM_SOURCES EXCLUDE REGEX "(_test|/main)\\.cc$")
list(FILTER SLUICE_SIM_TEST_SOURCES INCLUDE REGEX "_test\\.cc$")
add_library(sluice_simulator STATIC ${SLUICE_SIM_SOURCES})
target_link_libraries(sluice_simulator PUBLIC sluice sluice_flags fmt::fmt)
add_executable(sluice_sim ${PROJECT_SOURCE_DIR}/sim/main.cc)
set_source_files_properties(${PROJECT_SOURCE_DIR}/sim/main.cc
  ${PROJECT_SOURCE_DIR}/bench/stream_echo/main.cc PROPERTIES COMPILE_OPTIONS -O0)  # CLI11
target_link_libraries(sluice_sim PRIVATE sluice_simulator CLI11::CLI11)

add_library(sluice_support STATIC ${SLUICE_SUPPORT_SOURCES})
# Without the apps, which the thread sanitizer need not compile.
target_link_libraries(sluice_support PUBLIC sluice sluice_simulator sluice_flags GTest::gtest
                                            fmt::fmt)

function(sluice_test_binary name)
  add_executable(${name} ${ARGN})
  # Tests are compiled for quick builds; what they test keeps the flags of its library.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(SLUICE_FUZZERS)
    target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
  target_link_libraries(${name} PRIVATE sluice_support GTest::gtest
                                        GTest::gtest_main)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <fmt/format.h> <algorithm> <array>
                            <cmath> <cstring> <functional> <memory> <random> <string> <vector>)
  target_compile_definitions(${name} PRIVATE
    SLUICE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND ${name})
endfunction()

if(SLUICE_SANITIZE)
  # Behind the library's tests in the link, where the linker takes their inline functions, the fast.
  set_source_files_properties(${SLUICE_APP_TEST_SOURCES} PROPERTIES
    COMPILE_OPTIONS "${SLUICE_APP_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
endif()
sluice_test_binary(unit_tests ${SLUICE_TEST_SOURCES} ${SLUICE_SIM_TEST_SOURCES}
                              ${SLUICE_APP_TEST_SOURCES})
sluice_test_binary(conformance_tests ${SLUICE_CONFORMANCE_SOURCES})
target_link_libraries(unit_tests PRIVATE sluice_cli sluiced_parts)
# What has threads, on its own, for the thread sanitizer.
set(SLUICE_THREAD_SOURCES ${SLUICE_TEST_SOURCES})
list(FILTER SLUICE_THREAD_SOURCES INCLUDE REGEX "/(carrier|group)/|/abi/queue")
sluice_test_binary(thread_tests ${SLUICE_THREAD_SOURCES})
set_target_properties(thread_tests PROPERTIES EXCLUDE_FROM_ALL ON)

add_executable(kernel_bench ${SLUICE_BENCH_SOURCES})
target_link_libraries(kernel_bench PRIVATE sluice sluice_flags benchmark::benchmark
                                           benchmark::benchmark_main fmt::fmt)

# Carrier stream beside a plain UDP echo.
file(GLOB SLUICE_STREAM_ECHO_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/stream_echo/*.cc)
add_executable(stream_echo ${SLUICE_STREAM_ECHO_SOURCES})
target_link_libraries(stream_echo PRIVATE sluice sluice_flags CLI11::CLI11 fmt::fmt)

if(SLUICE_FUZZERS)
  add_custom_target(fuzzers)
  file(GLOB_RECURSE SLUICE_APP_FUZZ_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*_fuzz.cc
       ${PROJECT_SOURCE_DIR}/tests/*_fuzz.cc)
  foreach(source ${SLUICE_FUZZ_SOURCES} ${SLUICE_APP_FUZZ_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE sluice_support sluice_cli sluiced_parts)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
    add_dependencies(fuzzers ${name})
  endforeach()
endif()
