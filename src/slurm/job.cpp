#include "slurm/job.h"

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "site/site.h"
#include "slurm/hostlist.h"

namespace slurm {

namespace {

// Job ids are 32-bit numbers from 1 on; leading zeros would make two texts of one job.
bool is_job_id(const std::string& text) {
  const auto number = base::parse_number(text);
  return number && *number > 0 && *number <= 0xFFFF'FFFFU && text.front() != '0';
}

std::string number_or_empty(const std::optional<std::string>& text) {
  return text && base::parse_number(*text) ? *text : "";
}

bool is_word(const std::string& text) {
  return text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
         });
}

base::Error missing(const std::string& variable) {
  return base::Error{base::ExitCode::surroundings, variable + " is not set",
                     "slurmd sets it for Prolog and Epilog; by hand, set it as the job's environment has it"};
}

}  // namespace

base::Result<Job> read_job(const host::Environment& environment) {
  Job job;
  job.id = environment.get_or("SLURM_JOB_ID", "");
  std::string id_variable = "SLURM_JOB_ID";
  if (job.id.empty()) {
    job.id = environment.get_or("SLURM_JOBID", "");
    if (!job.id.empty()) id_variable = "SLURM_JOBID";
  }
  if (job.id.empty()) return missing("SLURM_JOB_ID");
  if (!is_job_id(job.id)) {
    return base::Error{base::ExitCode::surroundings,
                       id_variable + " is no job id: '" + base::printable(job.id, 60) + "'",
                       "it must be the job's number"};
  }
  job.node_name = environment.get_or("SLURMD_NODENAME", "");
  if (job.node_name.empty()) return missing("SLURMD_NODENAME");
  if (!is_node_name(job.node_name)) {
    return base::Error{base::ExitCode::surroundings,
                       "SLURMD_NODENAME is no node name: '" + base::printable(job.node_name, 60) + "'",
                       "it must be this node's NodeName in slurm.conf"};
  }
  job.node_list = environment.get_or("SLURM_JOB_NODELIST", "");
  if (job.node_list.empty()) job.node_list = environment.get_or("SLURM_NODELIST", "");
  job.partition = environment.get_or("SLURM_JOB_PARTITION", "");
  job.conf = environment.get_or("SLURM_CONF", "");
  job.sluid = environment.get_or("SLURM_JOB_SLUID", "");
  if (!is_word(job.sluid)) job.sluid.clear();
  job.restart_count = number_or_empty(environment.get("SLURM_JOB_RESTART_COUNT"));
  job.start_time = number_or_empty(environment.get("SLURM_JOB_START_TIME"));
  job.het_job_id = environment.get_or("SLURM_HET_JOB_ID", "");
  if (job.het_job_id.empty() || !is_job_id(job.het_job_id)) job.het_job_id.clear();
  return job;
}

base::Result<std::vector<std::string>> job_nodes(const Job& job) {
  if (job.node_list.empty()) {
    return base::Error{base::ExitCode::surroundings, "neither SLURM_JOB_NODELIST nor SLURM_NODELIST is set",
                       "slurmd sets them for a Prolog; by hand, set SLURM_JOB_NODELIST to the job's nodes",
                       base::Blame::shared};
  }
  auto nodes = expand_hostlist(job.node_list, site::max_job_nodes);
  if (!nodes) return nodes;
  std::unordered_set<std::string_view> seen;
  for (const std::string& node : *nodes) {
    if (!seen.insert(node).second) {
      return base::Error{base::ExitCode::surroundings,
                         "the job's node list '" + base::printable(job.node_list, 200) + "' names " + node + " twice",
                         "look at SLURM_JOB_NODELIST of the job", base::Blame::shared};
    }
  }
  if (!seen.contains(job.node_name)) {
    return base::Error{base::ExitCode::surroundings,
                       "this node (" + job.node_name + ", from SLURMD_NODENAME) is not in the job's node list '" +
                           base::printable(job.node_list, 200) + "'",
                       "compare NodeName in slurm.conf with what slurmd was started as"};
  }
  return nodes;
}

}  // namespace slurm
