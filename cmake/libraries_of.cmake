# The libraries of another build, SLUICE_LIBRARIES_OF, in the place of what this one would compile.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)

function(sluice_library_of name folder)
  add_library(${name} STATIC IMPORTED)
  set_target_properties(${name} PROPERTIES
    IMPORTED_LOCATION ${SLUICE_LIBRARIES_OF}/${folder}lib${name}.a)
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()

sluice_library_of(sluice "" Threads::Threads ${CMAKE_DL_LIBS})
sluice_library_of(sluice_app_shared apps/shared/)
sluice_library_of(sluice_cli apps/sluice/ sluice sluice_app_shared nlohmann_json::nlohmann_json
                  CLI11::CLI11)
sluice_library_of(sluiced_parts apps/sluiced/ sluice sluice_app_shared CLI11::CLI11
                  nlohmann_json::nlohmann_json fmt::fmt)
sluice_library_of(sluice_simulator "" sluice sluice_flags fmt::fmt)
sluice_library_of(sluice_support "" sluice_simulator sluice sluice_flags GTest::gtest fmt::fmt)
