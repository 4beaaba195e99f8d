#include "host/real_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "base/text.h"
#include "host/descriptor.h"
#include "host/interrupt.h"
#include "site/site.h"

namespace host {

namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kill_wait{2000};  // for the kernel to act on KILL
constexpr milliseconds progress_step{1000};
constexpr milliseconds longest_poll{5};       // where there is no pidfd (qemu's user mode has none)
constexpr milliseconds group_end_wait{250};   // for the killed rest of the group to be gone
constexpr std::size_t drain_cap = 1U << 20U;  // most that is read after the child's end: the largest usual pipe

// --- the child's side, between fork and exec: system calls only

struct ChildPlan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int in;
  int out;
  int err;
  int failure;  // errno goes here when exec did not happen; closed by exec
  pid_t parent;
};

constexpr int failure_slot = 3;

void close_from(unsigned lowest) {
  if (syscall(SYS_close_range, lowest, UINT_MAX, 0) == 0) return;
  // Linux before 5.9 and qemu before 7.2.
  const long highest = sysconf(_SC_OPEN_MAX);
  const int end = highest < 0 || highest > 65'536 ? 65'536 : static_cast<int>(highest);
  for (int number = static_cast<int>(lowest); number < end; ++number) close(number);
}

[[noreturn]] void become(const ChildPlan& plan) {
  const auto give_up = [&](int error) {
    [[maybe_unused]] const ssize_t told = write(plan.failure, &error, sizeof error);
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // the parent died before it could be tied to us

  // All signals are blocked here, so that none of the parent's handlers can run in this process.
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  if (dup2(plan.in, 0) < 0 || dup2(plan.out, 1) < 0 || dup2(plan.err, 2) < 0) give_up(errno);
  if (plan.failure != failure_slot) {
    if (dup3(plan.failure, failure_slot, O_CLOEXEC) < 0) give_up(errno);
  }
  close_from(failure_slot + 1);
  ChildPlan last = plan;
  last.failure = failure_slot;
  umask(022);
  [[maybe_unused]] const int moved = chdir("/");  // there is no case in which / is not there
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(last.program, last.arguments, last.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(last.failure, &error, sizeof error);
  _exit(127);
}

// --- the parent's side

// Above the slots that the child fills, so that its dup2 calls never overwrite what they still need.
int lifted(int number) {
  if (number < 0 || number > failure_slot) return number;
  const int above = fcntl(number, F_DUPFD_CLOEXEC, failure_slot + 1);
  const int error = errno;
  close(number);
  errno = error;
  return above;
}

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

// errno, 0: made. The read end does not block.
int make_pipe(Pipe& made) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  made.read_end = Descriptor(lifted(ends[0]));
  if (!made.read_end) {
    const int error = errno;
    close(ends[1]);
    return error;
  }
  made.write_end = Descriptor(lifted(ends[1]));
  if (!made.write_end) return errno;
  fcntl(made.read_end.get(), F_SETFL, O_NONBLOCK);
  return 0;
}

Descriptor open_empty_input() {
  Descriptor null(lifted(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  if (null) return null;
  Pipe ended;  // a machine without /dev/null: a pipe that nobody writes to is as empty
  if (make_pipe(ended) != 0) return Descriptor();
  return std::move(ended.read_end);
}

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t former_;
};

// One stream of the child: the first `cap` bytes are kept, the rest is read and dropped, so that a child that floods
// us neither blocks nor costs memory.
class Stream {
 public:
  Stream(Descriptor from, std::size_t cap) : from_(std::move(from)), cap_(cap) {}

  bool open() const { return static_cast<bool>(from_); }
  int descriptor() const { return from_.get(); }
  bool cut() const { return cut_; }
  std::string take() { return std::move(kept_); }
  const std::string& kept() const { return kept_; }

  // Reads what is there, at most about `most` bytes.
  void read_some(std::size_t most) {
    std::size_t total = 0;
    while (from_ && total < most) {
      const ssize_t got = read(from_.get(), buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        from_.reset();
        return;
      }
      const std::size_t count = static_cast<std::size_t>(got);
      const std::size_t room = cap_ - kept_.size();
      kept_.append(buffer_.data(), std::min(room, count));
      if (count > room) cut_ = true;
      total += count;
    }
  }

 private:
  Descriptor from_;
  std::size_t cap_;
  std::string kept_;
  bool cut_ = false;
  std::vector<char> buffer_ = std::vector<char>(65'536);  // not on a thread's stack, whose limit may be small
};

// --- what a tool leaves behind

// Our children now. Empty where the kernel does not list them (no CONFIG_PROC_CHILDREN, qemu's user mode).
std::vector<pid_t> own_children() {
  std::vector<pid_t> pids;
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return pids;
  while (const dirent* const task = readdir(tasks)) {
    const std::string path = std::string("/proc/self/task/") + task->d_name + "/children";
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text(4096, '\0');
    const ssize_t got = file ? read(file.get(), text.data(), text.size()) : 0;
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    for (const std::string_view word : base::words(text)) {
      if (const auto pid = base::parse_number(word)) pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  closedir(tasks);
  return pids;
}

// A process that made a session of its own is in no group of ours, and becomes our child when its parent is gone (see
// RealProcesses' constructor). What a tool leaves that ended by itself is meant to stay (modprobe may start
// nvidia-persistenced); what comes up when we had to end a tool is its rest, and has nobody to end it but us.
class Orphans {
 public:
  void begun(pid_t child) {
    const std::lock_guard lock(mutex_);
    if (is_first_) {  // whoever became us by exec may have had children
      for (const pid_t pid : own_children()) {
        if (pid != child) meant_to_stay_.insert(pid);
      }
      is_first_ = false;
    }
    running_.insert(child);
  }

  // Tools run side by side: whose an orphan is, nobody can tell, so it is looked for when the last one has ended.
  void ended(pid_t child, bool by_force) {
    const std::lock_guard lock(mutex_);
    running_.erase(child);
    forced_ |= by_force;
    if (!running_.empty()) return;
    if (forced_) {
      end_all();
    } else if (const auto now = own_children(); !now.empty()) {
      meant_to_stay_.insert(now.begin(), now.end());
    }
    forced_ = false;
  }

 private:
  // Those of the killed ones become ours in their turn.
  void end_all() {
    const auto end = SteadyClock::now() + group_end_wait;
    for (bool found = true; found && SteadyClock::now() < end;) {
      found = false;
      for (const pid_t pid : own_children()) {
        if (meant_to_stay_.contains(pid)) continue;
        found = true;
        kill(pid, SIGKILL);
        if (waitpid(pid, nullptr, WNOHANG) == 0) poll(nullptr, 0, 1);
      }
    }
  }

  std::mutex mutex_;
  std::set<pid_t> running_;
  std::set<pid_t> meant_to_stay_;
  bool forced_ = false;
  bool is_first_ = true;
};

Orphans& orphans() {
  static Orphans all;
  return all;
}

// One run of one child, from fork to the last look at its group.
class Child {
 public:
  Child(const Command& command, SteadyClock::time_point begun)
      : command_(command), begun_(begun), out_(Descriptor(), 0), err_(Descriptor(), 0) {}

  Exit run(const std::string& program, const std::vector<std::string>& environment);

 private:
  int start(const std::string& program, const std::vector<std::string>& environment);
  void wait_for_end();
  void poll_once(milliseconds at_most);
  bool look_for_end();
  void signal_group(int number) { kill(-pid_, number); }
  void end_group();
  void collect();

  const Command& command_;
  SteadyClock::time_point begun_;
  pid_t pid_ = -1;
  Descriptor pidfd_;
  Descriptor exec_failure_;
  Stream out_;
  Stream err_;
  bool ended_ = false;  // a zombie now: its pid, and so its group's, cannot be used anew until we collect it
  bool lost_ = false;   // somebody else in this process collected it: no status, and the pid may be another's already
  bool unkillable_ = false;
  int exec_errno_ = 0;
  std::optional<Exit::Ending> forced_;  // why we ended it
  int wait_status_ = 0;
  SteadyClock::time_point next_progress_ = begun_ + progress_step;
};

int Child::start(const std::string& program, const std::vector<std::string>& environment) {
  Pipe out;
  Pipe err;
  Pipe failure;
  if (const int error = make_pipe(out); error != 0) return error;
  if (const int error = make_pipe(err); error != 0) return error;
  if (const int error = make_pipe(failure); error != 0) return error;
  const Descriptor in = open_empty_input();
  if (!in) return errno;

  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : command_.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (const std::string& variable : environment) envp.push_back(const_cast<char*>(variable.c_str()));
  envp.push_back(nullptr);

  const ChildPlan plan{
      program.c_str(),         argv.data(), envp.data(), in.get(), out.write_end.get(), err.write_end.get(),
      failure.write_end.get(), getpid()};
  {
    const BlockedSignals blocked;
    pid_ = fork();
    if (pid_ == 0) become(plan);
    if (pid_ < 0) return errno;
    orphans().begun(pid_);
  }
  setpgid(pid_, pid_);  // both sides do it: whoever comes first, the group is there before it is signalled
#ifdef SYS_pidfd_open
  pidfd_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
#endif
  out_ = Stream(std::move(out.read_end), command_.output_cap);
  err_ = Stream(std::move(err.read_end), command_.output_cap);
  exec_failure_ = std::move(failure.read_end);
  return 0;
}

// True once the child is a zombie or gone.
bool Child::look_for_end() {
  if (ended_) return true;
  siginfo_t info{};
  int found;
  do {
    found = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (found != 0 && errno == EINTR);
  lost_ = found != 0;
  ended_ = lost_ || info.si_pid == pid_;
  return ended_;
}

void Child::poll_once(milliseconds at_most) {
  pollfd watched[5];
  nfds_t count = 0;
  const auto watch = [&](int descriptor) {
    if (descriptor >= 0) watched[count++] = pollfd{descriptor, POLLIN, 0};
  };
  watch(out_.descriptor());
  watch(err_.descriptor());
  watch(exec_failure_.get());
  watch(pidfd_.get());
  // stop_fd() stays readable after a first signal. While the child is being ended only a second one matters, and that
  // is looked for every 100 ms.
  if (!forced_) watch(stop_fd());
  if (forced_) at_most = std::min(at_most, milliseconds(100));
  if (!pidfd_) at_most = std::min(at_most, longest_poll);
  if (command_.progress) at_most = std::min(at_most, progress_step);
  poll(watched, count, static_cast<int>(std::clamp<long long>(at_most.count(), 0, INT_MAX)));

  out_.read_some(drain_cap);
  err_.read_some(drain_cap);
  if (command_.progress && SteadyClock::now() >= next_progress_) {
    command_.progress(out_.kept());
    next_progress_ = SteadyClock::now() + progress_step;
  }
  if (exec_failure_) {
    int error = 0;
    const ssize_t got = read(exec_failure_.get(), &error, sizeof error);
    if (got == sizeof error) exec_errno_ = error;
    if (got >= 0) exec_failure_.reset();
  }
}

void Child::wait_for_end() {
  enum class Phase { running, told, killed };
  Phase phase = Phase::running;
  SteadyClock::time_point next = begun_ + command_.limit;
  while (!look_for_end()) {
    const auto now = SteadyClock::now();
    if (phase == Phase::running && (stopping() || now >= next)) {
      forced_ = stopping() ? Exit::Ending::interrupted : Exit::Ending::timed_out;
      signal_group(SIGTERM);
      signal_group(SIGCONT);  // a stopped process takes TERM only then
      phase = Phase::told;
      next = now + site::term_to_kill;
    } else if (phase == Phase::told && (stopping_at_once() || now >= next)) {
      signal_group(SIGKILL);
      phase = Phase::killed;
      next = now + kill_wait;
    } else if (phase == Phase::killed && now >= next) {
      unkillable_ = true;
      return;
    }
    const auto left = std::chrono::ceil<milliseconds>(next - SteadyClock::now());
    poll_once(std::max(left, milliseconds(0)));
  }
}

// After the child's end: nothing of its group may go on. Its orphans are ours (see RealProcesses' constructor), so that
// waiting for the group tells exactly when the last one is gone; where they are not, signal 0 has to do.
void Child::end_group() {
  signal_group(SIGKILL);
  collect();
  const auto end = SteadyClock::now() + group_end_wait;
  milliseconds pause{0};
  while (SteadyClock::now() < end) {
    const pid_t orphan = waitpid(-pid_, nullptr, WNOHANG);
    if (orphan > 0) continue;
    if (orphan < 0 && errno == EINTR) continue;
    if (orphan < 0 && kill(-pid_, 0) != 0) return;
    poll(nullptr, 0, static_cast<int>(pause.count()));
    pause = std::min(pause + milliseconds(1), milliseconds(10));
  }
}

void Child::collect() {
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
}

Exit Child::run(const std::string& program, const std::vector<std::string>& environment) {
  Exit exit;
  if (const int error = start(program, environment); error != 0) {
    exit.status = error;
    return exit;
  }
  wait_for_end();
  const bool was_forced = forced_.has_value();
  if (unkillable_) {
    poll_once(milliseconds(0));
  } else {
    if (!lost_) end_group();
    out_.read_some(drain_cap);
    err_.read_some(drain_cap);
    if (exec_failure_) poll_once(milliseconds(0));
  }
  orphans().ended(pid_, was_forced && !unkillable_);
  exit.unkillable = unkillable_;
  exit.cut = out_.cut() || err_.cut();
  exit.out = out_.take();
  exit.err = err_.take();
  if (exec_errno_ != 0) {
    exit.ending = Exit::Ending::not_started;
    exit.status = exec_errno_;
  } else if (forced_) {
    exit.ending = *forced_;
  } else if (lost_) {
    exit.status = ECHILD;
  } else if (WIFSIGNALED(wait_status_)) {
    exit.ending = Exit::Ending::signalled;
    exit.status = WTERMSIG(wait_status_);
  } else {
    exit.ending = Exit::Ending::exited;
    exit.status = WEXITSTATUS(wait_status_);
  }
  return exit;
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// PATH, LC_ALL and SLURM_CONF, and what the command adds; the command's own word wins.
std::vector<std::string> child_environment(const std::string& slurm_conf, const std::vector<std::string>& added) {
  std::vector<std::string> made{"PATH=" + std::string(site::child_path), "LC_ALL=C"};
  if (!slurm_conf.empty()) made.push_back("SLURM_CONF=" + slurm_conf);
  for (const std::string& variable : added) {
    std::erase_if(made, [&](const std::string& other) { return name_of(other) == name_of(variable); });
    made.push_back(variable);
  }
  return made;
}

bool holds_zero_byte(const Command& command) {
  const auto zero = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  return zero(command.program) || std::any_of(command.arguments.begin(), command.arguments.end(), zero) ||
         std::any_of(command.environment.begin(), command.environment.end(), zero);
}

// The fields of /proc/PID/stat from the third on: the name before them may hold spaces and brackets.
std::optional<std::vector<std::string>> stat_fields(pid_t pid) {
  const Descriptor file(open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[2048];
  ssize_t got;
  do {
    got = read(file.get(), text, sizeof text);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  const std::string_view line(text, static_cast<std::size_t>(got));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::vector<std::string> fields;
  for (const std::string_view field : base::words(line.substr(name_end + 1))) fields.emplace_back(field);
  return fields;
}

// A thread's stack is as large as the limit of this process' own, which may be too small for a thread.
void set_stack_of_threads() {
  constexpr std::size_t size = 256U << 10U;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, size);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace

RealProcesses::RealProcesses(std::string slurm_conf, Root root)
    : slurm_conf_(std::move(slurm_conf)), root_(std::move(root)) {
  // A child's orphans become ours, so that we see when the last process of a killed group is gone.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Started with SIGCHLD ignored, we would find no exit status of any child.
  signal(SIGCHLD, SIG_DFL);
  set_stack_of_threads();
}

Exit RealProcesses::run(const Command& command) {
  const auto begun = SteadyClock::now();
  Exit exit;
  const auto program = root_.locate(command.program, Root::LastLink::follow);
  if (!program || holds_zero_byte(command)) {
    exit.status = program ? EINVAL : program.error().os_error;
  } else if (stopping()) {
    exit.ending = Exit::Ending::interrupted;
  } else if (command.limit <= milliseconds::zero()) {
    exit.ending = Exit::Ending::timed_out;
  } else {
    exit = Child(command, begun).run(*program, child_environment(slurm_conf_, command.environment));
  }
  exit.took = std::chrono::duration_cast<milliseconds>(SteadyClock::now() - begun);
  return exit;
}

std::vector<Exit> RealProcesses::run_all(const std::vector<Command>& commands) {
  constexpr std::size_t side_by_side = 18;
  std::vector<Exit> exits(commands.size());
  for (std::size_t first = 0; first < commands.size(); first += side_by_side) {
    const std::size_t last = std::min(first + side_by_side, commands.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = first; i < last; ++i)
      threads.emplace_back([this, &commands, &exits, i] { exits[i] = run(commands[i]); });
  }
  return exits;
}

bool RealProcesses::alive(pid_t pid) const {
  if (pid <= 0) return false;
  if (kill(pid, 0) != 0 && errno != EPERM) return false;
  const auto fields = stat_fields(pid);
  if (!fields || fields->empty()) return access("/proc/self/stat", R_OK) != 0;  // no /proc: the signal's word has to do
  return fields->front() != "Z" && fields->front() != "X";
}

std::optional<std::uint64_t> RealProcesses::start_time(pid_t pid) const {
  if (pid <= 0) return std::nullopt;
  const auto fields = stat_fields(pid);
  if (!fields || fields->size() < 20) return std::nullopt;
  return base::parse_number((*fields)[19]);  // field 22; the first one here is field 3
}

pid_t RealProcesses::parent() const { return getppid(); }

pid_t RealProcesses::self() const { return getpid(); }

bool RealProcesses::is_root() const { return geteuid() == 0; }

}  // namespace host
