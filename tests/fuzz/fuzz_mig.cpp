// libFuzzer harness for what the mig room reads: nvidia-smi's words, layouts and layout files, Gres texts, our own
// status and marker, what Slurm says. The first byte chooses the parser; FUZZ_PARSER (0 to 7) keeps a run to one of
// them. Beyond "no crash": what a parser accepts must keep its promise.
//
// Not part of the build; tests/fuzz/run builds and runs it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "mig/answer.h"
#include "mig/board_file.h"
#include "mig/caps.h"
#include "mig/gpu.h"
#include "mig/gres.h"
#include "mig/instances.h"
#include "mig/layout.h"
#include "mig/plan.h"
#include "mig/reboot.h"
#include "mig/slurm_view.h"
#include "mig/status.h"

namespace {

void require(bool kept) {
  if (!kept) std::abort();
}

bool one_line(const base::Error& error) { return error.what.find_first_of("\n\x1b") == std::string::npos; }

const mig::Board board{{"1g.18gb", 19, 7, "16.00", {0, 1, 2, 3, 4, 5, 6}, 1},
                       {"1g.35gb", 15, 4, "32.50", {0, 2, 4, 6}, 2},
                       {"2g.35gb", 14, 3, "32.50", {0, 2, 4}, 2},
                       {"3g.71gb", 9, 2, "69.75", {0, 4}, 4},
                       {"4g.71gb", 5, 1, "69.75", {0}, 4},
                       {"7g.141gb", 0, 1, "140.00", {0}, 8}};

std::vector<mig::Gpu> node() {
  std::vector<mig::Gpu> gpus(2);
  gpus[1].index = 1;
  for (mig::Gpu& gpu : gpus) {
    gpu.bus_id = gpu.index == 0 ? "00000000:36:00.0" : "00000000:37:00.0";
    gpu.uuid = "GPU-" + std::to_string(gpu.index);
    gpu.name = "NVIDIA H200";
    gpu.device_id = "0x233510DE";
    gpu.current = gpu.pending = mig::Mode::disabled;
  }
  return gpus;
}

// Places are the board's own, and no two overlap.
void check_placements(const std::vector<mig::Placement>& placements, const mig::Board& on) {
  std::vector<std::pair<unsigned, unsigned>> taken;
  for (const mig::Placement& placement : placements) {
    bool allowed = false;
    for (const mig::Profile& profile : on) {
      for (unsigned start : profile.starts)
        allowed = allowed ||
                  (profile.id == placement.profile.id && start == placement.start && profile.size == placement.size);
    }
    require(allowed);
    for (const auto& [start, end] : taken) require(placement.start >= end || placement.start + placement.size <= start);
    taken.emplace_back(placement.start, placement.start + placement.size);
  }
}

void rules(const base::Result<std::vector<mig::Rule>>& parsed) {
  if (!parsed) {
    require(one_line(parsed.error()));
    return;
  }
  require(!parsed->empty());
  const auto wanted = mig::select(*parsed, node());
  if (!wanted) return;
  require(!wanted->empty() && wanted->size() <= 2);
  const auto plans = mig::plan(*wanted, {{0, board}, {1, board}}, {});
  if (!plans) return;
  for (const mig::GpuPlan& plan : *plans) check_placements(plan.placements, board);
}

void layout(const std::string& text) {
  rules(mig::parse_rules({text}));
  const auto parsed = mig::parse_layout(text);
  if (!parsed) return;
  const auto again = mig::parse_layout(parsed->show());
  require(again.has_value() && again->show() == parsed->show());
}

void layout_file(const std::string& text) {
  for (const char* label : {"", "a"}) rules(mig::parse_layout_file(text, label));
}

void board_file(const std::string& text) {
  const auto saved = mig::parse_board_file(text, std::nullopt);
  if (!saved) {
    require(one_line(saved.error()));
    return;
  }
  require(!saved->gpus.empty());
  for (const auto& [gpu, listed] : saved->boards) {
    for (const mig::Profile& profile : listed) {
      const auto placed = mig::place({{{profile.name, profile.id}, 1, false, ""}}, listed, "GPU");
      if (placed) check_placements(*placed, listed);
    }
  }
}

void tables(const std::string& text) {
  (void)mig::parse_gpus(text);
  if (const auto instances = mig::parse_gpu_instances(text)) require(!instances->empty());
  if (const auto instances = mig::parse_compute_instances(text)) require(!instances->empty());
  (void)mig::parse_devices(text);
  (void)mig::parse_listed_gpus(text);
  (void)mig::parse_compute_apps(text);
  (void)mig::parse_mig_minors(text);
}

void answers(const std::string& text) {
  host::Exit exit;
  exit.ending = host::Exit::Ending::exited;
  exit.out = text;
  for (int status : {0, 4, 6, 19, 255}) {
    exit.status = status;
    const mig::Answer answer = mig::judge(exit);
    const bool denied = text.find("Insufficient Permissions") != std::string::npos;
    require(!denied || answer == mig::Answer::no_permission);
    require(one_line(mig::as_error(answer, "nvidia-smi", exit, mig::Purpose::change)));
  }
}

void gres(const std::string& text) {
  const auto parsed = mig::parse_gres(text);
  if (!parsed) {
    require(one_line(parsed.error()));
    return;
  }
  const mig::Match match =
      mig::match(*parsed, {{"NVIDIA H200", "1g.18gb", 6}, {"NVIDIA H200", "1g.18gb+me", 1}, {"NVIDIA H200", "", 1}});
  unsigned got = 0;
  for (std::size_t i = 0; i < parsed->size(); ++i) {
    require(match.got[i].count <= (*parsed)[i].count);
    got += match.got[i].count;
  }
  require(got <= 8);
  (void)mig::aws_cli(*parsed);
  (void)mig::aws_json(*parsed);
}

void own_files(const std::string& text) {
  if (const auto status = mig::parse_status(text)) {
    require(mig::parse_status(mig::to_json(*status)).has_value());
    (void)mig::rules_of(*status);
  }
  const auto found = mig::parse_status(text);
  const mig::GateVerdict verdict = found ? mig::gate(std::optional(*found), "boot-1")
                                         : mig::gate(base::Result<std::optional<mig::Status>>(found.error()), "boot-1");
  require(!verdict.open || text.find("boot-1") != std::string::npos);
  if (const auto marker = mig::parse_marker(text)) require(!marker->instance_id.empty());
}

void slurm(const std::string& text) {
  (void)mig::parse_node_record(text, "gpu-1");
  (void)mig::parse_slurmd_gres(text);
  for (const std::string& line : mig::complaints(text)) require(line.find('\n') == std::string::npos);
  (void)mig::stale_nodes(text, {{"3g.71gb", 2}}, {{"7g.141gb", 1}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const char* const only = std::getenv("FUZZ_PARSER");
  const int parser = only != nullptr ? std::atoi(only) : data[0] % 8;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (parser) {
    case 0: layout(text); break;
    case 1: layout_file(text); break;
    case 2: board_file(text); break;
    case 3: tables(text); break;
    case 4: answers(text); break;
    case 5: gres(text); break;
    case 6: own_files(text); break;
    default: slurm(text); break;
  }
  return 0;
}
