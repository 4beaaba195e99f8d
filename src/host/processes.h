// Child processes and a look at processes of the node.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace host {

using std::chrono::milliseconds;

// A child gets: its own process group, SIGKILL when we die, stdin from /dev/null, no inherited descriptor,
// default signals, and an environment made from nothing (PATH, LC_ALL=C, SLURM_CONF where it is known, and
// what `environment` adds).
struct Command {
  std::string program;                   // absolute path, already found trustworthy
  std::vector<std::string> arguments;    // without argv[0]; never seen by a shell
  milliseconds limit{0};                 // TERM to the group then, KILL 2 s later
  std::size_t output_cap = 1U << 20U;    // bytes kept of each of stdout and stderr; the rest is read and dropped
  std::vector<std::string> environment;  // further NAME=value
  // Called with what stdout holds so far, about once a second while the child runs; for telling people.
  std::function<void(const std::string& out)> progress;
};

struct Exit {
  enum class Ending { exited, signalled, timed_out, interrupted, not_started };
  Ending ending = Ending::not_started;
  int status = 0;  // exit status, signal number, or errno where not_started
  std::string out;
  std::string err;
  bool cut = false;         // more came than output_cap
  bool unkillable = false;  // still there after KILL (uninterruptible wait in the kernel)
  milliseconds took{0};

  bool succeeded() const { return ending == Ending::exited && status == 0; }
};

// "exit 3: Unit nvidia-imex.service not found." in words for a message; out and err made printable and short.
std::string describe(const Exit& exit);
// What to do about a child that did not succeed: where it could not even be started, that is no fault of its own, and
// the tool's own `cure` would lead astray.
std::string cure_for(const Exit& exit, const std::string& cure);
// "systemctl stop nvidia-imex" for logs.
std::string show(const Command& command);

class Processes {
 public:
  virtual ~Processes() = default;
  // Returns when the child has ended and no process of its group is left, at the latest at `limit` + 4 s.
  // A stop signal to us ends the child in the same way (ending: interrupted).
  virtual Exit run(const Command& command) = 0;
  // The same for several side by side, so that slow ones do not add up; answers in the commands' order.
  virtual std::vector<Exit> run_all(const std::vector<Command>& commands);
  // Signal 0 to a process: is it there (a zombie is not)?
  virtual bool alive(pid_t pid) const = 0;
  // Start time in clock ticks since boot (field 22 of /proc/PID/stat): with the pid a process' identity.
  virtual std::optional<std::uint64_t> start_time(pid_t pid) const = 0;
  virtual pid_t parent() const = 0;  // our parent's pid
  virtual pid_t self() const = 0;
  virtual bool is_root() const = 0;
};

}  // namespace host
