// A log file that cannot be written to, in every way there is.
#include "host/log_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "base/text.h"
#include "temporary_folder.h"

using host::LogFile;
using host::Root;
using tests::content_of;
using tests::TemporaryFolder;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777U : 0;
}

std::string problem_with(const std::string& path) {
  LogFile log = LogFile::open(path, Root());
  log.write("a line");
  return log.take_problem().value_or("none");
}

}  // namespace

TEST_CASE("a log is made with mode 0644 whatever the umask, and lines are appended") {
  const TemporaryFolder folder;
  const mode_t former = umask(077);
  LogFile log = LogFile::open(folder / "a.log", Root());
  umask(former);
  log.write("first\n");
  log.write("second");
  LogFile again = LogFile::open(folder / "a.log", Root());
  again.write("third\n");
  CHECK(content_of(folder / "a.log") == "first\nsecond\nthird\n");
  CHECK(mode_of(folder / "a.log") == 0644);
  CHECK_FALSE(log.take_problem().has_value());
  CHECK_FALSE(again.take_problem().has_value());
}

TEST_CASE("an existing log keeps its mode and its lines") {
  const TemporaryFolder folder;
  folder.file("a.log", "of yesterday\n", 0644);
  LogFile log = LogFile::open(folder / "a.log", Root());
  log.write("of today");
  CHECK(content_of(folder / "a.log") == "of yesterday\nof today\n");
  CHECK(mode_of(folder / "a.log") == 0644);
}

TEST_CASE("text from outside can neither forge a line nor send an escape code") {
  const TemporaryFolder folder;
  LogFile log = LogFile::open(folder / "a.log", Root());
  log.write("job name: x\n2026-05-04T06:08:10.580 [INFO] forged\x1b[2J\r\xff\n");
  CHECK(content_of(folder / "a.log") == "job name: x\\x0a2026-05-04T06:08:10.580 [INFO] forged\\x1b[2J\\x0d\\xff\n");
}

TEST_CASE("what is not a plain log file is not written to, and the reason is told once") {
  const TemporaryFolder folder;
  folder.file("target", "precious", 0600);
  std::filesystem::create_symlink("target", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  mkfifo((folder / "fifo").c_str(), 0666);
  folder.file("one", "precious", 0600);
  REQUIRE(link((folder / "one").c_str(), (folder / "two").c_str()) == 0);
  const std::string begin = "cannot write to the log " + folder.path() + "/";
  CHECK(problem_with(folder / "link") == begin + "link: it is not a regular file");
  CHECK(problem_with(folder / "dangling") == begin + "dangling: it is not a regular file");
  CHECK(problem_with(folder / "fifo") == begin + "fifo: it is not a regular file");
  CHECK(problem_with(folder / "two") == begin + "two: the file has more than one name");
  CHECK(problem_with(folder / "no/folder") == begin + "no/folder: no such file or directory");
  CHECK(problem_with(folder.path()) == "cannot write to the log " + folder.path() + ": it is not a regular file");
  CHECK(problem_with("/dev/null") == "cannot write to the log /dev/null: it is not a regular file");
  CHECK(content_of(folder / "target") == "precious");
  CHECK(content_of(folder / "one") == "precious");
  CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));

  LogFile log = LogFile::open(folder / "link", Root());
  CHECK(log.take_problem().has_value());
  log.write("again");
  CHECK_FALSE(log.take_problem().has_value());

  LogFile none;
  none.write("nowhere");
  CHECK_FALSE(none.take_problem().has_value());
}

TEST_CASE("another user's log is not written to") {
  const TemporaryFolder folder;
  folder.file("a.log", "", 0666);
  if (chown((folder / "a.log").c_str(), 1234, 1234) != 0) SKIP("needs root (chown)");
  CHECK(problem_with(folder / "a.log") ==
        "cannot write to the log " + folder / "a.log" + ": the file belongs to user 1234");
  CHECK(content_of(folder / "a.log").empty());
}

TEST_CASE("a full disk costs lines but no run, and the log goes on when there is room again") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "disk");
  if (mount("tmpfs", (folder / "disk").c_str(), "tmpfs", 0, "size=8k") != 0) SKIP("needs root (a small tmpfs)");
  {
    LogFile log = LogFile::open(folder / "disk/a.log", Root());
    log.write("first");
    const int filler = open((folder / "disk/filler").c_str(), O_WRONLY | O_CREAT, 0600);
    const std::string page(4096, 'f');
    while (write(filler, page.data(), page.size()) > 0) {
    }
    close(filler);
    for (int i = 0; i < 5; ++i) log.write(std::string(1500, 'x'));
    const auto problem = log.take_problem();
    REQUIRE(problem);
    CHECK(problem->starts_with("cannot write to the log " + folder / "disk/a.log" + ": "));
    log.write(std::string(1500, 'x'));  // fails too, and that is no news
    CHECK_FALSE(log.take_problem().has_value());
    unlink((folder / "disk/filler").c_str());
    log.write("last");
    const std::string content = content_of(folder / "disk/a.log");
    CHECK(content.starts_with("first\n"));
    CHECK(content.ends_with("\nlast\n"));
  }
  umount2((folder / "disk").c_str(), MNT_DETACH);
}

TEST_CASE("a line that was only half taken does not run into the next one") {
  const TemporaryFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);  // as main does
    LogFile log = LogFile::open(folder / "a.log", Root());
    rlimit limit{10, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    log.write("0123456789abcdef");
    if (!log.take_problem()) _exit(1);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    log.write("next");
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(content_of(folder / "a.log") == "0123456789\nnext\n");
}

TEST_CASE("under a root the log lies inside it, behind links too") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data/log");
  std::filesystem::create_directories(folder / "var");
  std::filesystem::create_symlink("/data/log", folder / "var/log");
  LogFile log = LogFile::open("/var/log/a.log", Root(folder.path()));
  log.write("inside");
  CHECK(content_of(folder / "data/log/a.log") == "inside\n");
}
