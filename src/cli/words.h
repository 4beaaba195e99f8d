// Which command was meant: by its word, by Slurm's context, or by our own file name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/environment.h"

namespace cli {

enum class CommandWord { none, imex_prolog, imex_epilog, mig_setup, validate };

struct Words {
  CommandWord command = CommandWord::none;  // none: only --help or --version can be meant
  std::vector<std::string> arguments;       // with the command word in front where there is one
};

std::string_view show(CommandWord command);

// slurmd gives a Prolog no arguments, so without a command word SLURM_SCRIPT_CONTEXT, where it is set, decides
// alone, else the base name of argv[0]. Errors: usage. With the word imex-prolog or imex-epilog another context
// than its own is refused.
base::Result<Words> find_command(const std::string& argv0, const std::vector<std::string>& arguments,
                                 const host::Environment& environment);

// The known word nearest to `word` by edit distance (at most 3); empty: none near. Never run, only suggested.
std::string nearest_command(std::string_view word);

}  // namespace cli
