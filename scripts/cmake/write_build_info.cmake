# The commit: $GPU_PROLOG_COMMIT, else the file SOURCE_COMMIT (for a tarball), else git, else "unknown".
set(COMMIT "$ENV{GPU_PROLOG_COMMIT}")
if(COMMIT STREQUAL "" AND EXISTS "${SOURCE_DIR}/SOURCE_COMMIT")
  file(STRINGS "${SOURCE_DIR}/SOURCE_COMMIT" COMMIT LIMIT_COUNT 1)
endif()
if(COMMIT STREQUAL "" AND EXISTS "${SOURCE_DIR}/.git")
  # safe.directory: root often builds a checkout that a user owns, and git would refuse to answer.
  execute_process(COMMAND git -c safe.directory=* -C "${SOURCE_DIR}" describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT MATCHES "^[0-9A-Za-z._+-]+$")
  set(COMMIT "unknown")
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
