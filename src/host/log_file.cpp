#include "host/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "host/os_error.h"

namespace host {

namespace {

constexpr mode_t new_file_mode = 0644;
constexpr std::size_t line_cap = std::size_t{16} * 1024;

}  // namespace

void LogFile::fail(const std::string& problem) {
  if (!failed_) problem_ = problem;
  failed_ = true;
}

LogFile LogFile::open(const std::string& path, const Root& root) {
  LogFile log;
  log.path_ = path;
  const std::string what = "cannot write to the log " + path;
  // Links on the way are looked through (a /var/log that is one is common), the last part is not.
  const auto located = root.locate(path, Root::LastLink::keep);
  if (!located) {
    log.fail(located.error().what);
    return log;
  }
  constexpr int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Descriptor file(::open(located->c_str(), flags | O_CREAT | O_EXCL, new_file_mode));
  if (file) {
    fchmod(file.get(), new_file_mode);  // whatever the umask
  } else if (errno == EEXIST) {
    struct stat found {};
    if (lstat(located->c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {  // not even opened: that can set off things
      log.fail(what + ": it is not a regular file");
      return log;
    }
    file = Descriptor(::open(located->c_str(), flags));
  }
  struct stat found {};
  if (!file || fstat(file.get(), &found) != 0) {
    log.fail(what + ": " + os_words(errno));
  } else if (!S_ISREG(found.st_mode)) {
    log.fail(what + ": it is not a regular file");
  } else if (found.st_nlink != 1) {
    log.fail(what + ": the file has more than one name");
  } else if (found.st_uid != 0 && found.st_uid != geteuid()) {
    log.fail(what + ": the file belongs to user " + std::to_string(found.st_uid));
  } else {
    log.file_ = std::move(file);
  }
  return log;
}

void LogFile::write(std::string_view line) {
  if (!file_) return;
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  const std::string whole = (torn_ ? "\n" : "") + base::printable(line, line_cap) + "\n";
  ssize_t put;
  do {
    put = ::write(file_.get(), whole.data(), whole.size());
  } while (put < 0 && errno == EINTR);
  const int error = errno;
  if (put == static_cast<ssize_t>(whole.size())) {
    torn_ = false;
    return;
  }
  if (put > 0) torn_ = true;
  // Not given up: the disk may have room again for the next line.
  fail("cannot write to the log " + path_ + ": " +
       (put < 0 ? os_words(error) : "only part of a line was taken (disk full?)"));
}

std::optional<std::string> LogFile::take_problem() {
  std::optional<std::string> problem;
  problem.swap(problem_);
  return problem;
}

}  // namespace host
