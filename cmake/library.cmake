# The library: everything under src/ that is not a test, benchmark or fuzzer. Files are found, not
# listed, so that a new codec is one folder and one catalogue row; layering is checked by
# tools/layers, not by link order.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)

file(GLOB_RECURSE SLUICE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cc)
set(SLUICE_TEST_SOURCES ${SLUICE_SOURCES})
set(SLUICE_BENCH_SOURCES ${SLUICE_SOURCES})
set(SLUICE_FUZZ_SOURCES ${SLUICE_SOURCES})
list(FILTER SLUICE_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
list(FILTER SLUICE_TEST_SOURCES INCLUDE REGEX "_test\\.cc$")
list(FILTER SLUICE_BENCH_SOURCES INCLUDE REGEX "_bench\\.cc$")
list(FILTER SLUICE_FUZZ_SOURCES INCLUDE REGEX "_fuzz\\.cc$")

add_library(sluice STATIC ${SLUICE_SOURCES})
add_library(sluice::sluice ALIAS sluice)
target_link_libraries(sluice PRIVATE $<BUILD_INTERFACE:sluice_flags> PkgConfig::HWY fmt::fmt
                             PUBLIC Threads::Threads)
target_include_directories(sluice PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<INSTALL_INTERFACE:include>)
# Two SIMD levels and the scalar specification; Highway's other x86 targets only cost build time.
set(SLUICE_HWY_DISABLED "(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")
target_compile_definitions(sluice PRIVATE HWY_DISABLED_TARGETS=${SLUICE_HWY_DISABLED})
target_compile_definitions(sluice PRIVATE SLUICE_VERSION="${PROJECT_VERSION}")
