# The library: everything under src/ that is not a test, benchmark or fuzzer. Files are found, not
# listed, so that a new codec is one folder and one catalogue row; layering is checked by
# tools/layers, not by link order. Compiled once, linked twice: libsluice.a and libsluice.so. Neither asks for libfmt or libhwy, which Debian has only
# as shared libraries.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
find_path(SLUICE_HWY_INCLUDE hwy/highway.h REQUIRED DOC "The folder that holds hwy/highway.h")

file(GLOB_RECURSE SLUICE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cc)
list(FILTER SLUICE_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
list(FILTER SLUICE_SOURCES EXCLUDE REGEX "/src/cuda/")  # cmake/cuda.cmake has these.

# Highway's headers; src/kernels/highway.cc stands in for its library. The macro renames the
# namespace, so that a program which also uses libhwy, of any version, has two sets of names.
add_library(sluice_highway INTERFACE)
target_include_directories(sluice_highway SYSTEM INTERFACE ${SLUICE_HWY_INCLUDE})
# Two SIMD levels and the scalar specification; Highway's other x86 targets only cost build time.
option(SLUICE_SIMD "Compile the kernels for AVX2 and AVX-512 too" ON)
set(SLUICE_HWY_DISABLED HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)
if(NOT SLUICE_SIMD)
  string(APPEND SLUICE_HWY_DISABLED |HWY_AVX2|HWY_AVX3)
endif()
target_compile_definitions(sluice_highway INTERFACE
  hwy=sluice_hwy HWY_STATIC_DEFINE HWY_DISABLED_TARGETS=\(${SLUICE_HWY_DISABLED}\))

# fmt's headers; cmake/format.cc stands in for its library, under a namespace of our own.
set(SLUICE_FMT_HEADER_ONLY_DEFAULT ON)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  set(SLUICE_FMT_HEADER_ONLY_DEFAULT OFF)
endif()
option(SLUICE_FMT_HEADER_ONLY "Compile fmt into every file that formats: slow, any version of fmt"
       ${SLUICE_FMT_HEADER_ONLY_DEFAULT})
add_library(sluice_fmt INTERFACE)
if(SLUICE_FMT_HEADER_ONLY)
  target_link_libraries(sluice_fmt INTERFACE fmt::fmt-header-only)
else()
  get_target_property(SLUICE_FMT_INCLUDE fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(sluice_fmt SYSTEM INTERFACE ${SLUICE_FMT_INCLUDE})
  target_compile_definitions(sluice_fmt INTERFACE
    "FMT_BEGIN_NAMESPACE=namespace fmt{inline namespace sluice_v9{" "FMT_END_NAMESPACE=}}")
  list(APPEND SLUICE_SOURCES ${PROJECT_SOURCE_DIR}/cmake/format.cc)
endif()

add_library(sluice_objects OBJECT ${SLUICE_SOURCES})
target_link_libraries(sluice_objects PRIVATE sluice_flags sluice_highway sluice_fmt
                                             Threads::Threads)
target_compile_definitions(sluice_objects PRIVATE SLUICE_VERSION="${PROJECT_VERSION}")
set_target_properties(sluice_objects PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
# The C functions are what others see; cmake/exports.map keeps the rest of these files in.
set(SLUICE_ABI_SOURCES ${SLUICE_SOURCES})
list(FILTER SLUICE_ABI_SOURCES INCLUDE REGEX "/src/abi/")
set_source_files_properties(${SLUICE_ABI_SOURCES} PROPERTIES
  COMPILE_OPTIONS "-fvisibility=default")

if(SLUICE_SANITIZE)
  # Only here: elsewhere the files show that they include what they use, and ccache knows them.
  target_precompile_headers(sluice_objects PRIVATE <fmt/format.h> <algorithm> <array> <chrono>
                            <functional> <memory> <span> <string> <vector>)
  set(SLUICE_SIMD_SOURCES ${SLUICE_SOURCES})
  list(FILTER SLUICE_SIMD_SOURCES INCLUDE REGEX "(/abi/.*|_simd|/highway|/format)\\.cc$")
  set_source_files_properties(${SLUICE_SIMD_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endif()
# An address that wraps around gets no kernel past the address sanitizer; to look for it in unrolled
# loops takes most of their compile time.
if(SLUICE_SANITIZE MATCHES "undefined")
  list(FILTER SLUICE_SIMD_SOURCES INCLUDE REGEX "_simd\\.cc$")
  set_source_files_properties(${SLUICE_SIMD_SOURCES} PROPERTIES
    COMPILE_OPTIONS "-fno-sanitize=pointer-overflow")
endif()

add_library(sluice STATIC $<TARGET_OBJECTS:sluice_objects>)
add_library(sluice::sluice ALIAS sluice)
target_link_libraries(sluice PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
target_include_directories(sluice PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<INSTALL_INTERFACE:include>)

# The number in libsluice.so.N is the header's: a program finds the library it was compiled for.
set(SLUICE_HEADER ${PROJECT_SOURCE_DIR}/include/sluice/sluice.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SLUICE_HEADER})
file(STRINGS ${SLUICE_HEADER} SLUICE_ABI_LINE REGEX "^#define SLUICE_ABI_VERSION [0-9]+$")
if(NOT SLUICE_ABI_LINE MATCHES "^#define SLUICE_ABI_VERSION ([0-9]+)$")
  message(FATAL_ERROR "${SLUICE_HEADER} does not define SLUICE_ABI_VERSION as a number")
endif()
set(SLUICE_ABI_VERSION ${CMAKE_MATCH_1})

if(SLUICE_SHARED)
  add_library(sluice_shared SHARED $<TARGET_OBJECTS:sluice_objects>)
  add_library(sluice::shared ALIAS sluice_shared)
  target_link_libraries(sluice_shared PRIVATE $<BUILD_INTERFACE:sluice_flags> Threads::Threads
                                              ${CMAKE_DL_LIBS})
  target_include_directories(sluice_shared PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  # The C++ library is inside too: the .so is loaded by programs that bring another one (Python's
  # torch), and asks the machine for the C library alone.
  target_link_options(sluice_shared PRIVATE
    -static-libstdc++ -static-libgcc -Wl,-z,defs -Wl,--gc-sections
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
  set_target_properties(sluice_shared PROPERTIES
    OUTPUT_NAME sluice EXPORT_NAME shared LINKER_LANGUAGE CXX
    VERSION ${SLUICE_ABI_VERSION}.${PROJECT_VERSION} SOVERSION ${SLUICE_ABI_VERSION}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
endif()
