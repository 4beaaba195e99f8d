#include "fakes/fake_files.h"

#include <cstring>

namespace fakes {

namespace {

base::Error os_failure(const std::string& verb, const std::string& path, int error, base::ExitCode code) {
  return base::Error{code, verb + " " + path + ": " + std::strerror(error), "", base::Blame::local, error};
}

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode));
  return text;
}

}  // namespace

void FakeFiles::parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string folder = path.substr(0, at);
    if (!tree.contains(folder)) {
      Node node;
      node.status.kind = host::FileStatus::Kind::directory;
      node.status.permissions = 0755;
      tree[folder] = node;
    }
  }
}

FakeFiles& FakeFiles::file(const std::string& path, const std::string& content, mode_t mode, uid_t uid) {
  parents(path);
  Node node;
  node.status.permissions = mode;
  node.status.uid = uid;
  node.status.size = content.size();
  node.content = content;
  tree[path] = node;
  return *this;
}

FakeFiles& FakeFiles::directory(const std::string& path, mode_t mode, uid_t uid) {
  parents(path);
  Node node;
  node.status.kind = host::FileStatus::Kind::directory;
  node.status.permissions = mode;
  node.status.uid = uid;
  tree[path] = node;
  return *this;
}

FakeFiles& FakeFiles::link(const std::string& path, const std::string& target, uid_t uid) {
  parents(path);
  Node node;
  node.status.kind = host::FileStatus::Kind::link;
  node.status.permissions = 0777;
  node.status.uid = uid;
  node.content = target;
  tree[path] = node;
  return *this;
}

FakeFiles& FakeFiles::device(const std::string& path, unsigned device_major, unsigned device_minor, mode_t mode) {
  parents(path);
  Node node;
  node.status.kind = host::FileStatus::Kind::char_device;
  node.status.permissions = mode;
  node.status.device_major = device_major;
  node.status.device_minor = device_minor;
  tree[path] = node;
  return *this;
}

std::string FakeFiles::follow(const std::string& path) const {
  std::string at = path;
  for (int i = 0; i < 8; ++i) {
    const auto found = tree.find(at);
    if (found == tree.end() || found->second.status.kind != host::FileStatus::Kind::link) return at;
    const std::string& target = found->second.content;
    at = target.starts_with('/') ? target : at.substr(0, at.rfind('/') + 1) + target;
  }
  return at;
}

base::Result<std::string> FakeFiles::read(const std::string& path, std::size_t limit) const {
  using base::ExitCode;
  if (const auto failing = failing_reads_.find(path); failing != failing_reads_.end()) {
    return os_failure("cannot read", path, failing->second, ExitCode::surroundings);
  }
  const auto found = tree.find(follow(path));
  if (found == tree.end()) return os_failure("cannot read", path, ENOENT, ExitCode::surroundings);
  if (found->second.status.kind != host::FileStatus::Kind::regular) {
    return os_failure("cannot read", path, EINVAL, ExitCode::surroundings);
  }
  if (found->second.content.size() > limit) return os_failure("cannot read", path, EFBIG, ExitCode::surroundings);
  return found->second.content;
}

base::Result<std::optional<host::FileStatus>> FakeFiles::status(const std::string& path) const {
  if (const auto failing = failing_reads_.find(path); failing != failing_reads_.end()) {
    return os_failure("cannot look at", path, failing->second, base::ExitCode::surroundings);
  }
  if (path == "/") {
    host::FileStatus root;
    root.kind = host::FileStatus::Kind::directory;
    root.permissions = 0755;
    return std::optional(root);
  }
  const auto found = tree.find(path);
  if (found == tree.end()) return std::optional<host::FileStatus>();
  return std::optional(found->second.status);
}

base::Result<std::string> FakeFiles::read_link(const std::string& path) const {
  const auto found = tree.find(path);
  if (found == tree.end() || found->second.status.kind != host::FileStatus::Kind::link) {
    return os_failure("cannot read link", path, found == tree.end() ? ENOENT : EINVAL, base::ExitCode::surroundings);
  }
  return found->second.content;
}

base::Result<std::vector<std::string>> FakeFiles::list(const std::string& path) const {
  const std::string folder = follow(path);
  const auto found = tree.find(folder);
  if (found == tree.end() || found->second.status.kind != host::FileStatus::Kind::directory) {
    return os_failure("cannot list", path, found == tree.end() ? ENOENT : ENOTDIR, base::ExitCode::surroundings);
  }
  std::vector<std::string> names;
  for (const auto& [at, node] : tree) {
    if (at.size() > folder.size() + 1 && at.starts_with(folder + "/") &&
        at.find('/', folder.size() + 1) == std::string::npos) {
      names.push_back(at.substr(folder.size() + 1));
    }
  }
  return names;
}

int FakeFiles::probe_device(const std::string& path) const {
  if (const auto found = probes_.find(path); found != probes_.end()) return found->second;
  return tree.contains(path) ? 0 : ENOENT;
}

base::Result<bool> FakeFiles::on_network_file_system(const std::string& path) const {
  for (const std::string& shared : network_) {
    if (path.starts_with(shared)) return true;
  }
  return false;
}

base::Result<bool> FakeFiles::survives_reboot(const std::string& path) const {
  for (const std::string& passing : memory_) {
    if (follow(path).starts_with(passing)) return false;
  }
  const auto shared = on_network_file_system(path);
  return !*shared;
}

base::Status FakeFiles::change(const std::string& path, const std::string& told) {
  if (!changes_allowed_) throw std::logic_error("FakeFiles: nobody allowed this change: " + told);
  if (const auto failing = failing_changes_.find(path); failing != failing_changes_.end()) {
    return os_failure("cannot change", path, failing->second, base::ExitCode::change);
  }
  changes.push_back(told);
  return base::ok();
}

base::Status FakeFiles::replace(const std::string& path, const std::string& content, mode_t mode) {
  if (const auto failing = failing_replaces_.find(path); failing != failing_replaces_.end()) {
    return os_failure("cannot replace", path, failing->second, base::ExitCode::change);
  }
  if (auto allowed = change(path, "replace " + path); !allowed) return allowed;
  file(path, content, mode);
  return base::ok();
}

base::Status FakeFiles::rehearse_replace(const std::string& path, const std::string&, mode_t) {
  if (!changes_allowed_) throw std::logic_error("FakeFiles: nobody allowed this change: rehearse " + path);
  if (const auto failing = failing_rehearsals_.find(path); failing != failing_rehearsals_.end()) {
    return os_failure("cannot write", path, failing->second, base::ExitCode::change);
  }
  return base::ok();
}

base::Status FakeFiles::make_directory(const std::string& path, mode_t mode) {
  if (auto allowed = change(path, "make_directory " + path + " " + octal(mode)); !allowed) return allowed;
  directory(path, mode);
  return base::ok();
}

base::Status FakeFiles::make_char_device(const std::string& path, unsigned device_major, unsigned device_minor,
                                         mode_t mode) {
  if (auto allowed = change(path, "make_char_device " + path + " " + std::to_string(device_major) + ":" +
                                      std::to_string(device_minor) + " " + octal(mode));
      !allowed) {
    return allowed;
  }
  device(path, device_major, device_minor, mode);
  return base::ok();
}

base::Status FakeFiles::set_permissions(const std::string& path, mode_t mode) {
  if (auto allowed = change(path, "set_permissions " + path + " " + octal(mode)); !allowed) return allowed;
  tree.at(path).status.permissions = mode;
  return base::ok();
}

base::Status FakeFiles::rename(const std::string& from, const std::string& to) {
  if (auto allowed = change(from, "rename " + from + " " + to); !allowed) return allowed;
  tree[to] = tree.at(from);
  tree.erase(from);
  return base::ok();
}

base::Status FakeFiles::remove(const std::string& path) {
  if (auto allowed = change(path, "remove " + path); !allowed) return allowed;
  tree.erase(path);
  return base::ok();
}

}  // namespace fakes
