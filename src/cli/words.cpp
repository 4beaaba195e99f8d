#include "cli/words.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/text.h"

namespace cli {

using base::Error;
using base::ExitCode;

namespace {

struct CommandName {
  CommandWord command;
  std::string_view word;
};

constexpr std::array<CommandName, 4> commands{{{CommandWord::imex_prolog, "imex-prolog"},
                                               {CommandWord::imex_epilog, "imex-epilog"},
                                               {CommandWord::mig_setup, "mig-setup"},
                                               {CommandWord::validate, "validate"}}};

// Global options that take a value in the next word, so that the value is not taken for the command.
constexpr std::array<std::string_view, 3> valued_globals{"--config", "--root", "--log-level"};

CommandWord to_command(std::string_view word) {
  for (const CommandName& name : commands) {
    if (name.word == word) return name.command;
  }
  return CommandWord::none;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The place of the first word that is no option and no option's value; npos: none.
std::size_t place_of_word(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (std::find(valued_globals.begin(), valued_globals.end(), argument) != valued_globals.end()) {
      ++i;
      continue;
    }
    if (!argument.starts_with('-')) return i;
  }
  return std::string::npos;
}

Error unknown_word(const std::string& word) {
  const std::string near = nearest_command(word);
  return Error{ExitCode::usage, "unknown command '" + base::printable(word, 80) + "'",
               near.empty() ? "the commands are imex-prolog, imex-epilog, mig-setup and validate"
                            : "did you mean " + near + "?"};
}

base::Status check_context(CommandWord command, const std::optional<std::string>& context) {
  if (!context) return base::ok();
  const bool wrong = (command == CommandWord::imex_prolog && *context != "prolog_slurmd") ||
                     (command == CommandWord::imex_epilog && *context != "epilog_slurmd");
  if (!wrong) return base::ok();
  return Error{ExitCode::usage,
               std::string(show(command)) + " does not run in the context " + base::printable(*context, 80) +
                   " (SLURM_SCRIPT_CONTEXT)",
               "set it as Prolog= or Epilog= of slurm.conf, not as a task's or slurmctld's"};
}

// Where no word stands: what the surroundings say.
base::Result<CommandWord> from_surroundings(const std::string& argv0, const std::optional<std::string>& context) {
  if (context) {
    if (*context == "prolog_slurmd") return CommandWord::imex_prolog;
    if (*context == "epilog_slurmd") return CommandWord::imex_epilog;
    return Error{ExitCode::usage,
                 "nothing to do in the context '" + base::printable(*context, 80) + "' (SLURM_SCRIPT_CONTEXT)",
                 "set gpu-prolog as Prolog= or Epilog= of slurm.conf, not as a task's or slurmctld's"};
  }
  const std::string name = argv0.substr(argv0.rfind('/') + 1);
  for (const std::string_view mark : {"imex_prolog", "imex-prolog"}) {
    if (name.find(mark) != std::string::npos) return CommandWord::imex_prolog;
  }
  for (const std::string_view mark : {"imex_epilog", "imex-epilog"}) {
    if (name.find(mark) != std::string::npos) return CommandWord::imex_epilog;
  }
  return CommandWord::none;
}

}  // namespace

std::string_view show(CommandWord command) {
  for (const CommandName& name : commands) {
    if (name.command == command) return name.word;
  }
  return "";
}

std::string nearest_command(std::string_view word) {
  std::string nearest;
  std::size_t least = 4;
  for (const CommandName& name : commands) {
    const std::size_t distance = edit_distance(word, name.word);
    if (distance < least) {
      least = distance;
      nearest = name.word;
    }
  }
  return nearest;
}

base::Result<Words> find_command(const std::string& argv0, const std::vector<std::string>& arguments,
                                 const host::Environment& environment) {
  const auto context = environment.get("SLURM_SCRIPT_CONTEXT");
  Words words;
  words.arguments = arguments;
  const std::size_t place = place_of_word(arguments);
  if (place == std::string::npos) {
    const auto found = from_surroundings(argv0, context);
    if (!found) return found.error();
    words.command = *found;
    if (words.command != CommandWord::none)
      words.arguments.insert(words.arguments.begin(), std::string(show(words.command)));
    return words;
  }
  std::string word = arguments[place];
  if (word == "help") {  // help X = X --help
    words.arguments.erase(words.arguments.begin() + static_cast<std::ptrdiff_t>(place));
    words.arguments.emplace_back("--help");
    if (place + 1 == arguments.size()) return words;
    word = arguments[place + 1];
  }
  words.command = to_command(word);
  if (words.command == CommandWord::none) return unknown_word(word);
  if (auto fits = check_context(words.command, context); !fits) return fits.error();
  return words;
}

}  // namespace cli
