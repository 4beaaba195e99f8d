#include "slurm/block_source.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "slurm/ask_scontrol.h"

namespace slurm {

namespace {

constexpr std::size_t topology_file_cap = 4U << 20U;

std::string partition_topology(const Conf& conf, const std::string& partition) {
  const auto record = conf.partition(partition);
  const auto found = record.find("topology");
  return found == record.end() ? "" : found->second;
}

std::string topology_path(const Conf& conf) {
  const std::size_t slash = conf.path.rfind('/');
  return slash == std::string::npos ? "" : conf.path.substr(0, slash) + "/topology.yaml";
}

// What was found on the way to a map: the job's nodes in this node's block, or why there are none.
struct Search {
  std::optional<BlockDecision> decision;
  std::string why_not;
};

class MapSearch {
 public:
  MapSearch(const host::Files& files, host::Processes& processes, host::Log& log, const Conf& conf,
            const base::Result<std::string>& scontrol, const BlockQuestion& question, const host::Deadline& deadline)
      : files_(files),
        processes_(processes),
        log_(log),
        conf_(conf),
        scontrol_(scontrol),
        question_(question),
        deadline_(deadline) {}

  Search run() {
    const auto file = read_topology_file(files_, conf_, question_.partition);
    if (!file) {
      note_unusable(file.error().what);
    } else if (*file) {
      switch ((*file)->kind) {
        case TopologyFile::Kind::block:
          if (auto found = cut((*file)->map)) return {found, ""};
          break;
        case TopologyFile::Kind::other:
          return {std::nullopt, "topology.yaml: the topology " + (*file)->name + " of partition " +
                                    base::printable(question_.partition, 100) + " is no block topology"};
        case TopologyFile::Kind::none:
          why_ = "topology.yaml does not say which topology partition " + base::printable(question_.partition, 100) +
                 " has";
          break;
      }
    } else {
      why_ = topology_path(conf_).empty() ? "no slurm.conf" : "no " + topology_path(conf_);
    }
    ask();
    if (decision_) return {decision_, ""};
    return {std::nullopt, why_};
  }

 private:
  void note_unusable(const std::string& why) {
    log_.warn("this block map is not used: " + why);
    why_ = why;
  }

  std::optional<BlockDecision> cut(const BlockMap& map) {
    auto own = cut_to_block(map, question_.job_nodes, question_.own_node);
    if (!own) {
      note_unusable(own.error().what);
      return std::nullopt;
    }
    return BlockDecision{own->name, std::move(own->nodes), map.source};
  }

  void ask() {
    std::string failed;
    if (!scontrol_) {
      failed = scontrol_.error().what;
    } else {
      auto map = show_topology(processes_, *scontrol_, partition_topology(conf_, question_.partition), deadline_);
      if (map) {
        decision_ = cut(*map);
        return;
      }
      failed = map.error().what;
    }
    // The ordinary case on a cluster of one UltraServer: no topology is configured, and nothing is wrong.
    log_.info("no block map from scontrol show topology: " + base::printable(failed));
    why_ += "; " + failed;
  }

  const host::Files& files_;
  host::Processes& processes_;
  host::Log& log_;
  const Conf& conf_;
  const base::Result<std::string>& scontrol_;
  const BlockQuestion& question_;
  const host::Deadline& deadline_;
  std::string why_;
  std::optional<BlockDecision> decision_;
};

base::Error too_many(const std::string& what, std::size_t count, std::size_t max_nodes, const std::string& cure) {
  return base::Error{
      base::ExitCode::change,
      what + " has " + std::to_string(count) + " nodes, an IMEX domain takes at most " + std::to_string(max_nodes),
      cure, base::Blame::shared};
}

base::Result<BlockDecision> whole_job(const BlockQuestion& question, const std::string& source) {
  if (question.job_nodes.size() > question.max_nodes) {
    return too_many(
        "the job", question.job_nodes.size(), question.max_nodes,
        question.scope == Scope::job
            ? "use --scope=auto with a block topology, or raise --max-domain-nodes"
            : "configure topology/block so that topology.yaml or scontrol show topology tells the blocks (" + source +
                  ")");
  }
  return BlockDecision{"", question.job_nodes, source};
}

}  // namespace

std::string describe(const BlockDecision& decision, const BlockQuestion& question) {
  if (decision.block.empty()) {
    return "the whole job (" + std::to_string(decision.nodes.size()) + " nodes; " + decision.source + ")";
  }
  return "block " + decision.block + " (" + std::to_string(decision.nodes.size()) + " of " +
         std::to_string(question.job_nodes.size()) + " nodes of the job, from " + decision.source + ")";
}

base::Result<std::optional<TopologyFile>> read_topology_file(const host::Files& files, const Conf& conf,
                                                             const std::string& partition) {
  const std::string path = topology_path(conf);
  if (path.empty()) return std::optional<TopologyFile>();
  const auto text = files.read(path, topology_file_cap);
  if (!text) {
    if (text.error().os_error == ENOENT || text.error().os_error == ENOTDIR) return std::optional<TopologyFile>();
    return text.error();
  }
  auto file = parse_topology_yaml(*text, partition_topology(conf, partition));
  if (!file) return file.error();
  return std::optional<TopologyFile>(std::move(*file));
}

base::Result<BlockDecision> own_block(const host::Files& files, host::Processes& processes, host::Log& log,
                                      const Conf& conf, const base::Result<std::string>& scontrol,
                                      const BlockQuestion& question, const host::Deadline& deadline) {
  const auto& nodes = question.job_nodes;
  if (std::find(nodes.begin(), nodes.end(), question.own_node) == nodes.end()) {
    return base::Error{base::ExitCode::surroundings,
                       "this node (" + base::printable(question.own_node, 255) + ") is not among the job's nodes",
                       "compare SLURMD_NODENAME with SLURM_JOB_NODELIST"};
  }
  if (question.scope == Scope::job) return whole_job(question, "--scope=job");
  if (question.scope == Scope::automatic && nodes.size() == 1) return whole_job(question, "it is one node");

  const Search search = MapSearch(files, processes, log, conf, scontrol, question, deadline).run();
  if (search.decision) {
    if (search.decision->nodes.size() > question.max_nodes) {
      return too_many("block " + search.decision->block + " (" + search.decision->source + ") of the job",
                      search.decision->nodes.size(), question.max_nodes,
                      "correct the block map, or raise --max-domain-nodes");
    }
    return *search.decision;
  }
  if (question.scope == Scope::block) {
    return base::Error{base::ExitCode::change, "--scope=block needs a block map, and there is none: " + search.why_not,
                       "configure topology/block, or use --scope=auto", base::Blame::shared};
  }
  return whole_job(question, "no block map: " + search.why_not);
}

}  // namespace slurm
