# libcurl with plain HTTP and nothing else. All it ever talks to is the instance metadata service.
# Cache variables with FORCE: curl's own CACHE defaults win over ordinary variables.
foreach(option BUILD_SHARED_LIBS BUILD_CURL_EXE BUILD_TESTING BUILD_EXAMPLES BUILD_LIBCURL_DOCS BUILD_MISC_DOCS
        ENABLE_CURL_MANUAL CURL_ENABLE_SSL USE_LIBIDN2 CURL_USE_LIBPSL CURL_USE_LIBSSH2 CURL_USE_LIBSSH CURL_USE_GSSAPI
        CURL_ZLIB CURL_BROTLI CURL_ZSTD USE_NGHTTP2 USE_LIBRTMP ENABLE_ARES ENABLE_THREADED_RESOLVER PICKY_COMPILER)
  set(${option} OFF CACHE STRING "" FORCE)
endforeach()
foreach(option BUILD_STATIC_LIBS HTTP_ONLY CURL_DISABLE_INSTALL CURL_DISABLE_ALTSVC CURL_DISABLE_HSTS CURL_DISABLE_NTLM
        CURL_DISABLE_NETRC CURL_DISABLE_COOKIES CURL_DISABLE_DOH CURL_DISABLE_MIME CURL_DISABLE_WEBSOCKETS
        CURL_DISABLE_NEGOTIATE_AUTH CURL_DISABLE_KERBEROS_AUTH CURL_DISABLE_AWS CURL_DISABLE_IPFS
        CURL_DISABLE_BINDLOCAL CURL_DISABLE_LIBCURL_OPTION CURL_DISABLE_PROGRESS_METER)
  set(${option} ON CACHE STRING "" FORCE)
endforeach()

find_source(curl_dir curl)
option(GPU_PROLOG_PRESEED_CURL "answer curl's questions about Linux and glibc from a list instead of by 150 test compiles" ON)
set(preseed "${CMAKE_SOURCE_DIR}/scripts/cmake/curl-linux-glibc.cmake")
if(GPU_PROLOG_PRESEED_CURL AND EXISTS "${preseed}")
  include("${preseed}")
endif()

# A function: curl's CMakeLists.txt reads and sets many ordinary variables.
function(add_curl)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  add_subdirectory("${curl_dir}" "${CMAKE_BINARY_DIR}/curl" EXCLUDE_FROM_ALL SYSTEM)
endfunction()
add_curl()
target_compile_options(libcurl_static PRIVATE -w -Os -g0 -ffunction-sections -fdata-sections
                       "-ffile-prefix-map=${DEPS_DIR}/src/=")

# What curl's own configure came to: the words that `curl-config --features --protocols` would print.
set(wanted_features "IPv6 Largefile threadsafe UnixSockets")
get_directory_property(features DIRECTORY "${curl_dir}" DEFINITION SUPPORT_FEATURES)
get_directory_property(protocols DIRECTORY "${curl_dir}" DEFINITION SUPPORT_PROTOCOLS)
if(NOT features STREQUAL wanted_features OR NOT protocols STREQUAL "HTTP")
  message(FATAL_ERROR "libcurl would be built with features '${features}' and protocols '${protocols}'; "
                      "only '${wanted_features}' and 'HTTP' are wanted (scripts/cmake/curl.cmake)")
endif()
