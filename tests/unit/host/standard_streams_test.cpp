#include "host/standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>

#include "host/machine.h"
#include "temporary_folder.h"

TEST_CASE("closed standard descriptors are opened on /dev/null and open ones are left alone") {
  const tests::TemporaryFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(0);
    close(2);
    const int out = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);  // takes 0
    dup2(out, 1);
    close(0);
    host::open_missing_standard_streams();
    struct stat found {};
    for (const int number : {0, 2}) {
      if (fstat(number, &found) != 0 || !S_ISCHR(found.st_mode) || found.st_rdev != makedev(1, 3)) _exit(1);
    }
    if (fstat(1, &found) != 0 || !S_ISREG(found.st_mode)) _exit(2);
    const int next = open("/dev/null", O_RDONLY);
    _exit(next > 2 ? 0 : 3);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a terminal is known, with its width") {
  CHECK_FALSE(host::is_terminal(-1));
  const int null = open("/dev/null", O_RDWR);
  CHECK_FALSE(host::is_terminal(null));
  CHECK_FALSE(host::terminal_width(null).has_value());
  close(null);
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) SKIP("the rest needs a pseudo terminal");
  winsize size{};
  size.ws_col = 132;
  CHECK(host::is_terminal(terminal));
  REQUIRE(ioctl(terminal, TIOCSWINSZ, &size) == 0);
  CHECK(host::terminal_width(terminal) == 132U);
  size.ws_col = 0;
  REQUIRE(ioctl(terminal, TIOCSWINSZ, &size) == 0);
  CHECK_FALSE(host::terminal_width(terminal).has_value());
  close(terminal);
}

TEST_CASE("a slow reader gets everything, a gone or stuck one is given up") {
  signal(SIGPIPE, SIG_IGN);  // as main does
  const std::string text(300'000, 'x');
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  std::size_t total = 0;
  std::thread reader([&] {
    char buffer[10'000];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
      total += static_cast<std::size_t>(got);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  CHECK(host::write_to(ends[1], text));
  close(ends[1]);
  reader.join();
  CHECK(total == text.size());
  close(ends[0]);

  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  CHECK_FALSE(host::write_to(ends[1], text));  // nobody reads
  close(ends[0]);
  CHECK_FALSE(host::write_to(ends[1], text));  // nobody will
  close(ends[1]);
  CHECK_FALSE(host::write_to(-1, text));
  CHECK(host::write_to(-1, ""));
  signal(SIGPIPE, SIG_DFL);
}

TEST_CASE("a reboot without the right to it, or under a root, is an error and no reboot") {
  const auto under_root = host::RealMachine(host::Root("/some/folder")).reboot_now();
  REQUIRE_FALSE(under_root);
  CHECK(under_root.error().code == base::ExitCode::change);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(9);
    if (geteuid() == 0 || setuid(0) == 0) _exit(9);  // never try it with the right to do it
    const auto refused = host::RealMachine(host::Root()).reboot_now();
    _exit(!refused && refused.error().os_error == EPERM && !refused.error().cure.empty() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
