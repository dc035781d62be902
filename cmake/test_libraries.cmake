# What the tests link beside the library: the simulator of src/protocol, and tests/support.
file(GLOB SLUICE_SIM_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/*.cc)
list(FILTER SLUICE_SIM_SOURCES EXCLUDE REGEX "(_test|/main)\\.cc$")
add_library(sluice_simulator STATIC ${SLUICE_SIM_SOURCES})
target_link_libraries(sluice_simulator PUBLIC sluice sluice_flags fmt::fmt)
add_executable(sluice_sim ${PROJECT_SOURCE_DIR}/sim/main.cc)
set_source_files_properties(${PROJECT_SOURCE_DIR}/sim/main.cc
  ${PROJECT_SOURCE_DIR}/bench/stream_echo/main.cc PROPERTIES COMPILE_OPTIONS -O0)  # CLI11
target_link_libraries(sluice_sim PRIVATE sluice_simulator CLI11::CLI11)

file(GLOB SLUICE_SUPPORT_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cc)
add_library(sluice_support STATIC ${SLUICE_SUPPORT_SOURCES})
# Without the apps, which the thread sanitizer need not compile.
target_link_libraries(sluice_support PUBLIC sluice sluice_simulator sluice_flags GTest::gtest
                                            fmt::fmt)
