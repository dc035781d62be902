# Flags of every target of ours. A warning is an error; a fused multiply-add would change bits.
add_library(sluice_flags INTERFACE)
target_compile_options(sluice_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -ffp-contract=off -fno-math-errno)
target_include_directories(sluice_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                  ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR})
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  # The sanitizer builds keep the assertions of hot loops.
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
# What guides a fuzzer, and what a replay of a corpus can do without: it makes all else slower.
if(SLUICE_FUZZ_GUIDED)
  target_compile_options(sluice_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# The apps and their tests: to the sanitizers they need not be fast, and compile in half the time.
set(SLUICE_APP_FLAGS)
if(SLUICE_SANITIZE)
  set(SLUICE_APP_FLAGS -O0)
endif()
