#include "host/root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <deque>
#include <string_view>

#include "base/text.h"
#include "host/os_error.h"
#include "site/site.h"

namespace host {

namespace {

constexpr int max_links = 40;  // the kernel's own limit (MAXSYMLINKS)

bool is_kernels_own(std::string_view path) {
  if (!path.starts_with("/proc/")) return false;
  const std::string_view rest = path.substr(6);
  const std::string_view first = rest.substr(0, rest.find('/'));
  return base::parse_number(first).has_value() || first == "self" || first == "thread-self" || first == "net";
}

void push_front(std::deque<std::string>& parts, std::string_view path) {
  const auto pieces = base::split(path, '/');
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (!piece->empty() && *piece != ".") parts.emplace_front(*piece);
  }
}

}  // namespace

Root::Root(std::string directory) : directory_(std::move(directory)) {
  if (!directory_.empty() && directory_.front() != '/') {  // children run in /
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) != nullptr) directory_ = std::string(here) + "/" + directory_;
  }
  while (!directory_.empty() && directory_.back() == '/') directory_.pop_back();
}

base::Result<std::string> Root::locate(const std::string& path, LastLink last) const {
  if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos) {
    return os_failure(base::ExitCode::surroundings, "cannot use the path '" + base::printable(path) + "'", EINVAL);
  }
  if (is_node_itself() || is_kernels_own(path)) return path;
  if (path == site::boot_id && access((directory_ + path).c_str(), F_OK) != 0) return path;

  std::deque<std::string> parts;
  push_front(parts, path);
  std::string inside;  // what has been looked through, relative to DIR: "/a/b"
  int links = 0;
  while (!parts.empty()) {
    const std::string part = std::move(parts.front());
    parts.pop_front();
    if (part == "..") {
      inside.erase(inside.empty() ? 0 : inside.rfind('/'));
      continue;
    }
    const std::string next = directory_ + inside + "/" + part;
    struct stat found {};
    const bool is_link = lstat(next.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
    if (!is_link || (parts.empty() && last == LastLink::keep)) {
      inside += "/" + part;
      continue;
    }
    if (++links > max_links) return os_failure(base::ExitCode::surroundings, "cannot look up " + path, ELOOP);
    char target[PATH_MAX];
    const ssize_t length = readlink(next.c_str(), target, sizeof target);
    if (length < 0) return os_failure(base::ExitCode::surroundings, "cannot read the link " + next, errno);
    const std::string_view where(target, static_cast<std::size_t>(length));
    if (where.starts_with('/')) inside.clear();
    push_front(parts, where);
  }
  return directory_ + (inside.empty() ? "/" : inside);
}

}  // namespace host
