#include "commands/imex_blame.h"

#include <cctype>

namespace commands {

namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

}  // namespace

std::string first_name(std::string_view raw) {
  constexpr std::size_t longest_name = 255;
  std::string name;
  std::size_t at = 0;
  const auto take_while = [&](auto fits) {
    const std::size_t before = at;
    while (at < raw.size() && fits(raw[at])) name += raw[at++];
    return at > before;
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  take_while(is_name_char);
  while (at < raw.size() && raw[at] == '[') {
    ++at;
    if (!take_while(is_digit)) return "";  // no node can be called so
    const std::size_t end = raw.find(']', at);
    at = end == std::string_view::npos ? raw.size() : end + 1;
    take_while(is_name_char);
  }
  const bool is_ended = at == raw.size() || raw[at] == ',' || raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n';
  const bool fits = is_ended && name.size() <= longest_name && !name.starts_with('-') && !name.starts_with('.');
  return fits ? name : "";
}

bool is_blamed(const std::string& own_node, const std::vector<std::string>& block_nodes,
               std::string_view raw_node_list) {
  if (!block_nodes.empty()) return block_nodes.front() == own_node;
  const std::string first = first_name(raw_node_list);
  return first.empty() || first == own_node;
}

}  // namespace commands
