#include "cli/run.h"

#include <cerrno>
#include <optional>

#include "base/build_info.h"
#include "base/duration.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/words.h"
#include "commands/imex_epilog.h"
#include "commands/imex_prolog.h"
#include "commands/mig_setup.h"
#include "commands/validate.h"
#include "flow/findings.h"
#include "flow/report.h"
#include "flow/run_log.h"
#include "flow/runner.h"
#include "host/curl_http.h"
#include "host/dry_files.h"
#include "host/dry_locks.h"
#include "host/dry_machine.h"
#include "host/log_file.h"
#include "host/real_clock.h"
#include "host/real_files.h"
#include "host/real_locks.h"
#include "host/real_network.h"
#include "host/real_processes.h"
#include "host/standard_streams.h"
#include "host/syslog_socket.h"

namespace cli {

using base::Error;
using base::ExitCode;

namespace {

constexpr std::size_t largest_config = 1U << 20U;

// A stdout or stderr that is closed or full is nobody's fault that a job should pay for.
void print(int descriptor, const std::string& text) { host::write_to(descriptor, text); }

// --json promises an object also where the words around it are wrong.
bool asks_for_json(CommandWord command, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] == "--json") return true;
    if (command != CommandWord::mig_setup) continue;
    if (arguments[i] == "--print=json") return true;
    if (arguments[i] == "--print" && i + 1 < arguments.size() && arguments[i + 1] == "json") return true;
  }
  return false;
}

std::string refused_json(CommandWord command, const Error& error) {
  if (command == CommandWord::mig_setup) return commands::mig_refused_json(error);
  if (command == CommandWord::validate) return flow::cannot_run_json(error);
  flow::Report report;
  report.command = show(command);
  report.job = host::Environment::from_process().get_or("SLURM_JOB_ID", "");
  report.exit_code = base::to_int(error.code);
  report.summary = "failed: " + error.what;
  report.error = error;
  return flow::to_json(report) + "\n";
}

int refuse(CommandWord command, const std::vector<std::string>& arguments, const Error& error) {
  if (asks_for_json(command, arguments)) print(host::standard_output, refused_json(command, error));
  print(host::standard_error, "gpu-prolog: " + flow::one_line(error) + "\n");
  return base::to_int(error.code);
}

std::string version_line() {
  const base::BuildInfo info = base::build_info();
  return "gpu-prolog " + std::string(info.version) + " (" + std::string(info.commit) + ", " +
         std::string(info.architecture) + ")\n";
}

// Whoever can write the config file decides what a root program does.
base::Status check_config_owner(const host::FileStatus& status, const std::string& path,
                                const host::Processes& processes) {
  const auto refuse_for = [&](const std::string& why) {
    return Error{ExitCode::usage, "config file " + path + " " + why,
                 "chown root:root " + path + " && chmod 644 " + path};
  };
  if (status.kind != host::FileStatus::Kind::regular) {
    return Error{ExitCode::usage, "config file " + path + " is no regular file",
                 "put the file itself in its place (links are not followed)"};
  }
  const bool own = !processes.is_root() && status.uid == host::effective_user();
  if (status.uid != 0 && !own) return refuse_for("does not belong to root");
  if ((status.permissions & 022U) != 0) return refuse_for("can be written by group or others");
  return base::ok();
}

// The options with the config file beneath the words. Error: usage.
base::Result<Options> with_config(const Words& words, const Options& from_words, const host::Files& files,
                                  const host::Processes& processes) {
  const bool is_asked_for = !from_words.config_file.empty();
  const std::string path = is_asked_for ? from_words.config_file : std::string(site::config_file);
  if (!path.starts_with('/'))
    return Error{ExitCode::usage, "--config " + base::printable(path) + " is no absolute path", "give the whole path"};
  const auto status = files.status(path);
  if (!status) return Error{ExitCode::usage, status.error().what, ""};
  if (!*status) {
    if (!is_asked_for) return from_words;
    return Error{ExitCode::usage, "config file " + path + " does not exist", "correct --config"};
  }
  if (auto owned = check_config_owner(**status, path, processes); !owned) return owned.error();
  const auto text = files.read(path, largest_config);
  if (!text) return Error{ExitCode::usage, text.error().what, "it must be a readable text of at most 1 MiB"};
  return parse_words_with_config(words, path, *text);
}

// Log file and syslog of one command; a run that cannot open them goes on without.
struct LogPlaces {
  std::string file;
  std::string syslog_tag;
};

LogPlaces log_places(CommandWord command) {
  switch (command) {
    case CommandWord::imex_prolog:
    case CommandWord::imex_epilog: return {std::string(site::imex_log_file), std::string(site::imex_syslog_tag)};
    case CommandWord::mig_setup: return {std::string(site::mig_log_file), std::string(site::mig_syslog_tag)};
    case CommandWord::validate:
    case CommandWord::none: break;
  }
  return {};
}

host::SyslogSocket::Severity to_severity(flow::Level level) {
  using Severity = host::SyslogSocket::Severity;
  switch (level) {
    case flow::Level::debug: return Severity::debug;
    case flow::Level::info: return Severity::info;
    case flow::Level::warn: return Severity::warning;
    case flow::Level::error: break;
  }
  return Severity::error;
}

std::string for_terminal(flow::Level level, std::string_view text, bool colour) {
  std::string mark;
  if (level == flow::Level::warn) mark = colour ? "\033[33mwarning:\033[0m " : "warning: ";
  if (level == flow::Level::error) mark = colour ? "\033[31merror:\033[0m " : "error: ";
  return mark + std::string(text) + "\n";
}

std::string steps_text(const flow::Report& report) {
  std::string text = "dry run of " + report.command +
                     (report.job.empty() ? "" : " for job " + base::printable(report.job, 40)) +
                     ": nothing is changed\n";
  for (const flow::StepRecord& step : report.steps) {
    const bool failed = step.outcome == flow::StepRecord::Outcome::failed;
    const char* mark = failed ? "FAILED " : step.outcome == flow::StepRecord::Outcome::would ? "would  " : "ok     ";
    text += "  " + std::string(mark) + step.name + ": " + base::printable(step.detail, 2000) + " (" +
            base::show_duration(step.took) + ")\n";
  }
  for (const std::string& warning : report.warnings) text += "  warning: " + warning + "\n";
  for (const std::string& sentence : report.planned) text += "  " + base::printable(sentence, 4000) + "\n";
  return text + "outcome: " + base::printable(report.summary, 2000) + " (exit " + std::to_string(report.exit_code) +
         ")\n";
}

bool wants_colour(int descriptor, const host::Environment& environment) {
  return host::is_terminal(descriptor) && environment.get_or("NO_COLOR", "").empty() &&
         environment.get_or("TERM", "") != "dumb";
}

int run_command(commands::Context& context, const Words& words, const Options& options,
                const std::optional<Error>& config_error, std::string& out) {
  switch (words.command) {
    case CommandWord::imex_prolog: return commands::imex_prolog(context, options.imex_prolog, config_error);
    case CommandWord::imex_epilog: return commands::imex_epilog(context, options.imex_epilog, config_error);
    case CommandWord::mig_setup: return commands::mig_setup(context, options.mig_setup, out);
    case CommandWord::validate:
      return commands::validate(
          context, options.validate,
          commands::ValidateForm{options.json, wants_colour(host::standard_output, context.host.environment)}, out);
    case CommandWord::none: break;
  }
  return base::to_int(ExitCode::bug);
}

// "PROLOG Start JobId=7: /path": first and last lines as the published script's, so that filters go on working.
std::string framing_word(CommandWord command) {
  if (command == CommandWord::imex_prolog) return "PROLOG";
  return command == CommandWord::imex_epilog ? "EPILOG" : "MIG-SETUP";
}

}  // namespace

int run(const std::string& argv0, const std::vector<std::string>& arguments) {
  const host::Environment environment = host::Environment::from_process();
  const auto words = find_command(argv0, arguments, environment);
  if (!words) return refuse(CommandWord::none, arguments, words.error());
  const auto parsed = parse_words(*words);
  if (!parsed) return refuse(words->command, arguments, parsed.error());
  if (!parsed->help.empty()) {
    print(host::standard_output, parsed->help);
    return 0;
  }
  if (parsed->version) {
    print(host::standard_output, version_line());
    return 0;
  }
  if (words->command == CommandWord::none) {
    print(host::standard_error, short_help());
    return base::to_int(ExitCode::usage);
  }

  // --- the outside ---------------------------------------------------------------------------------------
  const host::Root root(parsed->options.root);
  host::RealFiles real_files(root);
  host::RealProcesses processes(environment.get_or("SLURM_CONF", ""), root);
  host::RealClock clock;
  host::RealNetwork network;
  host::RealLocks real_locks(clock, root);
  host::CurlHttp http;
  Options options = parsed->options;
  std::optional<Error> config_error;
  if (auto merged = with_config(*words, options, real_files, processes)) {
    options = *merged;
  } else {
    config_error = merged.error();
    const bool judges_itself = words->command == CommandWord::imex_prolog || words->command == CommandWord::imex_epilog;
    if (!judges_itself) return refuse(words->command, arguments, *config_error);
  }
  if (options.json) options.mig_setup.print = commands::MigPrint::json;
  host::Plan plan;
  host::DryFiles dry_files(real_files, plan);
  host::DryLocks dry_locks;
  host::RealMachine real_machine(root);
  host::DryMachine dry_machine(plan);
  host::Files& files = options.dry_run ? static_cast<host::Files&>(dry_files) : real_files;
  host::Locks& locks = options.dry_run ? static_cast<host::Locks&>(dry_locks) : real_locks;
  host::Machine& machine = options.dry_run ? static_cast<host::Machine&>(dry_machine) : real_machine;

  // --- logs ----------------------------------------------------------------------------------------------
  flow::Report report;
  report.command = show(words->command);
  report.job = environment.get_or("SLURM_JOB_ID", "");
  report.dry_run = options.dry_run;
  const bool has_terminal = host::is_terminal(host::standard_error);
  const LogPlaces places = options.dry_run ? LogPlaces{} : log_places(words->command);
  host::LogFile log_file;
  std::optional<host::SyslogSocket> syslog;
  flow::LogOptions log_options;
  log_options.job = report.job;
  log_options.level = options.log_level;
  if (!places.file.empty()) {
    log_file = host::LogFile::open(places.file, root);
    log_options.file = [&](std::string_view line) { log_file.write(line); };
  }
  if (!places.syslog_tag.empty()) {
    syslog.emplace(std::string(site::dev_log), root, places.syslog_tag);
    log_options.syslog = [&](flow::Level level, std::string_view text) { syslog->send(to_severity(level), text); };
  }
  const bool by_hand = !environment.get("SLURM_SCRIPT_CONTEXT");
  const bool mig_tells_on_stderr = words->command == CommandWord::mig_setup && !options.dry_run;
  const bool is_quiet = words->command == CommandWord::validate && !options.validate.srun;
  if ((has_terminal && !is_quiet && !options.dry_run) || mig_tells_on_stderr || (options.log_level_given && by_hand)) {
    const bool colour = wants_colour(host::standard_error, environment);
    log_options.terminal = [colour](flow::Level level, std::string_view text) {
      print(host::standard_error, for_terminal(level, text, colour));
    };
  }
  flow::RunLog log(log_options);
  log.keep_warnings_in(report);

  // --- the command ---------------------------------------------------------------------------------------
  flow::Runner runner(log, clock, report);
  if (options.dry_run) runner.watch(plan);
  commands::Context context{{environment, files, processes, http, network, locks, clock, machine},
                            runner,
                            options.dry_run ? &plan : nullptr,
                            !root.is_node_itself()};
  const std::string framing = framing_word(words->command);
  const std::string job_words =
      (words->command == CommandWord::mig_setup ? "" : " JobId=" + base::printable(report.job, 40));
  if (words->command != CommandWord::validate) log.info(framing + " Start" + job_words + ": " + argv0);
  std::string out;
  report.exit_code = run_command(context, *words, options, config_error, out);
  report.planned = plan.sentences();
  // The steps after the first change tell how they would end where all goes well: nobody should take that for the
  // node's state.
  if (options.dry_run && words->command != CommandWord::mig_setup && report.exit_code == 0 && !report.planned.empty()) {
    report.summary = "a real run would end with: " + report.summary;
  }
  if (words->command != CommandWord::validate) {
    log.info(framing + " End" + job_words + ": " + argv0 + " - exit " + std::to_string(report.exit_code) +
             (report.summary.empty() ? "" : ", " + report.summary));
  }

  // --- what people and machines are told -----------------------------------------------------------------
  const bool has_own_json =
      (words->command == CommandWord::validate || words->command == CommandWord::mig_setup) && !out.empty();
  if (options.json && !has_own_json) {
    print(host::standard_output, flow::to_json(report) + "\n");
  } else if (options.dry_run && words->command == CommandWord::mig_setup) {
    // stdout is the one form of --print alone, so that it can be piped.
    print(host::standard_output, out);
    if (!options.json) print(host::standard_error, steps_text(report));
  } else if (options.dry_run && words->command != CommandWord::validate) {
    print(host::standard_output, out + steps_text(report));
  } else {
    print(host::standard_output, out);
  }
  if (report.exit_code != 0 && report.error) {
    const std::string job = report.job.empty() ? "" : "job " + base::printable(report.job, 40) + ": ";
    print(host::standard_error, "gpu-prolog " + report.command + ": " + job + flow::one_line(*report.error) + "\n");
  }
  return report.exit_code;
}

}  // namespace cli
