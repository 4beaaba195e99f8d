// Which command was meant: slurmd gives a Prolog no arguments, so its context, else our own name, has to say.
#include "cli/words.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

using cli::CommandWord;
using cli::find_command;
using Arguments = std::vector<std::string>;

namespace {

host::Environment in_context(const std::optional<std::string>& context) {
  if (!context) return host::Environment();
  return host::Environment({{"SLURM_SCRIPT_CONTEXT", *context}});
}

base::Result<cli::Words> find(const Arguments& arguments, const std::optional<std::string>& context = std::nullopt,
                              const std::string& argv0 = "/opt/gpu-prolog/gpu-prolog") {
  return find_command(argv0, arguments, in_context(context));
}

void check_refused(const base::Result<cli::Words>& words, const std::string& part) {
  REQUIRE_FALSE(words);
  CHECK(words.error().code == base::ExitCode::usage);
  INFO(words.error().what << "; " << words.error().cure);
  CHECK((words.error().what + "; " + words.error().cure).find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("another context than slurmd's prolog or epilog has nothing for us to do, whatever our name is") {
  for (const char* context : {"prolog_task", "epilog_task", "prolog_slurmctld", "epilog_slurmctld", "reboot_program",
                              "", "PROLOG_SLURMD", "prolog_slurmd "}) {
    INFO(context);
    check_refused(find({}, context), "nothing to do in the context");
    check_refused(find({}, context, "/etc/91_nvidia_imex_prolog.sh"), "nothing to do in the context");
  }
}

TEST_CASE("the words imex-prolog and imex-epilog are refused in another context than their own") {
  check_refused(find({"imex-prolog"}, "epilog_slurmd"), "imex-prolog does not run in the context epilog_slurmd");
  check_refused(find({"imex-epilog"}, "prolog_slurmd"), "imex-epilog does not run in the context prolog_slurmd");
  check_refused(find({"imex-prolog"}, "prolog_task"), "imex-prolog does not run in the context prolog_task");
  check_refused(find({"--dry-run", "imex-epilog"}, ""), "imex-epilog does not run in the context");
}

TEST_CASE("a context cannot forge a line of the message") {
  const auto words = find({}, "x\n[ERROR] forged");
  REQUIRE_FALSE(words);
  CHECK(words.error().what.find('\n') == std::string::npos);
}

TEST_CASE("an unknown word is refused, with the near one, and never run") {
  check_refused(find({"imex-prolg"}), "did you mean imex-prolog?");
  check_refused(find({"imex_epilog"}), "did you mean imex-epilog?");
  check_refused(find({"migsetup"}), "did you mean mig-setup?");
  check_refused(find({"--json", "valdate"}), "did you mean validate?");
  check_refused(find({"frobnicate"}), "the commands are imex-prolog, imex-epilog, mig-setup and validate");
  check_refused(find({"IMEX-PROLOG"}), "the commands are");
  check_refused(find({""}), "unknown command ''");
  check_refused(find({"help", "imex-prolg"}), "did you mean imex-prolog?");
  check_refused(find({"frobnicate"}, "prolog_slurmd"), "unknown command 'frobnicate'");
}

TEST_CASE("the nearest word is at most three letters away") {
  CHECK(cli::nearest_command("imex-prol") == "imex-prolog");
  CHECK(cli::nearest_command("valid") == "validate");
  CHECK(cli::nearest_command("imex").empty());
  CHECK(cli::nearest_command("").empty());
}

TEST_CASE("mig-setup and validate run in any context") {
  for (const char* context : {"prolog_slurmd", "epilog_slurmd", "prolog_task", "x"}) {
    CHECK(find({"mig-setup"}, context)->command == CommandWord::mig_setup);
    CHECK(find({"validate", "job"}, context)->command == CommandWord::validate);
  }
}

TEST_CASE("slurmd's context decides alone, also against our name") {
  for (const char* argv0 : {"gpu-prolog", "/etc/91_nvidia_imex_prolog.sh", "/etc/91_nvidia_imex_epilog.sh", ""}) {
    CHECK(find({}, "prolog_slurmd", argv0)->command == CommandWord::imex_prolog);
    CHECK(find({}, "epilog_slurmd", argv0)->command == CommandWord::imex_epilog);
  }
}

TEST_CASE("without a context our own file name decides") {
  const std::pair<const char*, CommandWord> rows[] = {
      {"91_nvidia_imex_prolog.sh", CommandWord::imex_prolog},
      {"/opt/slurm/etc/91_nvidia_imex_prolog.sh", CommandWord::imex_prolog},
      {"imex-prolog", CommandWord::imex_prolog},
      {"91_nvidia_imex_epilog.sh", CommandWord::imex_epilog},
      {"/x/imex-epilog", CommandWord::imex_epilog},
      {"gpu-prolog", CommandWord::none},
      {"/opt/imex-prolog/gpu-prolog", CommandWord::none},  // a folder's name is not ours
      {"prolog", CommandWord::none},
      {"", CommandWord::none},
      {"/", CommandWord::none},
  };
  for (const auto& [argv0, command] : rows) {
    INFO(argv0);
    const auto words = find({}, std::nullopt, argv0);
    REQUIRE(words);
    CHECK(words->command == command);
  }
}

TEST_CASE("the word that the surroundings say stands in front of the arguments") {
  CHECK(find({"--dry-run", "--json"}, "prolog_slurmd")->arguments == Arguments{"imex-prolog", "--dry-run", "--json"});
  CHECK(find({"--mode=keep"}, std::nullopt, "imex_epilog")->arguments == Arguments{"imex-epilog", "--mode=keep"});
  CHECK(find({"--help"})->arguments == Arguments{"--help"});
}

TEST_CASE("a word on the command line counts, wherever it stands among the options") {
  for (const Arguments& arguments :
       {Arguments{"imex-prolog", "--dry-run"}, Arguments{"--dry-run", "imex-prolog"},
        Arguments{"--config", "/etc/x.toml", "imex-prolog"}, Arguments{"--root", "validate", "imex-prolog"},
        Arguments{"--log-level", "debug", "--json", "imex-prolog"},
        Arguments{"--config=/etc/validate", "imex-prolog", "validate"}}) {
    const auto words = find(arguments, std::nullopt, "/etc/imex_epilog");
    REQUIRE(words);
    CHECK(words->command == CommandWord::imex_prolog);
    CHECK(words->arguments == arguments);
  }
  CHECK(find({"imex-prolog"}, "prolog_slurmd")->command == CommandWord::imex_prolog);
  CHECK(find({"imex-epilog"}, "epilog_slurmd")->command == CommandWord::imex_epilog);
}

TEST_CASE("an option's value at the end is no command") {
  const auto words = find({"--root", "validate"});
  REQUIRE(words);
  CHECK(words->command == CommandWord::none);
  CHECK(find({"--config"})->command == CommandWord::none);
}

TEST_CASE("help and a word is that word's --help") {
  CHECK(find({"help"})->arguments == Arguments{"--help"});
  CHECK(find({"help"})->command == CommandWord::none);
  const auto words = find({"help", "mig-setup"});
  REQUIRE(words);
  CHECK(words->command == CommandWord::mig_setup);
  CHECK(words->arguments == Arguments{"mig-setup", "--help"});
}

TEST_CASE("each command shows as its word") {
  CHECK(cli::show(CommandWord::imex_prolog) == "imex-prolog");
  CHECK(cli::show(CommandWord::imex_epilog) == "imex-epilog");
  CHECK(cli::show(CommandWord::mig_setup) == "mig-setup");
  CHECK(cli::show(CommandWord::validate) == "validate");
  CHECK(cli::show(CommandWord::none).empty());
}
