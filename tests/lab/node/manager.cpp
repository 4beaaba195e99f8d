#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "node.hpp"

namespace lab {

namespace {

const std::string kUnit = "nvidia-imex.service";
const std::string kGroup = "/system.slice/nvidia-imex.service";
const std::string kProcs = "/sys/fs/cgroup" + kGroup + "/cgroup.procs";

double scaled(double seconds) { return seconds * std::atof(setting(kLabFile, "time_scale", "1").c_str()); }
std::string file_state() { return setting(kLabFile, "unit_file", "enabled"); }
bool loaded() { return file_state() != "not-found"; }

const char* const kFailed =
    "Job for nvidia-imex.service failed because the control process exited with error code.\n"
    "See \"systemctl status nvidia-imex.service\" and \"journalctl -xeu nvidia-imex.service\" for details.\n";
const char* const kCanceled = "Job for nvidia-imex.service canceled.\n";

int signal_number(std::string word) {
  if (word.rfind("SIG", 0) == 0) word = word.substr(3);
  if (word == "KILL" || word == "9") return SIGKILL;
  if (word == "TERM" || word == "15") return SIGTERM;
  if (word == "USR1" || word == "10") return SIGUSR1;
  return -1;
}

}  // namespace

bool Manager::listen() {
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strcpy(where.sun_path, kManagerSocket.c_str());
  return bind(listener_, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0 && ::listen(listener_, 64) == 0;
}

std::vector<int> Manager::descriptors() const {
  std::vector<int> all{listener_};
  all.insert(all.end(), clients_.begin(), clients_.end());
  return all;
}

std::vector<pid_t> Manager::members() const {
  std::vector<pid_t> result;
  for (const auto& line : split(slurp(kProcs), '\n')) {
    if (const pid_t pid = std::atoi(line.c_str()); pid > 0) result.push_back(pid);
  }
  return result;
}

void Manager::signal_all(int number) const {
  for (const pid_t pid : members()) kill(pid, number);
}

void Manager::state(const std::string& active, const std::string& sub, const std::string& result) {
  active_ = active;
  sub_ = sub;
  result_ = result;
  entered_ = monotonic_now();
  char line[160];
  std::snprintf(line, sizeof(line), "unit\t%.6f\t%s\t%s\t%s\t%d", entered_, active.c_str(), sub.c_str(), result.c_str(),
                main_);
  tell(line);
}

void Manager::answer(int client, int code, const std::string& out, const std::string& error) {
  if (client < 0) return;
  if (!out.empty()) send(client, ("O" + out).data(), out.size() + 1, MSG_NOSIGNAL);
  if (!error.empty()) send(client, ("E" + error).data(), error.size() + 1, MSG_NOSIGNAL);
  const std::string last = "X" + std::to_string(code);
  send(client, last.data(), last.size(), MSG_NOSIGNAL);
}

void Manager::finish(Job& job, int code, const std::string& error) {
  const Job done = job;
  job = Job{};
  for (const int client : done.waiters) answer(client, code, "", error);
}

void Manager::begin_start(double now) {
  starts_.erase(std::remove_if(starts_.begin(), starts_.end(), [&](double at) { return at < now - scaled(10); }),
                starts_.end());
  if (starts_.size() >= 5) {
    state("failed", "failed", "start-limit-hit");
    finish(running_, 1,
           "Job for nvidia-imex.service failed.\n"
           "See \"systemctl status nvidia-imex.service\" and \"journalctl -xeu nvidia-imex.service\" for details.\n");
    return;
  }
  starts_.push_back(now);
  killed_ = failed_start_ = false;
  const pid_t pid = fork();
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setsid();
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
    const int group = open(kProcs.c_str(), O_WRONLY | O_CLOEXEC);
    if (group < 0 || write(group, "0", 1) != 1) _exit(219);  // systemd's EXIT_CGROUP
    const char* const arguments[] = {"/usr/bin/nvidia-imex", "-c", "/etc/nvidia-imex/config.cfg", nullptr};
    const char* const environment[] = {"LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                                       nullptr};
    execve(arguments[0], const_cast<char* const*>(arguments), const_cast<char* const*>(environment));
    _exit(203);
  }
  control_ = pid;
  started_ = now;
  state("activating", "start", "success");
}

void Manager::begin_stop(double now) {
  state("deactivating", "stop-sigterm", "success");
  kill_at_ = now + scaled(90);
  signal_all(SIGTERM);
}

bool Manager::reaped(pid_t pid, int status) {
  if (pid != control_ && pid != main_) return false;
  const bool clean =
      (WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  if (pid == control_) {
    control_ = 0;
    if (active_ != "activating") return true;  // a stop is under way
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      const auto left = members();
      main_ = left.empty() ? 0 : left.front();
      if (main_ != 0) {
        state("active", "running", "success");
      } else {
        state("inactive", "dead", "success");  // the daemon had nothing to do and ended
      }
      finish(running_, 0, "");
    } else {
      failed_start_ = true;
      signal_all(SIGKILL);
      state("failed", "failed", WIFSIGNALED(status) ? "signal" : "exit-code");
      finish(running_, 1, kFailed);
    }
    return true;
  }
  main_ = 0;
  killed_ = killed_ || !clean;
  if (active_ == "active") {
    signal_all(SIGKILL);
    if (clean) {
      state("inactive", "dead", "success");
    } else {
      state("failed", "failed", WIFSIGNALED(status) ? "signal" : "exit-code");
    }
  }
  return true;
}

void Manager::tick(double now) {
  if (active_ != "deactivating") return;
  if (members().empty() && control_ == 0 && main_ == 0) {
    state(killed_ ? "failed" : "inactive", killed_ ? "failed" : "dead", killed_ ? "signal" : "success");
    if (running_.type == "stop") finish(running_, 0, "");
    if (waiting_.id != 0) {
      running_ = waiting_;
      waiting_ = Job{};
      begin_start(now);
    }
  } else if (now >= kill_at_) {
    killed_ = true;
    kill_at_ = now + scaled(90);
    signal_all(SIGKILL);
  }
}

double Manager::next(double now) const { return active_ == "deactivating" ? std::min(kill_at_, now + 0.02) : 1e18; }

void Manager::forget() {
  running_ = waiting_ = Job{};
  main_ = control_ = 0;
  starts_.clear();
  state("inactive", "dead", "success");
}

void Manager::start(int client, bool wait) {
  const int waiter = wait ? client : -1;
  if (!loaded())
    return answer(client, 5, "", "Failed to start nvidia-imex.service: Unit nvidia-imex.service not found.\n");
  if (file_state().rfind("masked", 0) == 0) {
    return answer(client, 1, "", "Failed to start nvidia-imex.service: Unit nvidia-imex.service is masked.\n");
  }
  if (active_ == "active") return answer(client, 0, "", "");
  if (!wait) answer(client, 0, "", "");
  if (active_ == "deactivating") {
    if (running_.id != 0) finish(running_, 1, kCanceled);  // the stop job is replaced; the stop itself goes on
    if (waiting_.id == 0) waiting_ = Job{next_id_++, "start", {}};
    if (waiter >= 0) waiting_.waiters.push_back(waiter);
    return;
  }
  const bool fresh = running_.id == 0;
  if (fresh) running_ = Job{next_id_++, "start", {}};
  if (waiter >= 0) running_.waiters.push_back(waiter);
  if (fresh) begin_start(monotonic_now());
}

void Manager::stop(int client, bool wait) {
  if (!loaded())
    return answer(client, 5, "", "Failed to stop nvidia-imex.service: Unit nvidia-imex.service not loaded.\n");
  if (waiting_.id != 0) finish(waiting_, 1, kCanceled);
  if (active_ == "inactive" || active_ == "failed") return answer(client, 0, "", "");
  if (running_.type == "start") finish(running_, 1, kCanceled);
  if (running_.id == 0) running_ = Job{next_id_++, "stop", {}};
  if (wait) {
    running_.waiters.push_back(client);
  } else {
    answer(client, 0, "", "");
  }
  if (active_ != "deactivating") begin_stop(monotonic_now());
}

void Manager::show(int client, const Words& properties, bool values_only) {
  const bool here = loaded();
  const auto microseconds = [](double seconds) {
    return std::to_string(static_cast<unsigned long long>(seconds * 1e6));
  };
  const int job = running_.id != 0 ? running_.id : waiting_.id;
  const std::vector<std::pair<std::string, std::string>> all = {
      {"Type", here ? "forking" : ""},
      {"Restart", "no"},
      {"TimeoutStartUSec", "infinity"},
      {"TimeoutStopUSec", "1min 30s"},
      {"MainPID", std::to_string(main_)},
      {"ControlPID", std::to_string(control_)},
      {"Result", result_},
      {"NRestarts", "0"},
      {"ExecMainPID", std::to_string(main_)},
      {"ExecMainStartTimestampMonotonic", microseconds(started_)},
      {"ControlGroup", members().empty() ? "" : kGroup},
      {"Id", kUnit},
      {"LoadState", here ? "loaded" : "not-found"},
      {"ActiveState", active_},
      {"SubState", sub_},
      {"FragmentPath", here ? "/usr/lib/systemd/system/nvidia-imex.service" : ""},
      {"UnitFileState", here ? file_state() : ""},
      {"ActiveEnterTimestampMonotonic", microseconds(entered_)},
      {"Job", job == 0 ? "" : std::to_string(job)},
  };
  std::string out;
  for (const auto& [key, value] : all) {
    const bool wanted = std::find(properties.begin(), properties.end(), key) != properties.end();
    if (properties.empty() || wanted) {
      if (key == "Job" && value.empty()) continue;  // as the real one: no job, no line
      out += (values_only ? "" : key + "=") + value + "\n";
    }
  }
  answer(client, 0, out, "");
}

void Manager::request(int client, const Words& words) {
  std::string verb, signal_word = "TERM", whom = "all";
  Words rest, properties;
  bool values_only = false, wait = true, quiet = false, legend = true;
  const auto add = [&properties](const std::string& text) {
    for (const auto& property : split(text, ',')) properties.push_back(property);
  };
  const auto begins = [](const std::string& word, const char* with) { return word.rfind(with, 0) == 0; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool more = i + 1 < words.size();
    const std::string value = word.find('=') == std::string::npos ? "" : word.substr(word.find('=') + 1);
    if (word == "--") continue;
    if ((word == "-p" || word == "--property") && more) {
      add(words[++i]);
    } else if (word == "-P" && more) {
      add(words[++i]);
      values_only = true;
    } else if (begins(word, "--property=")) {
      add(value);
    } else if ((word == "-s" || word == "--signal") && more) {
      signal_word = words[++i];
    } else if (begins(word, "--signal=")) {
      signal_word = value;
    } else if (begins(word, "--kill-whom=") || begins(word, "--kill-who=")) {
      whom = value;
    } else if (word == "--value") {
      values_only = true;
    } else if (word == "--no-block") {
      wait = false;
    } else if (word == "-q" || word == "--quiet") {
      quiet = true;
    } else if (word == "--no-legend" || begins(word, "--legend=")) {
      legend = false;
    } else if (word == "--no-pager" || word == "--no-ask-password" || word == "--system" || word == "--plain" ||
               word == "--full" || word == "-l" || word == "--all" || word == "-a" || word == "--no-warn") {
    } else if (begins(word, "-")) {
      return answer(client, 1, "", "systemctl: unrecognized option '" + word + "'\n");
    } else if (verb.empty()) {
      verb = word;
    } else {
      rest.push_back(word);
    }
  }
  if (verb == "list-jobs") {
    std::string out;
    for (const Job* job : {&running_, &waiting_}) {
      if (job->id != 0) {
        out += std::to_string(job->id) + " " + kUnit + " " + job->type + " " +
               (job == &running_ ? "running" : "waiting") + "\n";
      }
    }
    if (out.empty() && legend) out = "No jobs running.\n";
    return answer(client, 0, out, "");
  }
  if (verb == "cancel") {
    for (Job* job : {&running_, &waiting_}) {
      const bool named =
          std::any_of(rest.begin(), rest.end(), [&](const std::string& id) { return id == std::to_string(job->id); });
      if (job->id != 0 && (rest.empty() || named)) finish(*job, 1, kCanceled);
    }
    return answer(client, 0, "", "");
  }
  for (auto& unit : rest) {
    if (unit.find('.') == std::string::npos) unit += ".service";
  }
  const bool named = rest.size() == 1 && rest[0] == kUnit;
  if (!named)
    return answer(client,
                  verb == "is-active" ? 3
                  : verb == "show"    ? 0
                                      : 5,
                  verb == "is-active" ? "inactive\n" : "", "Unit not found.\n");
  if (verb == "is-enabled") {
    if (!loaded())
      return answer(client, 1, "",
                    "Failed to get unit file state for nvidia-imex.service: No such file or directory\n");
    return answer(client, file_state() == "enabled" || file_state() == "static" ? 0 : 1,
                  quiet ? "" : file_state() + "\n", "");
  }
  if (verb == "is-active" || verb == "is-failed") {
    const bool yes = verb == "is-active" ? active_ == "active" : active_ == "failed";
    return answer(client, yes ? 0 : verb == "is-active" ? 3 : 1, quiet ? "" : active_ + "\n", "");
  }
  if (verb == "show") return show(client, properties, values_only);
  if (verb == "start") return start(client, wait);
  if (verb == "stop") return stop(client, wait);
  if (verb == "kill") {
    const int number = signal_number(signal_word);
    if (number < 0) return answer(client, 1, "", "Failed to parse signal string " + signal_word + ".\n");
    for (const pid_t pid : members()) {
      if (whom != "main" || pid == main_) ::kill(pid, number);
    }
    return answer(client, 0, "", "");
  }
  if (verb == "reset-failed") {
    starts_.clear();
    if (active_ == "failed") state("inactive", "dead", "success");
    return answer(client, 0, "", "");
  }
  answer(client, 1, "", "Unknown command verb " + verb + ".\n");
}

void Manager::serve(int fd) {
  if (fd == listener_) {
    const int got = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (got >= 0) clients_.push_back(got);
    return;
  }
  char buffer[16384];
  const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
  if (got > 0) {
    request(fd, split(std::string(buffer, static_cast<std::size_t>(got)), '\x1f'));
    return;
  }
  close(fd);  // its job, if it waited for one, goes on
  clients_.erase(std::remove(clients_.begin(), clients_.end(), fd), clients_.end());
  for (Job* job : {&running_, &waiting_}) {
    job->waiters.erase(std::remove(job->waiters.begin(), job->waiters.end(), fd), job->waiters.end());
  }
}

}  // namespace lab
