#include "commands/mig_check.h"

#include <algorithm>

#include "base/build_info.h"
#include "base/text.h"
#include "commands/mig_inputs.h"
#include "commands/mig_report.h"
#include "mig/board_file.h"
#include "mig/gres.h"
#include "mig/holders.h"
#include "mig/plan.h"
#include "mig/smi.h"
#include "mig/status.h"

namespace commands {

using base::Error;
using base::ExitCode;

namespace {

base::Result<mig::SavedBoard> read_board(const host::Files& files, const MigSetupOptions& options) {
  const auto text = files.read(typed_path(options.board_file), 4U << 20U);
  if (!text)
    return Error{ExitCode::usage, "board file " + options.board_file + ": " + text.error().what,
                 "give a readable file with --board"};
  auto board = mig::parse_board_file(*text, options.expect_gpus);
  if (!board) return Error{ExitCode::usage, options.board_file + ": " + board.error().what, board.error().cure};
  return board;
}

// The GPUs that the layout is judged for, and what is known of them.
struct Node {
  std::vector<mig::Gpu> gpus;
  std::vector<mig::Wanted> wanted;
  mig::Boards boards;
  std::vector<mig::GpuInstance> instances;  // as they are; of a board file: none
};

std::string describe(const Node& node) { return std::to_string(node.gpus.size()) + " GPUs"; }

bool is_split(const mig::Wanted& want) { return want.layout.kind != mig::Layout::Kind::off; }

base::Status choose(Context& context, const MigSetupOptions& options, const std::vector<mig::Rule>& rules, Node& node) {
  const auto selected = mig::select(rules, node.gpus);
  if (!selected) return selected.error();
  auto kept = keep_supported(*selected, options.if_supported, context.run.log());
  if (!kept) return kept.error();
  node.wanted = std::move(*kept);
  return base::ok();
}

base::Result<Node> read_node(Context& context, const MigSetupOptions& options, const std::vector<mig::Rule>& rules) {
  const bool by_device_id = std::any_of(rules.begin(), rules.end(), [](const mig::Rule& rule) {
    return rule.selection.kind == mig::Selection::Kind::filter && !rule.selection.words.empty();
  });
  if (by_device_id) {
    return Error{ExitCode::usage, "the layout file chooses GPUs by device-filter, and a board file holds no device ID",
                 "give the layout with --layout, or run --check without --board on the node"};
  }
  auto board = read_board(context.host.files, options);
  if (!board) return board.error();
  Node node{std::move(board->gpus), {}, std::move(board->boards), {}};
  if (auto chosen = choose(context, options, rules, node); !chosen) return chosen.error();
  return node;
}

base::Result<Node> ask_node(Context& context, const MigSetupOptions& options, const std::vector<mig::Rule>& rules) {
  const host::Host& host = context.host;
  const auto tool = find_nvidia_smi(context);
  if (!tool) return tool.error();
  const host::Deadline deadline(host.clock, options.deadline);
  mig::Smi smi(host.processes, *tool, deadline);
  host::Plan unused;
  mig::DryMigChanges no_changes(unused);
  auto gpus = mig::wait_for_gpus(smi, no_changes, mig::pci_gpus(host.files), options.expect_gpus,
                                 deadline.within(options.driver_timeout), host.clock);
  if (!gpus) return gpus.error();
  Node node{std::move(*gpus), {}, {}, {}};
  if (auto chosen = choose(context, options, rules, node); !chosen) return chosen.error();
  if (std::any_of(node.wanted.begin(), node.wanted.end(), is_split)) {
    auto boards = smi.boards();
    if (!boards) return boards.error();
    node.boards = std::move(*boards);
  }
  // GPUs that are left as they are count for Gres= as well.
  if (std::any_of(node.gpus.begin(), node.gpus.end(),
                  [](const mig::Gpu& gpu) { return gpu.current == mig::Mode::enabled; })) {
    auto instances = smi.gpu_instances();
    if (!instances) return instances.error();
    node.instances = std::move(*instances);
  }
  return node;
}

// A whole GPU's type in Slurm is made of its product's name, which only `nvidia-smi -L` tells.
base::Status check_names(const std::vector<mig::Gpu>& gpus) {
  for (const mig::Gpu& gpu : gpus) {
    const bool is_whole = gpu.current == mig::Mode::disabled || gpu.current == mig::Mode::unsupported;
    if (!is_whole || !gpu.name.empty()) continue;
    return Error{ExitCode::usage,
                 "GPU " + std::to_string(gpu.index) +
                     " is to have MIG off, and the board file does not tell its "
                     "product's name, which is its type in Gres=",
                 "add the output of `nvidia-smi -L` of that node to the file"};
  }
  return base::ok();
}

struct Checked {
  std::vector<mig::GpuPlan> plans;
  mig::Outlook after;
};

std::string describe(const Checked&) { return "it fits"; }

base::Result<Checked> check(const Node& node) {
  std::vector<mig::Wanted> wanted = node.wanted;
  // As on empty GPUs: what is there now does not matter for whether a layout can be had.
  for (mig::Wanted& want : wanted) {
    if (want.gpu.current != mig::Mode::unsupported) want.gpu.current = want.gpu.pending = mig::Mode::disabled;
  }
  auto plans = mig::plan(wanted, node.boards, {});
  if (!plans) return plans.error();
  std::vector<mig::GpuInstance> others = node.instances;
  std::erase_if(others, [&](const mig::GpuInstance& instance) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const mig::Wanted& want) { return want.gpu.index == instance.gpu; });
  });
  mig::Outlook after = mig::outlook(*plans, node.gpus, std::move(others));
  if (auto named = check_names(after.gpus); !named) return named.error();
  return Checked{std::move(*plans), std::move(after)};
}

// A board file tells of no node: how many GPUs the printed Gres= is for is taken from it, or from the person.
std::string assumption(const Node& node, const MigSetupOptions& options) {
  std::string text =
      "Gres= is for a node of " + base::counted(node.gpus.size(), "GPU") + ", as " +
      (options.expect_gpus ? "--expect-gpus says" : "the board file holds (--expect-gpus N for another)");
  if (node.wanted.size() < node.gpus.size())
    text += "; those that no layout selects are taken to be whole, with MIG off";
  return text;
}

}  // namespace

}  // namespace commands

namespace mig {
static std::string describe(const std::vector<Rule>& rules) { return show(rules); }
}  // namespace mig

namespace commands {

std::string mig_refused_json(const Error& error) {
  mig::Status status;
  status.version = base::build_info().version;
  status.result = "failed";
  status.exit_code = base::to_int(error.code);
  status.message = error.what;
  status.cure = error.cure;
  return mig::to_json(status);
}

int mig_check(Context& context, const MigSetupOptions& options, std::string& out) {
  flow::Runner& run = context.run;
  MigReport report(context, options);
  const auto failed = [&](const Error& error) { return report.failed(context, error, out); };
  if (const auto words = check_mig_words(options); !words) return failed(words.error());
  const auto rules = run.step("layout", [&] {
    return read_rules(context.host.files, {options.layouts, options.layout_file, options.layout_name});
  });
  if (!rules) return failed(rules.error());
  report.wants(*rules);
  const bool from_file = !options.board_file.empty();
  const bool no_gpu = !from_file && may_have_no_gpu(context.host.files, options);
  const auto node = run.step("board", [&]() -> base::Result<Node> {
    if (no_gpu) return Node{};
    return from_file ? read_node(context, options, *rules) : ask_node(context, options, *rules);
  });
  if (!node) return failed(node.error());
  report.sees(node->gpus);
  const auto checked = run.step("check", [&] { return check(*node); });
  if (!checked) return failed(checked.error());

  mig::Status status;
  status.version = base::build_info().version;
  status.time = mig::utc(context.host.clock.wall());
  status.result = node->wanted.empty() ? "unsupported" : "fits";
  status.message = no_gpu ? no_gpu_words : node->wanted.empty() ? no_mig_words : "the layout fits";
  status.layout = mig::show(*rules);
  for (const mig::GpuPlan& plan : checked->plans) {
    mig::GpuStatus gpu;
    gpu.index = plan.gpu.index;
    gpu.bus_id = plan.gpu.bus_id;
    gpu.uuid = plan.gpu.uuid;
    gpu.name = plan.gpu.name;
    gpu.layout = plan.layout.show();
    gpu.state = "planned";
    const std::string places = plan.placements.empty()
                                   ? plan.layout.show()
                                   : mig::cgi_argument(plan.placements) + " (" + mig::show(plan.placements) + ")";
    const std::string line = "GPU " + std::to_string(plan.gpu.index) + ": " + places;
    run.log().info(line);
    if (context.dry_run()) context.plan->add(line);
    for (const mig::Placement& placement : plan.placements) {
      gpu.placements.push_back(placement.profile.name + " at " + std::to_string(placement.start));
      gpu.instances.push_back(placement.profile);
    }
    for (const mig::Resolved& resolved : plan.wanted) {
      if (resolved.drifted)
        run.log().info(resolved.written + " is " + resolved.profile.name + " in this driver's words");
    }
    status.gpus.push_back(std::move(gpu));
  }
  for (const mig::Gpu& seen : node->gpus) {
    const bool is_planned = std::any_of(checked->plans.begin(), checked->plans.end(),
                                        [&](const mig::GpuPlan& plan) { return plan.gpu.index == seen.index; });
    if (is_planned) continue;
    mig::GpuStatus gpu;
    gpu.index = seen.index;
    gpu.bus_id = seen.bus_id;
    gpu.uuid = seen.uuid;
    gpu.name = seen.name;
    gpu.state = seen.current == mig::Mode::unsupported ? "unsupported" : "unselected";
    for (const mig::GpuInstance& instance : checked->after.instances) {
      if (instance.gpu == seen.index) gpu.instances.push_back({instance.profile, instance.profile_id});
    }
    status.gpus.push_back(std::move(gpu));
  }
  if (from_file) {
    const std::string line = assumption(*node, options);
    run.log().info(line);
    if (context.dry_run()) context.plan->add(line);
  }
  const mig::Gres gres = mig::gres_for(mig::devices_of(checked->after.gpus, checked->after.instances));
  status.gres = gres.entries;
  status.warnings = gres.warnings;
  for (const std::string& warning : gres.warnings) run.log().warn(warning);
  note_what_is_printed(context, options.print, status);
  if (!options.plan_from.empty()) {
    for (const std::string& line : tell_change(context, options.plan_from, status.gres)) run.log().info(line);
  }
  out = print_form(options.print, status);
  run.report().summary = status.message;
  return 0;
}

}  // namespace commands
