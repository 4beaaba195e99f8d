#include "mig/status.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "fakes/fake_files.h"

using namespace mig;

namespace {

const std::string run_path = "/run/gpu-prolog/mig-setup.json";
const std::string lib_path = "/var/lib/gpu-prolog/mig-setup.json";

Status good() {
  Status status;
  status.boot_id = "boot-1";
  status.time = "2026-05-04T06:08:10Z";
  status.result = "changed";
  status.message = "every GPU has its layout";
  GpuStatus gpu;
  gpu.bus_id = "00000000:36:00.0";
  gpu.layout = "3g.71gb:1,1g.18gb:2";
  gpu.state = "right";
  gpu.mode_current = gpu.mode_pending = "Enabled";
  gpu.instances = {{"3g.71gb", 9}};
  status.gpus = {gpu};
  status.gres = {{"3g.71gb", 1}};
  return status;
}

// As the gate judges a file of this text.
GateVerdict gate_of(const std::string& text, std::string_view boot_id) {
  fakes::FakeFiles files;
  files.file(run_path, text);
  return gate(read_status(files, true), boot_id);
}

void shut(const GateVerdict& verdict, const std::string& word) {
  CAPTURE(word, verdict.found);
  CHECK_FALSE(verdict.open);
  CHECK(verdict.found.find(word) != std::string::npos);
  CHECK_FALSE(verdict.cure.empty());
}

}  // namespace

TEST_CASE("a status that is nested or large beyond all measure is damaged or unreadable, at once") {
  const auto nested = parse_status(std::string(400'000, '[') + std::string(400'000, ']'));
  REQUIRE_FALSE(nested);
  CHECK(nested.error().what.find("it is nested more than 32 deep") != std::string::npos);
  fakes::FakeFiles files;
  files.file(run_path, std::string((1U << 20U) + 1, ' '));
  CHECK_FALSE(read_status(files, true));
}

TEST_CASE("the gate is shut without a file, for a damaged one, for another boot, a killed run and a failed one") {
  CHECK_FALSE(gate(read_status(fakes::FakeFiles(), true), "boot-1").open);
  for (const char* damage : {"", "{", "null", "[]", "{}", "17", "{\"command\": \"mig-setup\"}",
                             "{\"command\": \"mig-setup\", \"exit_code\": \"0\"}"}) {
    CAPTURE(damage);
    CHECK_FALSE(gate_of(damage, "boot-1").open);
  }
  CHECK_FALSE(gate_of(std::string(64, '\0'), "boot-1").open);
  CHECK_FALSE(gate_of(to_json(good()), "boot-2").open);
  CHECK_FALSE(gate_of(to_json(good()), "").open);
  Status nameless = good();
  nameless.boot_id.clear();
  CHECK_FALSE(gate_of(to_json(nameless), "").open);
  Status running = good();
  running.result = "running";
  CHECK_FALSE(gate_of(to_json(running), "boot-1").open);
  Status failed = good();
  failed.exit_code = 5;
  failed.message = "GPU 0: Insufficient Resources";
  failed.cure = "end it";
  const GateVerdict verdict = gate_of(to_json(failed), "boot-1");
  CHECK_FALSE(verdict.open);
  CHECK(verdict.found.find("exit code 5") != std::string::npos);
  CHECK(verdict.found.find("Insufficient Resources") != std::string::npos);
  CHECK(verdict.cure == "end it");
}

TEST_CASE("the gate is open after a run of this boot that went well") {
  CHECK(gate_of(to_json(good()), "boot-1").open);
}

TEST_CASE("the gate is shut for a status that contradicts itself, of another schema, or with a key twice") {
  for (const char* result : {"failed", "pending", "rebooting", "planned", "fits", "perfect"}) {
    Status status = good();
    status.result = result;
    shut(gate_of(to_json(status), "boot-1"), result);
  }
  for (const char* state : {"failed", "pending", "planned", "unknown", "perfect", ""}) {
    Status status = good();
    status.gpus.front().state = state;
    shut(gate_of(to_json(status), "boot-1"), state);
  }
  const auto gpu = [](auto change) {
    Status status = good();
    change(status.gpus.front());
    return gate_of(to_json(status), "boot-1");
  };
  shut(gpu([](GpuStatus& g) { g.mode_current = "Disabled"; }), "has instances with its MIG mode Disabled");
  shut(gpu([](GpuStatus& g) { g.mode_pending = "Disabled"; }), "pending Disabled");
  shut(gpu([](GpuStatus& g) { g.instances.clear(); }), "without any instance");
  shut(gpu([](GpuStatus& g) { g.layout.clear(); }), "without a layout");
  shut(gpu([](GpuStatus& g) { g.layout = "none"; }), "the layout none");
  shut(gpu([](GpuStatus& g) { g.state = "unselected", g.mode_current = g.mode_pending = "Disabled"; }),
       "has instances");
  shut(gpu([](GpuStatus& g) { g.state = "unsupported", g.instances.clear(); }), "none of its 'gpus' is 'right'");
  CHECK(gpu([](GpuStatus& g) { g.layout = "empty", g.instances.clear(); }).open);
  CHECK(gpu([](GpuStatus& g) {
          g.layout = "none", g.instances.clear(), g.mode_current = g.mode_pending = "Disabled";
        }).open);
  Status nothing = good();
  nothing.gpus.clear();
  shut(gate_of(to_json(nothing), "boot-1"), "none of its 'gpus' is 'right'");
  nothing.result = "unsupported";  // a node without any NVIDIA GPU
  CHECK(gate_of(to_json(nothing), "boot-1").open);
  Status both = good();
  both.result = "unsupported";
  shut(gate_of(to_json(both), "boot-1"), "with the result 'unsupported' a GPU is 'right'");
  Status dry = good();
  dry.dry_run = true;
  shut(gate_of(to_json(dry), "boot-1"), "dry run");
  const auto changed = [](const std::string& old, const std::string& now) {
    std::string text = to_json(good());
    const std::size_t at = text.find(old);
    REQUIRE(at != std::string::npos);
    return text.replace(at, old.size(), now);
  };
  shut(gate_of(changed("\"schema\": 1", "\"schema\": 2"), "boot-1"), "its schema is 2");
  shut(gate_of(changed("\"schema\": 1,", ""), "boot-1"), "no schema");
  shut(gate_of(changed("\"schema\": 1", "\"schema\": \"1\""), "boot-1"), "no schema");
  shut(gate_of(changed("\"exit_code\": 0", "\"exit_code\": 0, \"exit_code\": 0"), "boot-1"),
       "'exit_code' stands twice");
  shut(gate_of(changed("\"exit_code\": 0", "\"exit_code\": 5, \"exit_code\": 0"), "boot-1"), "twice");
  shut(gate_of(changed("\"exit_code\": 0", "\"exit_code\": 4294967296"), "boot-1"), "no exit code");
  shut(gate_of(changed("\"exit_code\": 0", "\"exit_code\": -0.0"), "boot-1"), "no exit code");
  shut(gate_of(changed("\"result\": \"changed\",", ""), "boot-1"), "no result");
  shut(gate_of(changed("\"gpus\"", "\"cards\""), "boot-1"), "no list 'gpus'");
  shut(gate_of(changed("\"instances\": [", "\"instances\": 5, \"others\": ["), "boot-1"), "are no list");
  shut(gate_of(to_json(good()) + std::string(1, '\0'), "boot-1"), "a NUL in it");
  shut(gate_of("", "boot-1"), "it is empty");
  shut(gate_of(to_json(good()).substr(0, 200), "boot-1"), "no valid JSON");
}

TEST_CASE("a status that others than root could have made is not believed, whatever it says") {
  using Kind = host::FileStatus::Kind;
  const std::string text = to_json(good());
  const auto judged = [](fakes::FakeFiles& files) { return gate(read_status(files, true), "boot-1"); };
  fakes::FakeFiles link;
  link.file("/tmp/good.json", text).link(run_path, "/tmp/good.json");
  shut(judged(link), "symbolic link");
  fakes::FakeFiles pipe;
  pipe.file(run_path, text).tree.at(run_path).status.kind = Kind::fifo;
  shut(judged(pipe), "pipe");
  fakes::FakeFiles theirs;
  theirs.file(run_path, text, 0644, 1000);
  shut(judged(theirs), "does not belong to root");
  CHECK(gate(read_status(theirs, false), "boot-1").open);  // a person's own files below --root
  for (const mode_t mode : {mode_t{0646}, mode_t{0664}}) {
    fakes::FakeFiles open;
    open.file(run_path, text, mode);
    shut(judged(open), "can be written");
  }
  fakes::FakeFiles folder;
  folder.file(run_path, text).directory("/run/gpu-prolog", 0777);
  shut(judged(folder), "/run/gpu-prolog can be written");
  fakes::FakeFiles moved;
  moved.file(run_path, text).link("/run/gpu-prolog", "/home/x");
  shut(judged(moved), "/run/gpu-prolog is a symbolic link");
  fakes::FakeFiles unreadable;
  unreadable.file(run_path, text).file(lib_path, text).fail_read(run_path, EIO);
  shut(judged(unreadable), "not to be believed");
}

TEST_CASE("the copy in /var/lib counts only where /run has none, and is judged alike") {
  fakes::FakeFiles files;
  files.file(lib_path, to_json(good()));
  CHECK(gate(read_status(files, true), "boot-1").open);
  files.file(run_path, "{");
  shut(gate(read_status(files, true), "boot-1"), run_path);
  fakes::FakeFiles open;
  open.file(lib_path, to_json(good()), 0666);
  shut(gate(read_status(open, true), "boot-1"), lib_path);
}

TEST_CASE("a status of this boot stands before a refused run, unless it is itself of wrong words") {
  const auto stands_for = [](const Status& status, std::string_view boot) {
    return stands(base::Result<std::optional<Status>>(std::optional<Status>(status)), boot);
  };
  CHECK(stands_for(good(), "boot-1"));
  CHECK_FALSE(stands_for(good(), "boot-2"));
  CHECK_FALSE(stands_for(good(), ""));
  Status failed = good();
  failed.result = "failed";
  failed.exit_code = 5;
  CHECK(stands_for(failed, "boot-1"));
  failed.exit_code = 2;
  CHECK_FALSE(stands_for(failed, "boot-1"));
  CHECK_FALSE(stands(base::Result<std::optional<Status>>(std::optional<Status>()), "boot-1"));
  CHECK_FALSE(stands(base::Error{base::ExitCode::surroundings, "damaged", ""}, "boot-1"));
}

TEST_CASE("what an earlier run left undone stays told until a run comes to that GPU") {
  Status earlier = good();
  for (const char* state : {"failed", "pending", "planned"}) {
    CAPTURE(state);
    earlier.gpus.front().state = state;
    Status now = good();
    for (const char* reached : {"right", "failed", "pending", "planned", "unsupported"}) {
      now.gpus.front().state = reached;
      CHECK(left_undone(now, earlier).empty());
    }
    for (const char* not_reached : {"unselected", "unknown"}) {
      now.gpus.front().state = not_reached;
      now.gpus.front().layout.clear();
      const Status told = with(now, left_undone(now, earlier));
      REQUIRE(told.gpus.size() == 1);
      CHECK(told.gpus.front().state == (std::string(state) == "pending" ? "pending" : "failed"));
      CHECK(told.gpus.front().layout == "3g.71gb:1,1g.18gb:2");
      CHECK_FALSE(told.gpus.front().error.empty());
      shut(gate_of(to_json(told), "boot-1"), "from an earlier mig-setup");
    }
    now.gpus.clear();
    CHECK(with(now, left_undone(now, earlier)).gpus.size() == 1);
  }
  for (const char* state : {"right", "unselected", "unknown", "unsupported"}) {
    earlier.gpus.front().state = state;
    CHECK(left_undone(Status{}, earlier).empty());
  }
}

TEST_CASE("what was written is read back, with text from a driver made fit for JSON") {
  Status status = good();
  status.message = "bad \xff bytes\nand \x1b[31m lines";
  const std::string text = to_json(status);
  CHECK(text.find('\x1b') == std::string::npos);
  const auto back = parse_status(text);
  REQUIRE(back);
  CHECK(back->boot_id == "boot-1");
  CHECK(back->gpus.front().layout == "3g.71gb:1,1g.18gb:2");
  CHECK(gres_text(back->gres) == "gpu:3g.71gb:1");
  const auto json = nlohmann::json::parse(text);
  CHECK(json["gpus"][0]["instances"][0]["profile"] == "3g.71gb");
  CHECK(json["schema"] == 1);
}

TEST_CASE("the rules of the last run come back by bus id") {
  Status status = good();
  GpuStatus empty;
  empty.bus_id = "00000000:37:00.0";
  empty.layout = "empty";
  GpuStatus unselected;
  unselected.bus_id = "00000000:38:00.0";
  GpuStatus left_out;
  left_out.bus_id = "00000000:39:00.0";
  left_out.layout = "3g.71gb:1";
  left_out.state = "unsupported";
  status.gpus.push_back(empty);
  status.gpus.push_back(unselected);
  status.gpus.push_back(left_out);
  const auto rules = rules_of(status);
  REQUIRE(rules);
  CHECK(show(*rules) == "00000000:36:00.0=3g.71gb:1,1g.18gb:2 00000000:37:00.0=empty");
  CHECK_FALSE(rules_of(Status{}));
}

TEST_CASE("times are UTC") {
  CHECK(utc(std::chrono::system_clock::time_point(std::chrono::seconds(1'777'874'890))) == "2026-05-04T06:08:10Z");
}
