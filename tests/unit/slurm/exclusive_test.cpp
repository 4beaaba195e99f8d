#include "slurm/exclusive.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "captured.h"
#include "fakes/fake_clock.h"
#include "fakes/fake_files.h"
#include "fakes/fake_processes.h"

using namespace slurm;
using namespace std::chrono_literals;
using Kind = Claim::Kind;

namespace {

Claim claim(std::map<std::string, std::string> values) { return read_claim(host::Environment(std::move(values))); }

// What a job submitted with these options really gets, from Slurm's documentation of sbatch and slurm.conf. Not
// from the variables under test.
enum class Truth { whole_node, whole_node_in_block_topology, shared };

Truth truth_of(const std::string& options) {
  const auto words = base::words(options);
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  const auto in = [&](std::string_view partition) {
    const auto at = std::find(words.begin(), words.end(), "-p");
    return at != words.end() && at + 1 != words.end() && at[1] == partition;
  };
  if (has("--exclusive")) return in("xtopo") ? Truth::whole_node_in_block_topology : Truth::whole_node;
  if (has("--exclusive=topo") || in("xtopo")) return Truth::whole_node_in_block_topology;
  if (in("excl")) return Truth::whole_node;
  return Truth::shared;
}

// The plugin's view of one node: two jobs in a v2 tree as Slurm makes it.
fakes::FakeFiles v2(const std::string& scope, const std::string& job_folder, const std::string& pids) {
  fakes::FakeFiles files;
  const std::string job = "/sys/fs/cgroup/system.slice/" + scope + "/" + job_folder;
  files.file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
  files.file("/sys/fs/cgroup/system.slice/" + scope + "/system/cgroup.procs", "700\n");  // slurmd's place holder
  files.file(job + "/cgroup.procs", "");
  files.file(job + "/memory.max", "max\n");
  files.file(job + "/step_0/cgroup.procs", "");
  files.file(job + "/step_0/slurm/cgroup.procs", "");
  files.file(job + "/step_0/user/task_0/cgroup.procs", pids);
  return files;
}

struct World {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};

  std::optional<ForeignStep> look(const fakes::FakeFiles& files, const std::string& job = "17",
                                  const std::string& sluid = "", bool count_extern = true) {
    return foreign_step(files, processes, job, sluid, "ultra-2", "/var/spool/slurmd", count_extern);
  }
};

fakes::FakeFiles& socket(fakes::FakeFiles& files, const std::string& path) {
  files.file(path, "");
  files.tree.at(path).status.kind = host::FileStatus::Kind::socket;
  return files;
}

}  // namespace

TEST_CASE("a job is exclusive only where Slurm says so in a word we know") {
  struct Row {
    std::map<std::string, std::string> environment;
    Kind kind;
    const char* variable;
  };
  const char* const exclusive = "SLURM_JOB_EXCLUSIVE";
  const char* const oversubscribe = "SLURM_JOB_OVERSUBSCRIBE";
  const Row rows[] = {
      {{}, Kind::unknown, ""},
      {{{"SLURM_JOB_ID", "1"}}, Kind::unknown, ""},
      {{{oversubscribe, ""}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "no"}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "NO "}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "NODE"}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "OK"}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "YES"}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "USER"}}, Kind::not_exclusive, oversubscribe},
      {{{oversubscribe, "MCS"}}, Kind::not_exclusive, oversubscribe},
      {{{exclusive, ""}, {oversubscribe, "NO"}}, Kind::not_exclusive, exclusive},
      {{{exclusive, "NO"}, {oversubscribe, "NO"}}, Kind::not_exclusive, exclusive},
      {{{exclusive, "USER"}, {oversubscribe, "NO"}}, Kind::not_exclusive, exclusive},
      {{{exclusive, "MCS"}, {oversubscribe, "NO"}}, Kind::not_exclusive, exclusive},
      {{{exclusive, "YES"}, {oversubscribe, "NO"}}, Kind::not_exclusive, exclusive},
      {{{exclusive, "node"}, {oversubscribe, "NO"}}, Kind::not_exclusive, exclusive},
      {{{exclusive, "NODE"}, {oversubscribe, "YES"}}, Kind::exclusive, exclusive},
      {{{exclusive, "TOPO"}, {oversubscribe, "NO"}}, Kind::exclusive_if_block_topology, exclusive},
      {{{oversubscribe, "NO"}}, Kind::exclusive, oversubscribe},
      {{{oversubscribe, "TOPO"}}, Kind::exclusive_if_block_topology, oversubscribe},
  };
  for (const Row& row : rows) {
    const Claim said = claim(row.environment);
    CAPTURE(said.variable, said.value);
    CHECK(said.kind == row.kind);
    CHECK(said.variable == row.variable);
  }
}

TEST_CASE("the value is shown without what could forge a log line") {
  CHECK(claim({{"SLURM_JOB_EXCLUSIVE", "NODE\n"}}).value == "NODE\\x0a");
}

TEST_CASE("every captured Prolog and Epilog is judged as the job was submitted") {
  for (const std::string& version : captured::versions) {
    const auto kinds = captured::kinds(version);
    std::map<Truth, std::size_t> seen;
    for (const captured::Script& script : captured::scripts(version)) {
      const auto row = std::prev(kinds.upper_bound(script.job));  // array tasks and het components follow their row
      CAPTURE(version, script.name, row->second.name, row->second.options);
      const Claim said = read_claim(script.environment);
      const Truth truth = truth_of(row->second.options);
      ++seen[truth];
      switch (truth) {
        case Truth::whole_node: CHECK(said.kind == Kind::exclusive); break;
        case Truth::shared: CHECK(said.kind == Kind::not_exclusive); break;
        case Truth::whole_node_in_block_topology:
          // "--exclusive" itself is told as NO up to 25.11
          if (row->second.name == "exclusive-xtopo" && version != "26.05") {
            CHECK(said.kind == Kind::exclusive);
          } else {
            CHECK(said.kind == Kind::exclusive_if_block_topology);
          }
          break;
      }
    }
    CHECK(seen[Truth::whole_node] >= 30);
    CHECK(seen[Truth::shared] >= 24);
    CHECK(seen[Truth::whole_node_in_block_topology] >= 12);
  }
}

TEST_CASE("a 25.11 slurmd with a 26.05 controller says NO for a plain job: the local look must find out") {
  // The plain job as 26.05's controller codes it, in the environment that a 25.11 slurmd makes of it.
  auto values = captured::environment(captured::folder("26.05") / "prolog-env/job1.prolog_slurmd.node1").all();
  REQUIRE(values.at("SLURM_JOB_OVERSUBSCRIBE") == "NO");
  REQUIRE(values.at("SLURM_JOB_EXCLUSIVE") == "NO");
  values.erase("SLURM_JOB_EXCLUSIVE");
  CHECK(claim(values).kind == Kind::exclusive);

  World world;
  world.processes.living = {{4711, 1}};
  const auto found = world.look(v2("slurmstepd.scope", "job_16", "4711\n"));
  REQUIRE(found);
  CHECK(found->job == "16");
  CHECK(found->pid == 4711);
}

TEST_CASE("TOPO counts unless topology.yaml shows that the partition's topology is no block topology") {
  Claim topo{Kind::exclusive_if_block_topology, "SLURM_JOB_OVERSUBSCRIBE", "TOPO"};
  CHECK(claims_exclusive(topo, std::nullopt));
  CHECK(claims_exclusive(topo, true));
  CHECK_FALSE(claims_exclusive(topo, false));
  CHECK(claims_exclusive(Claim{Kind::exclusive, "", ""}, false));
  CHECK_FALSE(claims_exclusive(Claim{Kind::not_exclusive, "", ""}, true));
  CHECK_FALSE(claims_exclusive(Claim{Kind::unknown, "", ""}, true));

  fakes::FakeFiles files;
  files.file("/etc/slurm/slurm.conf",
             "PartitionName=ultra Nodes=ALL\nPartitionName=flat Nodes=ALL Topology=flat1\n"
             "PartitionName=trees Nodes=ALL topology=tree1\nPartitionName=lost Nodes=ALL Topology=nosuch\n");
  const auto conf = read_conf(files, "/etc/slurm/slurm.conf");
  REQUIRE(conf);
  CHECK_FALSE(partition_topology_is_block(files, *conf, "ultra").has_value());  // no topology.yaml
  files.file("/etc/slurm/topology.yaml", captured::whole_file(captured::folder("26.05") / "topology.yaml"));
  CHECK(partition_topology_is_block(files, *conf, "ultra") == true);
  CHECK(partition_topology_is_block(files, *conf, "nosuch") == true);  // the cluster's default
  CHECK(partition_topology_is_block(files, *conf, "flat") == false);
  CHECK(partition_topology_is_block(files, *conf, "trees") == false);
  CHECK_FALSE(partition_topology_is_block(files, *conf, "lost").has_value());
  files.file("/etc/slurm/topology.yaml", "- topology: [\n");
  CHECK_FALSE(partition_topology_is_block(files, *conf, "flat").has_value());
  files.fail_read("/etc/slurm/topology.yaml", EACCES);
  CHECK_FALSE(partition_topology_is_block(files, *conf, "flat").has_value());
}

TEST_CASE("nothing readable means nobody is seen") {
  World world;
  CHECK_FALSE(world.look(fakes::FakeFiles()));
  fakes::FakeFiles empty;
  empty.directory("/sys/fs/cgroup").directory("/var/spool/slurmd");
  CHECK_FALSE(world.look(empty));
  fakes::FakeFiles closed = v2("slurmstepd.scope", "job_16", "4711\n");
  closed.fail_read("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_16/step_0/user/task_0/cgroup.procs", EACCES);
  world.processes.living = {{4711, 1}};
  CHECK_FALSE(world.look(closed));
}

TEST_CASE("cgroup v2: only living processes of another job count") {
  World world;
  world.processes.living = {{700, 1}, {4711, 1}, {1, 1}};
  SECTION("nobody but our own job, whose extern step runs the prolog") {
    CHECK_FALSE(world.look(v2("slurmstepd.scope", "job_17", "4711\n")));
  }
  SECTION("a job of a longer number is another job") {
    CHECK(world.look(v2("slurmstepd.scope", "job_170", "4711\n")));
    CHECK(world.look(v2("slurmstepd.scope", "job_1", "4711\n")));
  }
  SECTION("several slurmd on one kernel: whoever's scope it is, the IMEX service is the same") {
    const auto found = world.look(v2("ultra-3_slurmstepd.scope", "job_16", "4711\n"));
    REQUIRE(found);
    CHECK(found->seen_at ==
          "/sys/fs/cgroup/system.slice/ultra-3_slurmstepd.scope/job_16/step_0/user/task_0/cgroup.procs");
  }
  SECTION("a folder left behind by a job that has ended") {
    CHECK_FALSE(world.look(v2("slurmstepd.scope", "job_16", "")));
    CHECK_FALSE(world.look(v2("slurmstepd.scope", "job_16", "999\n")));  // has ended
    CHECK_FALSE(world.look(v2("slurmstepd.scope", "job_16", "garbage\n-5\n99999999999999999999\n")));
  }
  SECTION("one of several processes is enough") {
    CHECK(world.look(v2("slurmstepd.scope", "job_16", "999\n998\n4711\n"))->pid == 4711);
  }
  SECTION("the step daemon alone is a step too") {
    auto files = v2("slurmstepd.scope", "job_16", "");
    files.file("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_16/step_0/slurm/cgroup.procs", "4711\n");
    CHECK(world.look(files));
  }
  SECTION("a process of another pid namespace is written as 0") {
    const auto found = world.look(v2("slurmstepd.scope", "job_16", "0\n"));
    REQUIRE(found);
    CHECK(found->pid == 0);
  }
  SECTION("names that are no job's") {
    CHECK_FALSE(world.look(v2("slurmstepd.scope", "job_", "4711\n")));
    CHECK_FALSE(world.look(v2("slurmstepd.scope", "job_16x", "4711\n")));
    CHECK_FALSE(world.look(v2("slurmd.service", "job_16", "4711\n")));
  }
  SECTION("CgroupSlice= of 26.05 moves the scope to another slice") {
    fakes::FakeFiles files;
    files.file("/sys/fs/cgroup/hpc.slice/hpc-jobs.slice/slurmstepd.scope/job_16/step_0/slurm/cgroup.procs", "4711\n");
    CHECK(world.look(files));
  }
}

TEST_CASE("cgroup v2 of 26.05: a job's folder is named by its SLUID") {
  World world;
  world.processes.living = {{4711, 1}};
  const std::string own = "s20NM8P7WHAT00";
  CHECK_FALSE(world.look(v2("slurmstepd.scope", own, "4711\n"), "17", own));
  const auto found = world.look(v2("slurmstepd.scope", "s20NM8P7WHAT01", "4711\n"), "17", own);
  REQUIRE(found);
  CHECK(found->job == "s20NM8P7WHAT01");
  CHECK_FALSE(world.look(v2("slurmstepd.scope", "s20NM8P7WHAT0", "4711\n"), "17", own));   // too short
  CHECK_FALSE(world.look(v2("slurmstepd.scope", "s20NM8P7WHATU1", "4711\n"), "17", own));  // no U in base 32
}

TEST_CASE("cgroup v1: every controller's tree is looked at") {
  World world;
  world.processes.living = {{4711, 1}};
  for (const std::string folder : {"freezer/slurm", "cpuset/slurm_ultra-2", "memory/slurm"}) {
    fakes::FakeFiles files;
    files.file("/sys/fs/cgroup/" + folder + "/uid_1000/job_16/step_batch/task_0/cgroup.procs", "4711\n");
    files.file("/sys/fs/cgroup/" + folder + "/uid_1000/job_16/tasks", "4711\n");
    CAPTURE(folder);
    CHECK(world.look(files));
    CHECK_FALSE(world.look(files, "16"));
  }
}

TEST_CASE("the extern step counts for a prolog, not for a person") {
  World world;
  world.processes.living = {{4711, 1}};
  fakes::FakeFiles files;
  files.file("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_16/step_extern/user/task_0/cgroup.procs", "4711\n");
  CHECK(world.look(files, "17", "", true));
  CHECK_FALSE(world.look(files, "", "", false));
  socket(files, "/var/spool/slurmd/ultra-2_16.4294967292");
  CHECK_FALSE(world.look(files, "", "", false));
  socket(files, "/var/spool/slurmd/ultra-2_16.4294967291");  // its batch step
  CHECK(world.look(files, "", "", false)->seen_at == "/var/spool/slurmd/ultra-2_16.4294967291");
}

TEST_CASE("sockets of step daemons tell where no cgroups do") {
  World world;
  fakes::FakeFiles files;
  for (const char* none :
       {"ultra-2_17.0", "ultra-2_17.4294967291", "ultra-20_16.0", "ultra_16.0", "ultra-2_16", "ultra-2_16.",
        "ultra-2_.0", "ultra-2_x.0", "ultra-2_16.0.0.0", "ultra-2_16.-1", "cred_state", "ultra-2"}) {
    socket(files, std::string("/var/spool/slurmd/") + none);
  }
  files.file("/var/spool/slurmd/ultra-2_16.5", "a file of that name is no socket");
  CHECK_FALSE(world.look(files));
  socket(files, "/var/spool/slurmd/ultra-2_16.0");
  const auto found = world.look(files);
  REQUIRE(found);
  CHECK(found->job == "16");
  CHECK(found->pid == 0);
  CHECK(found->seen_at == "/var/spool/slurmd/ultra-2_16.0");

  fakes::FakeFiles het;
  socket(het, "/var/spool/slurmd/ultra-2_16.0.1");
  CHECK(world.look(het));
  CHECK(foreign_step(het, world.processes, "", "", "", "/var/spool/slurmd", false));  // by hand: no node name known
}

TEST_CASE("a step that is just ending does not cost the job its domain") {
  World world;
  Job job;
  job.id = "17";
  job.node_name = "ultra-2";
  world.processes.living = {{4711, 1}};
  fakes::FakeFiles files = v2("slurmstepd.scope", "job_16", "4711\n");

  const auto stays = lasting_foreign_step(files, world.processes, world.clock, job, "/var/spool/slurmd", 5s);
  REQUIRE(stays);
  CHECK(world.clock.slept == 5s);

  // A clock on which the other step ends after a second.
  struct EndingClock : fakes::FakeClock {
    fakes::FakeProcesses* processes = nullptr;
    bool sleep(host::milliseconds duration) override {
      const bool on = fakes::FakeClock::sleep(duration);
      if (slept >= 1s) processes->living.clear();
      return on;
    }
  } clock;
  clock.processes = &world.processes;
  CHECK_FALSE(lasting_foreign_step(files, world.processes, clock, job, "/var/spool/slurmd", 5s));
  CHECK(clock.slept == 1s);

  world.processes.living = {{4711, 1}};
  fakes::FakeClock stopped;
  stopped.interrupted = true;
  CHECK(lasting_foreign_step(files, world.processes, stopped, job, "/var/spool/slurmd", 5s));
  CHECK(stopped.slept < 1s);
}
