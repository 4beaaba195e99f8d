// Which of the job's nodes make this node's IMEX domain: those in its own block, where a block map is known.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/clock.h"
#include "host/files.h"
#include "host/log.h"
#include "host/processes.h"
#include "slurm/blocks.h"
#include "slurm/conf.h"

namespace slurm {

enum class Scope {
  automatic,  // own block; without a block map the whole job, where it fits
  job,        // the whole job
  block,      // own block; no block map is an error
};

struct BlockQuestion {
  Scope scope = Scope::automatic;
  std::size_t max_nodes = 0;  // --max-domain-nodes
  std::vector<std::string> job_nodes;
  std::string own_node;
  std::string partition;  // may be empty
};

struct BlockDecision {
  std::string block;               // empty: the whole job
  std::vector<std::string> nodes;  // in the job's order
  std::string source;              // where that is from, for the log
};

// "block b2 (2 of 4 nodes of the job, from topology.yaml (topology ultra))"
std::string describe(const BlockDecision& decision, const BlockQuestion& question);

// topology.yaml beside the conf file (slurmd is sent it since 25.05.2, so that no RPC is needed), as far as it
// concerns the topology of this partition. nullopt: no such file. Errors as parse_topology_yaml's, and where it
// cannot be read.
base::Result<std::optional<TopologyFile>> read_topology_file(const host::Files& files, const Conf& conf,
                                                             const std::string& partition);

// In this order: topology.yaml; where that is missing or of no use, one `scontrol show topology`. It is not
// asked for a job of one node (but under Scope::block), nor where topology.yaml shows that the partition's
// topology is no block topology. A map that cannot be used is a WARN and no more, where the whole job fits.
// `scontrol`: find_scontrol's answer; an error in it counts only where there is no other way.
// Errors: change (shared): more nodes than max_nodes, or no block map where one is needed; surroundings
// (local): own_node is not in the job.
base::Result<BlockDecision> own_block(const host::Files& files, host::Processes& processes, host::Log& log,
                                      const Conf& conf, const base::Result<std::string>& scontrol,
                                      const BlockQuestion& question, const host::Deadline& deadline);

}  // namespace slurm
