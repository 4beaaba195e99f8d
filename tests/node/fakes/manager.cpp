// Make-believe systemd: process 1 of a node. It knows one unit, nvidia-imex.service, runs its daemon, and keeps a queue
// of at most one running and one waiting job, as systemd 252 was seen to do:
//   - a start behind a stop in progress waits for it; a stop cancels a start in progress; a client that goes away
//   cancels nothing;
//   - the stop limit of the unit (90 s) belongs to the manager, not to the client;
//   - the 6th start within 10 s is refused until reset-failed;
//   - the daemon's own exit moves the unit to inactive (0 or after TERM) or failed.
//
// /fake/systemd/unit.conf, read at each request:
//   - file=enabled: the unit file's state as is-enabled prints it; not-found: there is no such unit
//   - version=252: is-enabled says nothing on stdout for a unit that does not exist; 257: it prints not-found
//   - kill=ok; noeffect: `systemctl kill` answers 0 and sends nothing
//   - stop_limit=90: seconds from TERM to KILL
//   - start=ok; lies: the client is told 0, nothing is started
//   - start_limit=5: starts within 10 s
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "common.h"

namespace fake {

static const std::string conf = "/fake/systemd/unit.conf";
static const std::string unit_name = "nvidia-imex.service";
static const std::string cgroup = "/sys/fs/cgroup/system.slice/nvidia-imex.service";

struct Job {
  int id = 0;
  std::string type;
  std::vector<int> waiters;
};

class Manager {
 public:
  int run();

 private:
  std::string file_state() const { return setting(conf, "file", "enabled"); }
  bool loaded() const { return file_state() != "not-found"; }
  bool masked() const { return file_state().starts_with("masked"); }

  void request(int client, const Words& words);
  void start(int client, bool block);
  void stop(int client, bool block);
  void kill_unit(int client, const Words& words);
  void show(int client, const Words& properties, bool value_only, bool named);
  void list_jobs(int client, bool legend);
  void cancel(int client, const Words& jobs);
  void is_enabled(int client, const Words& units, bool quiet);

  void begin_start();
  void begin_stop();
  void finish(std::optional<Job>& job, int code, const std::string& error);
  void answer(int client, int code, const std::string& out, const std::string& error);
  void reaped(pid_t pid, int status);
  void daemon_is_ready();
  void write_cgroup() const;
  void set_state(const std::string& active, const std::string& sub, const std::string& result);

  std::string active_ = "inactive";
  std::string sub_ = "dead";
  std::string result_ = "success";
  pid_t main_ = 0;
  std::set<pid_t> members_;  // every process of the unit
  int exit_status_ = 0;
  double entered_ = 0;
  double started_ = 0;
  int notify_ = -1;
  int next_id_ = 100;
  std::optional<Job> running_;
  std::optional<Job> waiting_;
  std::deque<double> starts_;
  double kill_at_ = 0;
};

void Manager::set_state(const std::string& active, const std::string& sub, const std::string& result) {
  active_ = active;
  sub_ = sub;
  result_ = result;
  entered_ = monotonic();
  append_line("/fake/systemd/states", active + " " + sub + " " + result + " " + std::to_string(realtime()));
}

void Manager::write_cgroup() const {
  if (members_.empty()) {
    unlink((cgroup + "/cgroup.procs").c_str());
    rmdir(cgroup.c_str());
    return;
  }
  mkdir(cgroup.c_str(), 0755);
  std::string text;
  for (const pid_t pid : members_) text += std::to_string(pid) + "\n";
  spill(cgroup + "/cgroup.procs", text);
}

void Manager::answer(int client, int code, const std::string& out, const std::string& error) {
  if (!out.empty()) send(client, ("O" + out).data(), out.size() + 1, MSG_NOSIGNAL);
  if (!error.empty()) send(client, ("E" + error).data(), error.size() + 1, MSG_NOSIGNAL);
  const std::string last = "X" + std::to_string(code);
  send(client, last.data(), last.size(), MSG_NOSIGNAL);
}

void Manager::finish(std::optional<Job>& job, int code, const std::string& error) {
  if (!job) return;
  const Job done = *job;
  job.reset();
  for (const int client : done.waiters) answer(client, code, "", error);
}

static const char* const failed_text =
    "Job for nvidia-imex.service failed because the control process exited with error code.\n"
    "See \"systemctl status nvidia-imex.service\" and \"journalctl -xeu nvidia-imex.service\" for details.\n";

void Manager::begin_start() {
  const double now = monotonic();
  while (!starts_.empty() && now - starts_.front() > 10) starts_.pop_front();
  if (starts_.size() >= static_cast<size_t>(atoi(setting(conf, "start_limit", "5").c_str()))) {
    set_state("failed", "failed", "start-limit-hit");
    finish(running_, 1,
           "Job for nvidia-imex.service failed.\n"
           "See \"systemctl status nvidia-imex.service\" and \"journalctl -xeu nvidia-imex.service\" for details.\n");
    return;
  }
  starts_.push_back(now);
  if (setting(conf, "start", "ok") == "lies") {
    finish(running_, 0, "");
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t pid = fork();
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setsid();
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    fcntl(ends[1], F_SETFD, 0);
    setenv("FAKE_NOTIFY_FD", std::to_string(ends[1]).c_str(), 1);
    execl("/usr/bin/nvidia-imex", "/usr/bin/nvidia-imex", "-c", "/etc/nvidia-imex/config.cfg", nullptr);
    _exit(203);
  }
  close(ends[1]);
  notify_ = ends[0];
  main_ = pid;
  started_ = now;
  members_.insert(pid);
  write_cgroup();
  set_state("activating", "start", "success");
}

void Manager::daemon_is_ready() {
  char word = 0;
  const ssize_t n = read(notify_, &word, 1);
  close(notify_);
  notify_ = -1;
  if (n != 1) return;  // it ended first: reaped() says how
  for (const std::string& line : split(slurp("/fake/imex/leftover"), '\n')) {
    if (const pid_t pid = atoi(line.c_str()); pid > 0 && kill(pid, 0) == 0) members_.insert(pid);
  }
  write_cgroup();
  if (active_ == "activating") {
    set_state("active", "running", "success");
    finish(running_, 0, "");
  }
}

void Manager::begin_stop() {
  set_state("deactivating", "stop-sigterm", "success");
  kill_at_ = monotonic() + atof(setting(conf, "stop_limit", "90").c_str());
  if (main_ > 0) kill(main_, SIGTERM);
}

void Manager::reaped(pid_t pid, int status) {
  members_.erase(pid);
  write_cgroup();
  if (pid != main_) return;
  main_ = 0;
  unlink("/fake/imex/pid");
  unlink("/fake/imex/list");
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
  if (notify_ >= 0) {
    close(notify_);
    notify_ = -1;
  }
  const bool clean =
      (WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  const std::string before = active_;
  if (clean) {
    set_state("inactive", "dead", "success");
  } else {
    set_state("failed", "failed", WIFSIGNALED(status) ? "signal" : "exit-code");
  }
  if (before == "activating") {
    finish(running_, clean ? 0 : 1, clean ? "" : failed_text);
  } else if (before == "deactivating") {
    if (running_ && running_->type == "stop") finish(running_, 0, "");
    if (waiting_) {
      running_ = std::move(waiting_);
      waiting_.reset();
      begin_start();
    }
  }
}

void Manager::start(int client, bool block) {
  if (!loaded())
    return answer(client, 5, "", "Failed to start nvidia-imex.service: Unit nvidia-imex.service not found.\n");
  if (masked())
    return answer(client, 1, "", "Failed to start nvidia-imex.service: Unit nvidia-imex.service is masked.\n");
  if (active_ == "active") return answer(client, 0, "", "");
  if (active_ == "deactivating") {
    // Replaces a stop in progress: whoever waited for that is told so, the start waits until the unit is down.
    if (running_) finish(running_, 1, "Job for nvidia-imex.service canceled.\n");
    if (!waiting_) waiting_ = Job{next_id_++, "start", {}};
    if (block) {
      waiting_->waiters.push_back(client);
    } else {
      answer(client, 0, "", "");
    }
    return;
  }
  const bool fresh = !running_;
  if (fresh) running_ = Job{next_id_++, "start", {}};
  if (block) {
    running_->waiters.push_back(client);
  } else {
    answer(client, 0, "", "");
  }
  if (fresh) begin_start();
}

void Manager::stop(int client, bool block) {
  if (!loaded())
    return answer(client, 5, "", "Failed to stop nvidia-imex.service: Unit nvidia-imex.service not loaded.\n");
  if (waiting_) finish(waiting_, 1, "Job for nvidia-imex.service canceled.\n");
  if (active_ == "inactive" || active_ == "failed") return answer(client, 0, "", "");
  if (running_ && running_->type == "start") finish(running_, 1, "Job for nvidia-imex.service canceled.\n");
  if (!running_) running_ = Job{next_id_++, "stop", {}};
  if (block) {
    running_->waiters.push_back(client);
  } else {
    answer(client, 0, "", "");
  }
  if (active_ != "deactivating") begin_stop();
}

static int signal_number(std::string word) {
  if (word.starts_with("SIG")) word = word.substr(3);
  if (word == "KILL" || word == "9") return SIGKILL;
  if (word == "TERM" || word == "15") return SIGTERM;
  if (word == "USR1" || word == "10") return SIGUSR1;
  return -1;
}

void Manager::kill_unit(int client, const Words& words) {
  if (!loaded())
    return answer(client, 1, "", "Failed to kill unit nvidia-imex.service: Unit nvidia-imex.service not loaded.\n");
  const int number = signal_number(words[0]);
  if (number < 0) return answer(client, 1, "", "Failed to parse signal string " + words[0] + ".\n");
  if (setting(conf, "kill", "ok") != "noeffect") {
    for (const pid_t pid : members_) {
      if (words[1] != "main" || pid == main_) kill(pid, number);
    }
  }
  answer(client, 0, "", "");
}

void Manager::is_enabled(int client, const Words& units, bool quiet) {
  std::string out;
  std::string error;
  int code = 1;
  for (const std::string& unit : units) {
    if (unit != unit_name || !loaded()) {
      if (setting(conf, "version", "252") == "252") {
        error += "Failed to get unit file state for " + unit + ": No such file or directory\n";
      } else {
        out += "not-found\n";
        code = 4;
      }
      continue;
    }
    const std::string state = file_state();
    out += state + "\n";
    static const std::set<std::string> yes{"enabled",  "enabled-runtime", "static",   "alias",
                                           "indirect", "generated",       "transient"};
    if (yes.count(state) != 0) code = 0;
  }
  answer(client, code, quiet ? "" : out, error);
}

void Manager::show(int client, const Words& properties, bool value_only, bool named) {
  const std::string state = file_state();
  const bool here = named && loaded();
  std::vector<std::pair<std::string, std::string>> all = {
      {"Type", here ? "forking" : ""},
      {"Restart", "no"},
      {"TimeoutStartUSec", "infinity"},
      {"TimeoutStopUSec", "1min 30s"},
      {"MainPID", std::to_string(here ? main_ : 0)},
      {"ControlPID", "0"},
      {"Result", here ? result_ : "success"},
      {"NRestarts", "0"},
      {"ExecMainStartTimestampMonotonic", std::to_string(static_cast<unsigned long long>(started_ * 1e6))},
      {"ExecMainPID", std::to_string(main_)},
      {"ExecMainStatus", std::to_string(exit_status_)},
      {"Slice", "system.slice"},
      {"ControlGroup", here && !members_.empty() ? "/system.slice/nvidia-imex.service" : ""},
      {"TasksCurrent", members_.empty() ? "[not set]" : std::to_string(members_.size())},
      {"KillMode", "control-group"},
      {"Id", unit_name},
      {"Names", unit_name},
      {"LoadState", !here      ? "not-found"
                    : masked() ? "masked"
                               : "loaded"},
      {"ActiveState", here ? active_ : "inactive"},
      {"SubState", here ? sub_ : "dead"},
      {"FragmentPath", here ? "/usr/lib/systemd/system/nvidia-imex.service" : ""},
      {"UnitFileState", here ? state : ""},
      {"UnitFilePreset", here ? "enabled" : ""},
      {"StateChangeTimestampMonotonic", std::to_string(static_cast<unsigned long long>(entered_ * 1e6))},
      {"ActiveEnterTimestampMonotonic", std::to_string(static_cast<unsigned long long>(entered_ * 1e6))},
      {"Job", running_   ? std::to_string(running_->id)
              : waiting_ ? std::to_string(waiting_->id)
                         : ""},
      {"NeedDaemonReload", "no"},
      {"InvocationID", "8d2c4f0a8a6c4d3aa2c6a9d7e3f1b0c4"},
  };
  for (const std::string& property : properties) {
    const auto same = [&](const auto& entry) { return entry.first == property; };
    if (std::none_of(all.begin(), all.end(), same))
      append_line("/fake/refused", "systemctl: show property " + property);
  }
  std::string out;
  for (const auto& [key, value] : all) {  // the manager's order, not the asked one, as the real one does
    if (properties.empty() ? value.empty() : std::find(properties.begin(), properties.end(), key) == properties.end())
      continue;
    out += (value_only ? "" : key + "=") + value + "\n";
  }
  answer(client, 0, out, "");
}

void Manager::list_jobs(int client, bool legend) {
  std::string out;
  for (const std::optional<Job>* job : {&running_, &waiting_}) {
    if (!*job) continue;
    char line[160];
    snprintf(line, sizeof line, "%-3d %-19s %-5s %s\n", (*job)->id, unit_name.c_str(), (*job)->type.c_str(),
             job == &running_ ? "running" : "waiting");
    out += line;
  }
  const int count = (running_ ? 1 : 0) + (waiting_ ? 1 : 0);
  if (legend) {
    out = count == 0 ? "No jobs running.\n"
                     : "JOB UNIT                TYPE  STATE\n" + out + "\n" + std::to_string(count) + " jobs listed.\n";
  }
  answer(client, 0, out, "");
}

void Manager::cancel(int client, const Words& jobs) {
  int code = 0;
  std::string error;
  if (jobs.empty()) {
    finish(running_, 1, "Job for nvidia-imex.service canceled.\n");
    finish(waiting_, 1, "Job for nvidia-imex.service canceled.\n");
  }
  for (const std::string& word : jobs) {
    const int id = atoi(word.c_str());
    if (running_ && running_->id == id) {
      finish(running_, 1, "Job for nvidia-imex.service canceled.\n");  // the daemon goes on: only the job is gone
    } else if (waiting_ && waiting_->id == id) {
      finish(waiting_, 1, "Job for nvidia-imex.service canceled.\n");
    } else {
      code = 1;
      error += "Failed to cancel job " + word + ": Job " + word + " does not exist.\n";
    }
  }
  answer(client, code, "", error);
}

void Manager::request(int client, const Words& words) {
  std::string verb;
  Words rest;
  Words properties;
  std::string signal_word = "TERM";
  std::string whom = "all";
  bool value_only = false;
  bool block = true;
  bool quiet = false;
  bool legend = true;
  const auto add_properties = [&properties](const std::string& text) {
    for (const std::string& property : split(text, ',')) properties.push_back(property);
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value_of = [&](const std::string& name) { return word.substr(name.size() + 1); };
    const bool more = i + 1 < words.size();
    if (word == "--") continue;
    if ((word == "-p" || word == "--property") && more) {
      add_properties(words[++i]);
    } else if (word == "-P" && more) {
      add_properties(words[++i]);
      value_only = true;
    } else if (word.starts_with("--property=")) {
      add_properties(value_of("--property"));
    } else if (word.starts_with("-p") && word.size() > 2) {
      add_properties(word.substr(2));
    } else if ((word == "-s" || word == "--signal") && more) {
      signal_word = words[++i];
    } else if (word.starts_with("--signal=")) {
      signal_word = value_of("--signal");
    } else if (word.starts_with("-s") && word.size() > 2 && word[1] == 's') {
      signal_word = word.substr(2);
    } else if (word.starts_with("--kill-whom=") || word.starts_with("--kill-who=")) {
      whom = word.substr(word.find('=') + 1);
    } else if (word == "--value") {
      value_only = true;
    } else if (word == "--no-block") {
      block = false;
    } else if (word == "-q" || word == "--quiet") {
      quiet = true;
    } else if (word == "--no-legend" || word == "--legend=false" || word == "--legend=no") {
      legend = false;
    } else if (word == "--no-pager" || word == "--no-ask-password" || word == "--system" || word == "--plain" ||
               word == "--full" || word == "-l" || word == "--all" || word == "-a" || word.starts_with("--job-mode=") ||
               word == "--no-warn") {
    } else if (word.starts_with("-")) {
      append_line("/fake/refused", "systemctl: option " + word);
      return answer(client, 1, "", "systemctl: unrecognized option '" + word + "'\n");
    } else if (verb.empty()) {
      verb = word;
    } else {
      rest.push_back(word);
    }
  }
  if (verb == "cancel") return cancel(client, rest);
  if (verb == "list-jobs") return list_jobs(client, legend);
  for (std::string& unit : rest) {
    if (unit.find('.') == std::string::npos) unit += ".service";
  }
  if (verb == "is-enabled") return is_enabled(client, rest, quiet);
  const bool named = rest.size() == 1 && rest[0] == unit_name;
  if (verb == "show") return show(client, properties, value_only, named);
  if (!named) {
    append_line("/fake/refused", "systemctl: " + verb + " without or with another unit");
    return answer(client, 5, "", "Unit not found.\n");
  }
  if (verb == "is-active" || verb == "is-failed") {
    const std::string state = loaded() ? active_ : "inactive";
    const bool yes = verb == "is-active" ? state == "active" : state == "failed";
    return answer(client, yes ? 0 : verb == "is-failed" ? 1 : 3, quiet ? "" : state + "\n", "");
  }
  if (verb == "start") return start(client, block);
  if (verb == "stop") return stop(client, block);
  if (verb == "kill") return kill_unit(client, {signal_word, whom});
  if (verb == "reset-failed") {
    if (!loaded()) {
      return answer(client, 1, "",
                    "Failed to reset failed state of unit nvidia-imex.service: Unit nvidia-imex.service not loaded.\n");
    }
    starts_.clear();
    if (active_ == "failed") set_state("inactive", "dead", "success");
    return answer(client, 0, "", "");
  }
  append_line("/fake/refused", "systemctl: verb " + verb);
  answer(client, 1, "", "Unknown command verb " + verb + ".\n");
}

int Manager::run() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  const int child_events = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, "/fake/systemd.sock");
  unlink(address.sun_path);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 64) != 0) return 1;
  chmod(address.sun_path, 0777);  // asking is everybody's right
  std::set<int> clients;
  spill("/fake/ready", "1\n");
  for (;;) {
    std::vector<pollfd> wait{{listener, POLLIN, 0}, {child_events, POLLIN, 0}, {notify_, POLLIN, 0}};
    for (const int client : clients) wait.push_back({client, POLLIN, 0});
    int limit = -1;
    if (active_ == "deactivating") limit = std::max(0, static_cast<int>((kill_at_ - monotonic()) * 1000) + 1);
    poll(wait.data(), wait.size(), limit);
    if (active_ == "deactivating" && monotonic() >= kill_at_) {
      for (const pid_t pid : members_) kill(pid, SIGKILL);
      kill_at_ = monotonic() + 90;
    }
    if (wait[2].revents != 0 && notify_ >= 0) daemon_is_ready();
    if (wait[1].revents != 0) {
      signalfd_siginfo info;
      while (read(child_events, &info, sizeof info) > 0) {
      }
    }
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) reaped(pid, status);
    for (size_t i = 3; i < wait.size(); ++i) {
      if (wait[i].revents == 0) continue;
      const int client = wait[i].fd;
      static char buffer[65536];
      const ssize_t n = recv(client, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) {
        request(client, split(std::string_view(buffer, static_cast<size_t>(n)), '\x1f'));
        continue;
      }
      close(client);  // its job, if it waited for one, goes on
      clients.erase(client);
      for (std::optional<Job>* job : {&running_, &waiting_}) {
        if (*job) std::erase((*job)->waiters, client);
      }
    }
    if (wait[0].revents != 0) {
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0) clients.insert(client);
    }
  }
}

int manager_main(int, char**) {
  Manager manager;
  return manager.run();
}

}  // namespace fake
