# Version, commit and architecture as a small library. The commit is looked up at every build (not only at configure),
# and the file is rewritten only when it differs, so that an unchanged tree compiles nothing.
set(build_info_source "${CMAKE_BINARY_DIR}/build_info/build_info.cpp")
add_custom_target(gp_build_info_commit
  COMMAND "${CMAKE_COMMAND}" -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DARCHITECTURE=${CMAKE_SYSTEM_PROCESSOR} -DTEMPLATE=${CMAKE_SOURCE_DIR}/scripts/cmake/build_info.cpp.in
          -DOUTPUT=${build_info_source} -P "${CMAKE_SOURCE_DIR}/scripts/cmake/write_build_info.cmake"
  BYPRODUCTS "${build_info_source}" COMMENT "")
add_library(gp_build_info STATIC "${build_info_source}")
add_dependencies(gp_build_info gp_build_info_commit)
target_include_directories(gp_build_info PUBLIC "${CMAKE_SOURCE_DIR}/src")
target_link_libraries(gp_build_info PRIVATE gp_flags)
