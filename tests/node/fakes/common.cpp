#include "common.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>

extern char** environ;

namespace fake {

std::string slurp(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  static char buffer[65536];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(fd);
  return text;
}

void say(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(descriptor, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void spill(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  say(fd, text);
  close(fd);
}

void append_line(const std::string& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  say(fd, line + "\n");
  close(fd);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte > 0x7e) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

Words split(std::string_view text, char separator) {
  Words words;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    words.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return words;
}

static double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}
double realtime() { return seconds(CLOCK_REALTIME); }
double monotonic() { return seconds(CLOCK_MONOTONIC); }

void sleep_ms(long milliseconds) {
  const double end = monotonic() + static_cast<double>(milliseconds) / 1000;
  for (double left = 0; (left = end - monotonic()) > 0;) poll(nullptr, 0, static_cast<int>(left * 1000) + 1);
}

std::string setting(const std::string& path, const std::string& key, const std::string& fallback) {
  for (const std::string& line : split(slurp(path), '\n')) {
    if (line.compare(0, key.size() + 1, key + "=") == 0) return line.substr(key.size() + 1);
  }
  return fallback;
}

static std::string json_list(const Words& words) {
  std::string out = "[";
  for (const std::string& word : words) out += (out.size() > 1 ? "," : "") + json_string(word);
  return out + "]";
}

void record_call(const std::string& tool, int argc, char** argv) {
  // The descriptors come first: nothing of ours is open yet, so what is seen here is what was handed over.
  std::string descriptors;
  if (DIR* folder = opendir("/proc/self/fd")) {
    const int own = dirfd(folder);
    for (const dirent* entry = nullptr; (entry = readdir(folder)) != nullptr;) {
      if (entry->d_name[0] == '.' || atoi(entry->d_name) == own) continue;
      char target[4096];
      const ssize_t n = readlink((std::string("/proc/self/fd/") + entry->d_name).c_str(), target, sizeof target);
      if (n < 0) continue;
      descriptors += (descriptors.empty() ? "" : ",") + json_string(entry->d_name) + ":" +
                     json_string(std::string_view(target, static_cast<size_t>(n)));
    }
    closedir(folder);
  }
  int death_signal = 0;
  prctl(PR_GET_PDEATHSIG, &death_signal);
  std::string blocked;
  std::string ignored;
  for (const std::string& line : split(slurp("/proc/self/status"), '\n')) {
    if (line.starts_with("SigBlk:")) blocked = line.substr(8);
    if (line.starts_with("SigIgn:")) ignored = line.substr(8);
  }
  const mode_t mask = umask(0);
  umask(mask);
  char folder[4096] = "";
  if (getcwd(folder, sizeof folder) == nullptr) folder[0] = '\0';
  char exe[4096] = "";
  const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n > 0) exe[n] = '\0';
  Words environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  char head[512];
  snprintf(head, sizeof head,
           "{\"time\":%.6f,\"mono\":%.6f,\"pid\":%d,\"ppid\":%d,\"pgid\":%d,\"sid\":%d,\"uid\":%d,\"pdeathsig\":%d,"
           "\"umask\":%d,",
           realtime(), monotonic(), getpid(), getppid(), getpgrp(), getsid(0), getuid(), death_signal, mask);
  std::string line = head;
  line += "\"tool\":" + json_string(tool) + ",\"exe\":" + json_string(exe) + ",\"cwd\":" + json_string(folder) +
          ",\"argv\":" + json_list(Words(argv, argv + argc)) + ",\"env\":" + json_list(environment) + ",\"fds\":{" +
          descriptors + "},\"blocked\":" + json_string(blocked) + ",\"ignored\":" + json_string(ignored) + "}";
  append_line("/fake/calls", line);
}

void refuse(const std::string& tool, const std::string& what) {
  append_line("/fake/refused", tool + ": " + what);
  say(2, "make-believe " + tool + ": nobody set this up: " + what + "\n");
  _exit(97);
}

static std::string next_line_of_script(const std::string& path) {
  const int lock = open((path + ".n").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  flock(lock, LOCK_EX);
  char buffer[32] = "";
  const ssize_t n = read(lock, buffer, sizeof buffer - 1);
  const size_t count = n > 0 ? strtoul(buffer, nullptr, 10) : 0;
  const Words lines = split(slurp(path), '\n');
  lseek(lock, 0, SEEK_SET);
  say(lock, std::to_string(count + 1));
  close(lock);
  if (lines.empty()) return "ok";
  return lines[std::min(count, lines.size() - 1)];
}

[[noreturn]] static void flood(unsigned long long bytes) {
  const std::string block = [] {
    std::string text;
    while (text.size() < 65536) text += "NodeName=flood NodeAddr=10.66.66.66 water water water everywhere\n";
    return text;
  }();
  for (unsigned long long sent = 0; sent < bytes; sent += block.size()) {
    const ssize_t n = write(1, block.data(), block.size());
    if (n <= 0) break;
  }
  _exit(0);
}

static void act(const std::string& tool, const std::string& verb, std::string action) {
  const auto take = [&action] {
    const size_t end = action.find(' ');
    std::string word = action.substr(0, end);
    action = end == std::string::npos ? "" : action.substr(end + 1);
    return word;
  };
  const std::string word = take();
  if (word == "ok" || word.empty()) return;
  if (word == "hang" || word == "hang-hard") {
    if (word == "hang-hard") {
      signal(SIGTERM, SIG_IGN);
      signal(SIGINT, SIG_IGN);
      signal(SIGHUP, SIG_IGN);
    }
    append_line("/fake/hanging", tool + " " + verb + " " + std::to_string(getpid()));
    for (;;) pause();
  }
  if (word == "exit") _exit(atoi(take().c_str()));
  if (word == "say" || word == "err") {
    const int code = atoi(take().c_str());
    std::string text;
    for (size_t i = 0; i < action.size(); ++i) {
      if (action[i] == '\\' && i + 1 < action.size() && action[i + 1] == 'n') {
        text += '\n';
        ++i;
      } else {
        text += action[i];
      }
    }
    say(word == "say" ? 1 : 2, text + "\n");
    _exit(code);
  }
  if (word == "file") {
    const int code = atoi(take().c_str());
    say(1, slurp(action));
    _exit(code);
  }
  if (word == "flood") flood(strtoull(take().c_str(), nullptr, 10));
  if (word == "sleep") {
    sleep_ms(atol(take().c_str()));
    act(tool, verb, action);
    return;
  }
  if (word == "signal-parent") {
    kill(getppid(), atoi(take().c_str()));
    act(tool, verb, action);
    return;
  }
  if (word == "orphan") {
    // A grandchild that holds on to standard output and error, in a session of its own if the tool is nasty.
    const bool own_session = action.starts_with("session ");
    if (own_session) take();
    if (fork() == 0) {
      if (own_session) setsid();
      append_line("/fake/hanging", tool + " orphan " + std::to_string(getpid()));
      for (;;) pause();
    }
    act(tool, verb, action);
    return;
  }
  refuse(tool, "scripted action '" + word + "'");
}

void scripted(const std::string& tool, const std::string& verb) {
  const std::string path = "/fake/" + tool + "/" + verb + ".seq";
  if (access(path.c_str(), F_OK) != 0) return;
  act(tool, verb, next_line_of_script(path));
}

}  // namespace fake
