#include "commands/validate_job.h"

#include <catch2/catch_test_macros.hpp>

#include "mig_world.h"

using namespace commands;
using fakes::exited;
using flow::Judgement;
using mig_world::finding;
using mig_world::World;
using Variables = std::map<std::string, std::string>;

namespace {

flow::Finding judged(World& world, const std::string& check, const ValidateJobOptions& options = {}) {
  flow::Findings findings;
  REQUIRE(validate_job(world.context, options, findings));
  return finding(findings, check);
}

Variables job(Variables more) {
  more.emplace("SLURM_JOB_ID", "17");
  return more;
}

}  // namespace

TEST_CASE("outside a job it cannot run") {
  for (const Variables& variables : {Variables{}, Variables{{"SLURM_JOB_ID", "x"}}, Variables{{"SLURM_JOB_ID", "0"}}}) {
    World world(variables);
    flow::Findings findings;
    const auto done = validate_job(world.context, {}, findings);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == base::ExitCode::surroundings);
  }
}

TEST_CASE("an empty list of devices fails, whatever else is set") {
  World world(job({{"CUDA_VISIBLE_DEVICES", ""}}));
  CHECK(judged(world, "gpu").judgement == Judgement::fail);
  World blank(job({{"CUDA_VISIBLE_DEVICES", " "}, {"SLURM_JOB_GPUS", "0"}}));
  CHECK(judged(blank, "gpu").judgement == Judgement::fail);
}

TEST_CASE("no list fails where a variable or scontrol says that GPUs were asked for") {
  for (const char* name : {"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS"}) {
    World world(job({{name, "1"}}));
    CHECK(judged(world, "gpu").judgement == Judgement::fail);
  }
  for (const char* name : {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS"}) {  // lists of indexes: 0 is the first GPU
    World world(job({{name, "0"}}));
    CHECK(judged(world, "gpu").judgement == Judgement::fail);
  }
  for (const char* word :
       {"AllocTRES=cpu=4,gres/gpu:3g.71gb=1", "TresPerNode=gres/gpu:1", "ReqTRES=cpu=1,gres/gpu=1"}) {
    World world(job({}));
    world.files.file("/usr/bin/scontrol", "", 0755);
    world.answer("scontrol -o show job 17", exited(0, std::string("JobId=17 JobName=x ") + word + " Power=\n"));
    CHECK(judged(world, "gpu").judgement == Judgement::fail);
  }
}

TEST_CASE("a CPU job is skipped, also one that has gpu in its name") {
  World world(job({{"SLURM_GPUS_ON_NODE", "0"}}));
  world.files.file("/usr/bin/scontrol", "", 0755);
  world.answer("scontrol -o show job 17", exited(0, "JobId=17 JobName=gpu-less AllocTRES=cpu=4,mem=1G\n"));
  CHECK(judged(world, "gpu").judgement == Judgement::skipped);
}

TEST_CASE("a count of 0 is no GPU that was asked for, whatever its form") {
  for (const char* word : {"AllocTRES=cpu=4,gres/gpu=0", "ReqTRES=cpu=1,gres/gpu:3g.71gb=0", "TresPerNode=gres/gpu:0",
                           "TresPerNode=gres/gpu:a100:0", "TresPerJob=gres:gpu:0", "AllocTRES=cpu=4,gres/gpumem=0"}) {
    CAPTURE(word);
    World world(job({{"SLURM_GPUS_PER_NODE", "a100:0"}}));
    world.files.file("/usr/bin/scontrol", "", 0755);
    world.answer("scontrol -o show job 17", exited(0, std::string("JobId=17 JobName=x ") + word + " Power=\n"));
    CHECK(judged(world, "gpu").judgement == Judgement::skipped);
  }
  for (const char* word : {"AllocTRES=gres/gpu=0,gres/gpu:3g.71gb=2", "TresPerNode=gres/gpu:a100:2",
                           "TresPerNode=gres/gpu", "TresPerNode=gres:gpu:1"}) {
    CAPTURE(word);
    World world(job({}));
    world.files.file("/usr/bin/scontrol", "", 0755);
    world.answer("scontrol -o show job 17", exited(0, std::string("JobId=17 JobName=x ") + word + " Power=\n"));
    CHECK(judged(world, "gpu").judgement == Judgement::fail);
  }
  World typed(job({{"SLURM_GPUS", "a100:1,h200:2"}}));
  CHECK(judged(typed, "gpu").judgement == Judgement::fail);
}

TEST_CASE("a scontrol that hangs or floods is a fail, one that fails a warning, and neither brings a requeue") {
  ValidateJobOptions options;
  options.requeue = true;
  host::Exit endless = fakes::timed_out();
  host::Exit flooding = exited(0, "JobId=17 JobName=x");
  flooding.cut = endless.cut = true;
  const std::vector<std::pair<host::Exit, Judgement>> cases{
      {fakes::timed_out(), Judgement::fail},
      {endless, Judgement::fail},
      {flooding, Judgement::fail},
      {exited(1, "", "slurm_load_jobs error: Unable to contact slurm controller"), Judgement::warn}};
  for (const auto& [exit, judgement] : cases) {
    World world(job({}));
    world.files.file("/usr/bin/scontrol", "", 0755);
    world.answer("scontrol -o show job 17", exit);
    const auto found = judged(world, "gpu", options);
    CHECK(found.judgement == judgement);
    CHECK(found.found.find("scontrol show job") != std::string::npos);
    CHECK((found.found.find("more than") != std::string::npos) == exit.cut);
    CHECK_FALSE(found.cure.empty());
    CHECK(world.processes.calls.size() == 1);
  }
  World open(job({}));
  open.files.file("/usr/bin/scontrol", "", 0777);  // there, but not to be trusted
  CHECK(judged(open, "gpu").judgement == Judgement::warn);
}

TEST_CASE("a requeue is not asked for from another process, too often, or where all is well") {
  ValidateJobOptions options;
  options.requeue = true;
  World other(job({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_PROCID", "3"}}));
  CHECK(judged(other, "requeue", options).judgement == Judgement::skipped);
  World often(job({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_PROCID", "0"}, {"SLURM_RESTART_COUNT", "3"}}));
  CHECK(judged(often, "requeue", options).judgement == Judgement::fail);
  World odd(job({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_PROCID", "0"}, {"SLURM_RESTART_COUNT", "many"}}));
  CHECK(judged(odd, "requeue", options).judgement == Judgement::fail);
  World fine(job({{"CUDA_VISIBLE_DEVICES", "MIG-1"}, {"SLURM_PROCID", "0"}}));
  CHECK(judged(fine, "requeue", options).check.empty());
  CHECK(other.processes.calls.empty());
  CHECK(often.processes.calls.empty());
}

TEST_CASE("a requeue is asked for once, and a refusal is told") {
  ValidateJobOptions options;
  options.requeue = true;
  World world(job({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_PROCID", "0"}, {"SLURM_RESTART_COUNT", "2"}}));
  world.files.file("/usr/bin/scontrol", "", 0755);
  world.answer("scontrol requeue 17", exited(0));
  CHECK(judged(world, "requeue", options).judgement == Judgement::ok);
  CHECK(world.processes.calls == std::vector<std::string>{"scontrol requeue 17"});
  World refused(job({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_PROCID", "0"}}));
  refused.files.file("/usr/bin/scontrol", "", 0755);
  refused.answer("scontrol requeue 17",
                 exited(1, "", "scontrol_requeue error Requested operation is presently disabled"));
  CHECK(judged(refused, "requeue", options).judgement == Judgement::fail);
}

TEST_CASE("a list whose first entry is no device shows CUDA no device at all") {
  for (const char* devices : {"-1", ",", "-1,0", ", 0", " -1", "NoDevFiles"}) {
    CAPTURE(devices);
    World world(job({{"CUDA_VISIBLE_DEVICES", devices}}));
    CHECK(judged(world, "gpu").judgement == Judgement::fail);
  }
  for (const char* devices : {"0", "0,-1", "MIG-e7aa6185", "GPU-1,GPU-2"}) {
    CAPTURE(devices);
    World world(job({{"CUDA_VISIBLE_DEVICES", devices}}));
    CHECK(judged(world, "gpu").judgement == Judgement::ok);
  }
}

TEST_CASE("without a number of its process only the batch step asks for a requeue, a shell of salloc does not") {
  ValidateJobOptions options;
  options.requeue = true;
  World shell(job({{"CUDA_VISIBLE_DEVICES", ""}}));
  shell.files.file("/usr/bin/scontrol", "", 0755);
  const auto left = judged(shell, "requeue", options);
  CHECK(left.judgement == Judgement::skipped);
  CHECK(left.found.find("salloc") != std::string::npos);
  CHECK(shell.processes.calls.empty());
  World batch(job({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_STEP_ID", "4294967291"}}));
  batch.files.file("/usr/bin/scontrol", "", 0755);
  batch.answer("scontrol requeue 17", exited(0));
  CHECK(judged(batch, "requeue", options).judgement == Judgement::ok);
}
