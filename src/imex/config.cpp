#include "imex/config.h"

#include <cerrno>

#include "base/text.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;

namespace {

// Values may stand in quotes.
std::string_view unquote(std::string_view value) {
  value = base::trim(value);
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
    value.remove_prefix(1);
    value.remove_suffix(1);
  }
  return value;
}

}  // namespace

std::string describe(const DaemonConfig& config) {
  return "node list " + config.nodes_config + ", server port " + std::to_string(config.server_port) +
         ", command service " +
         (config.command_enabled ? "on port " + std::to_string(config.command_port) : std::string("off"));
}

base::Result<DaemonConfig> parse_daemon_config(std::string_view text) {
  DaemonConfig config;
  config.nodes_config = site::imex_nodes_config;
  config.server_port = site::imex_server_port;
  config.command_port = site::imex_command_port;
  const auto bad = [](const std::string& key, std::string_view value, const std::string& why) {
    return Error{ExitCode::change, key + "=" + base::printable(value) + " in the IMEX config file " + why,
                 "correct " + std::string(site::imex_config)};
  };
  for (const std::string_view raw : base::each_line(text)) {
    const std::string_view line = base::trim(raw);
    const std::size_t equals = line.find('=');
    if (line.empty() || line.front() == '#' || equals == std::string_view::npos) continue;
    const std::string key(base::trim(line.substr(0, equals)));
    const std::string_view value = unquote(line.substr(equals + 1));
    if (key == "IMEX_NODE_CONFIG_FILE") {
      if (value.empty()) continue;
      if (!value.starts_with('/') || value.size() > 256 || value.find("/../") != std::string_view::npos) {
        return bad(key, value, "is no absolute path of at most 256 bytes");
      }
      config.nodes_config = value;
    } else if (key == "SERVER_PORT" || key == "IMEX_CMD_PORT") {
      const auto port = base::parse_number(value);
      if (!port || *port == 0 || *port > 65'535) return bad(key, value, "is no port");
      (key == "SERVER_PORT" ? config.server_port : config.command_port) = static_cast<unsigned>(*port);
    } else if (key == "IMEX_CMD_ENABLED") {
      config.command_enabled = value != "0";
    } else if (key == "IMEX_WAIT_FOR_QUORUM") {
      config.quorum = value;
    }
  }
  return config;
}

base::Result<DaemonConfig> read_daemon_config(const host::Files& files, const std::string& path) {
  const auto text = files.read(path, 1U << 20U);
  if (text) return parse_daemon_config(*text);
  if (text.error().os_error == ENOENT) return parse_daemon_config("");
  return Error{ExitCode::change, text.error().what, "make " + path + " a readable file"};
}

std::string find_nodes_config(const host::Files& files) {
  const auto config = read_daemon_config(files, std::string(site::imex_config));
  return config ? config->nodes_config : std::string(site::imex_nodes_config);
}

}  // namespace imex
