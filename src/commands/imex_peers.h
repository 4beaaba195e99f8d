// Which nodes make this job's domain on this node, and their addresses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "commands/context.h"
#include "commands/imex_options.h"
#include "net/addresses.h"
#include "slurm/block_source.h"
#include "slurm/conf.h"
#include "slurm/job.h"

namespace commands {

// The nodes of the job that are in this node's block, in the job's order; with where that is known from.
struct OwnBlock {
  slurm::BlockQuestion question;
  slurm::BlockDecision decision;
  // Looked for once in a run; an error counts where there is no other way.
  base::Result<std::string> scontrol = base::Error{};
};

std::string describe(const OwnBlock& block);

// Error: surroundings (the node list cannot be expanded, this node is not in it), change (no block map where one
// is needed).
base::Result<OwnBlock> find_block(const Context& context, const ImexPrologOptions& options, const slurm::Job& job,
                                  const std::optional<slurm::Conf>& conf, const host::Deadline& deadline);

struct Peers {
  std::vector<net::Peer> peers;
  std::size_t own = 0;  // our place

  std::vector<std::string> nodes() const;
  std::vector<std::string> addresses() const;
};

std::string describe(const Peers& peers);

// The block's nodes, asked of scontrol, resolved where NodeAddr is a name, checked.
base::Result<Peers> find_peers(const Context& context, const ImexPrologOptions& options, const slurm::Job& job,
                               const OwnBlock& block, const host::Deadline& deadline);

}  // namespace commands
