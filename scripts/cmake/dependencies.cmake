# The libraries, from the sources that scripts/fetch-deps laid in .deps/src (versions: scripts/deps.lock).
# Each has its own include folder; /usr/include is never named as a system folder, which would break <stdlib.h>.
set(DEPS_DIR "${CMAKE_SOURCE_DIR}/.deps" CACHE PATH "filled by scripts/fetch-deps")
set(deps_lock "${CMAKE_SOURCE_DIR}/scripts/deps.lock")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${deps_lock}")
file(STRINGS "${deps_lock}" deps_lock_lines REGEX "^[a-z]")

function(find_source out name)
  foreach(line IN LISTS deps_lock_lines)
    if(line MATCHES "^${name} +([^ ]+) ")
      set(dir "${DEPS_DIR}/src/${name}-${CMAKE_MATCH_1}")
      if(NOT EXISTS "${dir}/.sha256")
        message(FATAL_ERROR "${name} ${CMAKE_MATCH_1} is not in ${DEPS_DIR}: run scripts/fetch-deps")
      endif()
      set(${out} "${dir}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${name} has no line in ${deps_lock}")
endfunction()

find_package(Threads REQUIRED)

# A library of ours from foreign sources: optimised for size in every build type, without our warnings.
function(add_foreign_library target)
  cmake_parse_arguments(arg "" "" "INCLUDE;SOURCES" ${ARGN})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_include_directories(${target} SYSTEM PUBLIC ${arg_INCLUDE})
  target_compile_options(${target} PRIVATE -w -Os -g0 "-ffile-prefix-map=${DEPS_DIR}/src/=")
endfunction()

find_source(fmt_dir fmt)
add_foreign_library(fmt INCLUDE "${fmt_dir}/include" SOURCES "${fmt_dir}/src/format.cc" "${fmt_dir}/src/os.cc")

find_source(spdlog_dir spdlog)
file(GLOB spdlog_sources "${spdlog_dir}/src/*.cpp")
list(FILTER spdlog_sources EXCLUDE REGEX "/bundled_fmtlib_format\\.cpp$")
add_foreign_library(spdlog INCLUDE "${spdlog_dir}/include" SOURCES ${spdlog_sources})
target_compile_definitions(spdlog PUBLIC SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
target_link_libraries(spdlog PUBLIC fmt Threads::Threads)

find_source(yaml_dir yaml-cpp)
file(GLOB yaml_sources "${yaml_dir}/src/*.cpp")
add_foreign_library(yaml-cpp INCLUDE "${yaml_dir}/include" SOURCES ${yaml_sources})
target_compile_definitions(yaml-cpp PUBLIC YAML_CPP_STATIC_DEFINE)

find_source(cli11_dir cli11)
add_library(cli11 INTERFACE)
target_include_directories(cli11 SYSTEM INTERFACE "${cli11_dir}/include")

find_source(json_dir json)
add_library(json INTERFACE)
target_include_directories(json SYSTEM INTERFACE "${json_dir}/include")

include(curl)

if(GPU_PROLOG_TESTS)
  find_source(catch2_dir catch2)
  # The amalgamated source is the whole library in one file: one compile instead of a hundred. Tests include the
  # ordinary headers of the same version, which want a configuration header that Catch2's own build would make.
  set(CATCH_CONFIG_DEFAULT_REPORTER "console")
  set(CATCH_CONFIG_CONSOLE_WIDTH "120")
  configure_file("${catch2_dir}/src/catch2/catch_user_config.hpp.in"
                 "${CMAKE_BINARY_DIR}/catch2/catch2/catch_user_config.hpp")
  add_foreign_library(catch2 INCLUDE "${catch2_dir}/src" "${CMAKE_BINARY_DIR}/catch2" "${catch2_dir}/extras"
                      SOURCES "${catch2_dir}/extras/catch_amalgamated.cpp")
  target_compile_options(catch2 PRIVATE -O0)
endif()
