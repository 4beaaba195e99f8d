// Which nodes share an UltraServer: topology/block's blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slurm {

struct Block {
  std::string name;
  std::vector<std::string> nodes;
};

struct BlockMap {
  std::vector<Block> blocks;
  std::string source;  // "topology.yaml (topology ultra)", "scontrol show topology"
};

// What topology.yaml says of the topology that `topology` names (a partition's Topology=; empty: the one with
// cluster_default: true, else the only block one).
struct TopologyFile {
  enum class Kind { block, other, none };  // none: no such topology, or no choice possible
  Kind kind = Kind::none;
  std::string name;
  BlockMap map;  // for block
};

// Error: source; the text names what is malformed. Limits: 4 MiB, 100,000 values in all, 12 deep, no aliases
// (Slurm's own reader refuses those too), 65,536 nodes. Both ways of writing pass: the file as people write it
// and as `scontrol show topoconf` prints it (an empty `block: {}` beside the kind that is meant). A file cut short
// within a name is not noticed as such; slurmd writes it by rename (fetch_config.c, _write_conf).
base::Result<TopologyFile> parse_topology_yaml(std::string_view text, const std::string& topology);

// `scontrol show topology` text: BlockName= lines; AggregatedBlock= lines are no blocks; tree output, any other
// line, a last line cut short or no block line at all: an error (source).
base::Result<BlockMap> parse_show_topology(std::string_view text);

struct OwnBlock {
  std::string name;
  std::vector<std::string> nodes;  // the job's nodes in this node's block, in the job's order
};

// Error (source, shared blame) where the map lacks this node or a node of the job, or has one twice: such a
// map is no map. The text names the node.
base::Result<OwnBlock> cut_to_block(const BlockMap& map, const std::vector<std::string>& job_nodes,
                                    const std::string& own_node);

}  // namespace slurm
