#include "host/dry_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>

#include "base/text.h"
#include "host/os_error.h"

namespace host {

namespace {

using base::ExitCode;
using base::Result;
using base::Status;

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode);
  return text;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// The content on one line, ": 10.0.0.1, 10.0.0.2"; empty for JSON, which has too many lines for one.
std::string preview(const std::string& content) {
  if (content.starts_with('{')) return "";
  std::vector<std::string> lines;
  for (const std::string_view line : base::each_line(content)) lines.emplace_back(line);
  return ": " + base::printable(base::join(lines, ", "), 200);
}

}  // namespace

const DryFiles::Intended* DryFiles::intended(const std::string& path) const {
  const auto found = changed_.find(path);
  return found == changed_.end() ? nullptr : &found->second;
}

Result<std::string> DryFiles::read(const std::string& path, std::size_t limit) const {
  const Intended* const change = intended(path);
  if (change == nullptr) return real_.read(path, limit);
  const std::string what = "cannot read " + path;
  if (!change->there) return os_failure(ExitCode::surroundings, what, ENOENT);
  if (change->status.kind != FileStatus::Kind::regular) {
    return os_failure(ExitCode::surroundings, what,
                      change->status.kind == FileStatus::Kind::directory ? EISDIR : EINVAL);
  }
  if (!change->content_known) return real_.read(change->real_path, limit);
  if (change->content.size() > limit) return os_failure(ExitCode::surroundings, what, EFBIG);
  return change->content;
}

Result<std::optional<FileStatus>> DryFiles::status(const std::string& path) const {
  const Intended* const change = intended(path);
  if (change == nullptr) return real_.status(path);
  if (!change->there) return std::optional<FileStatus>();
  return std::optional(change->status);
}

Result<std::string> DryFiles::read_link(const std::string& path) const {
  const Intended* const change = intended(path);
  if (change == nullptr) return real_.read_link(path);
  if (change->there && change->status.kind == FileStatus::Kind::link) return real_.read_link(change->real_path);
  return os_failure(ExitCode::surroundings, "cannot read the link " + path, change->there ? EINVAL : ENOENT);
}

Result<std::vector<std::string>> DryFiles::list(const std::string& path) const {
  const std::string folder = path == "/" ? "" : path;
  std::set<std::string> names;
  const Intended* const change = intended(path);
  if (change != nullptr && !change->there) return os_failure(ExitCode::surroundings, "cannot list " + path, ENOENT);
  auto real = real_.list(path);
  if (real)
    names.insert(real->begin(), real->end());
  else if (change == nullptr || change->status.kind != FileStatus::Kind::directory)
    return real;
  for (const auto& [at, made] : changed_) {
    if (folder_of(at) != path && folder_of(at) != folder) continue;
    const std::string name = at.substr(at.rfind('/') + 1);
    if (made.there)
      names.insert(name);
    else
      names.erase(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

int DryFiles::probe_device(const std::string& path) const {
  const Intended* const change = intended(path);
  if (change == nullptr) return real_.probe_device(path);
  if (!change->there) return ENOENT;
  return change->status.kind == FileStatus::Kind::char_device ? 0 : ENODEV;
}

Result<bool> DryFiles::on_network_file_system(const std::string& path) const {
  return real_.on_network_file_system(path);
}

Result<bool> DryFiles::survives_reboot(const std::string& path) const { return real_.survives_reboot(path); }

Result<DryFiles::Intended> DryFiles::now_at(const std::string& path) const {
  if (const Intended* const change = intended(path)) return *change;
  const auto real = real_.status(path);
  if (!real) return real.error();
  Intended now;
  now.there = real->has_value();
  if (now.there) now.status = **real;
  now.real_path = path;
  return now;
}

Status DryFiles::check_folder_of(const std::string& path, const std::string& what) const {
  const std::string folder = folder_of(path);
  const auto now = status(folder);
  if (!now) return now.error();
  if (!now->has_value()) return os_failure(ExitCode::change, what + ": cannot open its folder", ENOENT);
  const auto kind = (*now)->kind;
  if (kind == FileStatus::Kind::directory || kind == FileStatus::Kind::link) return base::ok();
  return os_failure(ExitCode::change, what + ": cannot open its folder", ENOTDIR);
}

Status DryFiles::rehearse_replace(const std::string& path, const std::string&, mode_t) {
  // The true rehearsal writes a file, which a dry run must not.
  const std::string what = "cannot replace " + path;
  if (auto folder = check_folder_of(path, what); !folder) return folder;
  const auto now = now_at(path);
  if (!now) return now.error();
  if (now->there && now->status.kind == FileStatus::Kind::directory) return os_failure(ExitCode::change, what, EISDIR);
  return base::ok();
}

Status DryFiles::replace(const std::string& path, const std::string& content, mode_t mode) {
  if (auto possible = rehearse_replace(path, content, mode); !possible) return possible;
  const auto before = read(path, content.size());
  const bool same = before && *before == content;
  plan_.add("would replace " + path + " (" + octal(mode) + ", " + std::to_string(content.size()) + " bytes" +
            (same ? ", the same content" : "") + ")" + preview(content));
  Intended made;
  made.there = true;
  made.status.permissions = mode;
  made.status.uid = geteuid();
  made.status.gid = getegid();
  made.status.size = content.size();
  made.content_known = true;
  made.content = content;
  changed_[path] = std::move(made);
  return base::ok();
}

Status DryFiles::make_directory(const std::string& path, mode_t mode) {
  const std::string what = "cannot make the folder " + path + " with mode " + octal(mode);
  if (auto folder = check_folder_of(path, what); !folder) return folder;
  auto now = now_at(path);
  if (!now) return now.error();
  if (now->there && now->status.kind != FileStatus::Kind::directory) return os_failure(ExitCode::change, what, ENOTDIR);
  if (now->there && now->status.permissions == mode) return base::ok();
  plan_.add(now->there ? "would set the permissions of " + path + " to " + octal(mode)
                       : "would make the folder " + path + " (" + octal(mode) + ")");
  now->there = true;
  now->status.kind = FileStatus::Kind::directory;
  now->status.permissions = mode;
  changed_[path] = *now;
  return base::ok();
}

Status DryFiles::make_char_device(const std::string& path, unsigned device_major, unsigned device_minor, mode_t mode) {
  const std::string numbers = std::to_string(device_major) + ":" + std::to_string(device_minor);
  const std::string what = "cannot make the device " + path + " (" + numbers + ")";
  if (auto folder = check_folder_of(path, what); !folder) return folder;
  const auto now = now_at(path);
  if (!now) return now.error();
  if (now->there && now->status.kind == FileStatus::Kind::directory) {
    const auto inside = list(path);
    if (!inside || !inside->empty()) {
      return os_failure(ExitCode::change, what + ": a folder is in its place and cannot be removed", ENOTEMPTY);
    }
  }
  plan_.add("would make the device " + path + " (character device " + numbers + ", " + octal(mode) + ")");
  Intended made;
  made.there = true;
  made.status.kind = FileStatus::Kind::char_device;
  made.status.permissions = mode;
  made.status.uid = geteuid();
  made.status.gid = getegid();
  made.status.device_major = device_major;
  made.status.device_minor = device_minor;
  changed_[path] = made;
  return base::ok();
}

Status DryFiles::set_permissions(const std::string& path, mode_t mode) {
  const std::string what = "cannot set the permissions of " + path + " to " + octal(mode);
  auto now = now_at(path);
  if (!now) return now.error();
  if (!now->there) return os_failure(ExitCode::change, what, ENOENT);
  if (now->status.kind == FileStatus::Kind::link) return os_failure(ExitCode::change, what, ELOOP);
  if (now->status.permissions == mode) return base::ok();
  plan_.add("would set the permissions of " + path + " to " + octal(mode));
  now->status.permissions = mode;
  changed_[path] = *now;
  return base::ok();
}

Status DryFiles::rename(const std::string& from, const std::string& to) {
  const std::string what = "cannot rename " + from + " to " + to;
  auto now = now_at(from);
  if (!now) return now.error();
  if (!now->there) return os_failure(ExitCode::change, what, ENOENT);
  if (auto folder = check_folder_of(to, what); !folder) return folder;
  plan_.add("would rename " + from + " to " + to);
  changed_[to] = *now;
  changed_[from] = Intended{};
  return base::ok();
}

Status DryFiles::remove(const std::string& path) {
  const auto now = now_at(path);
  if (!now) return now.error();
  if (!now->there) return base::ok();
  if (now->status.kind == FileStatus::Kind::directory) {
    return os_failure(ExitCode::change, "cannot remove " + path, EISDIR);
  }
  plan_.add("would remove " + path);
  changed_[path] = Intended{};
  return base::ok();
}

}  // namespace host
