#include "imex/nodes_config.h"

#include <cerrno>

#include "base/text.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;

namespace {

constexpr mode_t list_mode = 0644;
const std::string where_it_is_set = "IMEX_NODE_CONFIG_FILE in " + std::string(site::imex_config);

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

// `error` is of the seam, which names the path itself.
Error cannot_write(const std::string& path, const Error& error) {
  std::string why = error.what;
  const std::string prefix = "cannot replace " + path + ": ";
  if (why.starts_with(prefix)) why.erase(0, prefix.size());
  std::string cure;
  switch (error.os_error) {
    case EISDIR: cure = "a folder lies in its place: remove it, or correct " + where_it_is_set; break;
    case ENOENT:
    case ENOTDIR: cure = "make the folder " + folder_of(path) + ", or correct " + where_it_is_set; break;
    default:
      cure = error.cure.empty() ? "see whether " + folder_of(path) + " is writable and has space left" : error.cure;
  }
  return Error{ExitCode::change, "cannot write the IMEX node list " + path + ": " + why, cure, base::Blame::local,
               error.os_error};
}

}  // namespace

std::string render_nodes_config(const std::vector<std::string>& addresses) {
  std::string text;
  for (const std::string& address : addresses) text += address + "\n";
  return text;
}

std::string render_empty_nodes_config() {
  return "# no IMEX domain on this node: gpu-prolog writes the list of the next exclusive job here\n";
}

std::vector<std::string> parse_nodes_config(std::string_view text) {
  std::vector<std::string> addresses;
  for (const std::string_view raw : base::each_line(text)) {
    const std::string_view line = base::trim(raw);
    if (!line.empty() && line.front() != '#') addresses.emplace_back(line);
  }
  return addresses;
}

base::Status check_nodes_config_place(host::Files& files, const std::string& path, const std::string& content) {
  const auto shared = files.on_network_file_system(folder_of(path));
  if (!shared) return cannot_write(path, shared.error());
  if (*shared) {
    return Error{
        ExitCode::change,
        "the IMEX node list " + path + " lies on a network file system, where nodes overwrite each other's list",
        "set " + where_it_is_set + " to a path on this node's own disk"};
  }
  const auto there = files.status(path);
  if (!there) return cannot_write(path, there.error());
  // A link is replaced by the list; a device or folder at that place is somebody's mistake in config.cfg.
  if (*there && (*there)->kind != host::FileStatus::Kind::regular && (*there)->kind != host::FileStatus::Kind::link) {
    return Error{ExitCode::change, "the IMEX node list " + path + " is no regular file",
                 "correct " + where_it_is_set + ", or see what lies there"};
  }
  if (auto rehearsed = files.rehearse_replace(path, content, list_mode); !rehearsed) {
    return cannot_write(path, rehearsed.error());
  }
  return base::ok();
}

base::Status write_nodes_config(host::Files& files, const std::string& path, const std::string& content) {
  if (auto written = files.replace(path, content, list_mode); !written) return cannot_write(path, written.error());
  return base::ok();
}

}  // namespace imex
