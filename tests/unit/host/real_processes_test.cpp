// Children of the real kernel: what they are given, how they end, and that nothing of them is left.
#include "host/real_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "host/interrupt.h"
#include "temporary_folder.h"

using host::Command;
using host::Exit;
using host::RealProcesses;
using namespace std::chrono_literals;

namespace {

Exit run(const Command& command) { return RealProcesses("", host::Root()).run(command); }

Command shell(const std::string& script, host::milliseconds limit) {
  Command command;
  command.program = "/bin/sh";
  command.arguments = {"-c", script};
  command.limit = limit;
  return command;
}

bool is_there(pid_t pid) { return RealProcesses("", host::Root()).alive(pid); }

// The pid that a script wrote to a file; waits up to 10 s for it.
pid_t pid_in(const std::string& path) {
  for (int i = 0; i < 1000; ++i) {
    const auto number = base::parse_number(base::trim(tests::content_of(path)));
    if (number) return static_cast<pid_t>(*number);
    std::this_thread::sleep_for(10ms);
  }
  return -1;
}

bool gone_within(pid_t pid, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    if (!is_there(pid)) return true;
    std::this_thread::sleep_for(10ms);
  }
  return !is_there(pid);
}

// Sends a signal to this very process after a while.
class SignalLater {
 public:
  SignalLater(int number, std::chrono::milliseconds after)
      : thread_([=] {
          std::this_thread::sleep_for(after);
          raise(number);  // in this thread, so that no wait of the other one sees EINTR
        }) {}
  ~SignalLater() { thread_.join(); }
  SignalLater(const SignalLater&) = delete;
  SignalLater& operator=(const SignalLater&) = delete;

 private:
  std::thread thread_;
};

struct CaughtSignals {
  CaughtSignals() { host::catch_stop_signals(); }
  ~CaughtSignals() { host::release_stop_signals(); }
};

}  // namespace

TEST_CASE("a child's exit status and both its streams come back") {
  const Exit exit = run(shell("echo to out; echo to err >&2; exit 3", 20s));
  CHECK(exit.ending == Exit::Ending::exited);
  CHECK(exit.status == 3);
  CHECK(exit.out == "to out\n");
  CHECK(exit.err == "to err\n");
  CHECK_FALSE(exit.cut);
  CHECK_FALSE(exit.succeeded());
  CHECK(run(shell("exit 0", 20s)).succeeded());
}

TEST_CASE("a child that a signal ended is told with the signal") {
  const Exit exit = run(shell("kill -SEGV $$", 20s));
  CHECK(exit.ending == Exit::Ending::signalled);
  CHECK(exit.status == SIGSEGV);
}

TEST_CASE("what cannot be executed is told as not started, with the reason") {
  const tests::TemporaryFolder folder;
  Command command;
  command.limit = 20s;

  command.program = folder / "missing";
  Exit exit = run(command);
  CHECK(exit.ending == Exit::Ending::not_started);
  CHECK(exit.status == ENOENT);
  CHECK(host::describe(exit) == "could not be started: no such file or directory");

  command.program = folder.file("text", "just words\n", 0755);
  exit = run(command);
  CHECK(exit.ending == Exit::Ending::not_started);
  CHECK(exit.status == ENOEXEC);

  command.program = folder.file("no-x", "#!/bin/sh\nexit 0\n", 0644);
  exit = run(command);
  CHECK(exit.ending == Exit::Ending::not_started);
  CHECK(exit.status == EACCES);

  command.program = folder.path();
  exit = run(command);
  CHECK(exit.ending == Exit::Ending::not_started);
  CHECK(exit.status == EACCES);

  command.program = "/bin/true";
  command.arguments = {std::string("a\0b", 3)};
  exit = run(command);
  CHECK(exit.ending == Exit::Ending::not_started);
  CHECK(exit.status == EINVAL);
}

TEST_CASE("exit 127 of a tool itself is an exit, not a failure to start it") {
  const Exit exit = run(shell("exit 127", 20s));
  CHECK(exit.ending == Exit::Ending::exited);
  CHECK(exit.status == 127);
}

TEST_CASE("a child's environment is exactly what is promised") {
  setenv("LD_PRELOAD_FAKE", "x", 1);
  setenv("http_proxy", "x", 1);
  Command command;
  command.program = "/usr/bin/env";
  command.limit = 20s;
  CHECK(run(command).out == "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nLC_ALL=C\n");

  RealProcesses with_conf("/etc/slurm/slurm.conf", host::Root());
  command.environment = {"A=b c", "LC_ALL=C.UTF-8"};
  CHECK(with_conf.run(command).out ==
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nSLURM_CONF=/etc/slurm/slurm.conf\nA=b c\nLC_ALL=C.UTF-8\n");
  unsetenv("LD_PRELOAD_FAKE");
  unsetenv("http_proxy");
}

TEST_CASE("a child inherits no descriptor, reads nothing on stdin and runs in / with umask 022") {
  const int low = open("/dev/null", O_RDWR);
  const int high = fcntl(low, F_DUPFD, 300);
  REQUIRE(high >= 300);
  const mode_t former = umask(077);
  const Exit exit =
      run(shell("n=0; while [ $n -lt 400 ]; do [ -e /proc/self/fd/$n ] && echo fd $n; n=$((n+1)); done; "
                "cat; pwd; umask",
                20s));
  umask(former);
  close(low);
  close(high);
  CHECK(exit.out == "fd 0\nfd 1\nfd 2\n/\n0022\n");
}

TEST_CASE("a child gets its standard descriptors also where ours are closed") {
  int report[2];
  REQUIRE(pipe2(report, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int answer = fcntl(report[1], F_DUPFD_CLOEXEC, 10);
    for (int number = 0; number < 10; ++number) close(number);
    const Exit exit = run(shell("cat; echo out; echo err >&2", 20s));
    const std::string told = exit.out + exit.err;
    if (write(answer, told.data(), told.size()) < 0) _exit(2);
    _exit(exit.succeeded() ? 0 : 1);
  }
  close(report[1]);
  char text[100];
  std::string told;
  for (ssize_t got; (got = read(report[0], text, sizeof text)) > 0;) told.append(text, static_cast<std::size_t>(got));
  close(report[0]);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(told == "out\nerr\n");
}

TEST_CASE("a child starts with default signals, an empty mask and a process group of its own") {
  const CaughtSignals caught;  // ignores SIGPIPE, handles TERM
  signal(SIGUSR1, SIG_IGN);
  sigset_t blocked;
  sigset_t former;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, &former);
  Command command;
  command.program = "/bin/cat";
  command.arguments = {"/proc/self/status", "/proc/self/stat"};
  command.limit = 20s;
  const Exit exit = run(command);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, &former, &after);
  signal(SIGUSR1, SIG_DFL);
  CHECK(exit.out.find("SigBlk:\t0000000000000000") != std::string::npos);
  CHECK(exit.out.find("SigIgn:\t0000000000000000") != std::string::npos);
  CHECK(exit.out.find("SigCgt:\t0000000000000000") != std::string::npos);
  const auto all = base::lines(exit.out);
  const auto fields = base::words(all.back());
  CHECK(fields.at(0) == fields.at(4));       // pid and process group
  CHECK(sigismember(&after, SIGUSR2) == 1);  // our own mask is as it was
  CHECK(sigismember(&after, SIGTERM) == 0);
}

TEST_CASE("a hanging child is ended at its limit and what it said so far is kept") {
  const tests::TemporaryFolder folder;
  const Exit exit = run(shell("echo begun; echo $$ > " + folder / "pid" + "; exec sleep 300", 300ms));
  CHECK(exit.ending == Exit::Ending::timed_out);
  CHECK(exit.out == "begun\n");
  CHECK(exit.took >= 300ms);
  CHECK(exit.took < 60s);
  CHECK_FALSE(exit.unkillable);
  CHECK_FALSE(is_there(pid_in(folder / "pid")));
  CHECK(host::describe(exit).starts_with("no end after "));
}

TEST_CASE("a child that ignores TERM gets KILL two seconds later, with its whole group") {
  const tests::TemporaryFolder folder;
  const Exit exit =
      run(shell("trap '' TERM; (echo $PPID > " + folder / "parent" + "; sleep 300) & echo $! > " +
                    folder / "grandchild" + "; echo $$ > " + folder / "pid" + "; while :; do sleep 300; done",
                500ms));
  CHECK(exit.ending == Exit::Ending::timed_out);
  CHECK(exit.took >= 2500ms);
  CHECK_FALSE(exit.unkillable);
  CHECK_FALSE(is_there(pid_in(folder / "pid")));
  CHECK_FALSE(is_there(pid_in(folder / "grandchild")));
}

TEST_CASE("a stopped child is ended too") {
  const Exit exit = run(shell("kill -STOP $$", 300ms));
  CHECK(exit.ending == Exit::Ending::timed_out);
  CHECK(exit.took < 2s);  // TERM was enough
}

TEST_CASE("a grandchild that keeps stdout open is ended and not waited for") {
  const tests::TemporaryFolder folder;
  const Exit exit = run(shell("sleep 300 & echo $! > " + folder / "pid" + "; echo done", 100s));
  CHECK(exit.succeeded());
  CHECK(exit.out == "done\n");
  CHECK(exit.took < 50s);
  CHECK_FALSE(is_there(pid_in(folder / "pid")));
}

TEST_CASE("a grandchild that left the group and keeps stdout open does not hold us") {
  const tests::TemporaryFolder folder;
  const Exit exit = run(shell("setsid sh -c 'echo $$ > " + folder / "pid" + "; exec sleep 300' & while ! [ -s " +
                                  folder / "pid" + " ]; do sleep 0.05; done; echo done",
                              100s));
  CHECK(exit.succeeded());
  CHECK(exit.out == "done\n");
  CHECK(exit.took < 50s);
  const pid_t left = pid_in(folder / "pid");
  REQUIRE(left > 1);
  CHECK(is_there(left));  // a daemon that a tool started on purpose goes on
  kill(left, SIGKILL);
  waitpid(left, nullptr, 0);
}

TEST_CASE(
    "a tool that had to be ended takes the sessions of its grandchildren along, and nothing that was there before") {
  const tests::TemporaryFolder folder;
  const auto session = [&](const std::string& name, const std::string& more) {
    return "setsid sh -c '" + more + "echo $$ > " + folder / name + "; exec sleep 300' & while ! [ -s " +
           folder / name + " ]; do sleep 0.05; done; ";
  };
  REQUIRE(run(shell(session("meant", ""), 100s)).succeeded());
  const std::string deeper = "setsid sh -c \"echo \\$\\$ > " + folder / "deeper" + "; exec sleep 300\" & ";
  const Exit exit = run(shell(session("rest", deeper) + "sleep 300", 2s));
  CHECK(exit.ending == Exit::Ending::timed_out);
  // qemu's user mode refuses PR_SET_CHILD_SUBREAPER: there, as docs/configuration.md has it, they stay.
  int becomes_ours = 0;
  const bool sees_orphans = prctl(PR_GET_CHILD_SUBREAPER, &becomes_ours, 0, 0, 0) == 0 && becomes_ours == 1;
#ifdef __x86_64__
  REQUIRE(sees_orphans);
#endif
  for (const char* name : {"rest", "deeper"}) {
    const pid_t pid = pid_in(folder / name);
    CHECK(is_there(pid) != sees_orphans);
    if (!sees_orphans) kill(pid, SIGKILL);
  }
  const pid_t meant = pid_in(folder / "meant");
  CHECK(is_there(meant));
  kill(meant, SIGKILL);
  waitpid(meant, nullptr, 0);
}

TEST_CASE("what a long run has said so far is told meanwhile") {
  Command command = shell("echo one; sleep 2.5; echo two", 30s);
  std::vector<std::string> told;
  command.progress = [&](const std::string& out) { told.push_back(out); };
  CHECK(run(command).out == "one\ntwo\n");
  REQUIRE_FALSE(told.empty());
  CHECK(told.front() == "one\n");
}

TEST_CASE("a flood of output is read to its end, kept up to the cap and costs no memory") {
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  Command command = shell("head -c 1073741824 /dev/zero; echo end >&2", 120s);
  command.output_cap = 4096;
  const Exit exit = run(command);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  CHECK(exit.succeeded());
  CHECK(exit.cut);
  CHECK(exit.out == std::string(4096, '\0'));
  CHECK(exit.err == "end\n");
  CHECK(after.ru_maxrss - before.ru_maxrss < 16 * 1024);  // KiB
}

TEST_CASE("a child that floods without end is ended at its limit") {
  Command command = shell("exec yes", 300ms);
  command.output_cap = 10;
  const Exit exit = run(command);
  CHECK(exit.ending == Exit::Ending::timed_out);
  CHECK(exit.out == "y\ny\ny\ny\ny\n");
  CHECK(exit.cut);
}

TEST_CASE("output of exactly the cap is not cut") {
  Command command = shell("printf 12345", 20s);
  command.output_cap = 5;
  const Exit exit = run(command);
  CHECK(exit.out == "12345");
  CHECK_FALSE(exit.cut);
}

TEST_CASE("a child that closed its output and goes on is waited for") {
  const Exit exit = run(shell("exec >&- 2>&-; sleep 0.3; exit 5", 20s));
  CHECK(exit.ending == Exit::Ending::exited);
  CHECK(exit.status == 5);
}

TEST_CASE("a stop signal to us ends the child") {
  const CaughtSignals caught;
  const SignalLater later(SIGTERM, 300ms);
  const Exit exit = run(shell("exec sleep 300", 200s));
  CHECK(exit.ending == Exit::Ending::interrupted);
  CHECK(exit.took < 100s);
  CHECK(host::stop_signal() == SIGTERM);
}

TEST_CASE("a second stop signal ends a child that ignores TERM without the two seconds") {
  const CaughtSignals caught;
  const SignalLater first(SIGTERM, 300ms);
  const SignalLater second(SIGINT, 500ms);
  const Exit exit = run(shell("trap '' TERM; while :; do sleep 300; done", 200s));
  CHECK(exit.ending == Exit::Ending::interrupted);
  CHECK(exit.took < 2s);
  CHECK(host::stop_signal() == SIGTERM);
}

TEST_CASE("after a stop signal nothing is started until it is acknowledged") {
  const tests::TemporaryFolder folder;
  const CaughtSignals caught;
  raise(SIGTERM);
  CHECK(run(shell("touch " + folder / "ran", 20s)).ending == Exit::Ending::interrupted);
  CHECK(tests::names_in(folder.path()).empty());

  host::acknowledge_stop_signal();
  CHECK(run(shell("touch " + folder / "ran", 20s)).succeeded());
  CHECK(host::stop_signal() == SIGTERM);

  raise(SIGTERM);
  CHECK(run(shell("exit 0", 20s)).ending == Exit::Ending::interrupted);
}

TEST_CASE("a child with no time left is not started") {
  const tests::TemporaryFolder folder;
  const Exit exit = run(shell("touch " + folder / "ran", 0ms));
  CHECK(exit.ending == Exit::Ending::timed_out);
  CHECK(tests::names_in(folder.path()).empty());
}

TEST_CASE("a child dies with us when we are killed") {
  const tests::TemporaryFolder folder;
  const pid_t we = fork();
  REQUIRE(we >= 0);
  if (we == 0) {
    run(shell("echo $$ > " + folder / "pid" + "; exec sleep 300", 200s));
    _exit(0);
  }
  const pid_t child = pid_in(folder / "pid");
  REQUIRE(child > 1);
  CHECK(is_there(child));
  kill(we, SIGKILL);
  waitpid(we, nullptr, 0);
  CHECK(gone_within(child, 10s));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);  // an orphan of ours
}

TEST_CASE("an ignored SIGCHLD from our starter does not lose exit statuses") {
  signal(SIGCHLD, SIG_IGN);
  const Exit exit = run(shell("exit 4", 20s));
  CHECK(exit.ending == Exit::Ending::exited);
  CHECK(exit.status == 4);
}

TEST_CASE("no child and no descriptor of ours is left after many runs") {
  const auto open_now = [] { return tests::names_in("/proc/self/fd").size(); };
  run(shell("exit 0", 20s));
  const std::size_t before = open_now();
  for (int i = 0; i < 20; ++i) run(shell("(sleep 300 &) ; exit 0", 20s));
  Command missing;
  missing.program = "/nowhere/tool";
  missing.limit = 20s;
  run(missing);
  CHECK(open_now() == before);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("under a root a tool is run from inside it only") {
  const tests::TemporaryFolder folder;
  folder.file("usr/bin/tool", "#!/bin/sh\necho the root\\'s $1\n", 0755);
  std::filesystem::create_symlink("/usr/bin/tool", folder / "tool-link");
  RealProcesses processes("", host::Root(folder.path()));
  Command command;
  command.limit = 20s;
  command.arguments = {"own"};
  command.program = "/usr/bin/tool";
  CHECK(processes.run(command).out == "the root's own\n");
  command.program = "/tool-link";
  CHECK(processes.run(command).out == "the root's own\n");
  command.program = "/bin/true";
  CHECK(processes.run(command).status == ENOENT);
}

TEST_CASE("living processes, zombies and start times are told apart") {
  const RealProcesses processes("", host::Root());
  CHECK(processes.alive(getpid()));
  CHECK(processes.alive(1));
  CHECK_FALSE(processes.alive(0));
  CHECK_FALSE(processes.alive(-1));
  CHECK(processes.self() == getpid());
  CHECK(processes.parent() == getppid());
  CHECK(processes.start_time(getpid()).has_value());
  CHECK(processes.start_time(getpid()) == processes.start_time(getpid()));
  CHECK_FALSE(processes.start_time(0).has_value());

  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(0);
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(processes.alive(child));
  waitpid(child, nullptr, 0);
  CHECK_FALSE(processes.alive(child));
  CHECK_FALSE(processes.start_time(child).has_value());
}

TEST_CASE("an exit in words names what happened and the tool's last words") {
  Exit exit;
  exit.ending = Exit::Ending::exited;
  exit.status = 5;
  exit.err = "first\nsecond\n\nthird\nUnit nvidia-imex.service not found.\n";
  CHECK(host::describe(exit) == "exit 5: second / third / Unit nvidia-imex.service not found.");
  exit.err = " \n";
  exit.out = "only \x1b[31mout\n";
  CHECK(host::describe(exit) == "exit 5: only \\x1b[31mout");
  exit.ending = Exit::Ending::signalled;
  exit.status = SIGKILL;
  exit.out.clear();
  CHECK(host::describe(exit) == "ended by signal 9 (KILL)");
  exit.ending = Exit::Ending::timed_out;
  exit.took = 15s;
  exit.unkillable = true;
  CHECK(host::describe(exit) ==
        "no end after 15 s, so it was stopped; it is still there after KILL (waiting in the kernel)");
  exit.unkillable = false;
  exit.ending = Exit::Ending::interrupted;
  CHECK(host::describe(exit) == "stopped because gpu-prolog was told to stop");
}

TEST_CASE("a command in words is the tool's name and its arguments, odd ones quoted") {
  Command command;
  command.program = "/usr/bin/systemctl";
  command.arguments = {"stop", "nvidia-imex"};
  CHECK(host::show(command) == "systemctl stop nvidia-imex");
  command.arguments = {"a b", "", "c\nd"};
  CHECK(host::show(command) == "systemctl 'a b' '' 'c\\x0ad'");
}

// A task in a frozen (v1) freezer group does not act on KILL until it is thawed: as good as one that waits in a driver.
TEST_CASE("a child that KILL does not end is given up two seconds later and told as unkillable") {
  const std::string group = "/sys/fs/cgroup/freezer/gpu-prolog-test-" + std::to_string(getpid());
  if (mkdir(group.c_str(), 0755) != 0 || access((group + "/freezer.state").c_str(), W_OK) != 0) {
    rmdir(group.c_str());
    SKIP("needs root and a cgroup v1 freezer at /sys/fs/cgroup/freezer");
  }
  const tests::TemporaryFolder folder;
  const Exit exit = run(shell("echo $$ > " + group + "/cgroup.procs; echo $$ > " + folder / "pid" + "; echo FROZEN > " +
                                  group + "/freezer.state; sleep 300",
                              1s));
  const pid_t child = pid_in(folder / "pid");
  CHECK(exit.ending == Exit::Ending::timed_out);
  CHECK(exit.unkillable);
  CHECK(exit.took >= 5s);
  CHECK(exit.took < 30s);
  std::ofstream(group + "/freezer.state") << "THAWED";
  waitpid(child, nullptr, 0);
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; ++i) std::this_thread::sleep_for(20ms);
  CHECK(access(group.c_str(), F_OK) != 0);
}
