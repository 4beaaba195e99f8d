// nodes_config.cfg: the ordered list of addresses that is an IMEX domain's only identity.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/files.h"

namespace imex {

// One address a line, nothing else: byte for byte the same on every node of the domain.
std::string render_nodes_config(const std::vector<std::string>& addresses);

// A list without nodes, which nvidia-imex will not start with: what a failed prolog or an epilog leaves.
std::string render_empty_nodes_config();

// Addresses of a list, comments and blank lines passed over.
std::vector<std::string> parse_nodes_config(std::string_view text);

// Can the list be written: the folder is there, the file system is this node's own (a list shared by several
// nodes would be overwritten by each) and takes a file of that size now? Writes and removes a temporary file,
// so that a full disk is found before the daemon is stopped. Error: change.
base::Status check_nodes_config_place(host::Files& files, const std::string& path, const std::string& content);

base::Status write_nodes_config(host::Files& files, const std::string& path, const std::string& content);

}  // namespace imex
