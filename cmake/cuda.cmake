# libsluice_cuda.so: kernels for NVIDIA GPUs, built where there is a compiler for them. libsluice
# loads it at run time and never links it.
#
# nvcc is called by custom commands. CMake's own CUDA language would end the configuration where
# there is no compiler, and would want to choose the host compiler.

# A project that adds Sluice to itself asks for it.
set(SLUICE_CUDA_DEFAULT OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(SLUICE_CUDA_DEFAULT AUTO)
endif()
set(SLUICE_CUDA ${SLUICE_CUDA_DEFAULT} CACHE STRING
    "Build libsluice_cuda.so: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE SLUICE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SLUICE_CUDA_ARCHITECTURES "75;80;86;90;100;120" CACHE STRING
    "GPUs that libsluice_cuda.so has code for; of the newest, and of 90, there is PTX too")
set(SLUICE_NVCC "" CACHE FILEPATH
    "nvcc of CUDA 13; empty: \$CUDACXX, PATH, /usr/local/cuda, a virtual environment")
set(SLUICE_CUDA_MAJOR 13)

# Bits: no multiplication is fused with an addition unless the source says so, on either side; no
# denormal is flushed; divisions and roots are rounded correctly. tests/cuda goes red without.
set(SLUICE_CUDA_FLAGS
  -std=c++20 -O3 -DNDEBUG -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
  --compress-mode=size
  --expt-relaxed-constexpr -Werror all-warnings
  -Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off,-fno-math-errno,-Wall,-Wextra,-Werror
  -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}
  -ccbin ${CMAKE_CXX_COMPILER})

# Why there is none, or "".
function(sluice_cuda_excluded result)
  set(why "")
  if(SLUICE_SANITIZE OR SLUICE_FUZZERS)
    set(why "a build with sanitizers or fuzzers has none")
  elseif(NOT SLUICE_SHARED)
    set(why "SLUICE_SHARED is OFF")
  elseif(NOT SLUICE_CUDA_SOURCES)
    set(why "src/cuda has no .cu files")
  endif()
  set(${result} "${why}" PARENT_SCOPE)
endfunction()

# Compilers to be tried, in order.
function(sluice_cuda_candidates result)
  if(SLUICE_NVCC)
    set(${result} ${SLUICE_NVCC} PARENT_SCOPE)
    return()
  endif()
  set(found $ENV{CUDACXX})
  find_program(on_path nvcc NO_CACHE)
  if(on_path)
    list(APPEND found ${on_path})
  endif()
  # In a virtual environment: the one in use, the one of the Python that builds a wheel, and what
  # ./test has installed.
  set(environments $ENV{VIRTUAL_ENV})
  foreach(python ${Python3_EXECUTABLE} ${Python_EXECUTABLE})
    get_filename_component(folder ${python} DIRECTORY)
    get_filename_component(folder ${folder} DIRECTORY)
    list(APPEND environments ${folder})
  endforeach()
  list(APPEND environments ${PROJECT_SOURCE_DIR}/build/cuda)
  set(places /usr/local/cuda/bin/nvcc)
  foreach(environment ${environments})
    list(APPEND places
         ${environment}/lib/python3*/site-packages/nvidia/cu${SLUICE_CUDA_MAJOR}/bin/nvcc)
  endforeach()
  foreach(place ${places})
    file(GLOB there ${place})
    list(APPEND found ${there})
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The flags that say for which GPUs, and SLUICE_CUDA_NEWEST.
function(sluice_cuda_code result)
  set(sorted ${SLUICE_CUDA_ARCHITECTURES})
  set(ptx)
  foreach(architecture ${sorted})
    if(NOT architecture MATCHES "^[1-9][0-9]+[af]?$")
      message(FATAL_ERROR "SLUICE_CUDA_ARCHITECTURES has '${architecture}'; accepted: numbers as "
                          "in sm_90, with ; between them: 75;80;86;90;100;120")
    endif()
  endforeach()
  list(SORT sorted COMPARE NATURAL)
  list(REMOVE_DUPLICATES sorted)
  if(NOT sorted)
    message(FATAL_ERROR "SLUICE_CUDA_ARCHITECTURES is empty; accepted: one number at least, as 90")
  endif()
  set(code)
  foreach(architecture ${sorted})
    list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  # PTX runs on GPUs that are newer than its own number. That of 90 is for those between.
  list(GET sorted -1 newest)
  foreach(architecture 90 ${newest})
    if(architecture IN_LIST sorted)
      list(APPEND ptx ${architecture})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES ptx)
  foreach(architecture ${ptx})
    list(APPEND code -gencode arch=compute_${architecture},code=compute_${architecture})
  endforeach()
  set(${result} ${code} PARENT_SCOPE)
  set(SLUICE_CUDA_NEWEST ${newest} PARENT_SCOPE)
endfunction()

# Tries a compiler. ${problem}: why it is refused, or ""; ${cudart}: libcudart_static.a of it.
function(sluice_cuda_try nvcc problem cudart)
  set(${cudart} "" PARENT_SCOPE)
  if(NOT EXISTS ${nvcc})
    set(${problem} "there is no ${nvcc}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE said ERROR_QUIET
                  RESULT_VARIABLE status)
  if(NOT status STREQUAL "0" OR NOT said MATCHES "release ([0-9]+)\\.([0-9]+)")
    set(${problem} "${nvcc} --version does not say which release it is" PARENT_SCOPE)
    return()
  endif()
  set(version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
  if(NOT CMAKE_MATCH_1 STREQUAL "${SLUICE_CUDA_MAJOR}")
    set(${problem} "${nvcc} is of CUDA ${version}; accepted: CUDA ${SLUICE_CUDA_MAJOR}"
        PARENT_SCOPE)
    return()
  endif()
  # nvcc may be a script or a link; itself it knows where the rest is.
  set(trial ${PROJECT_BINARY_DIR}/cuda/trial.cu)
  file(WRITE ${trial} "#include <cuda_runtime.h>\n__global__ void trial(int* x) { *x = 1; }\n")
  execute_process(COMMAND ${nvcc} --dryrun -c ${trial} -o ${trial}.o ERROR_VARIABLE plan
                  OUTPUT_QUIET)
  string(REGEX MATCH "TOP=([^\r\n]+)" top "${plan}")
  set(top "${CMAKE_MATCH_1}")
  foreach(folder lib64 lib targets/x86_64-linux/lib)
    if(top AND EXISTS ${top}/${folder}/libcudart_static.a)
      get_filename_component(archive ${top}/${folder}/libcudart_static.a REALPATH)
    endif()
  endforeach()
  if(NOT archive)
    set(${problem} "there is no libcudart_static.a in lib of ${top}, the toolkit of ${nvcc}"
        PARENT_SCOPE)
    return()
  endif()
  set(command ${nvcc} ${SLUICE_CUDA_FLAGS} ${SLUICE_CUDA_CODE} -c ${trial} -o ${trial}.o)
  string(SHA256 key "${said}${command}")
  if(NOT SLUICE_CUDA_TRIED STREQUAL "${key}")
    execute_process(COMMAND ${command} OUTPUT_VARIABLE out ERROR_VARIABLE out
                    RESULT_VARIABLE status)
    if(NOT status STREQUAL "0")
      string(STRIP "${out}" out)
      string(REGEX REPLACE "\n.*" "" out "${out}")
      set(${problem} "${nvcc} of CUDA ${version} cannot compile with ${CMAKE_CXX_COMPILER}: ${out}"
          PARENT_SCOPE)
      return()
    endif()
    set(SLUICE_CUDA_TRIED ${key} CACHE INTERNAL "Digest of what has compiled a trial")
  endif()
  set(${cudart} ${archive} PARENT_SCOPE)
  set(${problem} "" PARENT_SCOPE)
endfunction()

# Compiles one file: ${object} is what is made.
function(sluice_cuda_object source object)
  get_filename_component(name ${source} NAME_WE)
  set(made ${PROJECT_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${made}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${SLUICE_CUDA_NVCC} ${SLUICE_CUDA_FLAGS}
            ${SLUICE_CUDA_CODE} --threads 0 -MD -MF ${made}.d -c ${source} -o ${made}
    DEPENDS ${source} DEPFILE ${made}.d COMMENT "nvcc ${name}.cu" VERBATIM)
  set(${object} ${made} PARENT_SCOPE)
endfunction()

# The same as PTX, with the same flags; `-lineinfo` tells which line an instruction comes from.
function(sluice_cuda_ptx source ptx)
  get_filename_component(name ${source} NAME_WE)
  set(made ${PROJECT_BINARY_DIR}/cuda/${name}.ptx)
  add_custom_command(OUTPUT ${made}
    COMMAND ${SLUICE_CUDA_NVCC} ${SLUICE_CUDA_FLAGS} -arch=compute_${SLUICE_CUDA_NEWEST} -lineinfo
            -MD -MF ${made}.d -ptx ${source} -o ${made}
    DEPENDS ${source} DEPFILE ${made}.d COMMENT "nvcc -ptx ${name}.cu" VERBATIM)
  set(${ptx} ${made} PARENT_SCOPE)
endfunction()

function(sluice_cuda_link target)
  target_link_libraries(${target} PRIVATE ${SLUICE_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs
                                        -Wl,--gc-sections)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

if(NOT SLUICE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SLUICE_CUDA is '${SLUICE_CUDA}'; accepted: AUTO, ON, OFF")
endif()
file(GLOB SLUICE_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)

set(SLUICE_CUDA_NVCC)
if(SLUICE_CUDA STREQUAL "OFF")
  set(SLUICE_CUDA_WHY_NOT "SLUICE_CUDA is OFF")
else()
  sluice_cuda_excluded(SLUICE_CUDA_WHY_NOT)
endif()
if(NOT SLUICE_CUDA_WHY_NOT)
  sluice_cuda_code(SLUICE_CUDA_CODE)
  sluice_cuda_candidates(candidates)
  set(SLUICE_CUDA_WHY_NOT "no nvcc found; accepted: nvcc of CUDA ${SLUICE_CUDA_MAJOR} in \
SLUICE_NVCC, \$CUDACXX, PATH, /usr/local/cuda/bin or a virtual environment (docs/install.md)")
  set(refused "")
  foreach(candidate ${candidates})
    sluice_cuda_try(${candidate} problem SLUICE_CUDART)
    if(NOT problem)
      set(SLUICE_CUDA_NVCC ${candidate})
      break()
    endif()
    string(APPEND refused "${problem}. ")
  endforeach()
  if(refused)
    set(SLUICE_CUDA_WHY_NOT "${refused}")
  endif()
endif()

if(NOT SLUICE_CUDA_NVCC)
  if(SLUICE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SLUICE_CUDA is ON, but libsluice_cuda.so cannot be built: "
                        "${SLUICE_CUDA_WHY_NOT}")
  endif()
  message(STATUS "Without libsluice_cuda.so: ${SLUICE_CUDA_WHY_NOT}")
  # So that lists of targets can name them.
  add_custom_target(sluice_cuda)
  add_custom_target(cuda_ptx)
  file(REMOVE ${PROJECT_BINARY_DIR}/cuda/build.json)
  return()
endif()
list(JOIN SLUICE_CUDA_ARCHITECTURES ", " architectures)
message(STATUS "With libsluice_cuda.so for sm_${architectures}: ${SLUICE_CUDA_NVCC}")

set(SLUICE_CUDA_OBJECTS)
foreach(source ${SLUICE_CUDA_SOURCES})
  sluice_cuda_object(${source} object)
  list(APPEND SLUICE_CUDA_OBJECTS ${object})
endforeach()
add_library(sluice_cuda SHARED ${SLUICE_CUDA_OBJECTS})
sluice_cuda_link(sluice_cuda)
set(SLUICE_CUDA_MAP ${PROJECT_SOURCE_DIR}/cmake/cuda_exports.map)
target_link_options(sluice_cuda PRIVATE -s -Wl,--version-script=${SLUICE_CUDA_MAP})
set_target_properties(sluice_cuda PROPERTIES LINK_DEPENDS ${SLUICE_CUDA_MAP})

# What tests/cuda looks at: PTX of every file of the library, and of one that shows what flags do.
set(SLUICE_CUDA_PTX)
foreach(source ${SLUICE_CUDA_SOURCES} ${PROJECT_SOURCE_DIR}/tests/cuda/flags_probe.cu)
  sluice_cuda_ptx(${source} ptx)
  list(APPEND SLUICE_CUDA_PTX ${ptx})
endforeach()
add_custom_target(cuda_ptx DEPENDS ${SLUICE_CUDA_PTX})
# For tests that compile something else, with these flags or without one of them.
list(JOIN SLUICE_CUDA_FLAGS "\", \"" flags)
list(JOIN SLUICE_CUDA_ARCHITECTURES "\", \"" architectures)
file(WRITE ${PROJECT_BINARY_DIR}/cuda/build.json "{
  \"nvcc\": \"${SLUICE_CUDA_NVCC}\",
  \"flags\": [\"${flags}\"],
  \"architectures\": [\"${architectures}\"],
  \"newest\": \"${SLUICE_CUDA_NEWEST}\"
}
")
