// The command line and the config file, as option values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/words.h"
#include "commands/imex_options.h"
#include "commands/mig_setup.h"
#include "commands/validate.h"
#include "flow/run_log.h"

namespace cli {

struct Options {
  std::string config_file;  // empty: the default one, which may be absent
  std::string root;         // empty: the node itself
  bool dry_run = false;
  bool json = false;
  flow::Level log_level = flow::Level::info;
  bool log_level_given = false;

  commands::ImexPrologOptions imex_prolog;
  commands::ImexEpilogOptions imex_epilog;
  commands::MigSetupOptions mig_setup;
  commands::ValidateOptions validate;
};

// Words alone, without the config file.
struct Parsed {
  Options options;
  std::string help;      // not empty: print it on stdout and be done
  bool version = false;  // print the version and be done
};

// Error: usage, with CLI11's own words.
base::Result<Parsed> parse_words(const Words& words);

// A second pass over the same words with the config file's text beneath them: a word given on the command line
// wins. Error: usage, naming `path` and line or key.
base::Result<Options> parse_words_with_config(const Words& words, const std::string& path, const std::string& text);

std::string short_help();

}  // namespace cli
