#include "commands/mig_check.h"

#include <map>

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

base::Result<mig::SavedBoard> ask_board(Context& context, const MigSetupOptions& options) {
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
  auto boards = smi.boards();
  if (!boards) return boards.error();
  return mig::SavedBoard{std::move(*gpus), std::move(*boards)};
}

// A whole GPU's type in Slurm is made of its product's name, which only `nvidia-smi -L` tells.
base::Status check_names(const std::vector<mig::GpuPlan>& plans) {
  for (const mig::GpuPlan& plan : plans) {
    if (plan.layout.kind != mig::Layout::Kind::off || !plan.gpu.name.empty()) continue;
    return Error{ExitCode::usage,
                 "GPU " + std::to_string(plan.gpu.index) +
                     " is to have MIG off, and the board file does not tell its "
                     "product's name, which is its type in Gres=",
                 "add the output of `nvidia-smi -L` of that node to the file"};
  }
  return base::ok();
}

struct Checked {
  mig::SavedBoard board;
  std::vector<mig::GpuPlan> plans;
};

std::string describe(const Checked&) { return "it fits"; }

base::Result<Checked> check(const mig::SavedBoard& board, const std::vector<mig::Rule>& rules) {
  Checked checked{board, {}};
  auto wanted = mig::select(rules, board.gpus);
  if (!wanted) return wanted.error();
  // As on empty GPUs: what is there now does not matter for whether a layout can be had.
  for (mig::Wanted& want : *wanted) want.gpu.current = want.gpu.pending = mig::Mode::disabled;
  auto plans = mig::plan(*wanted, board.boards, {});
  if (!plans) return plans.error();
  if (auto named = check_names(*plans); !named) return named.error();
  checked.plans = std::move(*plans);
  return checked;
}

}  // namespace

}  // namespace commands

namespace mig {
static std::string describe(const SavedBoard& board) { return std::to_string(board.gpus.size()) + " GPUs"; }
static std::string describe(const std::vector<Rule>& rules) { return show(rules); }
}  // namespace mig

namespace commands {

int mig_check(Context& context, const MigSetupOptions& options, std::string& out) {
  flow::Runner& run = context.run;
  MigReport report(context, options);
  const auto failed = [&](const Error& error) {
    run.report().error = error;
    run.report().summary = "failed: " + error.what;
    return base::to_int(error.code);
  };
  if (const auto words = check_mig_words(options); !words) return failed(words.error());
  const auto rules = run.step("layout", [&] {
    return read_rules(context.host.files, {options.layouts, options.layout_file, options.layout_name});
  });
  if (!rules) return failed(rules.error());
  const auto board = run.step("board", [&] {
    return options.board_file.empty() ? ask_board(context, options) : read_board(context.host.files, options);
  });
  if (!board) return failed(board.error());
  const auto checked = run.step("check", [&] { return check(*board, *rules); });
  if (!checked) return failed(checked.error());

  std::map<std::pair<std::string, std::string>, unsigned> counts;
  mig::Status status;
  status.version = base::build_info().version;
  status.time = mig::utc(context.host.clock.wall());
  status.result = "fits";
  status.message = "the layout fits";
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
      ++counts[{plan.gpu.name, placement.profile.name}];
    }
    for (const mig::Resolved& resolved : plan.wanted) {
      if (resolved.drifted)
        run.log().info(resolved.written + " is " + resolved.profile.name + " in this driver's words");
    }
    if (plan.layout.kind == mig::Layout::Kind::off) ++counts[{plan.gpu.name, ""}];
    status.gpus.push_back(std::move(gpu));
  }
  std::vector<mig::DeviceCount> devices;
  for (const auto& [what, count] : counts) devices.push_back({what.first, what.second, count});
  const mig::Gres gres = mig::gres_for(devices);
  status.gres = gres.entries;
  status.warnings = gres.warnings;
  for (const std::string& warning : gres.warnings) run.log().warn(warning);
  note_what_is_printed(context, options.print, status);
  if (!options.plan_from.empty()) {
    for (const std::string& line : tell_change(context, options.plan_from, status.gres)) run.log().info(line);
  }
  out = print_form(options.print, status);
  run.report().summary = "the layout fits";
  return 0;
}

}  // namespace commands
