#include "commands/imex_blame.h"

#include <cctype>

namespace commands {

namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

}  // namespace

std::string first_name(std::string_view raw) {
  std::string name;
  std::size_t at = 0;
  while (at < raw.size() && is_name_char(raw[at])) name += raw[at++];
  while (at < raw.size() && raw[at] == '[') {
    ++at;
    while (at < raw.size() && std::isdigit(static_cast<unsigned char>(raw[at])) != 0) name += raw[at++];
    const std::size_t end = raw.find(']', at);
    if (end == std::string_view::npos) break;
    at = end + 1;
    while (at < raw.size() && is_name_char(raw[at])) name += raw[at++];
  }
  return name.starts_with('-') || name.starts_with('.') ? "" : name;
}

bool is_blamed(const std::string& own_node, const std::vector<std::string>& block_nodes, std::string_view raw_node_list) {
  if (!block_nodes.empty()) return block_nodes.front() == own_node;
  const std::string first = first_name(raw_node_list);
  return first.empty() || first == own_node;
}

}  // namespace commands
