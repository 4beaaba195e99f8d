#include "host/processes.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "base/duration.h"
#include "base/text.h"
#include "host/os_error.h"

namespace host {

namespace {

// The last words of a tool are the ones that say why; three lines of them at most.
std::string last_words(const Exit& exit) {
  const std::string& said = base::trim(exit.err).empty() ? exit.out : exit.err;
  std::vector<std::string> kept;
  const auto all = base::lines(said);
  for (auto line = all.rbegin(); line != all.rend() && kept.size() < 3; ++line) {
    const std::string_view text = base::trim(*line);
    if (!text.empty()) kept.insert(kept.begin(), std::string(text));
  }
  return base::printable(base::join(kept, " / "), 300);
}

}  // namespace

std::string describe(const Exit& exit) {
  std::string text;
  switch (exit.ending) {
    case Exit::Ending::exited: text = "exit " + std::to_string(exit.status); break;
    case Exit::Ending::signalled: {
      const char* const name = sigabbrev_np(exit.status);
      text = "ended by signal " + std::to_string(exit.status) + (name != nullptr ? " (" + std::string(name) + ")" : "");
      break;
    }
    case Exit::Ending::timed_out:
      text = "no end after " + base::show_duration(exit.took) + ", so it was stopped";
      break;
    case Exit::Ending::interrupted: text = "stopped because gpu-prolog was told to stop"; break;
    case Exit::Ending::not_started: return "could not be started: " + os_words(exit.status);
  }
  // What is kept of each stream is the cap itself where more came.
  if (exit.cut)
    text += "; it printed more than " + std::to_string(std::max(exit.out.size(), exit.err.size())) + " bytes";
  if (exit.unkillable) text += "; it is still there after KILL (waiting in the kernel)";
  const std::string words = last_words(exit);
  return words.empty() ? text : text + ": " + words;
}

std::string cure_for(const Exit& exit, const std::string& cure) {
  const std::string own = exit.ending == Exit::Ending::not_started ? os_cure(exit.status) : "";
  return own.empty() ? cure : own;
}

std::string show(const Command& command) {
  std::string line = command.program.substr(command.program.rfind('/') + 1);
  for (const std::string& argument : command.arguments) {
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n'\"\\$;&|<>()*?`") == std::string::npos;
    line += plain ? " " + argument : " '" + argument + "'";
  }
  return base::printable(line);
}

std::vector<Exit> Processes::run_all(const std::vector<Command>& commands) {
  std::vector<Exit> exits;
  for (const Command& command : commands) exits.push_back(run(command));
  return exits;
}

}  // namespace host
