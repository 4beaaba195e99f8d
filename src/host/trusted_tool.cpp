#include "host/trusted_tool.h"

#include <cerrno>
#include <cstdio>
#include <deque>
#include <string_view>

#include "base/text.h"

namespace host {

namespace {

constexpr int max_links = 40;  // the kernel's own limit (MAXSYMLINKS)

base::Error refusal(const std::string& what, const std::string& cure, int os_error) {
  return base::Error{base::ExitCode::surroundings, what, cure, base::Blame::local, os_error};
}

// Empty: only root can have made or can change it. A sticky bit does not excuse a folder that others may write: they
// cannot remove root's file there, but put one where none is yet.
std::string distrust(const FileStatus& status) {
  if (status.uid != 0) return "it belongs to user " + std::to_string(status.uid) + " and not to root";
  if (status.kind != FileStatus::Kind::link && (status.permissions & 022U) != 0) {
    char mode[16];
    std::snprintf(mode, sizeof mode, "%04o", status.permissions);
    return "others than root may write it (mode " + std::string(mode) + ")";
  }
  return "";
}

void push_front(std::deque<std::string>& parts, std::string_view path) {
  const auto pieces = base::split(path, '/');
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (!piece->empty() && *piece != ".") parts.emplace_front(*piece);
  }
}

}  // namespace

base::Result<std::string> check_tool(const Files& files, const std::string& path, bool as_root) {
  const std::string what = "cannot use the tool " + base::printable(path);
  if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos) {
    return refusal(what + ": its path is not absolute", "name the tool by its absolute path", EINVAL);
  }
  std::deque<std::string> parts;
  push_front(parts, path);
  std::string at;  // what has been looked through, free of links; empty: /
  FileStatus last;
  int links = 0;
  const auto look = [&](const std::string& part) -> base::Result<FileStatus> {
    const auto status = files.status(part);
    if (!status) return status.error();
    if (!status->has_value()) {
      return refusal(part == path ? what + ": it is not there" : what + ": " + base::printable(part) + " is not there",
                     "install it, or correct its path", ENOENT);
    }
    const std::string wrong = as_root ? distrust(**status) : "";
    if (wrong.empty()) return **status;
    return refusal(what + ": not trusted, since " + base::printable(part) + ": " + wrong,
                   "make " + base::printable(part) + " root's and writable by root only (chown root, chmod go-w)",
                   EPERM);
  };

  auto found = look("/");
  if (!found) return found.error();
  last = *found;
  while (!parts.empty()) {
    const std::string part = std::move(parts.front());
    parts.pop_front();
    if (part == "..") {
      at.erase(at.empty() ? 0 : at.rfind('/'));
      found = look(at.empty() ? "/" : at);
      if (!found) return found.error();
      last = *found;
      continue;
    }
    const std::string next = at + "/" + part;
    found = look(next);
    if (!found) return found.error();
    if (found->kind != FileStatus::Kind::link) {
      at = next;
      last = *found;
      continue;
    }
    if (++links > max_links)
      return refusal(what + ": too many links on the way", "look at the links with ls -l", ELOOP);
    const auto target = files.read_link(next);
    if (!target) return target.error();
    if (target->starts_with('/')) at.clear();
    push_front(parts, *target);
  }
  if (last.kind != FileStatus::Kind::regular) {
    return refusal(what + ": it is not a regular file", "put the tool itself there, or correct its path", EACCES);
  }
  if ((last.permissions & 0111U) == 0) {
    return refusal(what + ": it is not executable", "make it executable (chmod 0755) or install it anew", EACCES);
  }
  return at;
}

base::Result<std::string> find_tool(const Files& files, const std::string& name,
                                    const std::vector<std::string>& candidates, bool as_root) {
  for (const std::string& candidate : candidates) {
    auto checked = check_tool(files, candidate, as_root);
    if (checked || checked.error().os_error != ENOENT) return checked;
  }
  const std::string looked =
      candidates.empty() ? "no place to look for it is known" : "looked at " + base::join(candidates, ", ");
  return refusal(name + " is not there: " + base::printable(looked), "install it", ENOENT);
}

}  // namespace host
