# gp_flags: what our own code is compiled with. The libraries never see it.
add_library(gp_flags INTERFACE)
target_compile_options(gp_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wduplicated-cond -Wformat=2 -Werror)
target_compile_definitions(gp_flags INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
if(GPU_PROLOG_SANITIZE)
  # Never together with -static: the sanitizers' runtime needs the dynamic loader.
  target_compile_options(gp_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gp_flags INTERFACE -fsanitize=address,undefined)
endif()

# Static wherever the result leaves this machine's compiler: the release binary, and everything for the other
# architecture (so that the emulator needs no library folder).
set(GPU_PROLOG_STATIC OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_CROSSCOMPILING)
  set(GPU_PROLOG_STATIC ON)
  add_compile_options(-ffunction-sections -fdata-sections)
  # -static-pie rather than -static: addresses are random, as in any other program of the node.
  add_link_options(-static-pie -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    # 120 kB fewer of relocations; binutils 2.40 cannot do it for aarch64.
    add_link_options(-Wl,-z,pack-relative-relocs)
  endif()
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # The same bytes from any folder: __FILE__ and the like must not hold where the build ran.
  add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/")
endif()
