// What a prolog notes for the epilog and the next run: lost nowhere, believed only where it is whole and of this boot.
#include "imex/state.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"

using imex::Phase;
using imex::RunIdentity;
using imex::State;

namespace {

const std::string place = "/run/gpu-prolog/imex.json";
const std::string boot_id = "/proc/sys/kernel/random/boot_id";

State full_state() {
  State state;
  state.run = {"4711", "sABCDEFGH23456", "2", "1777874890"};
  state.phase = Phase::started;
  state.boot_id = "8a9f0c6e-0000-4000-8000-000000000001";
  state.unit = "nvidia-imex";
  state.nodes_config = "/etc/nvidia-imex/nodes_config.cfg";
  state.addresses = {"10.0.0.2", "10.0.0.1"};
  state.main_pid = 77;
  state.main_start_time = 18446744073709551615ULL;
  state.prolog_pid = 4242;
  return state;
}

fakes::FakeFiles node() {
  fakes::FakeFiles files;
  files.file(boot_id, "8a9f0c6e-0000-4000-8000-000000000001\n").directory("/run").allow_changes();
  return files;
}

void replace_once(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a damaged state is none, and it is said why") {
  const std::string whole = imex::render_state(full_state());
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("\"started\""), std::string("{"),
        std::string("{}"), whole.substr(0, whole.size() / 2), std::string("\0\0\0\0", 4), "x" + whole}) {
    INFO(text);
    const auto state = imex::parse_state(text);
    REQUIRE_FALSE(state);
    CHECK(state.error().what.find("the state file " + place + " is damaged: ") == 0);
  }
}

TEST_CASE("a member of another type, a missing member or an unknown phase is damage") {
  const std::pair<std::string, std::string> damages[] = {
      {"\"job_id\": \"4711\"", "\"job_id\": 4711"},
      {"\"job_id\"", "\"jobid\""},
      {"\"phase\": \"started\"", "\"phase\": \"begun\""},
      {"\"phase\": \"started\"", "\"phase\": 1"},
      {"\"unit\": \"nvidia-imex\"", "\"unit\": null"},
      {"\"unit\": \"nvidia-imex\"", "\"unit\": \"\""},
      {"\"unit\": \"nvidia-imex\"", "\"unit\": \"--all\""},
      {"\"unit\": \"nvidia-imex\"", "\"unit\": \"ssh*\""},
      {"\"nodes_config\"", "\"node_config\""},
      {"\"main_pid\": 77", "\"main_pid\": \"77\""},
      {"\"10.0.0.2\"", "10"},
      {"\"main_pid\": 77", "\"main_pid\": 77.5"},
      {"\"main_pid\": 77", "\"main_pid\": -77"},
      {"\"main_pid\": 77", "\"main_pid\": 4294967373"},
      {"\"main_pid\": 77", "\"main_pid\": null"},
      {"\"prolog_pid\": 4242", "\"prolog_pid\": -1"},
      {"\"prolog_pid\": 4242", "\"prolog_pid\": 1e3"},
      {"\"main_start_time\": 18446744073709551615", "\"main_start_time\": -1"},
      {"\"main_start_time\": 18446744073709551615", "\"main_start_time\": 18446744073709551616"},
      {"\"sluid\": \"sABCDEFGH23456\"", "\"sluid\": []"},
  };
  for (const auto& [from, to] : damages) {
    INFO(to);
    std::string text = imex::render_state(full_state());
    replace_once(text, from, to);
    CHECK_FALSE(imex::parse_state(text));
  }
}

TEST_CASE("a state of another boot is none, and no damage either") {
  fakes::FakeFiles files = node();
  REQUIRE(imex::write_state(files, full_state()));
  std::string damage;
  REQUIRE(imex::read_state(files, damage));
  files.file(boot_id, "8a9f0c6e-0000-4000-8000-000000000002\n");
  CHECK_FALSE(imex::read_state(files, damage));
  CHECK(damage.empty());
}

TEST_CASE("no state file is no damage; an unreadable or damaged one is told") {
  fakes::FakeFiles files = node();
  std::string damage;
  CHECK_FALSE(imex::read_state(files, damage));
  CHECK(damage.empty());
  SECTION("unreadable") { files.fail_read(place, EIO); }
  SECTION("damaged") { files.file(place, "{\"job_id\": "); }
  SECTION("larger than any state") { files.file(place, std::string((64U << 10U) + 1, ' ')); }
  SECTION("nested") { files.file(place, std::string(30'000, '[') + std::string(30'000, ']')); }
  CHECK_FALSE(imex::read_state(files, damage));
  CHECK_FALSE(damage.empty());
}

TEST_CASE("a state that others than root could have written is damage, and it is said why") {
  const std::pair<std::string, std::string> cases[] = {
      {"owner", place + " does not belong to root"},
      {"mode", place + " can be written by group or others"},
      {"folder owner", "/run/gpu-prolog does not belong to root"},
      {"folder mode", "/run/gpu-prolog can be written by group or others"},
      {"link", place + " is a symbolic link, not a file"},
      {"folder link", "/run/gpu-prolog is a symbolic link, not a folder"},
  };
  for (const auto& [what, why] : cases) {
    INFO(what);
    fakes::FakeFiles files = node();
    REQUIRE(imex::write_state(files, full_state()));
    const std::string whole = imex::render_state(full_state());
    if (what == "owner") files.file(place, whole, 0644, 1000);
    if (what == "mode") files.file(place, whole, 0664);
    if (what == "folder owner") files.directory("/run/gpu-prolog", 0755, 1000);
    if (what == "folder mode") files.directory("/run/gpu-prolog", 0775);
    if (what == "link") files.file("/tmp/state", whole).link(place, "/tmp/state");
    if (what == "folder link") files.link("/run/gpu-prolog", "/tmp");
    std::string damage;
    CHECK_FALSE(imex::read_state(files, damage));
    CHECK(damage == "the state file " + place + " is damaged: " + why);
  }
}

TEST_CASE("below --root a person's own tree is believed") {
  fakes::FakeFiles files = node();
  files.directory("/run", 0755, 1000).directory("/run/gpu-prolog", 0755, 1000);
  files.file(place, imex::render_state(full_state()), 0644, 1000);
  std::string damage;
  CHECK(imex::read_state(files, damage));
  CHECK(damage.empty());
}

TEST_CASE("a state that cannot be written is an error") {
  fakes::FakeFiles files = node();
  SECTION("no folder can be made") { files.fail_change("/run/gpu-prolog", EROFS); }
  SECTION("no file can be written") { files.fail_change(place, ENOSPC); }
  const auto written = imex::write_state(files, full_state());
  REQUIRE_FALSE(written);
  CHECK(written.error().code == base::ExitCode::change);
  CHECK(written.error().os_error != 0);
  CHECK_FALSE(written.error().cure.empty());
}

TEST_CASE("a state comes back as it was written") {
  fakes::FakeFiles files = node();
  for (const Phase phase : {Phase::changing, Phase::started, Phase::stopped}) {
    State state = full_state();
    state.phase = phase;
    REQUIRE(imex::write_state(files, state));
    std::string damage;
    const auto back = imex::read_state(files, damage);
    REQUIRE(back);
    CHECK(damage.empty());
    CHECK(back->phase == phase);
    CHECK(back->run.job_id == state.run.job_id);
    CHECK(back->run.sluid == state.run.sluid);
    CHECK(back->run.restart_count == state.run.restart_count);
    CHECK(back->run.start_time == state.run.start_time);
    CHECK(back->boot_id == state.boot_id);
    CHECK(back->unit == state.unit);
    CHECK(back->nodes_config == state.nodes_config);
    CHECK(back->addresses == state.addresses);
    CHECK(back->main_pid == state.main_pid);
    CHECK(back->main_start_time == state.main_start_time);
    CHECK(back->prolog_pid == state.prolog_pid);
  }
  CHECK(files.changes.front() == "make_directory /run/gpu-prolog 0755");
  CHECK(files.changes.size() == 4);  // the folder once
}

TEST_CASE("texts that JSON has to escape come back too") {
  State state = full_state();
  state.run.start_time = "a\"b\\c\nd";
  const auto back = imex::parse_state(imex::render_state(state));
  REQUIRE(back);
  CHECK(back->run.start_time == "a\"b\\c\nd");
  state.run.start_time = "\xff\xfe";  // no UTF-8: replaced, and the state stays readable
  CHECK(imex::parse_state(imex::render_state(state)));
}

TEST_CASE("two runs of one job are told apart by whatever both sides know") {
  const RunIdentity run{"7", "sA", "1", "100"};
  CHECK_FALSE(imex::same_run(run, {"8", "sA", "1", "100"}));
  CHECK_FALSE(imex::same_run(run, {"7", "sB", "1", "100"}));
  CHECK_FALSE(imex::same_run(run, {"7", "sA", "2", "100"}));
  CHECK_FALSE(imex::same_run(run, {"7", "sA", "1", "101"}));
  CHECK(imex::same_run(run, {"7", "", "", ""}));
  CHECK(imex::same_run({"7", "", "", ""}, run));
  CHECK(imex::same_run(run, run));
}

TEST_CASE("an epilog of another run is none of this prolog's") {
  const RunIdentity prolog{"7", "sA", "0", "100"};
  CHECK_FALSE(imex::is_epilog_of(prolog, {"8", "sA", "1", "100"}));
  CHECK_FALSE(imex::is_epilog_of(prolog, {"7", "sB", "1", "100"}));
  CHECK_FALSE(imex::is_epilog_of(prolog, {"7", "sA", "1", "101"}));
  CHECK_FALSE(imex::is_epilog_of(prolog, {"7", "sA", "2", "100"}));                   // two more
  CHECK_FALSE(imex::is_epilog_of({"7", "sA", "1", "100"}, {"7", "sA", "0", "100"}));  // one less
  CHECK_FALSE(imex::is_epilog_of({"7", "", "0", ""}, {"7", "", "1", ""}));  // nothing else says that it is the same
  CHECK_FALSE(imex::is_epilog_of({"7", "", "x", "100"}, {"7", "", "1", "100"}));
}

TEST_CASE("a restart that Slurm has counted before the epilog came does not make it another run") {
  CHECK(imex::is_epilog_of({"7", "sA", "0", "100"}, {"7", "sA", "1", "100"}));
  CHECK(imex::is_epilog_of({"7", "", "0", "100"}, {"7", "", "1", "100"}));
  CHECK(imex::is_epilog_of({"7", "sA", "0", ""}, {"7", "sA", "1", ""}));
  CHECK(imex::is_epilog_of({"7", "sA", "0", "100"}, {"7", "sA", "0", "100"}));
}
