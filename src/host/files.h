// Files and devices of the node. Paths are absolute and are the node's own; a --root folder is put in front
// by the implementation, never by a caller. A change and its proof are one verb: when a changing verb
// returns a value, the outcome has been read back.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace host {

struct FileStatus {
  enum class Kind { regular, directory, link, char_device, block_device, fifo, socket };
  Kind kind = Kind::regular;
  mode_t permissions = 0;  // the lower 12 bits of st_mode
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint64_t size = 0;     // bytes
  unsigned device_major = 0;  // of a device node
  unsigned device_minor = 0;
  std::int64_t modified_ns = 0;  // since the epoch
};

class Files {
 public:
  virtual ~Files() = default;

  // --- reading ------------------------------------------------------------------------------------
  // The whole file, following links; more than `limit` bytes is an error, as is anything that is not a
  // regular file (never blocks on a FIFO or device). Error: surroundings, os_error set (ENOENT, EACCES,
  // EFBIG, ...).
  virtual base::Result<std::string> read(const std::string& path, std::size_t limit) const = 0;
  // lstat: a link is told as a link. nullopt: nothing there (ENOENT or ENOTDIR).
  virtual base::Result<std::optional<FileStatus>> status(const std::string& path) const = 0;
  virtual base::Result<std::string> read_link(const std::string& path) const = 0;
  // Names in a folder without . and .., sorted by bytes.
  virtual base::Result<std::vector<std::string>> list(const std::string& path) const = 0;
  // What opening a device node read-write says: 0 or an errno (ENXIO: no driver behind the number).
  virtual int probe_device(const std::string& path) const = 0;
  // True for NFS, CIFS/SMB, FUSE, Lustre, Ceph, AFS, 9p ...: a file shared by several nodes.
  virtual base::Result<bool> on_network_file_system(const std::string& path) const = 0;
  // False where a file there may be gone, or another node's, after a reboot: tmpfs, ramfs, an overlay (its upper layer
  // is memory on images with a read-only root, and does not tell), a network file system. A link at
  // `path` is replaced, not followed; one above it is.
  virtual base::Result<bool> survives_reboot(const std::string& path) const = 0;

  // --- changing -----------------------------------------------------------------------------------
  // The file is the whole old or the whole new content at every moment, also after a power cut: temporary
  // file beside it, exact mode whatever the umask, fsync, rename, fsync of the folder. On error the old
  // file is untouched and no temporary file is left. A link at `path` is replaced, not followed.
  virtual base::Status replace(const std::string& path, const std::string& content, mode_t mode) = 0;
  // The same up to the rename, and the temporary file removed again: would replace() do now?
  virtual base::Status rehearse_replace(const std::string& path, const std::string& content, mode_t mode) = 0;
  // A folder with exactly this mode; an existing one gets the mode. Parents must exist.
  virtual base::Status make_directory(const std::string& path, mode_t mode) = 0;
  // A character device with exactly this mode whatever the umask; replaces anything but a folder in one
  // rename, so that the name never dangles. An empty folder (container runtimes make one in place of a device that they
  // are told to mount and that is not there) is removed first; one that holds something is an error.
  virtual base::Status make_char_device(const std::string& path, unsigned device_major, unsigned device_minor,
                                        mode_t mode) = 0;
  virtual base::Status set_permissions(const std::string& path, mode_t mode) = 0;
  virtual base::Status rename(const std::string& from, const std::string& to) = 0;
  virtual base::Status remove(const std::string& path) = 0;  // a missing file is fine
};

}  // namespace host
