// nvidia-imex's own config.cfg: read, never written.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "host/files.h"

namespace imex {

struct DaemonConfig {
  std::string nodes_config;     // IMEX_NODE_CONFIG_FILE, else the default
  unsigned server_port = 0;     // SERVER_PORT
  unsigned command_port = 0;    // IMEX_CMD_PORT
  bool command_enabled = true;  // IMEX_CMD_ENABLED
  std::string quorum;           // IMEX_WAIT_FOR_QUORUM, as written
};

std::string describe(const DaemonConfig& config);

// `KEY=value` lines; a later one wins; # comments. Missing keys have NVIDIA's defaults. Error: change, for a
// port that is none or a node file that is no absolute path.
base::Result<DaemonConfig> parse_daemon_config(std::string_view text);

// A missing file gives the defaults.
base::Result<DaemonConfig> read_daemon_config(const host::Files& files, const std::string& path);

// Where the node list of this node's daemon is: the default too where the config cannot be read.
std::string find_nodes_config(const host::Files& files);

}  // namespace imex
