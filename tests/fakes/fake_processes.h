// Answers the commands a test set up, in order, and refuses any other with an exception that shows the argv.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "fakes/fake_clock.h"
#include "host/processes.h"

namespace fakes {

inline host::Exit exited(int status, const std::string& out = "", const std::string& err = "") {
  host::Exit exit;
  exit.ending = host::Exit::Ending::exited;
  exit.status = status;
  exit.out = out;
  exit.err = err;
  return exit;
}

inline host::Exit timed_out() {
  host::Exit exit;
  exit.ending = host::Exit::Ending::timed_out;
  return exit;
}

class FakeProcesses : public host::Processes {
 public:
  explicit FakeProcesses(FakeClock& clock) : clock_(clock) {}

  // `line` is the program's base name and its arguments, joined by spaces: "systemctl stop nvidia-imex". The
  // last answer set up for a line is given again and again; earlier ones once each.
  FakeProcesses& answer(const std::string& line, host::Exit exit) {
    answers_[line].push_back(std::move(exit));
    return *this;
  }
  // Called with each command before it is answered: to change the fake world as the tool would.
  std::function<void(const std::string& line)> effect;

  host::Exit run(const host::Command& command) override {
    std::string line = command.program.substr(command.program.rfind('/') + 1);
    for (const std::string& argument : command.arguments) line += " " + argument;
    calls.push_back(line);
    limits.push_back(command.limit);
    if (effect) effect(line);
    const auto found = answers_.find(line);
    if (found == answers_.end()) throw std::logic_error("FakeProcesses: nobody set up: " + line);
    host::Exit exit = found->second.front();
    if (found->second.size() > 1) found->second.pop_front();
    if (exit.ending == host::Exit::Ending::timed_out) clock_.pass(command.limit);  // a hang takes its limit
    return exit;
  }
  bool alive(pid_t pid) const override { return living.contains(pid); }
  std::optional<std::uint64_t> start_time(pid_t pid) const override {
    const auto found = living.find(pid);
    return found == living.end() ? std::nullopt : std::optional(found->second);
  }
  pid_t parent() const override { return parent_pid; }
  pid_t self() const override { return 4242; }
  bool is_root() const override { return root; }

  std::map<pid_t, std::uint64_t> living;  // pid -> start time
  pid_t parent_pid = 1;
  bool root = true;
  std::vector<std::string> calls;
  std::vector<host::milliseconds> limits;

 private:
  FakeClock& clock_;
  std::map<std::string, std::deque<host::Exit>> answers_;
};

}  // namespace fakes
