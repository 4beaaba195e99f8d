#include "commands/validate_job.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "commands/ask_tool.h"

namespace commands {

using base::Error;
using base::ExitCode;
using flow::Findings;

namespace {

const std::string subject = "job";
const std::string powered_down =
    "a job that is allocated while its node is powered down gets no device on AWS PCS: requeue it (`gpu-prolog "
    "validate job --requeue`), and keep MIG "
    "nodes up (minInstanceCount = maxInstanceCount)";

// Does this list of TRES or of GPU counts name at least one GPU? "3", "a100:2", "cpu=4,gres/gpu:3g.20gb=1",
// "gres/gpu:1", "gres:gpu:tesla:2"; a count of 0 is no GPU. `gpu_only`: of a variable that is about GPUs alone.
bool names_gpu(std::string_view list, bool gpu_only) {
  for (std::string_view part : base::split(list, ',')) {
    part = base::trim(part);
    if (part.starts_with("gres/") || part.starts_with("gres:")) part.remove_prefix(5);
    const std::size_t name_end = part.find_first_of(":=");
    if (part.empty() || (!gpu_only && part.substr(0, name_end) != "gpu")) continue;
    const std::size_t count_begin = part.find_last_of(":=");
    const auto count = base::parse_number(count_begin == std::string_view::npos ? part : part.substr(count_begin + 1));
    if (!count || *count > 0) return true;  // without a count: one
  }
  return false;
}

// The variable by which Slurm says that this job asked for GPUs; empty: none says so.
std::string gpu_variable(const host::Environment& environment) {
  for (const auto& [name, value] : environment.all()) {
    // SLURM_JOB_GPUS and SLURM_STEP_GPUS are lists of indexes, where 0 is the first GPU; SLURM_GPUS* are counts, where
    // 0 is none.
    const bool has_index = (name == "SLURM_JOB_GPUS" || name == "SLURM_STEP_GPUS") && !value.empty();
    const bool has_count = name.starts_with("SLURM_GPUS") && names_gpu(value, true);
    if (has_index || has_count) return name + "=" + base::printable(value, 60);
  }
  return "";
}

// "AllocTRES=cpu=4,gres/gpu:3g.20gb=1", "TresPerNode=gres/gpu:1", "ReqTRES=...": the word that names a gpu.
std::string gpu_in_record(std::string_view record) {
  for (std::string_view word : base::words(record)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || !base::contains_ignoring_case(word.substr(0, equals), "tres")) continue;
    if (names_gpu(word.substr(equals + 1), false)) return base::printable(word, 120);
  }
  return "";
}

// What scontrol says that the job asked for. False: nobody knows, which is told as a finding.
bool ask_for_gpus(Context& context, const std::string& job, std::string& asked, Findings& findings) {
  const std::string unset =
      "CUDA_VISIBLE_DEVICES is not set, and whether job " + job + " asked for a GPU is not known: ";
  const auto scontrol = find_scontrol(context);
  if (!scontrol && scontrol.error().os_error == ENOENT) return true;  // the variables are all that there is
  if (!scontrol) {
    findings.warn(subject, "gpu", unset + scontrol.error().what, scontrol.error().cure);
    return false;
  }
  const host::Exit exit = ask_slurm(context, *scontrol, {"-o", "show", "job", job});
  if (answered(exit)) {
    asked = gpu_in_record(exit.out);
    return true;
  }
  findings.add({subject, "gpu", judge_silence(exit), unset + "scontrol show job: " + host::describe(exit),
                "see whether slurmctld answers (`scontrol ping`), then run this again"});
  return false;
}

// CUDA reads the list up to the first entry that is no device: "-1" and "," name none at all.
bool names_no_device(std::string_view devices) {
  const std::string_view first = base::trim(devices.substr(0, devices.find(',')));
  return first.empty() || first.front() == '-';
}

constexpr std::string_view batch_step = "4294967291";  // SLURM_BATCH_SCRIPT

void requeue(Context& context, const ValidateJobOptions& options, const std::string& job, Findings& findings) {
  const host::Host& host = context.host;
  const std::string process = host.environment.get_or("SLURM_PROCID", "");
  const bool is_batch = host.environment.get_or("SLURM_STEP_ID", "") == batch_step;
  if (process != "0" && !(process.empty() && is_batch)) {
    findings.skip(subject, "requeue",
                  process.empty() ? "this is no process of a step (SLURM_PROCID is not set, as in a shell of salloc): "
                                    "left to process 0 of a step, or to the batch script"
                                  : "left to process 0 of the job");
    return;
  }
  const std::string restarts = host.environment.get_or("SLURM_RESTART_COUNT", "0");
  const auto count = base::parse_number(restarts.empty() ? "0" : restarts);
  if (!count || *count >= options.max_requeues) {
    findings.fail(subject, "requeue",
                  "not requeued: it was " + base::printable(restarts, 20) + " times already (--max-requeues " +
                      std::to_string(options.max_requeues) + ")",
                  "find out why this node gives jobs no GPU: `gpu-prolog validate mig` on it");
    return;
  }
  const auto scontrol = find_scontrol(context);
  if (!scontrol) {
    findings.fail(subject, "requeue", "not requeued: " + scontrol.error().what, "scontrol requeue " + job);
    return;
  }
  const host::Exit exit = ask_slurm(context, *scontrol, {"requeue", job});
  if (exit.succeeded()) {
    findings.ok(subject, "requeue",
                "job " + job + " is requeued, restart " + std::to_string(*count + 1) + " of " +
                    std::to_string(options.max_requeues));
  } else {
    findings.fail(subject, "requeue", "scontrol requeue " + job + ": " + host::describe(exit),
                  "requeue the job by hand");
  }
}

}  // namespace

bool job_applies(const Context& context) {
  const host::Environment& environment = context.host.environment;
  return environment.get("SLURM_JOB_ID").has_value() && environment.get("SLURM_PROCID").has_value();
}

base::Status validate_job(Context& context, const ValidateJobOptions& options, Findings& findings) {
  const host::Host& host = context.host;
  const std::string job = host.environment.get_or("SLURM_JOB_ID", "");
  const auto id = base::parse_number(job);
  if (!id || *id == 0) {
    return Error{ExitCode::surroundings,
                 job.empty() ? "SLURM_JOB_ID is not set: this is no job" : "SLURM_JOB_ID is no job id",
                 "call `gpu-prolog validate job` in the job's script or step"};
  }
  const auto devices = host.environment.get("CUDA_VISIBLE_DEVICES");
  bool wrong = false;
  if (devices && base::trim(*devices).empty()) {
    wrong = true;
    findings.fail(subject, "gpu", "CUDA_VISIBLE_DEVICES is set but empty: job " + job + " runs without any GPU",
                  powered_down);
  } else if (devices && (*devices == "NoDevFiles" || names_no_device(*devices))) {
    wrong = true;
    findings.fail(subject, "gpu",
                  "CUDA_VISIBLE_DEVICES=" + base::printable(*devices, 100) + " names no device: job " + job +
                      " runs without any GPU",
                  powered_down);
  } else if (devices) {
    findings.ok(subject, "gpu", "CUDA_VISIBLE_DEVICES=" + base::printable(*devices, 400));
  } else {
    std::string asked = gpu_variable(host.environment);
    bool is_known = true;
    if (asked.empty()) is_known = ask_for_gpus(context, job, asked, findings);
    if (asked.empty() && is_known) {
      findings.skip(subject, "gpu",
                    "CUDA_VISIBLE_DEVICES is not set and nothing says that job " + job + " asked for a GPU");
    } else if (is_known) {
      wrong = true;
      findings.fail(subject, "gpu",
                    "CUDA_VISIBLE_DEVICES is not set although job " + job + " asked for GPUs (" + asked + ")",
                    powered_down);
    }
  }
  if (wrong && options.requeue) requeue(context, options, job, findings);
  return base::ok();
}

}  // namespace commands
