// The parent of a Prolog: does what slurmd's run_command does before it executes the script, and tells how it ended.
//
//   slurmd env=FILE result=FILE [in=null|closed] [out=closed|full] [err=closed|full] [umask=022] [cwd=/] [group=0|1] --
//   ARGV0 PATH ARG...
//
// env=FILE holds NAME=VALUE entries ended by NUL: the whole environment of the child. Descriptors 0 to 2 are inherited
// unless told otherwise, all others are closed, as slurmd does.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "common.h"

namespace fake {

static void set_descriptor(int descriptor, const std::string& how) {
  if (how == "closed") {
    close(descriptor);
    return;
  }
  const char* path = nullptr;
  if (how == "null") path = "/dev/null";
  if (how == "full") path = "/dev/full";
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR);
  if (fd != descriptor) {
    dup2(fd, descriptor);
    close(fd);
  }
}

int launcher_main(int argc, char** argv) {
  std::map<std::string, std::string> option;
  int index = 1;
  for (; index < argc && strcmp(argv[index], "--") != 0; ++index) {
    const char* equals = strchr(argv[index], '=');
    if (equals == nullptr) return 98;
    option[std::string(argv[index], static_cast<size_t>(equals - argv[index]))] = equals + 1;
  }
  if (index + 2 >= argc) return 98;
  Words environment = split(slurp(option["env"]), '\0');
  std::vector<char*> envp;
  for (std::string& entry : environment) {
    if (!entry.empty()) envp.push_back(entry.data());
  }
  envp.push_back(nullptr);

  const double begin = monotonic();
  const pid_t child = fork();
  if (child == 0) {
    if (option["group"] != "0") setpgid(0, 0);
    umask(static_cast<mode_t>(strtoul(option.count("umask") ? option["umask"].c_str() : "022", nullptr, 8)));
    if (chdir(option.count("cwd") ? option["cwd"].c_str() : "/") != 0) _exit(96);
    set_descriptor(1, option["out"]);
    set_descriptor(2, option["err"]);
    set_descriptor(0, option.count("in") ? option["in"] : "null");
    for (int fd = 3; fd < 256; ++fd) close(fd);
    std::vector<char*> words{argv[index + 1]};  // ARGV0, then the arguments: PATH itself is none of them
    words.insert(words.end(), argv + index + 3, argv + argc);
    words.push_back(nullptr);
    execve(argv[index + 2], words.data(), envp.data());
    _exit(95);
  }
  spill(option["result"] + ".pid", std::to_string(child));
  // The parent keeps no pipe of the child open: who reads it sees the end when the child and all it left behind are
  // gone.
  set_descriptor(0, "null");
  set_descriptor(1, "null");
  set_descriptor(2, "null");
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0) {
  }
  char text[512];
  snprintf(text, sizeof text,
           "{\"exit\":%d,\"signal\":%d,\"maxrss_kb\":%ld,\"seconds\":%.6f,\"user\":%.6f,\"system\":%.6f}\n",
           WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, usage.ru_maxrss,
           monotonic() - begin,
           static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) / 1e6,
           static_cast<double>(usage.ru_stime.tv_sec) + static_cast<double>(usage.ru_stime.tv_usec) / 1e6);
  spill(option["result"], text);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace fake
