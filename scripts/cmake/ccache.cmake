# Hits across build folders: paths below the build folder are made relative, and the folder itself is not hashed
# (so a debugger run from another build folder may be told that folder's name; the sources' names are absolute).
find_program(CCACHE ccache)
if(CCACHE)
  set(launcher env CCACHE_NOHASHDIR=1 "CCACHE_BASEDIR=${CMAKE_BINARY_DIR}" "${CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
