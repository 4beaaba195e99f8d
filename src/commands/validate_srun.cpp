#include "commands/validate_srun.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/validate_imex.h"
#include "imex/matrix.h"
#include "imex/merge.h"
#include "site/site.h"
#include "slurm/hostlist.h"
#include "slurm/job.h"

namespace commands {

using base::Error;
using base::ExitCode;
using Json = nlohmann::json;

namespace {

using namespace std::chrono_literals;

const std::string subject = "imex";
constexpr site::milliseconds whole_limit = 120s;
constexpr std::size_t deepest_answer = 16;
constexpr std::size_t output_cap = 64U << 20U;

// srun --label puts "12: " before each line of task 12. The text of each task, by task number.
std::map<std::size_t, std::string> split_by_label(const std::string& out) {
  std::map<std::size_t, std::string> texts;
  for (const std::string_view line : base::each_line(out)) {
    const std::size_t colon = line.find(':');
    const auto task =
        colon == std::string_view::npos ? std::nullopt : base::parse_number(base::trim(line.substr(0, colon)));
    if (!task) continue;
    const std::string_view rest = line.substr(colon + 1);
    texts[*task] += std::string(rest.starts_with(' ') ? rest.substr(1) : rest) + "\n";
  }
  return texts;
}

// Checks of many nodes told together: one line for each thing that was found, with the nodes it was found on.
struct Told {
  flow::Finding finding;
  std::vector<std::string> nodes;
};

// What the gpu-prolog of a node printed, and no other words.
bool are_checks(const Json& json) {
  if (!json.is_object() || !json.contains("checks") || !json["checks"].is_array()) return false;
  return std::all_of(json["checks"].begin(), json["checks"].end(), [](const Json& check) {
    if (!check.is_object()) return false;
    return std::all_of(check.begin(), check.end(), [](const Json& value) { return value.is_string(); });
  });
}

void add_checks(std::vector<Told>& told, const std::string& node, const Json& checks) {
  // The domain is told of the merge, and the node lists by name.
  static const std::set<std::string> merged{"domain", "connections", "one version", "command port"};
  for (const Json& check : checks) {
    flow::Finding finding;
    finding.subject = check.value("subject", subject);
    finding.check = check.value("check", "");
    if (merged.contains(finding.check)) continue;
    const std::string result = check.value("result", "");
    for (const flow::Judgement judgement :
         {flow::Judgement::ok, flow::Judgement::warn, flow::Judgement::fail, flow::Judgement::skipped}) {
      if (result == flow::show(judgement)) finding.judgement = judgement;
    }
    finding.found = check.value("found", "");
    finding.cure = check.value("cure", "");
    const auto same = std::find_if(told.begin(), told.end(), [&](const Told& other) {
      return other.finding.check == finding.check && other.finding.judgement == finding.judgement &&
             (finding.judgement == flow::Judgement::ok || other.finding.found == finding.found);
    });
    if (same == told.end()) {
      told.push_back({finding, {node}});
    } else {
      same->nodes.push_back(node);
    }
  }
}

}  // namespace

base::Status validate_imex_by_srun(Context& context, flow::Findings& findings) {
  const host::Host& host = context.host;
  const std::string job = host.environment.get_or("SLURM_JOB_ID", "");
  const std::string raw = host.environment.get_or("SLURM_JOB_NODELIST", host.environment.get_or("SLURM_NODELIST", ""));
  if (!base::parse_number(job) || raw.empty()) {
    return Error{ExitCode::surroundings,
                 "validate imex --srun runs inside an allocation (SLURM_JOB_ID and SLURM_JOB_NODELIST are not set)",
                 "salloc -N2 --exclusive gpu-prolog validate imex --srun"};
  }
  const auto nodes = slurm::expand_hostlist(raw, site::max_job_nodes);
  if (!nodes) return nodes.error();
  const auto srun = find_srun(context);
  if (!srun) return srun.error();
  const auto self = host.files.read_link("/proc/self/exe");
  if (!self) return Error{ExitCode::surroundings, self.error().what, "see whether /proc is mounted"};

  // --overlap: the job's own step may hold everything; no memory and no GPU of the job is asked for. Only the job
  // id is handed on: SLURM_* of the step that we run in would change what srun does.
  const std::string count = std::to_string(nodes->size());
  host::Command command;
  command.program = *srun;
  command.arguments = {"--jobid=" + job,
                       "--overlap",
                       "--immediate=30",
                       "--mem=0",
                       "--gres=none",
                       "--nodes=" + count,
                       "--ntasks=" + count,
                       "--ntasks-per-node=1",
                       "--kill-on-bad-exit=0",
                       "--label",
                       "--input=none",
                       *self,
                       "validate",
                       "imex",
                       "--json"};
  command.environment = {"SLURM_JOB_ID=" + job};
  for (const char* name : {"USER", "HOME"}) {
    if (const auto value = host.environment.get(name)) command.environment.push_back(std::string(name) + "=" + *value);
  }
  command.limit = whole_limit;
  command.output_cap = output_cap;
  std::size_t told_count = 0;
  context.run.log().info("asking " + count + " nodes by srun");
  command.progress = [&](const std::string& out) {
    const std::size_t answered = split_by_label(out).size();
    if (answered == told_count) return;
    told_count = answered;
    context.run.log().info(std::to_string(answered) + " of " + count + " nodes have begun to answer");
  };
  const host::Exit exit = host.processes.run(command);

  std::vector<imex::NodeReport> reports;
  std::vector<Told> told;
  std::set<std::string> answered;
  for (const auto& [task, text] : split_by_label(exit.out)) {
    if (task >= nodes->size() || base::nests_deeper_than(text, deepest_answer)) continue;
    const Json json = Json::parse(text, nullptr, false);
    if (!are_checks(json)) continue;
    const auto data = json.find("data");
    const bool has_own = data != json.end() && data->is_object() && data->contains("imex");
    auto report = imex::parse_node_report(has_own ? (*data)["imex"].dump() : "");
    const std::string node = report && !report->node.empty() ? report->node : (*nodes)[task];
    answered.insert(node);
    if (report) {
      report->node = node;
      reports.push_back(*report);
    }
    add_checks(told, node, json["checks"]);
  }
  std::vector<std::string> silent;
  for (const std::string& node : *nodes) {
    if (!answered.contains(node)) silent.push_back(node);
  }
  if (!silent.empty()) {
    findings.fail(subject, "answers",
                  std::to_string(silent.size()) + " of " + count + " nodes gave no answer: " +
                      slurm::fold_hostlist(silent) + (exit.succeeded() ? "" : " (srun: " + host::describe(exit) + ")"),
                  "see whether gpu-prolog lies at " + *self + " on these nodes and slurmd answers (sinfo -n " +
                      slurm::fold_hostlist(silent) + ")");
  } else {
    findings.ok(subject, "answers", "all " + count + " nodes answered");
  }
  for (Told& one : told) {
    const bool everywhere = one.nodes.size() == answered.size() && silent.empty();
    const std::string where = everywhere ? "on every node" : "on " + slurm::fold_hostlist(one.nodes);
    one.finding.found = one.finding.judgement == flow::Judgement::ok && one.nodes.size() > 1
                            ? where + " (" + one.nodes.front() + ": " + one.finding.found + ")"
                            : where + ": " + one.finding.found;
    findings.add(one.finding);
  }
  const imex::Merged merged = imex::merge(reports);
  findings.set_data("merged", imex::render_merged(merged, reports, *nodes, answered));
  for (const std::string& fault : merged.list_faults) {
    findings.fail(subject, "node lists", fault,
                  "lists must be the same, in one order, on every node of a domain: see that the prolog ran on both, "
                  "then restart the job");
  }
  // A Slurm that did not run the prolog, or a prolog that skipped, leaves every node alone in the same healthy way.
  if (!reports.empty() && merged.domains.empty()) {
    findings.warn(subject, "node lists",
                  "no node of job " + job + " holds a node list: no prolog has made a domain for it",
                  "an exclusive job's prolog tells in /var/log/nvidia-imex-prolog.log why it made none; nothing there: "
                  "Slurm has not run it (gpu-prolog validate cluster)");
  }
  for (const imex::MergedDomain& domain : merged.domains) {
    findings.ok(subject, "node lists",
                "list " + domain.list + " (" + base::counted(domain.view.nodes.size(), "node") + ") is held by " +
                    slurm::fold_hostlist(domain.holders));
    add_domain_findings(domain.view, domain.names, findings);
  }
  return base::ok();
}

}  // namespace commands
