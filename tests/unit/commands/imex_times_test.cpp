// What the limits of a run follow from, and what the log says why.
#include "commands/imex_times.h"

#include <catch2/catch_test_macros.hpp>

using namespace std::chrono_literals;
using commands::epilog_time;
using commands::nohold_time;
using commands::prolog_time;

namespace {

std::optional<slurm::Conf> conf(const std::string& text) {
  slurm::Conf parsed;
  std::vector<std::string> includes;
  slurm::parse_conf(text, parsed, includes);
  return parsed;
}

}  // namespace

TEST_CASE("without a slurm.conf, or without a limit in it, the defaults apply") {
  for (const auto& its_conf :
       {std::optional<slurm::Conf>(), conf(""), conf("PrologTimeout=65534\nEpilogTimeout=INFINITE\n")}) {
    CHECK(prolog_time(std::nullopt, its_conf).limit == 150s);
    CHECK(prolog_time(std::nullopt, its_conf).because == "the default");
    CHECK(epilog_time(std::nullopt, its_conf).limit == 60s);
  }
}

TEST_CASE("a limit of Slurm's that is nearer counts, less 5 s, and is named") {
  const auto time = prolog_time(std::nullopt, conf("PrologTimeout=60\n"));
  CHECK(time.limit == 55s);
  CHECK(time.because == "PrologTimeout of slurm.conf (60 s) less 5.00 s");
  CHECK(epilog_time(std::nullopt, conf("EpilogTimeout=30\n")).limit == 25s);
  CHECK(prolog_time(std::nullopt, conf("PrologEpilogTimeout=60\n")).limit == 55s);
  CHECK(epilog_time(std::nullopt, conf("PrologEpilogTimeout=30\n")).limit == 25s);
  CHECK(prolog_time(std::nullopt, conf("PrologEpilogTimeout=60\nPrologTimeout=40\n")).limit == 35s);
}

TEST_CASE("a limit of Slurm's that is farther changes nothing") {
  CHECK(prolog_time(std::nullopt, conf("PrologTimeout=155\n")).limit == 150s);
  CHECK(prolog_time(std::nullopt, conf("PrologTimeout=600\n")).limit == 150s);
  CHECK(prolog_time(std::nullopt, conf("PrologTimeout=154\n")).limit == 149s);
  CHECK(epilog_time(std::nullopt, conf("EpilogTimeout=600\n")).limit == 60s);
}

TEST_CASE("a limit that leaves no time leaves a second") {
  CHECK(prolog_time(std::nullopt, conf("PrologTimeout=3\n")).limit == 1s);
  CHECK(epilog_time(std::nullopt, conf("EpilogTimeout=5\n")).limit == 1s);
}

TEST_CASE("a deadline that was asked for counts against everything") {
  const auto time = prolog_time(300s, conf("PrologTimeout=60\n"));
  CHECK(time.limit == 300s);
  CHECK(time.because == "--deadline");
  CHECK(epilog_time(7s, std::nullopt).limit == 7s);
}

TEST_CASE("only NoHold lets srun give up while a prolog runs") {
  CHECK_FALSE(nohold_time(std::nullopt));
  CHECK_FALSE(nohold_time(conf("")));
  CHECK_FALSE(nohold_time(conf("PrologFlags=Alloc,Contain\nMessageTimeout=10\n")));
  CHECK_FALSE(nohold_time(conf("PrologFlags=NoHolding\n")));
}

TEST_CASE("with NoHold the domain wait ends 3 s before srun gives up, and the settings are named") {
  const auto time = nohold_time(conf("PrologFlags=Alloc,NoHold\nMessageTimeout=30\nBatchStartTimeout=20\n"));
  REQUIRE(time);
  CHECK(time->limit == 47s);
  CHECK(time->because == "PrologFlags=NoHold with MessageTimeout 30 s and BatchStartTimeout 20 s");
  CHECK(nohold_time(conf("PrologFlags=nohold\n"))->limit == 17s);
  CHECK(nohold_time(conf("PrologFlags=NoHold\nMessageTimeout=1\nBatchStartTimeout=1\n"))->limit == 1s);
}
