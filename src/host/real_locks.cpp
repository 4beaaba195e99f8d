#include "host/real_locks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/duration.h"
#include "base/text.h"
#include "host/descriptor.h"
#include "host/os_error.h"

namespace host {

namespace {

using base::ExitCode;

constexpr milliseconds first_pause{2};
constexpr milliseconds longest_pause{50};

class FileLock : public Lock {
 public:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}
  ~FileLock() override {
    // The holder's line goes with the lock; a killed holder's stays, and is only read while somebody holds the lock.
    [[maybe_unused]] const int emptied = ftruncate(file_.get(), 0);
  }

 private:
  Descriptor file_;
};

bool is_ours(const struct stat& found) {
  return (found.st_uid == 0 || found.st_uid == geteuid()) && (found.st_mode & 022U) == 0;
}

base::Error not_ours(const std::string& what, const std::string& part) {
  return base::Error{ExitCode::surroundings, what + ": " + part + " belongs to another user or others may write it",
                     "remove " + part + ", or make it root's and writable by root only"};
}

// The folder, made where it is missing, and looked at.
base::Result<Descriptor> open_folder(const std::string& folder, const std::string& what) {
  if (mkdir(folder.c_str(), 0755) == 0) {
    if (chmod(folder.c_str(), 0755) != 0) return os_failure(ExitCode::surroundings, what, errno);  // whatever the umask
  } else if (errno != EEXIST) {
    base::Error error = os_failure(ExitCode::surroundings, what + ": cannot make " + folder, errno);
    if (error.os_error == ENOENT || error.os_error == ENOTDIR)
      error.cure = "make " + folder.substr(0, folder.rfind('/')) + " a folder: systemd mounts a tmpfs there at boot";
    return error;
  }
  Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!opened || fstat(opened.get(), &found) != 0) {
    base::Error error = os_failure(ExitCode::surroundings, what + ": cannot open " + folder, errno);
    if (error.os_error == ENOTDIR || error.os_error == ELOOP)
      error.cure = "remove " + folder + ": it must be a folder, or not be there";
    return error;
  }
  if (!is_ours(found)) return not_ours(what, folder);
  return opened;
}

base::Result<Descriptor> open_lock_file(int folder, const std::string& name, const std::string& path,
                                        const std::string& what) {
  // Whoever may open a file, be it for reading only, may hold flock()'s lock on it: nobody but us may.
  Descriptor file(
      openat(folder, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600));
  struct stat found {};
  if (!file || fstat(file.get(), &found) != 0) {
    base::Error error = os_failure(ExitCode::surroundings, what, errno);
    if (error.os_error == EISDIR || error.os_error == ELOOP || error.os_error == ENXIO)
      error.cure = "remove " + path + ": it must be a regular file, or not be there";
    return error;
  }
  if (!S_ISREG(found.st_mode)) {
    return base::Error{ExitCode::surroundings, what + ": it is not a regular file", "remove " + path};
  }
  if (!is_ours(found)) return not_ours(what, path);
  if ((found.st_mode & 077U) != 0 && fchmod(file.get(), 0600) != 0)
    return os_failure(ExitCode::surroundings, what, errno);
  return file;
}

std::string holder_in(int file) {
  char text[300];
  const ssize_t got = pread(file, text, sizeof text, 0);
  const auto all = base::lines(std::string_view(text, got > 0 ? static_cast<std::size_t>(got) : 0));
  const std::string_view line = all.empty() ? std::string_view() : base::trim(all.front());
  return line.empty() ? "another run" : base::printable(line, 200);
}

void write_holder(int file, const std::string& holder) {
  // Only words for whoever waits: on a full disk the lock is held all the same.
  const std::string line = base::printable(holder, 200) + "\n";
  if (ftruncate(file, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = pwrite(file, line.data(), line.size(), 0);
}

bool is_still_there(int folder, const std::string& name, int file) {
  struct stat opened {};
  struct stat named {};
  return fstat(file, &opened) == 0 && fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

base::Result<std::unique_ptr<Lock>> RealLocks::acquire(const std::string& path, const std::string& holder,
                                                       milliseconds limit) {
  const std::string what = "cannot lock " + path;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == path.size()) {
    return os_failure(ExitCode::surroundings, what, EINVAL);
  }
  const auto located = root_.locate(path.substr(0, slash), Root::LastLink::keep);
  if (!located) return located.error();
  const auto folder = open_folder(*located, what);
  if (!folder) return folder.error();
  const std::string name = path.substr(slash + 1);

  const Deadline deadline(clock_, limit);
  milliseconds pause = first_pause;
  for (;;) {
    auto file = open_lock_file(folder->get(), name, path, what);
    if (!file) return file.error();
    for (;;) {
      if (flock(file->get(), LOCK_EX | LOCK_NB) == 0) {
        if (!is_still_there(folder->get(), name, file->get())) break;  // somebody removed it: lock the new one
        write_holder(file->get(), holder);
        return std::unique_ptr<Lock>(std::make_unique<FileLock>(std::move(*file)));
      }
      if (errno != EWOULDBLOCK && errno != EINTR) return os_failure(ExitCode::surroundings, what, errno);
      if (deadline.over()) {
        return base::Error{ExitCode::time_out,
                           what + " within " + base::show_duration(limit) + ": held by " + holder_in(file->get()),
                           "look at what that run waits for; it ends at its own deadline"};
      }
      if (!clock_.sleep(deadline.limit(pause))) {
        return base::Error{ExitCode::time_out,
                           what + ": told to stop while waiting for it; held by " + holder_in(file->get()), ""};
      }
      pause = std::min(pause * 2, longest_pause);
    }
  }
}

std::string RealLocks::holder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == path.size()) return "";
  const auto located = root_.locate(path.substr(0, slash), Root::LastLink::keep);
  if (!located) return "";
  const Descriptor folder(open(located->c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return "";
  const Descriptor file(
      openat(folder.get(), path.substr(slash + 1).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat found {};
  if (!file || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode) || !is_ours(found)) return "";
  // A shared lock, given back at once: a run that asks in this instant asks again.
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return "";
  return holder_in(file.get());
}

}  // namespace host
