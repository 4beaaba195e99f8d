#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "imexd.hpp"

namespace imexd {

namespace {

constexpr int kUnreadable = 255;
constexpr int kNoAnswer = 1;

struct Node {
  std::string id, address, status, version, host, row;
  bool self = false;
};

struct Report {
  std::vector<Node> nodes;
  std::string domain;
};

std::string letter(char cell) {
  if (cell == 'M' || cell == 'V') {
    return std::string("!") + cell + "!";
  }
  return std::string(1, cell);
}

const char* word(char cell) {
  switch (cell) {
    case 'C': return "CONNECTED";
    case 'N': return "NEVER_CONNECTED";
    case 'R': return "RECOVERING";
    case 'D': return "DISCONNECTED";
    case 'A': return "AUTHENTICATING";
    case 'V': return "VERSION_MISMATCH";
    case 'M': return "NODE_MAP_MISMATCH";
    default: return "INVALID";
  }
}

void print_text(const Report& report, bool with_hosts, bool star) {
  std::fputs(
      "Connectivity Table Legend:\n"
      "I - Invalid - Node wasn't reachable, no connection status available\n"
      "N - Never Connected\n"
      "R - Recovering - Connection was lost, but clean up has not yet been triggered.\n"
      "D - Disconnected - Connection was lost, and clean up has been triggreed.\n"
      "A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.\n"
      "!V! - Version mismatch, communication disabled.\n"
      "!M! - Node map mismatch, communication disabled.\n"
      "C - Connected - Ready for operation\n"
      "\n",
      stdout);
  std::printf("%s\nNodes:\n", stamp().c_str());
  for (const auto& node : report.nodes) {
    const char mark = star && node.self ? '*' : '-';
    std::printf("Node #%-3s %c %-15s %c %-20s - Version: %s", node.id.c_str(), mark, node.address.c_str(), mark,
                node.status.c_str(), node.version.c_str());
    if (with_hosts) {
      std::printf(" - Hostname: %s", node.host.c_str());
    }
    std::fputc('\n', stdout);
  }
  std::fputs("\n Nodes From\\To  ", stdout);
  for (std::size_t i = 0; i < report.nodes.size(); ++i) {
    std::printf(i + 1 < report.nodes.size() ? "%-4zu" : "%zu", i);
  }
  std::fputc('\n', stdout);
  for (const auto& node : report.nodes) {
    std::printf("%8s        ", node.id.c_str());
    for (std::size_t i = 0; i < node.row.size(); ++i) {
      std::printf(i + 1 < node.row.size() ? "%-4s" : "%s", letter(node.row[i]).c_str());
    }
    std::fputc('\n', stdout);
  }
  std::printf("\nDomain State: %s\n", report.domain.c_str());
}

void print_json(const Report& report, bool with_hosts) {
  std::fputs("{\"nodes\":{", stdout);
  for (std::size_t n = 0; n < report.nodes.size(); ++n) {
    const auto& node = report.nodes[n];
    std::printf("%s\"%s\":{\"status\":\"%s\",\"host\":\"%s\",", n == 0 ? "" : ",", node.id.c_str(), node.status.c_str(),
                node.address.c_str());
    if (with_hosts) {
      std::printf("\"hostName\":\"%s\",", node.host.c_str());
    }
    std::fputs("\"connections\":{", stdout);
    for (std::size_t i = 0; i < node.row.size() && i < report.nodes.size(); ++i) {
      std::printf("%s\"%zu\":{\"host\":\"%s\",\"status\":\"%s\",\"changed\":true}", i == 0 ? "" : ",", i,
                  report.nodes[i].address.c_str(), word(node.row[i]));
    }
    std::printf("},\"changed\":true,\"version\":\"%s\"}", node.version.c_str());
  }
  std::printf("},\"timestamp\":\"%s\",\"status\":\"%s\"}\n", stamp().c_str(), report.domain.c_str());
}

/// Sends one word and reads until `last` ends the answer; empty when nobody answers within the limit.
std::string ask(int fd, const std::string& question, const std::string& last, double until) {
  const auto wait_for = [&](short events) {
    pollfd entry{fd, events, 0};
    const double left = until - monotonic_now();
    return left > 0 && poll(&entry, 1, static_cast<int>(left * 1000) + 1) > 0;
  };
  if (!wait_for(POLLOUT) || send(fd, question.data(), question.size(), MSG_NOSIGNAL) < 0) {
    return "";
  }
  std::string answer;
  char buffer[8192];
  while (answer.size() < last.size() || answer.compare(answer.size() - last.size(), last.size(), last) != 0) {
    if (!wait_for(POLLIN)) {
      return "";
    }
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      return "";
    }
    answer.append(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  return answer;
}

Report parse(const std::string& answer) {
  Report report;
  for (std::size_t at = 0; at < answer.size();) {
    const auto end = answer.find('\n', at);
    const auto said = words(answer.substr(at, end - at));
    at = end + 1;
    if (said.size() == 8 && said[0] == "NODE") {
      const auto known = [](const std::string& text) { return text == "-" ? "" : text; };
      report.nodes.push_back({said[1], said[2], said[3], known(said[4]), known(said[5]), said[6], said[7] == "self"});
    } else if (said.size() == 2 && said[0] == "DOMAIN") {
      report.domain = said[1];
    }
  }
  return report;
}

int usage() {
  std::fputs("Usage: nvidia-imex-ctl [-c CONFIG | -i IP PORT | -u SOCKET] [-t MILLISECONDS] -q | -N [-j] [-H]\n",
             stderr);
  return kUnreadable;
}

}  // namespace

int ctl_main(const std::vector<std::string>& arguments) {
  const Settings settings = read_settings();
  std::string file = "/etc/nvidia-imex/config.cfg", address, socket_path;
  int port = 0;
  double limit = 5.0;
  bool local_status = false, full = false, json = false, hosts = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t left = arguments.size() - i - 1;
    if (word == "-q") {
      local_status = true;
    } else if (word == "-N") {
      full = true;
    } else if (word == "-j" && !settings.flag("ctl_no_json")) {
      json = true;
    } else if (word == "-H") {
      hosts = true;
    } else if (word == "-c" && left >= 1) {
      file = arguments[++i];
    } else if (word == "-t" && left >= 1) {
      limit = std::atof(arguments[++i].c_str()) / 1000.0;
    } else if (word == "-u" && left >= 1) {
      socket_path = arguments[++i];
    } else if (word.rfind("--u=", 0) == 0) {
      socket_path = word.substr(4);
    } else if (word == "-i" && left >= 2) {
      address = arguments[i + 1];
      port = std::atoi(arguments[i + 2].c_str());
      i += 2;
    } else {
      std::fprintf(stderr, "nvidia-imex-ctl: unknown option '%s'\n", word.c_str());
      return usage();
    }
  }
  if (local_status == full || ((json || hosts) && !full)) {
    return usage();
  }
  if (settings.flag("ctl_hang")) {
    for (;;) {
      pause();
    }
  }
  if (address.empty() && socket_path.empty()) {
    Config config;
    if (!read_config(file, config)) {
      std::fprintf(stderr, "Failed to read configuration file %s\n", file.c_str());
      return kUnreadable;
    }
    NodeList list;
    if (full && !read_node_list(config.node_file(), list)) {
      std::fprintf(stderr, "Failed to read node configuration file %s\n", config.node_file().c_str());
      return kUnreadable;
    }
    socket_path = config.text("IMEX_CMD_UNIX_DOMAIN_PATH", "");
    address = config.text("IMEX_CMD_BIND_INTERFACE_IP", "127.0.0.1");
    port = config.command_port();
  }
  const int fd = socket_path.empty() ? tcp_connect(address, port, "") : unix_connect(socket_path);
  const std::string answer =
      fd < 0 ? "" : ask(fd, full ? "N\n" : "Q\n", full ? "END\n" : "\n", monotonic_now() + limit);
  if (answer.empty()) {
    std::printf("Query Status returned error code: 14\n");
    return kNoAnswer;
  }
  if (local_status) {
    std::fputs(answer.c_str(), stdout);
    return 0;
  }
  const Report report = parse(answer);
  if (json) {
    print_json(report, hosts);
  } else {
    print_text(report, hosts, settings.flag("local_star"));
  }
  return 0;
}

}  // namespace imexd
