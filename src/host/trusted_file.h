// Files by which root decides are believed only where root alone could have written them.
#pragma once

#include <string>

#include "host/files.h"

namespace host {

// Why nobody should believe what lies in this folder, its path included; empty: no reason, or there is none.
// `of_root` false (below --root the files may be a person's own, kept from a node): any owner will do.
std::string folder_fault(const Files& files, const std::string& folder, bool of_root);

// The same for a file and the folder that it lies in; a link is no file.
std::string file_fault(const Files& files, const std::string& path, bool of_root);

}  // namespace host
