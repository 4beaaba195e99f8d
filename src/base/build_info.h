// What this binary is; the values are written in by the build (scripts/cmake/build_info.cmake).
#pragma once

#include <string_view>

namespace base {

struct BuildInfo {
  std::string_view version;
  std::string_view commit;        // "unknown" where the sources carried none
  std::string_view architecture;  // as uname -m says it: x86_64, aarch64
};

BuildInfo build_info();

}  // namespace base
