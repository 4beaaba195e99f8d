// Where the node's paths lie: at / itself, or inside the folder given by --root.
#pragma once

#include <string>

#include "base/result.h"

namespace host {

// With --root DIR every path of the node is looked up inside DIR: part by part, absolute links and ".." included, so
// that no link in DIR leads out of it. (Not proof against somebody who changes DIR meanwhile: --root is for tests,
// rehearsals and saved files, not a jail.)
//
// The kernel's own, also under --root, are processes and the network: /proc/<pid>, /proc/self, /proc/thread-self and
// /proc/net with all below them. Everything else of /proc (devices, driver, modules, cmdline, ...), /sys and /dev with
// /dev/log are DIR's. The boot id is DIR's where DIR has the file, so that a saved node's status is judged by its own
// boot, else the kernel's.
class Root {
 public:
  enum class LastLink { follow, keep };

  Root() = default;
  explicit Root(std::string directory);  // "" and "/": the node itself

  bool is_node_itself() const { return directory_.empty(); }
  const std::string& directory() const { return directory_; }

  // The path to hand to the kernel. `keep`: a link as the last part is not looked through. A part that does not exist
  // ends the looking; the rest is taken as it is. Error: surroundings, os_error ELOOP, EACCES, ...; EINVAL for a path
  // that is not absolute or holds a zero byte.
  base::Result<std::string> locate(const std::string& path, LastLink last) const;

 private:
  std::string directory_;  // without a slash at the end
};

}  // namespace host
