#include "slurm/scontrol.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "slurm/hostlist.h"

namespace slurm {

namespace {

base::Error unusable(const std::string& tool, const std::string& why, const std::string& cure) {
  return base::Error{base::ExitCode::source, "the answer of " + tool + " cannot be used: " + why, cure,
                     base::Blame::shared};
}

base::Error unusable_addresses(const std::string& why) {
  return unusable("scontrol getaddrs", why, "look at the NodeAddr of these nodes: scontrol show node");
}

base::Error unusable_records(const std::string& why) {
  return unusable("scontrol show node", why, "look at these nodes: scontrol show node");
}

// An address and not the unspecified one. (inet_pton is arithmetic on text, no system call.)
bool is_specified(const std::string& address) {
  std::array<unsigned char, 16> bytes{};
  const bool six = address.find(':') != std::string::npos;
  if (inet_pton(six ? AF_INET6 : AF_INET, address.c_str(), bytes.data()) != 1) return false;
  if (std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == 0; })) return false;
  // ::ffff:0.0.0.0, the unspecified IPv4 address in IPv6 clothes
  const bool mapped = six && std::all_of(bytes.begin(), bytes.begin() + 10, [](unsigned char b) { return b == 0; }) &&
                      bytes[10] == 0xFF && bytes[11] == 0xFF;
  return !(mapped && std::all_of(bytes.begin() + 12, bytes.end(), [](unsigned char b) { return b == 0; }));
}

// What may stand as NodeAddr: an address or a host name. It may become an argument of getent, so never '-' first.
bool is_address_or_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text.front() != '-' && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == ':' ||
                  c == '_' || c == '-';
         });
}

// Answers by node, filled in any order, taken out in the order that was asked for.
class Addresses {
 public:
  explicit Addresses(const std::vector<std::string>& wanted) : wanted_(wanted) {
    found_.reserve(wanted.size());
    for (const std::string& node : wanted) found_.emplace(node, std::nullopt);
  }

  std::optional<std::string> add(std::string_view node, const std::string& address) {
    const auto at = found_.find(node);
    if (at == found_.end()) return "nobody asked for node " + base::printable(node, 255);
    if (at->second) return "node " + base::printable(node, 255) + " is in it twice";
    at->second = address;
    return std::nullopt;
  }

  std::optional<std::string> missing() const {
    for (const std::string& node : wanted_) {
      if (!found_.at(node)) return base::printable(node, 255);
    }
    return std::nullopt;
  }

  std::vector<NodeAddress> in_order() const {
    std::vector<NodeAddress> all;
    all.reserve(wanted_.size());
    for (const std::string& node : wanted_) all.push_back({node, *found_.at(node)});
    return all;
  }

 private:
  const std::vector<std::string>& wanted_;
  std::unordered_map<std::string_view, std::optional<std::string>> found_;
};

struct Record {
  std::string_view node;
  std::optional<std::string_view> address;
};

// One `NodeName=...` line from the left: what comes after the first value that may hold any text is not read.
Record read_record(std::string_view line) {
  constexpr std::array<std::string_view, 4> free_text{"OS=", "Reason=", "Comment=", "Extra="};
  constexpr std::string_view name_key = "NodeName=";
  constexpr std::string_view address_key = "NodeAddr=";
  Record record;
  bool first = true;
  while (!line.empty()) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    if (first) {
      record.node = word.substr(name_key.size());
    } else if (word.starts_with(address_key)) {
      record.address = word.substr(address_key.size());
      return record;
    } else if (std::any_of(free_text.begin(), free_text.end(), [&](auto key) { return word.starts_with(key); })) {
      return record;
    }
    first = false;
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return record;
}

// "Node X not found", which scontrol prints on stdout between the records.
std::optional<std::string_view> not_found(std::string_view line) {
  constexpr std::string_view begin = "Node ";
  constexpr std::string_view end = " not found";
  line = base::trim(line);
  if (!line.starts_with(begin) || !line.ends_with(end) || line.size() <= begin.size() + end.size()) return std::nullopt;
  const std::string_view name = line.substr(begin.size(), line.size() - begin.size() - end.size());
  if (name.find(' ') != std::string_view::npos) return std::nullopt;
  return name;
}

}  // namespace

base::Result<std::vector<NodeAddress>> parse_getaddrs(std::string_view text, const std::vector<std::string>& wanted) {
  if (base::trim(text).empty()) return unusable_addresses("it is empty");
  if (text.back() != '\n') return unusable_addresses("its last line is cut short");
  Addresses addresses(wanted);
  for (const std::string_view line : base::each_line(text)) {
    const std::string shown = "'" + base::printable(line, 120) + "'";
    const std::size_t colon = line.find(": ");
    const std::size_t port_colon = line.rfind(':');
    if (colon == std::string_view::npos || port_colon < colon + 2)
      return unusable_addresses(shown + " has not its form");
    const std::string_view node = line.substr(0, colon);
    std::string_view address = line.substr(colon + 2, port_colon - colon - 2);
    const auto port = base::parse_number(line.substr(port_colon + 1));
    if (!port || *port > 65'535) return unusable_addresses(shown + " has not its form");
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
      if (address.find(':') == std::string_view::npos) return unusable_addresses(shown + " has not its form");
    } else if (address.find(':') != std::string_view::npos) {
      return unusable_addresses(shown + " has not its form");
    }
    if (*port == 0 || !is_specified(std::string(address))) {
      return unusable_addresses("it has no address for node " + base::printable(node, 255) + " (" + shown + ")");
    }
    if (const auto wrong = addresses.add(node, std::string(address))) return unusable_addresses(*wrong);
  }
  if (const auto node = addresses.missing()) return unusable_addresses("node " + *node + " is missing in it");
  return addresses.in_order();
}

base::Result<std::vector<NodeAddress>> parse_show_node(std::string_view text, const std::vector<std::string>& wanted) {
  constexpr std::string_view name_key = "NodeName=";
  if (base::trim(text).empty())
    return unusable_records("it is empty, though asked about " + base::printable(fold_hostlist(wanted), 300));
  if (text.back() != '\n') return unusable_records("its last line is cut short");
  Addresses addresses(wanted);
  for (const std::string_view line : base::each_line(text)) {
    if (const auto node = not_found(line)) {
      return base::Error{base::ExitCode::source, "Slurm does not know node " + base::printable(*node, 255),
                         "compare SLURM_JOB_NODELIST of the job with scontrol show nodes", base::Blame::shared};
    }
    if (!line.starts_with(name_key)) continue;  // a Comment or Extra with line feeds in it goes on here
    const Record record = read_record(line);
    if (!record.address || !is_address_or_name(*record.address)) {
      return unusable_records("node " + base::printable(record.node, 255) + " has " +
                              (record.address ? "'" + base::printable(*record.address, 60) + "' as" : "no") +
                              " NodeAddr");
    }
    if (const auto wrong = addresses.add(record.node, std::string(*record.address))) return unusable_records(*wrong);
  }
  if (const auto node = addresses.missing()) return unusable_records("node " + *node + " is missing in it");
  return addresses.in_order();
}

std::map<std::string, std::string> parse_show_config(std::string_view text) {
  std::map<std::string, std::string> config;
  for (const std::string_view line : base::each_line(text)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = base::trim(line.substr(0, equals));
    if (key.empty()) continue;
    config.emplace(base::lower(key), std::string(base::trim(line.substr(equals + 1))));
  }
  return config;
}

}  // namespace slurm
