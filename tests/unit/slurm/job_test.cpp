#include "slurm/job.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "captured.h"

using namespace slurm;

namespace {

std::map<std::string, std::string> usual() {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURMD_NODENAME", "ultra-2"},
          {"SLURM_JOB_NODELIST", "ultra-[1-3]"},
          {"SLURM_CONF", "/run/slurm/conf/slurm.conf"}};
}

base::Result<Job> read_with(const std::string& name, const std::optional<std::string>& value) {
  auto values = usual();
  values.erase(name);
  if (value) values[name] = *value;
  return read_job(host::Environment(values));
}

}  // namespace

TEST_CASE("without a usable job id there is no job") {
  for (const std::optional<std::string>& bad :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("0"),
        std::optional<std::string>("-1"), std::optional<std::string>("17 "), std::optional<std::string>("17.0"),
        std::optional<std::string>("017"), std::optional<std::string>("4294967296"), std::optional<std::string>("../1"),
        std::optional<std::string>("17\n18"), std::optional<std::string>("99999999999999999999")}) {
    CAPTURE(bad.value_or("(not set)"));
    const auto job = read_with("SLURM_JOB_ID", bad);
    REQUIRE_FALSE(job);
    CHECK(job.error().code == base::ExitCode::surroundings);
    CHECK(job.error().what.find("SLURM_JOB_ID") != std::string::npos);
    CHECK(job.error().what.find('\n') == std::string::npos);
  }
}

TEST_CASE("without a usable node name there is no job") {
  for (const std::optional<std::string>& bad :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("a/b"),
        std::optional<std::string>("--help"), std::optional<std::string>("a\nb")}) {
    CAPTURE(bad.value_or("(not set)"));
    const auto job = read_with("SLURMD_NODENAME", bad);
    REQUIRE_FALSE(job);
    CHECK(job.error().code == base::ExitCode::surroundings);
    CHECK(job.error().what.find("SLURMD_NODENAME") != std::string::npos);
  }
}

TEST_CASE("the old name of the job id serves where the new one is not set") {
  auto values = usual();
  values.erase("SLURM_JOB_ID");
  values["SLURM_JOBID"] = "18";
  CHECK(read_job(host::Environment(values))->id == "18");
}

TEST_CASE("SLURM_JOB_NODELIST goes before SLURM_NODELIST, an empty one does not") {
  auto values = usual();
  values["SLURM_NODELIST"] = "old-[1-2]";
  CHECK(read_job(host::Environment(values))->node_list == "ultra-[1-3]");
  values["SLURM_JOB_NODELIST"] = "";
  CHECK(read_job(host::Environment(values))->node_list == "old-[1-2]");
  values.erase("SLURM_JOB_NODELIST");
  CHECK(read_job(host::Environment(values))->node_list == "old-[1-2]");
}

TEST_CASE("describing variables that have not their form are left out") {
  auto values = usual();
  values["SLURM_JOB_RESTART_COUNT"] = "1; rm";
  values["SLURM_JOB_START_TIME"] = "now";
  values["SLURM_HET_JOB_ID"] = "x";
  values["SLURM_JOB_SLUID"] = "../../x";
  const auto job = read_job(host::Environment(values));
  REQUIRE(job);
  CHECK(job->restart_count.empty());
  CHECK(job->start_time.empty());
  CHECK(job->het_job_id.empty());
  CHECK(job->sluid.empty());
}

TEST_CASE("an epilog without a node list still knows its job; a prolog is told what is missing") {
  const auto job = read_with("SLURM_JOB_NODELIST", std::nullopt);
  REQUIRE(job);
  CHECK(job->node_list.empty());
  const auto nodes = job_nodes(*job);
  REQUIRE_FALSE(nodes);
  CHECK(nodes.error().code == base::ExitCode::surroundings);
  CHECK(nodes.error().blame == base::Blame::shared);
  CHECK(nodes.error().what == "neither SLURM_JOB_NODELIST nor SLURM_NODELIST is set");
}

TEST_CASE("job_nodes refuses a hostile list, a node twice and a list without this node") {
  Job job;
  job.node_name = "ultra-2";
  job.node_list = "ultra-[1-$(id)]";
  CHECK(job_nodes(job).error().blame == base::Blame::shared);
  job.node_list = "ultra-[1-3,2]";
  CHECK(job_nodes(job).error().what.find("ultra-2 twice") != std::string::npos);
  CHECK(job_nodes(job).error().blame == base::Blame::shared);
  job.node_list = "ultra-[3-5]";
  CHECK(job_nodes(job).error().blame == base::Blame::local);
  CHECK(job_nodes(job).error().what.find("this node (ultra-2") == 0);
  job.node_list = "ultra-[1-3]";
  CHECK(*job_nodes(job) == std::vector<std::string>{"ultra-1", "ultra-2", "ultra-3"});
}

TEST_CASE("every captured Prolog and Epilog environment is read") {
  for (const std::string& version : captured::versions) {
    std::size_t seen = 0;
    for (const captured::Script& script : captured::scripts(version)) {
      CAPTURE(version, script.name);
      const auto job = read_job(script.environment);
      REQUIRE(job);
      CHECK(job->id == std::to_string(script.job));
      CHECK(script.name.ends_with("." + job->node_name));
      CHECK(job->conf == "/rig/etc/slurm.conf");
      CHECK(job->restart_count == "0");
      CHECK_FALSE(job->start_time.empty());
      CHECK(job->sluid.empty() == (version == "24.11"));
      CHECK(job->het_job_id == (script.job >= 23 ? "23" : ""));
      CHECK(job_nodes(*job));
      ++seen;
    }
    CHECK(seen >= 80);
  }
}
