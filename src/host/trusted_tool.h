// Tools are run by absolute path and only when nobody but root could have put them there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/files.h"

namespace host {

// Checks that `path` is a regular executable file and, if `as_root`, that it, every folder above it and every
// link on the way is root's and not writable by group or others. The value is the path with its links
// resolved. Error: surroundings; the text names the first part that is wrong; os_error ENOENT where the
// file is simply not there.
base::Result<std::string> check_tool(const Files& files, const std::string& path, bool as_root);

// The first of `candidates` that is there and trustworthy. One that is there but not trustworthy ends the
// search with its error: falling through to the next would hide an attack or a broken install.
base::Result<std::string> find_tool(const Files& files, const std::string& name,
                                    const std::vector<std::string>& candidates, bool as_root);

}  // namespace host
