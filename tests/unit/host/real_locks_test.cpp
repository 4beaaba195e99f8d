// Locks between processes of the real kernel.
#include "host/real_locks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <thread>

#include "host/dry_locks.h"
#include "host/interrupt.h"
#include "host/real_clock.h"
#include "host/real_processes.h"
#include "temporary_folder.h"

using base::ExitCode;
using host::RealClock;
using host::RealLocks;
using host::Root;
using tests::TemporaryFolder;
using namespace std::chrono_literals;

namespace {

// A child that holds the lock until it is killed; returns once it holds it.
pid_t child_that_holds(const std::string& path, const std::string& holder) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    RealClock clock;
    const auto lock = RealLocks(clock, Root()).acquire(path, holder, 20s);
    const char byte = lock ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 'n';
  const bool held = read(ready[0], &byte, 1) == 1 && byte == 'y';
  close(ready[0]);
  return held ? child : -1;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("a lock is taken, held against others, named by its holder, and free again afterwards") {
  const TemporaryFolder folder;
  RealClock clock;
  RealLocks locks(clock, Root());
  const std::string path = folder / "gpu-prolog/imex.lock";
  {
    const mode_t former = umask(077);
    const auto lock = locks.acquire(path, "imex-prolog job 7 pid 42", 1s);
    umask(former);
    REQUIRE(lock);
    struct stat found {};
    REQUIRE(stat((folder / "gpu-prolog").c_str(), &found) == 0);
    CHECK((found.st_mode & 07777U) == 0755);
    CHECK(tests::content_of(path) == "imex-prolog job 7 pid 42\n");
    // Whoever may read the file could hold its lock and so keep every prolog waiting.
    REQUIRE(stat(path.c_str(), &found) == 0);
    CHECK((found.st_mode & 0777U) == 0600);
    // flock is per open file: a second one in this very process is refused too.
    const auto second = locks.acquire(path, "second", 30ms);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == ExitCode::time_out);
    CHECK(second.error().what == "cannot lock " + path + " within 30 ms: held by imex-prolog job 7 pid 42");
    CHECK_FALSE(second.error().cure.empty());
    CHECK_FALSE(locks.acquire(path, "third", 0ms));
  }
  CHECK(tests::content_of(path).empty());
  CHECK(locks.acquire(path, "second", 0ms));
}

TEST_CASE("a lock that another process holds is waited for and comes free when that one is killed") {
  const TemporaryFolder folder;
  RealClock clock;
  RealLocks locks(clock, Root());
  const pid_t child = child_that_holds(folder / "run/l", "imex-epilog job 6\nforged line");
  REQUIRE(child > 0);
  const auto refused = locks.acquire(folder / "run/l", "me", 100ms);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.ends_with(": held by imex-epilog job 6\\x0aforged line"));
  std::thread killer([&] {
    std::this_thread::sleep_for(200ms);
    end(child);
  });
  CHECK(locks.acquire(folder / "run/l", "me", 30s));
  killer.join();
}

TEST_CASE("a child that we start does not hold our lock after us") {
  const TemporaryFolder folder;
  int status = -1;
  const pid_t we = fork();
  REQUIRE(we >= 0);
  if (we == 0) {
    RealClock clock;
    const auto lock = RealLocks(clock, Root()).acquire(folder / "run/l", "we", 5s);
    host::Command command;
    command.program = "/bin/sh";
    command.arguments = {"-c", "setsid sleep 300 & echo $! > " + folder / "pid"};
    command.limit = 20s;
    host::RealProcesses("", Root()).run(command);
    _exit(lock ? 0 : 1);
  }
  waitpid(we, &status, 0);
  CHECK(status == 0);
  RealClock clock;
  CHECK(RealLocks(clock, Root()).acquire(folder / "run/l", "next", 0ms));
  const pid_t left = std::stoi(tests::content_of(folder / "pid"));
  kill(left, SIGKILL);
  waitpid(left, nullptr, 0);
}

TEST_CASE("a stop signal ends the wait for a lock") {
  const TemporaryFolder folder;
  const pid_t child = child_that_holds(folder / "run/l", "the other");
  REQUIRE(child > 0);
  host::catch_stop_signals();
  std::thread later([] {
    std::this_thread::sleep_for(200ms);
    raise(SIGTERM);  // in this thread, so that the wait does not see EINTR
  });
  RealClock clock;
  const auto begun = clock.now();
  const auto lock = RealLocks(clock, Root()).acquire(folder / "run/l", "me", 60s);
  later.join();
  CHECK(clock.now() - begun < 30s);
  REQUIRE_FALSE(lock);
  CHECK(lock.error().code == ExitCode::time_out);
  CHECK(lock.error().what.find("told to stop") != std::string::npos);
  host::release_stop_signals();
  end(child);
}

TEST_CASE("a lock file or folder that is a link, special or another's is refused") {
  const TemporaryFolder folder;
  RealClock clock;
  RealLocks locks(clock, Root());
  std::filesystem::create_directory(folder / "run");
  folder.file("target", "precious", 0644);
  std::filesystem::create_symlink("../target", folder / "run/link");
  CHECK(locks.acquire(folder / "run/link", "me", 0ms).error().os_error == ELOOP);
  CHECK(tests::content_of(folder / "target") == "precious");
  mkfifo((folder / "run/fifo").c_str(), 0644);
  const auto fifo = locks.acquire(folder / "run/fifo", "me", 0ms);
  REQUIRE_FALSE(fifo);
  CHECK(fifo.error().code == ExitCode::surroundings);
  folder.file("run/open", "", 0666);
  const auto open_to_all = locks.acquire(folder / "run/open", "me", 0ms);
  REQUIRE_FALSE(open_to_all);
  CHECK(open_to_all.error().what == "cannot lock " + folder / "run/open" + ": " + folder / "run/open" +
                                        " belongs to another user or others may write it");
  std::filesystem::create_directory_symlink("run", folder / "run-link");
  CHECK_FALSE(locks.acquire(folder / "run-link/l", "me", 0ms));
  std::filesystem::create_directory(folder / "shared");
  chmod((folder / "shared").c_str(), 01777);
  CHECK_FALSE(locks.acquire(folder / "shared/l", "me", 0ms));
  CHECK(locks.acquire(folder / "no/folder/l", "me", 0ms).error().os_error == ENOENT);
  CHECK(tests::names_in(folder / "shared").empty());
}

TEST_CASE("a lock whose folder cannot be made says what to make") {
  const TemporaryFolder folder;
  RealClock clock;
  const std::string run = folder / "run";
  const auto lock = RealLocks(clock, Root()).acquire(run + "/gpu-prolog/imex.lock", "me", 1s);
  REQUIRE_FALSE(lock);
  CHECK(lock.error().what.find("cannot make " + run + "/gpu-prolog: no such file or directory") != std::string::npos);
  CHECK(lock.error().cure == "make " + run + " a folder: systemd mounts a tmpfs there at boot");
}

TEST_CASE("a lock file that others may read is taken away from them") {
  const TemporaryFolder folder;
  RealClock clock;
  std::filesystem::create_directory(folder / "run");
  folder.file("run/l", "", 0644);  // as an earlier version made it
  REQUIRE(RealLocks(clock, Root()).acquire(folder / "run/l", "me", 0ms));
  struct stat found {};
  REQUIRE(stat((folder / "run/l").c_str(), &found) == 0);
  CHECK((found.st_mode & 0777U) == 0600);
}

TEST_CASE("a lock file that was removed while it was held does not let two in by one name") {
  const TemporaryFolder folder;
  RealClock clock;
  RealLocks locks(clock, Root());
  const auto first = locks.acquire(folder / "run/l", "first", 0ms);
  REQUIRE(first);
  unlink((folder / "run/l").c_str());
  const auto second = locks.acquire(folder / "run/l", "second", 0ms);
  REQUIRE(second);
  const auto third = locks.acquire(folder / "run/l", "third", 0ms);
  REQUIRE_FALSE(third);
  CHECK(third.error().what.ends_with("held by second"));
}

TEST_CASE("who waited for a lock file that was removed meanwhile waits for the new one") {
  const TemporaryFolder folder;
  RealClock clock;
  RealLocks locks(clock, Root());
  auto first = locks.acquire(folder / "run/l", "first", 0ms);
  REQUIRE(first);
  std::string outcome;
  std::thread waiter([&] {
    const auto got = locks.acquire(folder / "run/l", "waiter", 2s);
    outcome = got ? "got it" : got.error().what;
  });
  std::this_thread::sleep_for(300ms);  // the waiter has the old file open by now
  unlink((folder / "run/l").c_str());
  const auto second = locks.acquire(folder / "run/l", "second", 0ms);
  CHECK(second);
  first->reset();
  waiter.join();
  CHECK(outcome.ends_with("held by second"));
}

TEST_CASE("under a root the lock lies inside it") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  RealClock clock;
  CHECK(RealLocks(clock, Root(folder.path())).acquire("/run/gpu-prolog/imex.lock", "me", 0ms));
  CHECK(tests::names_in(folder / "run/gpu-prolog") == std::set<std::string>{"imex.lock"});
}

TEST_CASE("a dry run's lock is had at once, held or not, and makes nothing") {
  const TemporaryFolder folder;
  host::DryLocks locks;
  const auto first = locks.acquire(folder / "run/l", "me", 0ms);
  CHECK(first);
  CHECK(locks.acquire(folder / "run/l", "me", 0ms));
  CHECK(tests::names_in(folder.path()).empty());
}

TEST_CASE("who holds a lock is told without making or keeping anything") {
  const TemporaryFolder folder;
  const std::string path = folder / "gpu-prolog/x.lock";
  RealClock clock;
  RealLocks locks(clock, Root());
  CHECK(locks.holder(path).empty());
  CHECK_FALSE(access((folder / "gpu-prolog").c_str(), F_OK) == 0);
  {
    const auto lock = locks.acquire(path, "mig-setup, pid 7", 1s);
    REQUIRE(lock);
    CHECK(locks.holder(path) == "mig-setup, pid 7");
    CHECK(locks.holder(path) == "mig-setup, pid 7");
  }
  CHECK(locks.holder(path).empty());
  CHECK(locks.acquire(path, "next", 0ms));
}
