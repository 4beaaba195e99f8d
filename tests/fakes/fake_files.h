// A small tree in memory. What nobody set up is not there; a change that nobody allowed throws, naming it.
#pragma once

#include <cerrno>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/files.h"

namespace fakes {

class FakeFiles : public host::Files {
 public:
  struct Node {
    host::FileStatus status;
    std::string content;  // of a file, or the target of a link
  };

  FakeFiles& file(const std::string& path, const std::string& content, mode_t mode = 0644, uid_t uid = 0);
  FakeFiles& directory(const std::string& path, mode_t mode = 0755, uid_t uid = 0);
  FakeFiles& link(const std::string& path, const std::string& target, uid_t uid = 0);
  FakeFiles& device(const std::string& path, unsigned device_major, unsigned device_minor, mode_t mode = 0666);

  // Changes are refused (an exception that names the path) unless the test says they are expected.
  FakeFiles& allow_changes() {
    changes_allowed_ = true;
    return *this;
  }
  // The next changes (or reads) of this path fail with this errno.
  FakeFiles& fail_change(const std::string& path, int error) {
    failing_changes_[path] = error;
    return *this;
  }
  FakeFiles& fail_read(const std::string& path, int error) {
    failing_reads_[path] = error;
    return *this;
  }
  // As a full file system does: nothing can be written, but names can be removed.
  FakeFiles& fail_replace(const std::string& path, int error) {
    failing_replaces_[path] = error;
    return *this;
  }
  // As a disk does that fills up between a rehearsal and the true replace.
  FakeFiles& fail_rehearsal(const std::string& path, int error) {
    failing_rehearsals_[path] = error;
    return *this;
  }
  FakeFiles& probe_answers(const std::string& path, int error) {
    probes_[path] = error;
    return *this;
  }
  FakeFiles& on_network(const std::string& path) {
    network_.insert(path);
    return *this;
  }
  FakeFiles& in_memory(const std::string& path) {
    memory_.insert(path);
    return *this;
  }

  base::Result<std::string> read(const std::string& path, std::size_t limit) const override;
  base::Result<std::optional<host::FileStatus>> status(const std::string& path) const override;
  base::Result<std::string> read_link(const std::string& path) const override;
  base::Result<std::vector<std::string>> list(const std::string& path) const override;
  int probe_device(const std::string& path) const override;
  base::Result<bool> on_network_file_system(const std::string& path) const override;
  base::Result<bool> survives_reboot(const std::string& path) const override;

  base::Status replace(const std::string& path, const std::string& content, mode_t mode) override;
  base::Status rehearse_replace(const std::string& path, const std::string& content, mode_t mode) override;
  base::Status make_directory(const std::string& path, mode_t mode) override;
  base::Status make_char_device(const std::string& path, unsigned device_major, unsigned device_minor,
                                mode_t mode) override;
  base::Status set_permissions(const std::string& path, mode_t mode) override;
  base::Status rename(const std::string& from, const std::string& to) override;
  base::Status remove(const std::string& path) override;

  std::map<std::string, Node> tree;
  std::vector<std::string> changes;  // "replace /etc/x", "make_directory /dev/y 0755", ... in order

 private:
  void parents(const std::string& path);
  std::string follow(const std::string& path) const;
  base::Status change(const std::string& path, const std::string& told);

  bool changes_allowed_ = false;
  std::map<std::string, int> failing_changes_;
  std::map<std::string, int> failing_reads_;
  std::map<std::string, int> failing_rehearsals_;
  std::map<std::string, int> failing_replaces_;
  std::map<std::string, int> probes_;
  std::set<std::string> network_;
  std::set<std::string> memory_;
};

}  // namespace fakes
