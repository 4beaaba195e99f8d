// Files for a dry run: reads see the real node and, over it, what the run would have made of it so far.
#pragma once

#include <map>

#include "host/files.h"
#include "host/plan.h"

namespace host {

// A changing verb writes a sentence into the plan and comes out as intended. What would need a look at the disk to be
// refused (no such folder, a folder in the way) is refused here too; a full or read-only disk shows only in the true
// run.
class DryFiles : public Files {
 public:
  DryFiles(const Files& real, Plan& plan) : real_(real), plan_(plan) {}

  base::Result<std::string> read(const std::string& path, std::size_t limit) const override;
  base::Result<std::optional<FileStatus>> status(const std::string& path) const override;
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

 private:
  struct Intended {
    bool there = false;
    FileStatus status;
    bool content_known = false;  // a regular file whose content this run would have written
    std::string content;
    std::string real_path;  // where the content lies now, of a file that would only have been renamed
  };

  const Intended* intended(const std::string& path) const;
  base::Status check_folder_of(const std::string& path, const std::string& what) const;
  base::Result<Intended> now_at(const std::string& path) const;

  const Files& real_;
  Plan& plan_;
  std::map<std::string, Intended> changed_;
};

}  // namespace host
