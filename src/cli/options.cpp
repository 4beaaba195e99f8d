#include "cli/options.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <utility>

#include "base/duration.h"
#include "base/text.h"
#include "cli/config_text.h"

namespace cli {

using base::Error;
using base::ExitCode;

namespace {

using commands::BlameWho;
using commands::EpilogMode;
using commands::MigPrint;
using commands::MigReboot;
using commands::OnFailure;
using commands::ValidateWhat;
using commands::WaitDomain;
using Duration = site::milliseconds;

constexpr unsigned most_gpus = 1024;  // far over any node's; keeps a typing error from costing the node its memory

constexpr unsigned most_requeues = 1000;

template <class E>
using Choices = std::vector<std::pair<std::string, E>>;

std::string exit_code_help() {
  std::string text = "Exit codes:\n";
  for (const base::ExitCodeMeaning& row : base::exit_code_table) {
    const std::string code = std::to_string(base::to_int(row.code));
    text += "  " + code + std::string(8 - code.size(), ' ') + std::string(row.meaning) + "\n";
  }
  return text + "  128+n   stopped by signal n\n";
}

// What the help shows instead of CLI11's "UINT:UINT in [1 - 18]".
template <class N>
CLI::Validator range(N least, N most) {
  return CLI::Range(least, most).description("");
}

template <class N>
std::string number_from(N least, N most) {
  return "NUMBER, " + std::to_string(least) + " to " + std::to_string(most);
}

const std::string duration_type = "SECONDS, 0 to 86400";

// A name as systemd takes it (systemd.unit(5)); a pattern would mean several units, a '-' in front an option.
std::string fault_of_unit(const std::string& name) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@";  // systemd's VALID_CHARS_WITH_AT
  const bool is_name = !name.empty() && name.size() < 256 && name.front() != '-' && name.front() != '.' &&
                       name.find_first_not_of(allowed) == std::string::npos;
  return is_name ? "" : "'" + base::printable(name, 60) + "' is no name of a systemd unit";
}

// An empty prefix would take every node for one that has IMEX.
std::string fault_of_instance_type(const std::string& prefix) {
  const bool is_type =
      !prefix.empty() && prefix.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string::npos;
  return is_type ? "" : "'" + base::printable(prefix, 60) + "' is no beginning of an instance type";
}

void add_duration(CLI::App& app, const std::string& name, Duration& into, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&into, name](const std::string& text) {
           const auto duration = base::parse_duration(text);
           if (!duration) throw CLI::ValidationError(name, duration.error().what + "; " + duration.error().cure);
           into = *duration;
         },
         help)
      ->type_name(duration_type)
      ->default_str(base::show_duration(into))
      ->take_last();
}

void add_auto_duration(CLI::App& app, const std::string& name, std::optional<Duration>& into, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&into, name](const std::string& text) {
           if (text == "auto") {
             into.reset();
             return;
           }
           const auto duration = base::parse_duration(text);
           if (!duration)
             throw CLI::ValidationError(name, duration.error().what + "; " + duration.error().cure + ", or auto");
           into = *duration;
         },
         help)
      ->type_name("auto, or " + duration_type)
      ->default_str("auto")
      ->take_last();
}

template <class E>
void add_choice(CLI::App& app, const std::string& name, E& into, const Choices<E>& choices, const std::string& help) {
  std::string words;
  std::string present;
  for (const auto& [word, value] : choices) {
    words += (words.empty() ? "" : "|") + word;
    if (value == into) present = word;
  }
  app.add_option_function<std::string>(
         name,
         [&into, choices, name, words](const std::string& text) {
           for (const auto& [word, value] : choices) {
             if (word == text) {
               into = value;
               return;
             }
           }
           throw CLI::ValidationError(name, "'" + base::printable(text, 60) + "' is none of " + words);
         },
         help)
      ->type_name(words)
      ->default_str(present)
      ->take_last();
}

void add_gate(CLI::App& app, commands::ImexGateOptions& gate) {
  app.add_option("--unit", gate.unit, "the systemd unit of IMEX")
      ->check(CLI::Validator(fault_of_unit, ""))
      ->type_name("NAME")
      ->take_last()
      ->capture_default_str();
  app.add_option("--instance-types", gate.instance_types, "prefixes of the instance types that have IMEX, by commas")
      ->delimiter(',')
      ->check(CLI::Validator(fault_of_instance_type, ""))
      ->type_name("PREFIX,...")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--unknown-type",
         [&gate](const std::string& text) {
           if (text != "skip" && text != "fail")
             throw CLI::ValidationError("--unknown-type", "'" + base::printable(text, 60) + "' is none of skip|fail");
           gate.unknown_type_fails = text == "fail";
         },
         "what to do where neither IMDS nor DMI tells the type")
      ->type_name("skip|fail")
      ->default_str("skip")
      ->take_last();
}

void add_imex_prolog(CLI::App& app, commands::ImexPrologOptions& options) {
  add_gate(app, options.gate);
  app.add_flag("--force", options.force, "by hand: go on although a job's process runs on this node");
  add_choice<OnFailure>(app, "--on-failure", options.on_failure,
                        {{"fail", OnFailure::fail}, {"continue", OnFailure::carry_on}},
                        "fail: a failure fails the job; continue: same log, exit 0, as the script did");
  add_choice<BlameWho>(app, "--blame", options.blame, {{"first", BlameWho::first}, {"all", BlameWho::all}},
                       "which node fails for a fault that all nodes of the block see alike");
  add_choice<WaitDomain>(app, "--wait-domain", options.wait_domain,
                         {{"warn", WaitDomain::warn}, {"require", WaitDomain::require}, {"off", WaitDomain::off}},
                         "wait until the whole domain is connected; warn: a time-out is a WARN, require: it fails");
  add_choice<slurm::Scope>(
      app, "--scope", options.scope,
      {{"auto", slurm::Scope::automatic}, {"job", slurm::Scope::job}, {"block", slurm::Scope::block}},
      "whose nodes make the list: the job's nodes in this node's block, or all of the job");
  add_auto_duration(app, "--deadline", options.deadline,
                    "limit of the whole run; auto: 150 s, or below Slurm's own limit");
  add_duration(app, "--stop-timeout", options.stop_timeout, "graceful stop of the unit, then KILL");
  add_duration(app, "--start-timeout", options.start_timeout, "start of the unit");
  add_duration(app, "--ready-timeout", options.ready_timeout, "until the local daemon is READY");
  add_duration(app, "--domain-timeout", options.domain_timeout, "until every pair of the domain is connected");
  add_duration(app, "--settle", options.settle, "how long the domain must hold UP without change");
  app.add_option("--max-domain-nodes", options.max_domain_nodes, "most nodes of one domain")
      ->check(range(std::size_t{1}, site::max_job_nodes))
      ->type_name(number_from(std::size_t{1}, site::max_job_nodes))
      ->take_last()
      ->capture_default_str();
  app.add_flag("--drop-persist", options.drop_persist, "after a KILL move IMEX' persist.dat aside");
  app.add_option("--scontrol", options.scontrol, "path of scontrol; empty: looked for")->type_name("PATH")->take_last();
}

void add_imex_epilog(CLI::App& app, commands::ImexEpilogOptions& options) {
  add_gate(app, options.gate);
  app.add_flag("--force", options.force, "by hand: go on although a job's process runs on this node");
  add_choice<EpilogMode>(
      app, "--mode", options.mode, {{"stop", EpilogMode::stop}, {"keep", EpilogMode::keep}, {"self", EpilogMode::self}},
      "stop: stop the daemon and empty the list; keep: leave both; self: restart with the own address only");
  add_auto_duration(app, "--deadline", options.deadline,
                    "limit of the whole run; auto: 60 s, or below Slurm's own limit");
  add_duration(app, "--lock-timeout", options.lock_timeout, "wait for another run on this node");
  add_duration(app, "--stop-timeout", options.stop_timeout, "graceful stop of the unit, then KILL");
}

void add_layout(CLI::App& app, std::vector<std::string>& layouts, std::string& file, std::string& name) {
  app.add_option(
         "--layout", layouts,
         "what every GPU is split into: '3g.20gb:1,1g.5gb:2', profile IDs '9,14', none; 'SEL=...' (repeated) for "
         "some GPUs: 0, 0-3, bus id, UUID, model:H200")
      ->type_name("LAYOUT")
      ->expected(1)
      ->take_all();
  app.add_option("--layout-file", file, "layouts as JSON, or mig-parted's YAML")->type_name("FILE")->take_last();
  app.add_option("--layout-name", name, "which of mig-parted's mig-configs")->type_name("LABEL")->take_last();
}

void add_mig_setup(CLI::App& app, commands::MigSetupOptions& options) {
  add_layout(app, options.layouts, options.layout_file, options.layout_name);
  add_duration(app, "--driver-timeout", options.driver_timeout, "how long to wait for the driver and for every GPU");
  app.add_option("--expect-gpus", options.expect_gpus, "wait until this many GPUs answer")
      ->check(range(1U, most_gpus))
      ->type_name(number_from(1U, most_gpus))
      ->take_last();
  app.add_flag("--force", options.force, "change GPUs although slurmd or a GPU process runs");
  add_choice<MigReboot>(app, "--reboot", options.reboot,
                        {{"no", MigReboot::no}, {"if-pending", MigReboot::if_pending}, {"force", MigReboot::force}},
                        "reboot where the MIG mode stays pending");
  add_choice<MigPrint>(app, "--print", options.print,
                       {{"gres", MigPrint::gres},
                        {"aws-cli", MigPrint::aws_cli},
                        {"aws-json", MigPrint::aws_json},
                        {"json", MigPrint::json}},
                       "form of what stdout gets");
  app.add_flag("--if-supported", options.if_supported, "exit 0 and do nothing where no GPU knows MIG");
  add_duration(app, "--deadline", options.deadline, "limit of the whole run");
  app.add_flag("--check", options.check, "check the layout against this node's driver, or --board; changes nothing");
  app.add_option("--board", options.board_file, "with --check: saved output of `nvidia-smi mig -lgip` and `-lgipp`")
      ->type_name("FILE")
      ->take_last();
  app.add_option("--plan-from", options.plan_from, "'gpu:3g.20gb:8,...' as configured now: tell what the change means")
      ->type_name("GRES")
      ->take_last();
}

void add_validate(CLI::App& app, commands::ValidateOptions& options) {
  app.add_option_function<std::string>(
         "what",
         [&options](const std::string& text) {
           const Choices<ValidateWhat> choices{{"imex", ValidateWhat::imex},
                                               {"mig", ValidateWhat::mig},
                                               {"job", ValidateWhat::job},
                                               {"cluster", ValidateWhat::cluster}};
           for (const auto& [word, value] : choices) {
             if (word == text) {
               options.what = value;
               return;
             }
           }
           throw CLI::ValidationError("validate",
                                      "'" + base::printable(text, 60) + "' is none of imex|mig|job|cluster");
         },
         "imex, mig, job or cluster; without it every check that applies here")
      ->type_name("imex|mig|job|cluster");
  app.add_flag("--strict", options.strict, "a warning counts as a fail");
  app.add_flag("--srun", options.srun, "imex: inside an allocation, run on every node and merge");
  add_layout(app, options.mig.layouts, options.mig.layout_file, options.mig.layout_name);
  app.add_flag("--gate", options.mig.gate,
               "mig: judge this boot's status file only, for ExecCondition= of slurmd.service");
  app.add_flag("--requeue", options.job.requeue, "job: requeue a job that did not get the GPU it asked for");
  app.add_option("--max-requeues", options.job.max_requeues, "job: not more often than this")
      ->check(range(0U, most_requeues))
      ->type_name(number_from(0U, most_requeues))
      ->take_last()
      ->capture_default_str();
}

// Words that the chosen checks do not look at: whoever wrote them expects something else of the run. Asked of the
// command line only: the section of a config file holds the words of every check.
base::Status check_validate_words(const CLI::App& command, ValidateWhat what) {
  const auto given = [&](const char* option) { return command.get_option(option)->count() > 0; };
  const auto refuse = [](const std::string& option, const std::string& with) {
    return Error{ExitCode::usage, option + " " + with, "leave one of them out; see gpu-prolog validate --help"};
  };
  const bool everything = what == ValidateWhat::everything;
  if (given("--gate") && what != ValidateWhat::mig) return refuse("--gate", "goes with validate mig only");
  if (given("--gate") && given("--srun")) return refuse("--gate", "does not go with --srun");
  for (const char* option : {"--layout", "--layout-file", "--layout-name"}) {
    if (!given(option)) continue;
    if (given("--gate")) return refuse("--gate", std::string("looks at the status file only, and not at ") + option);
    if (what != ValidateWhat::mig && !everything) return refuse(option, "goes with validate mig only");
  }
  for (const char* option : {"--requeue", "--max-requeues"}) {
    if (given(option) && what != ValidateWhat::job && !everything) return refuse(option, "goes with validate job only");
  }
  return base::ok();
}

// The app holds references into the options, so both are made and kept together.
struct Parser {
  Options options;
  bool version = false;
  CLI::App app{"Prepares an NVIDIA GPU node for Slurm jobs: IMEX domains and MIG layouts.", "gpu-prolog"};

  Parser() {
    app.require_subcommand(0, 1);
    app.set_help_flag("-h,--help", "this help");
    app.add_option("--config", options.config_file, "config file; default /etc/gpu-prolog.toml, which may be absent")
        ->type_name("FILE")
        ->take_last();
    app.add_option("--root", options.root, "read and write inside this folder, for tests and rehearsal")
        ->type_name("DIR")
        ->take_last();
    app.add_flag("--dry-run", options.dry_run, "read for real, change nothing, print the steps");
    app.add_flag("--json", options.json, "one JSON object on stdout");
    app.add_option_function<std::string>(
           "--log-level",
           [this](const std::string& text) {
             const Choices<flow::Level> levels{{"debug", flow::Level::debug},
                                               {"info", flow::Level::info},
                                               {"warn", flow::Level::warn},
                                               {"error", flow::Level::error}};
             for (const auto& [word, value] : levels) {
               if (word == text) {
                 options.log_level = value;
                 options.log_level_given = true;
                 return;
               }
             }
             throw CLI::ValidationError("--log-level",
                                        "'" + base::printable(text, 60) + "' is none of debug|info|warn|error");
           },
           "what the logs hold")
        ->type_name("debug|info|warn|error")
        ->default_str("info")
        ->take_last();
    app.add_flag("--version", version, "version, commit and architecture");
    app.footer(exit_code_help());

    add_command("imex-prolog", "makes this job's IMEX domain (Slurm's Prolog)",
                "slurm.conf:   Prolog=/opt/gpu-prolog/gpu-prolog\nby hand:      gpu-prolog imex-prolog --dry-run\n",
                [this](CLI::App& command) { add_imex_prolog(command, options.imex_prolog); });
    add_command("imex-epilog", "stops the IMEX domain that this job started (Slurm's Epilog)",
                "slurm.conf:   Epilog=/opt/gpu-prolog/gpu-prolog\n",
                [this](CLI::App& command) { add_imex_epilog(command, options.imex_epilog); });
    add_command("mig-setup", "makes this node's MIG layout, before slurmd starts",
                "boothook:     gpu-prolog mig-setup --layout '3g.20gb:1,1g.5gb:2' --reboot=if-pending\n"
                "on a laptop:  gpu-prolog mig-setup --layout 9,14,19,19 --check --board saved.txt\n",
                [this](CLI::App& command) { add_mig_setup(command, options.mig_setup); });
    add_command("validate", "reads only; says what is wrong and what to do",
                "on a node:    gpu-prolog validate\nin a job:     gpu-prolog validate imex --srun\n",
                [this](CLI::App& command) { add_validate(command, options.validate); });
  }

  template <class Add>
  void add_command(const std::string& word, const std::string& what, const std::string& examples, Add add) {
    CLI::App* command = app.add_subcommand(word, what);
    command->fallthrough();  // global options may stand after the word
    command->set_help_flag("-h,--help", "this help");
    command->footer(
        "Global options, before or after the word: --config FILE, --root DIR, --dry-run, --json, --log-level "
        "LEVEL\nSECONDS may have a unit: 30s, 2m, 500ms\n\n" +
        examples + "\n" + exit_code_help());
    add(*command);
  }

  base::Status parse(const std::vector<std::string>& arguments, std::string& help) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants a vector
    try {
      app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      const auto chosen = app.get_subcommands();
      help = chosen.empty() ? app.help() : chosen.front()->help("gpu-prolog");
    } catch (const CLI::ExtrasError&) {
      // CLI11's own words tell them from the last to the first.
      const std::vector<std::string> extras = app.remaining(true);
      return Error{ExitCode::usage, "unknown: " + base::printable(base::join(extras, " "), 400),
                   "see gpu-prolog --help, or COMMAND --help"};
    } catch (const CLI::ParseError& error) {
      return Error{ExitCode::usage, base::printable(error.what(), 400), "see gpu-prolog --help, or COMMAND --help"};
    }
    const CLI::App* validate = app.get_subcommand("validate");
    if (help.empty() && validate->parsed()) return check_validate_words(*validate, options.validate.what);
    return base::ok();
  }
};

Error bad_entry(const std::string& path, const ConfigEntry& entry, const std::string& why) {
  return Error{ExitCode::usage, "config file " + path + ", line " + std::to_string(entry.line) + ": " + why,
               "see docs/configuration.md for every key"};
}

// Entries of other commands' sections are checked as well, so that a mistake is found by whichever command runs
// first; a section never runs its command.
base::Status apply(Parser& parser, const std::string& path, const std::vector<ConfigEntry>& entries) {
  for (const ConfigEntry& entry : entries) {
    CLI::App* place = &parser.app;
    if (!entry.section.empty()) {
      const auto named =
          parser.app.get_subcommands([&](const CLI::App* command) { return command->get_name() == entry.section; });
      place = named.empty() ? nullptr : named.front();
      if (place == nullptr) return bad_entry(path, entry, "unknown section [" + entry.section + "]");
      if (entry.key.empty()) continue;
    }
    // Where the file itself lies is known before it is read: a root told by it would be too late.
    if (entry.key.empty()) continue;
    const bool cannot_be_set =
        entry.key == "help" ||
        (entry.section.empty() && (entry.key == "config" || entry.key == "root" || entry.key == "version"));
    CLI::Option* option = cannot_be_set ? nullptr : place->get_option_no_throw("--" + entry.key);
    if (option == nullptr) {
      return bad_entry(
          path, entry,
          "unknown key " + entry.key + (entry.section.empty() ? "" : " in section [" + entry.section + "]"));
    }
    if (option->count() > 0) continue;  // a word on the command line wins
    try {
      for (const std::string& value : entry.values) option->add_result(value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      return bad_entry(path, entry, base::printable(error.what(), 300));
    }
  }
  return base::ok();
}

}  // namespace

base::Result<Parsed> parse_words(const Words& words) {
  Parser parser;
  Parsed parsed;
  if (auto status = parser.parse(words.arguments, parsed.help); !status) return status.error();
  parsed.options = parser.options;
  parsed.version = parser.version;
  return parsed;
}

base::Result<Options> parse_words_with_config(const Words& words, const std::string& path, const std::string& text) {
  const auto entries = parse_config_text(path, text);
  if (!entries) return entries.error();
  Parser parser;
  std::string help;
  if (auto status = parser.parse(words.arguments, help); !status) return status.error();
  if (auto status = apply(parser, path, *entries); !status) return status.error();
  return parser.options;
}

std::string short_help() {
  return "gpu-prolog prepares an NVIDIA GPU node for Slurm jobs.\n"
         "\n"
         "  slurm.conf:  Prolog=/opt/gpu-prolog/gpu-prolog   Epilog=/opt/gpu-prolog/gpu-prolog\n"
         "  on a node:   gpu-prolog imex-prolog --dry-run    what a prolog would do here\n"
         "               gpu-prolog validate                 what is wrong here, and what to do\n"
         "  at boot:     gpu-prolog mig-setup --layout '3g.20gb:1,1g.5gb:2'\n"
         "\n"
         "gpu-prolog --help tells all options and exit codes.\n";
}

}  // namespace cli
