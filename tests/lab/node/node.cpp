#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "node.hpp"

namespace lab {

void tell(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(1);  // lab.py has gone
}

int netns_main() {
  if (unshare(CLONE_NEWNET) != 0) {
    std::perror("lab-node: unshare");
    return 1;
  }
  tell("holder\t" + std::to_string(getpid()));
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

namespace {

/// A prolog or epilog that waits for its time or runs.
struct Run {
  std::string id;
  double at = 0;
  Words command;  // program, +argument ..., NAME=VALUE ...
  pid_t pid = 0;
};

pid_t launch(const Run& run) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setpgid(0, 0);  // as slurmd does
  const int nothing = open("/dev/null", O_RDONLY);
  const int out = open(("/run/lab/" + run.id + ".out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(nothing, 0);
  dup2(out, 1);
  dup2(out, 2);
  for (int fd = 3; fd < 64; ++fd) close(fd);
  std::vector<char*> arguments, environment;
  for (const auto& word : run.command) {
    char* copy = strdup(word.c_str());
    if (arguments.empty()) {
      arguments.push_back(copy);
    } else if (word[0] == '+') {
      arguments.push_back(copy + 1);
    } else {
      environment.push_back(copy);
    }
  }
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  if (chdir("/") != 0) _exit(126);
  umask(022);
  execve(arguments[0], arguments.data(), environment.data());
  std::fprintf(stderr, "lab-node: %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

class Node {
 public:
  bool open();
  int loop();

 private:
  void command(const std::string& line);
  void crash(double now);
  void start_due(double now);
  void reap();
  void tell_run(const char* what, const Run& run, double now, int code);

  Manager manager_;
  Imds imds_;
  bool has_network_ = false;
  double crash_at_ = 1e18;
  int log_in_ = -1, log_out_ = -1, children_ = -1;
  std::string input_;
  std::vector<Run> runs_;
};

bool Node::open() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  children_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  log_in_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strcpy(where.sun_path, "/dev/log");
  if (bind(log_in_, reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0 || chmod("/dev/log", 0666) != 0)
    return false;
  log_out_ = ::open("/var/log/syslog", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return children_ >= 0 && log_out_ >= 0 && manager_.listen();
}

void Node::tell_run(const char* what, const Run& run, double now, int code) {
  char line[160];
  std::snprintf(line, sizeof(line), "%s\t%s\t%.6f\t%d", what, run.id.c_str(), now, code);
  tell(line);
}

void Node::command(const std::string& line) {
  const Words words = split(line, '\t');
  if (words.size() == 4 && words[0] == "net") {
    has_network_ = make_network(words[1], words[2], std::atoi(words[3].c_str())) && imds_.listen();
    tell(has_network_ ? "net\tok" : "net\tfailed");
  } else if (words.size() >= 4 && words[0] == "run") {
    Run run;
    run.id = words[1];
    run.at = monotonic_now() + std::atof(words[2].c_str());
    run.command.assign(words.begin() + 3, words.end());
    runs_.push_back(run);
  } else if (words.size() == 2 && words[0] == "kill") {
    for (const auto& run : runs_) {
      if (run.id == words[1] && run.pid > 0) kill(-run.pid, SIGKILL);
    }
  } else if (words.size() == 2 && words[0] == "crash") {
    crash_at_ = monotonic_now() + std::atof(words[1].c_str());
  } else {
    tell("unknown\t" + line);
  }
}

/// Power off and on: every process gone at once, /run and /dev as after a boot, the unit not started.
void Node::crash(double now) {
  crash_at_ = 1e18;
  for (const auto& run : runs_) {
    if (run.pid == 0) {
      tell_run("begin", run, now, 0);
      tell_run("end", run, now, 128 + SIGKILL);
    }
  }
  runs_.erase(std::remove_if(runs_.begin(), runs_.end(), [](const Run& run) { return run.pid == 0; }), runs_.end());
  kill(-1, SIGKILL);
  manager_.forget();
  std::error_code ignored;
  for (const char* place : {"/run/nvidia-imex", "/run/gpu-prolog", "/dev/nvidia-caps-imex-channels"}) {
    std::filesystem::remove_all(place, ignored);
  }
  tell("crashed");
}

void Node::start_due(double now) {
  for (auto& run : runs_) {
    if (run.pid == 0 && now >= run.at) {
      tell_run("begin", run, now, 0);
      run.pid = launch(run);
    }
  }
}

void Node::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (manager_.reaped(pid, status)) continue;
    for (auto run = runs_.begin(); run != runs_.end(); ++run) {
      if (run->pid == pid) {
        tell_run("end", *run, monotonic_now(), WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        runs_.erase(run);
        break;
      }
    }
  }
}

int Node::loop() {
  for (;;) {
    double now = monotonic_now();
    if (now >= crash_at_) crash(now);
    start_due(now);
    manager_.tick(now);
    double wake = std::min(manager_.next(now), crash_at_);
    for (const auto& run : runs_) {
      if (run.pid == 0) wake = std::min(wake, run.at);
    }
    std::vector<pollfd> polled{{STDIN_FILENO, POLLIN, 0}, {children_, POLLIN, 0}, {log_in_, POLLIN, 0}};
    const auto units = manager_.descriptors();
    const auto metadata = has_network_ ? imds_.descriptors() : std::vector<int>{};
    for (const int fd : units) polled.push_back({fd, POLLIN, 0});
    for (const int fd : metadata) polled.push_back({fd, POLLIN, 0});
    const double wait_ms = std::clamp((wake - now) * 1000 + 0.999, 0.0, 60000.0);
    if (poll(polled.data(), polled.size(), static_cast<int>(wait_ms)) < 0 && errno != EINTR) return 1;
    char buffer[8192];
    if (polled[0].revents != 0) {
      const ssize_t got = read(STDIN_FILENO, buffer, sizeof(buffer));
      if (got <= 0) return 0;
      input_.append(buffer, static_cast<std::size_t>(got));
      for (auto end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
        const std::string line = input_.substr(0, end);
        input_.erase(0, end + 1);
        command(line);
      }
    }
    if (polled[1].revents != 0) {
      signalfd_siginfo info;
      while (read(children_, &info, sizeof(info)) > 0) {
      }
    }
    reap();
    if (polled[2].revents != 0) {
      for (ssize_t got = 0; (got = recv(log_in_, buffer, sizeof(buffer) - 1, 0)) > 0;) {
        buffer[got] = '\n';
        if (write(log_out_, buffer, static_cast<std::size_t>(got) + 1) < 0) break;
      }
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (polled[3 + i].revents != 0) manager_.serve(units[i]);
    }
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      if (polled[3 + units.size() + i].revents != 0) imds_.serve(metadata[i]);
    }
  }
}

int process_1(const std::string& folder, const std::string& name) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!make_root(folder, name) || !spill("/run/lab/node.conf", slurp(folder + "/nodes/" + name + "/node.conf")))
    return 1;
  Node node;
  if (!node.open()) {
    std::perror("lab-node: cannot open the node's sockets");
    return 1;
  }
  tell("ready");
  return node.loop();
}

}  // namespace

int node_main(const std::string& path) {
  // FOLDER/nodes/NAME: the folder of the lab and the name of the node.
  const std::filesystem::path own(path);
  const std::string folder = own.parent_path().parent_path();
  const std::string name = own.filename();
  if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWPID) != 0) {
    std::perror("lab-node: unshare");
    return 1;
  }
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  int told[2];  // the holder's line comes first
  if (pipe2(told, O_CLOEXEC) != 0) return 1;
  const pid_t pid = fork();
  if (pid == 0) {
    close(told[1]);
    char byte = 0;
    while (read(told[0], &byte, 1) < 0 && errno == EINTR) {
    }
    close(told[0]);
    _exit(process_1(folder, name));
  }
  tell("holder\t" + std::to_string(pid));
  close(told[1]);
  close(STDIN_FILENO);
  int status = 0;
  waitpid(pid, &status, 0);
  // Same mount namespace as process 1 had: the cgroup is empty now and goes with the node.
  rmdir("/sys/fs/cgroup/system.slice/nvidia-imex.service");
  rmdir("/sys/fs/cgroup/system.slice");
  rmdir((path + "/fs/cgroup/" + setting(path + "/node.conf", "cgroup", "gpu-prolog-lab." + name)).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace lab
