// Words and config file as option values, and the one table of exit codes wherever it is printed.
#include "cli/options.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "places.h"

using namespace std::chrono_literals;
using Arguments = std::vector<std::string>;

namespace {

const std::string path = "/etc/gpu-prolog.toml";

cli::Words words(const Arguments& arguments) {
  auto found = cli::find_command("gpu-prolog", arguments, host::Environment());
  REQUIRE(found);
  return *found;
}

base::Result<cli::Parsed> parse(const Arguments& arguments) { return cli::parse_words(words(arguments)); }

base::Result<cli::Options> with_config(const Arguments& arguments, const std::string& text) {
  return cli::parse_words_with_config(words(arguments), path, text);
}

cli::Options good(const Arguments& arguments, const std::string& text = "") {
  auto options = with_config(arguments, text);
  INFO((options ? "" : options.error().what));
  REQUIRE(options);
  return *options;
}

void check_refused(const Arguments& arguments, const std::string& part) {
  INFO(base::join(arguments, " "));
  const auto parsed = parse(arguments);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == base::ExitCode::usage);
  INFO(parsed.error().what);
  CHECK(parsed.error().what.find(part) != std::string::npos);
}

void check_config_refused(const std::string& text, std::size_t line, const std::string& part) {
  INFO(text);
  const auto options = with_config({"imex-prolog"}, text);
  REQUIRE_FALSE(options);
  CHECK(options.error().code == base::ExitCode::usage);
  CHECK(options.error().what.find("config file " + path + ", line " + std::to_string(line) + ": ") == 0);
  INFO(options.error().what);
  CHECK(options.error().what.find(part) != std::string::npos);
}

struct ExitRow {
  std::string code;
  std::string meaning;
  bool operator==(const ExitRow&) const = default;
};

std::vector<ExitRow> table_in_code() {
  std::vector<ExitRow> rows;
  for (const auto& row : base::exit_code_table)
    rows.push_back({std::to_string(base::to_int(row.code)), std::string(row.meaning)});
  rows.push_back({"128+n", "stopped by signal n"});
  return rows;
}

// The rows below "| code | meaning |" of README.md.
std::vector<ExitRow> table_in_docs() {
  std::ifstream stream(tests::data_dir().parent_path().parent_path() / "README.md", std::ios::binary);
  REQUIRE(stream);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::vector<ExitRow> rows;
  bool inside = false;
  for (const std::string_view line : base::each_line(text)) {
    if (line == "| code | meaning |") {
      inside = true;
      continue;
    }
    if (!inside || line == "| --- | --- |") continue;
    if (!line.starts_with('|')) break;
    const auto cells = base::split(line, '|');
    REQUIRE(cells.size() == 4);
    rows.push_back({std::string(base::trim(cells[1])), std::string(base::trim(cells[2]))});
  }
  return rows;
}

std::vector<ExitRow> table_in_help(const std::string& help) {
  std::vector<ExitRow> rows;
  bool inside = false;
  for (const std::string_view line : base::each_line(help)) {
    if (line == "Exit codes:") {
      inside = true;
      continue;
    }
    if (!inside || base::trim(line).empty()) continue;
    const std::string_view rest = base::trim(line);
    const std::size_t space = rest.find(' ');
    rows.push_back({std::string(rest.substr(0, space)), std::string(base::trim(rest.substr(space)))});
  }
  return rows;
}

}  // namespace

// --- exit codes --------------------------------------------------------------------------------------------

TEST_CASE("the exit codes in README.md are the code's, word for word") { CHECK(table_in_docs() == table_in_code()); }

TEST_CASE("the exit codes in every --help are the code's, word for word") {
  for (const Arguments& arguments :
       {Arguments{"--help"}, Arguments{"imex-prolog", "--help"}, Arguments{"imex-epilog", "-h"},
        Arguments{"help", "mig-setup"}, Arguments{"validate", "--help"}}) {
    const auto parsed = parse(arguments);
    REQUIRE(parsed);
    CHECK(table_in_help(parsed->help) == table_in_code());
  }
}

// --- words -------------------------------------------------------------------------------------------------

TEST_CASE("options that nobody knows, values that do not fit, values that are missing") {
  check_refused({"imex-prolog", "--frobnicate"}, "--frobnicate");
  check_refused({"--frobnicate"}, "--frobnicate");
  check_refused({"imex-prolog", "--mode=keep"}, "--mode");  // the epilog's
  check_refused({"imex-epilog", "--wait-domain=off"}, "--wait-domain");
  check_refused({"imex-prolog", "stray"}, "stray");
  check_refused({"imex-prolog", "--config"}, "--config");
  check_refused({"imex-prolog", "--on-failure=maybe"}, "'maybe' is none of fail|continue");
  check_refused({"imex-prolog", "--on-failure=FAIL"}, "none of fail|continue");
  check_refused({"imex-prolog", "--blame=last"}, "none of first|all");
  check_refused({"imex-prolog", "--wait-domain="}, "--wait-domain");
  check_refused({"imex-prolog", "--scope=rack"}, "none of auto|job|block");
  check_refused({"imex-prolog", "--unknown-type=go"}, "none of skip|fail");
  check_refused({"imex-epilog", "--mode=halt"}, "none of stop|keep|self");
  check_refused({"imex-prolog", "--log-level=trace"}, "none of debug|info|warn|error");
  check_refused({"validate", "everything"}, "none of imex|mig|job|cluster");
  check_refused({"mig-setup", "--reboot=yes"}, "--reboot");
  check_refused({"imex-prolog", "--max-domain-nodes=0"}, "--max-domain-nodes");
  check_refused({"imex-prolog", "--max-domain-nodes=-1"}, "--max-domain-nodes");
  check_refused({"imex-prolog", "--max-domain-nodes=18x"}, "--max-domain-nodes");
  check_refused({"imex-prolog", "--max-domain-nodes=65537"}, "--max-domain-nodes");
}

TEST_CASE("words that the chosen check of validate does not look at are refused") {
  for (const Arguments& wrong :
       {Arguments{"validate", "mig", "--gate", "--layout", "9"},
        Arguments{"validate", "mig", "--gate", "--layout-file", "/x"},
        Arguments{"validate", "mig", "--gate", "--layout-name", "x"}, Arguments{"validate", "mig", "--gate", "--srun"},
        Arguments{"validate", "job", "--gate"}, Arguments{"validate", "--gate"},
        Arguments{"validate", "imex", "--gate"}, Arguments{"validate", "cluster", "--gate"}}) {
    check_refused(wrong, "--gate");
  }
  for (const char* word : {"imex", "job", "cluster"}) {
    check_refused({"validate", word, "--layout", "9"}, "--layout goes with validate mig");
    check_refused({"validate", word, "--layout-file", "/x"}, "--layout-file goes with validate mig");
    check_refused({"validate", word, "--layout-name", "x"}, "--layout-name goes with validate mig");
  }
  for (const char* word : {"imex", "mig", "cluster"}) {
    check_refused({"validate", word, "--requeue"}, "--requeue goes with validate job");
    check_refused({"validate", word, "--max-requeues", "2"}, "--max-requeues goes with validate job");
  }
}

TEST_CASE("unknown words are told in the order they were given in") {
  check_refused({"imex-prolog", "--b", "--a", "z"}, "unknown: --b --a z");
  check_refused({"--b", "imex-prolog", "--a"}, "unknown: --b --a");
}

TEST_CASE("a unit's name that systemd would not take, or take for several, is refused in words and in the file") {
  for (const char* name : {"", "*", "nvidia-*", "nvidia imex", " nvidia-imex", "nvidia-imex ", "nvidia?", "[a]", "-x",
                           "../x", "a/b", "a;b", "nvidia-imex\n", "\xc3\xa4"}) {
    CAPTURE(name);
    for (const char* command : {"imex-prolog", "imex-epilog"}) {
      if (*name != '\0') check_refused({command, "--unit", name}, "is no name of a systemd unit");
      CHECK_FALSE(parse({command, std::string("--unit=") + name}));
      if (std::string(name).find('\n') != std::string::npos) continue;
      check_config_refused("[" + std::string(command) + "]\nunit = '" + name + "'\n", 2,
                           "is no name of a systemd unit");
    }
  }
  for (const char* name : {"nvidia-imex", "nvidia-imex.service", "imex@0.service", "a\\x2db", "A:b_c"}) {
    CAPTURE(name);
    CHECK(good({"imex-prolog", "--unit", name}).imex_prolog.gate.unit == name);
  }
}

TEST_CASE("an instance type's prefix that every node would match is refused") {
  for (const char* text : {"\"\"", "[\"p6e-gb200\", \"\"]", "[\" \"]", "\"*\""}) {
    check_config_refused("[imex-prolog]\ninstance-types = " + std::string(text) + "\n", 2,
                         "is no beginning of an instance type");
  }
}

TEST_CASE("no --help shows a program's words for a type") {
  for (const char* command : {"", "imex-prolog", "imex-epilog", "mig-setup", "validate"}) {
    CAPTURE(command);
    const auto parsed = parse(*command == '\0' ? Arguments{"--help"} : Arguments{command, "--help"});
    REQUIRE(parsed);
    for (const char* word : {"UINT", "INT", "TEXT", "FLOAT", " in ["}) {
      CAPTURE(word);
      CHECK(parsed->help.find(word) == std::string::npos);
    }
  }
  CHECK(parse({"imex-prolog", "--help"})->help.find("--settle SECONDS, 0 to 86400 [3.00 s]") != std::string::npos);
}

TEST_CASE("durations that are none") {
  for (const char* option :
       {"--deadline", "--stop-timeout", "--start-timeout", "--ready-timeout", "--domain-timeout", "--settle"}) {
    for (const char* value : {"-1", "x", "1h30", "30 s", "1e3", "9999999999999"})
      check_refused({"imex-prolog", std::string(option) + "=" + value}, option);
  }
  check_refused({"imex-prolog", "--settle=auto"}, "--settle");
}

TEST_CASE("a message about a word cannot forge a line") {
  const auto parsed = parse({"imex-prolog", "--on-failure=a\n[ERROR] b\x1b[2J"});
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().what.find('\n') == std::string::npos);
  CHECK(parsed.error().what.find('\x1b') == std::string::npos);
}

TEST_CASE("without words every option has the contract's default") {
  const cli::Options options = parse({"imex-prolog"})->options;
  CHECK(options.config_file.empty());
  CHECK(options.root.empty());
  CHECK_FALSE(options.dry_run);
  CHECK_FALSE(options.json);
  CHECK(options.log_level == flow::Level::info);
  CHECK_FALSE(options.log_level_given);
  const commands::ImexPrologOptions& prolog = options.imex_prolog;
  CHECK(prolog.gate.unit == "nvidia-imex");
  CHECK(prolog.gate.instance_types == std::vector<std::string>{"p6e-gb200", "p6e-gb300"});
  CHECK_FALSE(prolog.gate.unknown_type_fails);
  CHECK_FALSE(prolog.force);
  CHECK(prolog.on_failure == commands::OnFailure::fail);
  CHECK(prolog.blame == commands::BlameWho::first);
  CHECK(prolog.wait_domain == commands::WaitDomain::warn);
  CHECK(prolog.scope == slurm::Scope::automatic);
  CHECK_FALSE(prolog.deadline);
  CHECK(prolog.stop_timeout == 15s);
  CHECK(prolog.start_timeout == 60s);
  CHECK(prolog.ready_timeout == 30s);
  CHECK(prolog.domain_timeout == 60s);
  CHECK(prolog.settle == 3s);
  CHECK(prolog.max_domain_nodes == 18);
  CHECK_FALSE(prolog.drop_persist);
  CHECK(prolog.scontrol.empty());
  const commands::ImexEpilogOptions& epilog = options.imex_epilog;
  CHECK(epilog.mode == commands::EpilogMode::stop);
  CHECK(epilog.lock_timeout == 20s);
  CHECK(epilog.stop_timeout == 15s);
  CHECK_FALSE(epilog.deadline);
}

TEST_CASE("every option of imex-prolog is taken") {
  const cli::Options options =
      good({"imex-prolog", "--unit=u", "--instance-types=a,b", "--unknown-type=fail", "--force",
            "--on-failure=continue", "--blame=all", "--wait-domain=require", "--scope=block", "--deadline=100",
            "--stop-timeout=1", "--start-timeout=2s", "--ready-timeout=500ms", "--domain-timeout=2m", "--settle=1.5s",
            "--max-domain-nodes=4", "--drop-persist", "--scontrol=/x/scontrol"});
  const commands::ImexPrologOptions& prolog = options.imex_prolog;
  CHECK(prolog.gate.unit == "u");
  CHECK(prolog.gate.instance_types == std::vector<std::string>{"a", "b"});
  CHECK(prolog.gate.unknown_type_fails);
  CHECK(prolog.force);
  CHECK(prolog.on_failure == commands::OnFailure::carry_on);
  CHECK(prolog.blame == commands::BlameWho::all);
  CHECK(prolog.wait_domain == commands::WaitDomain::require);
  CHECK(prolog.scope == slurm::Scope::block);
  CHECK(prolog.deadline == 100s);
  CHECK(prolog.stop_timeout == 1s);
  CHECK(prolog.start_timeout == 2s);
  CHECK(prolog.ready_timeout == 500ms);
  CHECK(prolog.domain_timeout == 2min);
  CHECK(prolog.settle == 1500ms);
  CHECK(prolog.max_domain_nodes == 4);
  CHECK(prolog.drop_persist);
  CHECK(prolog.scontrol == "/x/scontrol");
}

TEST_CASE("every option of imex-epilog is taken, and leaves the prolog's alone") {
  const cli::Options options = good(
      {"imex-epilog", "--mode=self", "--lock-timeout=1", "--stop-timeout=2", "--deadline=3", "--unit=u", "--force"});
  CHECK(options.imex_epilog.mode == commands::EpilogMode::self);
  CHECK(options.imex_epilog.lock_timeout == 1s);
  CHECK(options.imex_epilog.stop_timeout == 2s);
  CHECK(options.imex_epilog.deadline == 3s);
  CHECK(options.imex_epilog.gate.unit == "u");
  CHECK(options.imex_epilog.force);
  CHECK(options.imex_prolog.gate.unit == "nvidia-imex");
  CHECK(options.imex_prolog.stop_timeout == 15s);
}

TEST_CASE("words that the chosen check of validate looks at are taken, and a config file holds those of every check") {
  good({"validate", "mig", "--gate", "--strict"});
  good({"validate", "mig", "--layout", "9"});
  good({"validate", "--layout", "9"});
  good({"validate", "job", "--requeue", "--max-requeues", "2"});
  good({"validate", "--requeue"});
  const std::string file = "[validate]\nlayout = \"9\"\nrequeue = true\n";
  CHECK(good({"validate", "mig", "--gate"}, file).validate.mig.gate);
  CHECK(good({"validate", "job"}, file).validate.job.requeue);
}

TEST_CASE("global options stand before or after the word") {
  for (const Arguments& arguments :
       {Arguments{"--root=/r", "--dry-run", "--json", "--log-level", "debug", "--config=/c", "imex-prolog"},
        Arguments{"imex-prolog", "--root", "/r", "--dry-run", "--json", "--log-level=debug", "--config", "/c"}}) {
    const cli::Options options = good(arguments);
    CHECK(options.root == "/r");
    CHECK(options.dry_run);
    CHECK(options.json);
    CHECK(options.log_level == flow::Level::debug);
    CHECK(options.log_level_given);
    CHECK(options.config_file == "/c");
  }
}

TEST_CASE("of an option that is given twice the last counts, --layout is collected") {
  CHECK(good({"imex-prolog", "--settle=1", "--settle=2"}).imex_prolog.settle == 2s);
  CHECK(good({"imex-prolog", "--on-failure=continue", "--on-failure=fail"}).imex_prolog.on_failure ==
        commands::OnFailure::fail);
  CHECK(good({"mig-setup", "--layout", "0=9", "--layout", "1=none"}).mig_setup.layouts ==
        std::vector<std::string>{"0=9", "1=none"});
}

TEST_CASE("--deadline=auto takes a number back") {
  CHECK_FALSE(good({"imex-prolog", "--deadline=5", "--deadline=auto"}).imex_prolog.deadline);
}

TEST_CASE("--version is told apart, with or without a command") {
  CHECK(parse({"--version"})->version);
  CHECK(parse({"imex-prolog", "--version"})->version);
  CHECK_FALSE(parse({"imex-prolog"})->version);
}

TEST_CASE("the short help fits a screen and names the long one") {
  CHECK(base::lines(cli::short_help()).size() <= 24);
  CHECK(cli::short_help().find("gpu-prolog --help") != std::string::npos);
}

// --- the config file ---------------------------------------------------------------------------------------

TEST_CASE("an unknown key or section is an error, also in another command's section") {
  check_config_refused("frobnicate = 1\n", 1, "unknown key frobnicate");
  check_config_refused("[frobnicate]\nx = 1\n", 1, "unknown section [frobnicate]");
  check_config_refused("[imex-prolog]\nfrobnicate = 1\n", 2, "unknown key frobnicate in section [imex-prolog]");
  check_config_refused("[imex-prolog]\nmode = \"keep\"\n", 2, "unknown key mode in section [imex-prolog]");
  check_config_refused("[mig-setup]\nfrobnicate = 1\n", 2, "unknown key frobnicate in section [mig-setup]");
  check_config_refused("wait-domain = \"off\"\n", 1, "unknown key wait-domain");  // belongs into a section
  check_config_refused("[imex-prolog]\njson = true\n", 2, "unknown key json");    // belongs before all sections
  check_config_refused("[IMEX-PROLOG]\nforce = true\n", 1, "unknown section [IMEX-PROLOG]");
}

TEST_CASE("an unknown section without a key is an error too") {
  check_config_refused("[imex-prolog]\n[frobnicate]\n", 2, "unknown section [frobnicate]");
}

TEST_CASE("what only a command line can say is no key") {
  for (const char* key : {"config", "version", "help", "root"})
    check_config_refused(std::string(key) + " = \"x\"\n", 1, std::string("unknown key ") + key);
  check_config_refused("[imex-prolog]\nhelp = true\n", 2, "unknown key help");
}

TEST_CASE("a value that does not fit is an error with the line") {
  check_config_refused("\nlog-level = \"loud\"\n", 2, "none of debug|info|warn|error");
  check_config_refused("[imex-prolog]\n\nsettle = \"soon\"\n", 3, "--settle");
  check_config_refused("[imex-prolog]\nmax-domain-nodes = 0\n", 2, "--max-domain-nodes");
  check_config_refused("[imex-epilog]\nmode = \"halt\"\n", 2, "none of stop|keep|self");
  check_config_refused("[imex-prolog]\nforce = \"perhaps\"\n", 2, "force");
}

TEST_CASE("a line that is no TOML is an error of the whole file") {
  check_config_refused("[imex-prolog]\nforce\n", 2, "is no TOML");
}

TEST_CASE("the file sets options of its command and global ones") {
  const cli::Options options =
      good({"imex-prolog"},
           "log-level = \"debug\"\njson = true\n"
           "[imex-prolog]\non-failure = \"continue\"\nsettle = 1.5\nready-timeout = \"2m\"\n"
           "instance-types = [\"p9\", \"p10\"]\nforce = true\nmax-domain-nodes = 4\ndeadline = 20\n"
           "[imex-epilog]\nmode = \"keep\"\n"
           "[mig-setup]\nlayout = [\"0=9\", \"1=none\"]\n");
  CHECK(options.log_level == flow::Level::debug);
  CHECK(options.json);
  CHECK(options.imex_prolog.on_failure == commands::OnFailure::carry_on);
  CHECK(options.imex_prolog.settle == 1500ms);
  CHECK(options.imex_prolog.ready_timeout == 2min);
  CHECK(options.imex_prolog.gate.instance_types == std::vector<std::string>{"p9", "p10"});
  CHECK(options.imex_prolog.force);
  CHECK(options.imex_prolog.max_domain_nodes == 4);
  CHECK(options.imex_prolog.deadline == 20s);
  CHECK(options.imex_epilog.mode == commands::EpilogMode::keep);
  CHECK(options.mig_setup.layouts == std::vector<std::string>{"0=9", "1=none"});
}

TEST_CASE("a word on the command line wins over the file, of either place of a global option") {
  const std::string text =
      "log-level = \"debug\"\n[imex-prolog]\nsettle = 9\ninstance-types = [\"p9\"]\nforce = true\non-failure = "
      "\"continue\"\n";
  const cli::Options options =
      good({"imex-prolog", "--settle=1", "--instance-types=p1,p2", "--on-failure=fail", "--log-level=error"}, text);
  CHECK(options.imex_prolog.settle == 1s);
  CHECK(options.imex_prolog.gate.instance_types == std::vector<std::string>{"p1", "p2"});
  CHECK(options.imex_prolog.on_failure == commands::OnFailure::fail);
  CHECK(options.log_level == flow::Level::error);
  CHECK(options.imex_prolog.force);  // not said on the command line
  CHECK(good({"--log-level=warn", "imex-prolog"}, text).log_level == flow::Level::warn);
}

TEST_CASE("a section never runs its command: the words alone say what runs") {
  const std::string text =
      "[imex-prolog]\nforce = true\n[imex-epilog]\nmode = \"self\"\n[mig-setup]\nforce = true\n[validate]\nstrict = "
      "true\n";
  const auto options = with_config({"validate", "imex"}, text);
  REQUIRE(options);
  CHECK(options->validate.what == commands::ValidateWhat::imex);
  CHECK(options->validate.strict);
  CHECK(options->imex_prolog.force);
  // Sections of four commands, and the word of one: require_subcommand(0, 1) would refuse any that the file had run.
  CHECK(with_config({}, text));
  CHECK(with_config({"mig-setup"}, text));
}
