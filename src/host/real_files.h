// Files and devices of the real kernel; with --root inside its folder (what is the kernel's all the same: root.h).
#pragma once

#include "host/files.h"
#include "host/root.h"

namespace host {

// What files.h promises; further:
// - a temporary file is named ".NAME.gpu-prolog-<16 hex digits>". One that a killed run left is removed by the next
//   replace() or make_char_device() of the same path; one that a living run still holds is not touched.
// - list("/proc") under a root: the root's own names and the kernel's process ids.
// - a mount that does not answer (a dead NFS server) can hold any of these calls; no limit helps against that.
class RealFiles : public Files {
 public:
  explicit RealFiles(Root root);

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
  base::Result<std::uint32_t> type_of_folder(const std::string& path) const;

  Root root_;
};

}  // namespace host
