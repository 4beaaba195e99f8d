#include "host/real_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <ctime>

#include "base/text.h"
#include "host/descriptor.h"
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

std::string in_words(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a folder";
    case S_IFLNK: return "a link";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    default: return "something unknown";
  }
}

FileStatus to_status(const struct stat& found) {
  FileStatus status;
  switch (found.st_mode & S_IFMT) {
    case S_IFDIR: status.kind = FileStatus::Kind::directory; break;
    case S_IFLNK: status.kind = FileStatus::Kind::link; break;
    case S_IFCHR: status.kind = FileStatus::Kind::char_device; break;
    case S_IFBLK: status.kind = FileStatus::Kind::block_device; break;
    case S_IFIFO: status.kind = FileStatus::Kind::fifo; break;
    case S_IFSOCK: status.kind = FileStatus::Kind::socket; break;
    default: status.kind = FileStatus::Kind::regular; break;
  }
  status.permissions = found.st_mode & 07777U;
  status.uid = found.st_uid;
  status.gid = found.st_gid;
  status.size = static_cast<std::uint64_t>(found.st_size);
  if (S_ISCHR(found.st_mode) || S_ISBLK(found.st_mode)) {
    status.device_major = gnu_dev_major(found.st_rdev);
    status.device_minor = gnu_dev_minor(found.st_rdev);
  }
  status.modified_ns = static_cast<std::int64_t>(found.st_mtim.tv_sec) * 1'000'000'000 + found.st_mtim.tv_nsec;
  return status;
}

int open_retrying(const char* path, int flags) {
  int opened;
  do {
    opened = open(path, flags | O_CLOEXEC);
  } while (opened < 0 && errno == EINTR);
  return opened;
}

// Appends what the descriptor gives, up to `limit` bytes; an errno, EFBIG where there is more.
int read_all(int descriptor, std::size_t limit, std::string& content) {
  std::vector<char> buffer(std::min<std::size_t>(65'536, limit + 1));  // not on the stack, whose limit may be small
  for (;;) {
    const std::size_t wanted = std::min(buffer.size(), limit - content.size() + 1);
    const ssize_t got = read(descriptor, buffer.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    content.append(buffer.data(), static_cast<std::size_t>(got));
    if (content.size() > limit) return EFBIG;
  }
}

int write_all(int descriptor, const std::string& content) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t put = write(descriptor, content.data() + done, content.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

int sync_file(int descriptor) {
  int rc;
  do {
    rc = fsync(descriptor);
  } while (rc != 0 && errno == EINTR);
  // Some file systems have no fsync for folders and say so; there is nothing better to do there.
  return rc == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS ? 0 : errno;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The folder that holds `path`, open, and the last part of the name.
struct Place {
  Descriptor folder;
  std::string name;
};

Result<Place> open_place(const Root& root, const std::string& path, const std::string& what) {
  Place place;
  place.name = name_of(path);
  if (place.name.empty() || place.name == "." || place.name == "..") {
    return os_failure(ExitCode::change, what, EINVAL);
  }
  auto located = root.locate(folder_of(path), Root::LastLink::follow);
  if (!located) {
    base::Error error = located.error();
    error.code = ExitCode::change;
    return error;
  }
  place.folder = Descriptor(open_retrying(located->c_str(), O_RDONLY | O_DIRECTORY));
  if (!place.folder) return os_failure(ExitCode::change, what + ": cannot open its folder", errno);
  return place;
}

// --- temporary names

constexpr std::size_t random_digits = 16;

std::string temporary_prefix(const std::string& name) { return "." + name + ".gpu-prolog-"; }

std::string temporary_name(const std::string& name) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    // Kernels of 3.16 and before, or a broken sandbox: O_EXCL alone keeps us from harm then.
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    number = static_cast<std::uint64_t>(now.tv_nsec) << 32U ^ static_cast<std::uint64_t>(getpid());
  }
  char digits[random_digits + 1];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
  return temporary_prefix(name) + digits;
}

bool is_temporary_of(const std::string& candidate, const std::string& name) {
  const std::string prefix = temporary_prefix(name);
  if (!candidate.starts_with(prefix) || candidate.size() != prefix.size() + random_digits) return false;
  return candidate.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
}

Result<std::vector<std::string>> names_in(int folder, const std::string& what) {
  const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // its own reading position
  if (again < 0) return os_failure(ExitCode::surroundings, what, errno);
  DIR* const stream = fdopendir(again);
  if (stream == nullptr) {
    const int error = errno;
    close(again);
    return os_failure(ExitCode::surroundings, what, error);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) return os_failure(ExitCode::surroundings, what, error);
  std::sort(names.begin(), names.end());
  return names;
}

// Removes what killed runs left of this name. A living run holds a lock on its temporary file.
void remove_stale(const Place& place) {
  const auto names = names_in(place.folder.get(), "");
  if (!names) return;
  for (const std::string& name : *names) {
    if (!is_temporary_of(name, place.name)) continue;
    struct stat found {};
    if (fstatat(place.folder.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(found.st_mode)) {
      const Descriptor file(openat(place.folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (file && flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
      unlinkat(place.folder.get(), name.c_str(), 0);
    } else if (S_ISCHR(found.st_mode)) {
      unlinkat(place.folder.get(), name.c_str(), 0);
    }
  }
}

// Removes the name when it goes, unless the name has been given away by a rename.
class TemporaryName {
 public:
  TemporaryName(int folder, std::string name) : folder_(folder), name_(std::move(name)) {}
  ~TemporaryName() {
    if (!name_.empty()) unlinkat(folder_, name_.c_str(), 0);
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  void keep() { name_.clear(); }

 private:
  int folder_;
  std::string name_;
};

// --- the steps of replace()

// An empty file with a temporary name. Its lock tells remove_stale() of another run that this one lives. In the instant
// before it is taken that run may have taken the file for a left-over: then that run holds the lock or the name is gone
// already, and another file is made. errno, 0: done.
int make_temporary(const Place& place, std::string& name, Descriptor& file) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    name = temporary_name(place.name);
    file = Descriptor(
        openat(place.folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return errno;
    // A file system without locks (ENOLCK, ENOSYS) has no lock file of ours either: what else runs here is not ours.
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    struct stat made {};
    if (fstat(file.get(), &made) != 0 || made.st_nlink > 0) return 0;
  }
  return EBUSY;
}

enum class Finish { rename, forget };

// A new file beside `place` with this content and mode, on the disk; then it gets the name it has at the end, or goes
// again. errno, 0: done.
int put_in_place(const Place& place, const std::string& content, mode_t mode, Finish finish) {
  std::string temporary;
  Descriptor file;
  if (const int error = make_temporary(place, temporary, file); error != 0) return error;
  TemporaryName cleaner(place.folder.get(), temporary);
  if (const int error = write_all(file.get(), content); error != 0) return error;
  if (fchmod(file.get(), mode) != 0) return errno;  // after writing: a write clears set-user-id bits
  if (const int error = sync_file(file.get()); error != 0) return error;
  if (finish == Finish::forget) return 0;
  if (renameat(place.folder.get(), temporary.c_str(), place.folder.get(), place.name.c_str()) != 0) return errno;
  cleaner.keep();
  return 0;
}

// What now lies under the name, compared with what was to be there.
Status proof_of_file(const Place& place, const std::string& path, const std::string& content, mode_t mode) {
  const std::string what = "replaced " + path + ", but reading it back failed";
  const Descriptor file(openat(place.folder.get(), place.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  // A mode without read permission for its owner, and we are not root: the status has to do.
  if (!file && errno != EACCES) return os_failure(ExitCode::change, what, errno);
  struct stat found {};
  if (fstatat(place.folder.get(), place.name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return os_failure(ExitCode::change, what, errno);
  }
  std::string there;
  if (file) {
    const int error = read_all(file.get(), content.size(), there);
    if (error != 0 && error != EFBIG) return os_failure(ExitCode::change, what, error);
  }
  const bool same = S_ISREG(found.st_mode) && (found.st_mode & 07777U) == mode && (!file || there == content) &&
                    static_cast<std::size_t>(found.st_size) == content.size();
  if (same) return base::ok();
  return base::Error{ExitCode::change, "replaced " + path + ", but something else is there now",
                     "find out what else writes this file"};
}

// Numbers of statfs's f_type (linux/magic.h and coreutils' stat.c) of file systems that several nodes can share.
constexpr std::array<std::uint32_t, 22> network_file_systems{
    0x6969,      // NFS (EFS is NFS)
    0x517B,      // SMB
    0xFE534D42,  // SMB2
    0xFF534D42,  // CIFS
    0x65735546,  // FUSE (also virtiofs, sshfs, s3fs, glusterfs)
    0x0BD00BD0,  // Lustre
    0x00C36400,  // Ceph
    0x5346414F,  // AFS
    0x6B414653,  // kAFS
    0x01021997,  // 9p
    0x73757245,  // Coda
    0x564C,      // NCP
    0x01161970,  // GFS2
    0x7461636F,  // OCFS2
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS (fhgfs)
    0xAAD7AAEA,  // PanFS
    0xBACBACBC,  // VMware's shared folders
    0x786F4256,  // VirtualBox's shared folders
    0x20030528,  // OrangeFS
    0x61636673,  // ACFS
    0xBEEFDEAD,  // StorNext
};

// The same for file systems whose files end with the boot, or may.
constexpr std::array<std::uint32_t, 4> passing_file_systems{
    0x01021994,  // tmpfs (also devtmpfs)
    0x858458F6,  // ramfs
    0x958458F6,  // hugetlbfs
    0x794C7630,  // overlay
};

template <std::size_t size>
bool holds(const std::array<std::uint32_t, size>& types, std::uint32_t type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Result<std::uint32_t> type_at(const std::string& located, const std::string& path) {
  struct statfs found {};
  int rc;
  do {
    rc = statfs(located.c_str(), &found);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return os_failure(ExitCode::surroundings, "cannot look at the file system of " + path, errno);
  return static_cast<std::uint32_t>(found.f_type);
}

}  // namespace

RealFiles::RealFiles(Root root) : root_(std::move(root)) {}

Result<std::string> RealFiles::read(const std::string& path, std::size_t limit) const {
  const std::string what = "cannot read " + path;
  const auto located = root_.locate(path, Root::LastLink::follow);
  if (!located) return located.error();
  struct stat found {};
  if (stat(located->c_str(), &found) != 0) return os_failure(ExitCode::surroundings, what, errno);
  const auto refuse = [&](mode_t mode) {
    return base::Error{ExitCode::surroundings, what + ": it is " + in_words(mode) + " and not a regular file", "",
                       base::Blame::local, S_ISDIR(mode) ? EISDIR : EINVAL};
  };
  // Looked at before it is opened, since opening alone can set off things (a tape, a watchdog, a FIFO's other end).
  if (!S_ISREG(found.st_mode)) return refuse(found.st_mode);
  const Descriptor file(open_retrying(located->c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (!file) return os_failure(ExitCode::surroundings, what, errno);
  if (fstat(file.get(), &found) != 0) return os_failure(ExitCode::surroundings, what, errno);
  if (!S_ISREG(found.st_mode)) return refuse(found.st_mode);
  // A large st_size saves the reading; a small one is no help: files of /proc and /sys have none.
  std::string content;
  const bool is_larger = static_cast<std::uint64_t>(found.st_size) > limit;
  const int error = is_larger ? EFBIG : read_all(file.get(), limit, content);
  if (error == EFBIG) {
    return base::Error{ExitCode::surroundings, what + ": it is larger than " + std::to_string(limit) + " bytes", "",
                       base::Blame::local, EFBIG};
  }
  if (error != 0) return os_failure(ExitCode::surroundings, what, error);
  return content;
}

Result<std::optional<FileStatus>> RealFiles::status(const std::string& path) const {
  const auto located = root_.locate(path, Root::LastLink::keep);
  if (!located) return located.error();
  struct stat found {};
  if (lstat(located->c_str(), &found) == 0) return std::optional(to_status(found));
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<FileStatus>();
  return os_failure(ExitCode::surroundings, "cannot look at " + path, errno);
}

Result<std::string> RealFiles::read_link(const std::string& path) const {
  const auto located = root_.locate(path, Root::LastLink::keep);
  if (!located) return located.error();
  std::string target(PATH_MAX, '\0');
  const ssize_t length = readlink(located->c_str(), target.data(), target.size());
  if (length < 0) return os_failure(ExitCode::surroundings, "cannot read the link " + path, errno);
  target.resize(static_cast<std::size_t>(length));
  return target;
}

Result<std::vector<std::string>> RealFiles::list(const std::string& path) const {
  const std::string what = "cannot list " + path;
  const auto located = root_.locate(path, Root::LastLink::follow);
  if (!located) return located.error();
  const auto list_one = [&](const std::string& where) -> Result<std::vector<std::string>> {
    const Descriptor folder(open_retrying(where.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK));
    if (!folder) return os_failure(ExitCode::surroundings, what, errno);
    return names_in(folder.get(), what);
  };
  if (root_.is_node_itself() || path != "/proc") return list_one(*located);

  auto kernels = list_one("/proc");
  if (!kernels) return kernels;
  std::erase_if(*kernels, [](const std::string& name) { return !base::parse_number(name); });
  if (const auto own = list_one(*located)) {
    std::copy_if(own->begin(), own->end(), std::back_inserter(*kernels),
                 [](const std::string& name) { return !base::parse_number(name); });
  }
  std::sort(kernels->begin(), kernels->end());
  return kernels;
}

int RealFiles::probe_device(const std::string& path) const {
  const auto located = root_.locate(path, Root::LastLink::keep);
  if (!located) return located.error().os_error;
  struct stat found {};
  if (lstat(located->c_str(), &found) != 0) return errno;
  if (S_ISLNK(found.st_mode)) return ELOOP;
  if (!S_ISCHR(found.st_mode) && !S_ISBLK(found.st_mode)) return ENODEV;
  const Descriptor device(open_retrying(located->c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  return device ? 0 : errno;
}

Result<bool> RealFiles::on_network_file_system(const std::string& path) const {
  const auto shared = [&](const std::string& where) -> Result<bool> {
    const auto type = type_at(where, path);
    if (!type) return type.error();
    return holds(network_file_systems, *type);
  };
  const auto located = root_.locate(path, Root::LastLink::keep);
  if (!located) return located.error();
  // The file itself (one file alone can be a mount), unless it is a link, which a change would replace.
  struct stat found {};
  if (lstat(located->c_str(), &found) == 0 && !S_ISLNK(found.st_mode)) {
    auto own = shared(*located);
    if (!own || *own || S_ISDIR(found.st_mode)) return own;
  }
  const auto type = type_of_folder(path);
  if (!type) return type.error();
  return holds(network_file_systems, *type);
}

Result<bool> RealFiles::survives_reboot(const std::string& path) const {
  const auto lasts = [](std::uint32_t type) {
    return !holds(passing_file_systems, type) && !holds(network_file_systems, type);
  };
  const auto located = root_.locate(path, Root::LastLink::keep);
  if (!located) return located.error();
  struct stat found {};
  if (lstat(located->c_str(), &found) == 0 && !S_ISLNK(found.st_mode)) {
    const auto own = type_at(*located, path);
    if (!own) return own.error();
    if (!lasts(*own)) return false;
  }
  const auto type = type_of_folder(path);
  if (!type) return type.error();
  return lasts(*type);
}

// Of its folder, or of the nearest one above that exists.
Result<std::uint32_t> RealFiles::type_of_folder(const std::string& path) const {
  std::string folder = path;
  for (;;) {
    folder = folder_of(folder);
    const auto where = root_.locate(folder, Root::LastLink::follow);
    if (!where) return where.error();
    auto answer = type_at(*where, path);
    if (answer || folder == "/" || (answer.error().os_error != ENOENT && answer.error().os_error != ENOTDIR))
      return answer;
  }
}

Status RealFiles::replace(const std::string& path, const std::string& content, mode_t mode) {
  const std::string what = "cannot replace " + path;
  auto place = open_place(root_, path, what);
  if (!place) return place.error();
  remove_stale(*place);
  const int error = put_in_place(*place, content, mode, Finish::rename);
  if (error != 0) return os_failure(ExitCode::change, what, error);
  if (const int sync_error = sync_file(place->folder.get()); sync_error != 0) {
    return os_failure(ExitCode::change, "replaced " + path + ", but its folder could not be written to disk",
                      sync_error);
  }
  return proof_of_file(*place, path, content, mode);
}

Status RealFiles::rehearse_replace(const std::string& path, const std::string& content, mode_t mode) {
  const std::string what = "cannot replace " + path;
  auto place = open_place(root_, path, what);
  if (!place) return place.error();
  remove_stale(*place);
  struct stat found {};
  if (fstatat(place->folder.get(), place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode)) {
    return os_failure(ExitCode::change, what, EISDIR);
  }
  const int error = put_in_place(*place, content, mode, Finish::forget);
  return error == 0 ? base::ok() : os_failure(ExitCode::change, what, error);
}

Status RealFiles::make_directory(const std::string& path, mode_t mode) {
  const std::string what = "cannot make the folder " + path + " with mode " + octal(mode);
  auto place = open_place(root_, path, what);
  if (!place) return place.error();
  if (mkdirat(place->folder.get(), place->name.c_str(), 0700) != 0 && errno != EEXIST) {
    return os_failure(ExitCode::change, what, errno);
  }
  const Descriptor folder(
      openat(place->folder.get(), place->name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!folder || fstat(folder.get(), &found) != 0) {
    const int error = errno;
    if (fstatat(place->folder.get(), place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISDIR(found.st_mode)) {
      return base::Error{ExitCode::change, what + ": " + in_words(found.st_mode) + " is in its place", "remove " + path,
                         base::Blame::local, ENOTDIR};
    }
    return os_failure(ExitCode::change, what, error);
  }
  if ((found.st_mode & 07777U) != mode) {
    if (fchmod(folder.get(), mode) != 0) return os_failure(ExitCode::change, what, errno);
    if (fstat(folder.get(), &found) != 0) return os_failure(ExitCode::change, what, errno);
  }
  if ((found.st_mode & 07777U) == mode) return base::ok();
  return base::Error{ExitCode::change, what + ": it has mode " + octal(found.st_mode & 07777U) + " all the same",
                     "look at the mount options of its file system"};
}

Status RealFiles::make_char_device(const std::string& path, unsigned device_major, unsigned device_minor, mode_t mode) {
  const std::string what =
      "cannot make the device " + path + " (" + std::to_string(device_major) + ":" + std::to_string(device_minor) + ")";
  auto place = open_place(root_, path, what);
  if (!place) return place.error();
  remove_stale(*place);
  const std::string temporary = temporary_name(place->name);
  const int folder = place->folder.get();
  const dev_t device = gnu_dev_makedev(device_major, device_minor);
  if (mknodat(folder, temporary.c_str(), S_IFCHR | 0600, device) != 0) {
    return os_failure(ExitCode::change, what, errno);
  }
  TemporaryName cleaner(folder, temporary);
  // Without AT_SYMLINK_NOFOLLOW, which needs fchmodat2 (Linux 6.6) or /proc: the name is ours and new.
  if (fchmodat(folder, temporary.c_str(), mode, 0) != 0) return os_failure(ExitCode::change, what, errno);
  int renamed = renameat(folder, temporary.c_str(), folder, place->name.c_str());
  if (renamed != 0 && errno == EISDIR) {
    if (unlinkat(folder, place->name.c_str(), AT_REMOVEDIR) != 0) {
      return os_failure(ExitCode::change, what + ": a folder is in its place and cannot be removed", errno);
    }
    renamed = renameat(folder, temporary.c_str(), folder, place->name.c_str());
  }
  if (renamed != 0) return os_failure(ExitCode::change, what, errno);
  cleaner.keep();
  struct stat found {};
  if (fstatat(folder, place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return os_failure(ExitCode::change, what, errno);
  }
  if (S_ISCHR(found.st_mode) && found.st_rdev == device && (found.st_mode & 07777U) == mode) return base::ok();
  return base::Error{
      ExitCode::change,
      what + ": " + in_words(found.st_mode) + " is there now, with mode " + octal(found.st_mode & 07777U),
      "find out what else makes this file (udev, nvidia-modprobe, a file system that has no devices)"};
}

Status RealFiles::set_permissions(const std::string& path, mode_t mode) {
  const std::string what = "cannot set the permissions of " + path + " to " + octal(mode);
  auto place = open_place(root_, path, what);
  if (!place) return place.error();
  struct stat found {};
  const auto look = [&] { return fstatat(place->folder.get(), place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW); };
  if (look() != 0) return os_failure(ExitCode::change, what, errno);
  if (S_ISLNK(found.st_mode)) return os_failure(ExitCode::change, what, ELOOP);
  if (fchmodat(place->folder.get(), place->name.c_str(), mode, 0) != 0 || look() != 0) {
    return os_failure(ExitCode::change, what, errno);
  }
  if ((found.st_mode & 07777U) == mode) return base::ok();
  return base::Error{ExitCode::change, what + ": it has " + octal(found.st_mode & 07777U) + " all the same",
                     "look at the mount options of its file system"};
}

Status RealFiles::rename(const std::string& from, const std::string& to) {
  const std::string what = "cannot rename " + from + " to " + to;
  auto old_place = open_place(root_, from, what);
  if (!old_place) return old_place.error();
  auto new_place = open_place(root_, to, what);
  if (!new_place) return new_place.error();
  if (renameat(old_place->folder.get(), old_place->name.c_str(), new_place->folder.get(), new_place->name.c_str()) !=
      0) {
    return os_failure(ExitCode::change, what, errno);
  }
  int error = sync_file(new_place->folder.get());
  if (error == 0) error = sync_file(old_place->folder.get());
  if (error != 0) return os_failure(ExitCode::change, "renamed " + from + ", but not on the disk", error);
  struct stat found {};
  if (fstatat(new_place->folder.get(), new_place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return os_failure(ExitCode::change, what, errno);
  }
  if (from != to && fstatat(old_place->folder.get(), old_place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
    return base::Error{ExitCode::change, what + ": " + from + " is there all the same",
                       "find out what else makes this file"};
  }
  return base::ok();
}

Status RealFiles::remove(const std::string& path) {
  const std::string what = "cannot remove " + path;
  auto place = open_place(root_, path, what);
  if (!place) {
    if (place.error().os_error == ENOENT) return base::ok();
    return place.error();
  }
  struct stat found {};
  if (unlinkat(place->folder.get(), place->name.c_str(), 0) != 0) {
    const int error = errno;
    // A read-only file system says EROFS also for what is not there.
    const bool there = fstatat(place->folder.get(), place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno == ENOENT) return base::ok();
    return os_failure(ExitCode::change, what, error);
  }
  if (const int error = sync_file(place->folder.get()); error != 0) {
    return os_failure(ExitCode::change, "removed " + path + ", but not on the disk", error);
  }
  if (fstatat(place->folder.get(), place->name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return base::ok();
  return base::Error{ExitCode::change, what + ": it is there again", "find out what else makes this file"};
}

}  // namespace host
