#include "slurm/hostlist.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/text.h"

namespace slurm {

namespace {

constexpr std::size_t longest_name = 255;
constexpr std::size_t most_hosts = 1U << 20U;  // whatever the caller says: products below stay far from overflow
constexpr std::size_t longest_number = 18;     // digits: fits 64 bits with room to spare

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A range's numbers are printed with the width of the text of its lower bound (hostlist.c: width = strlen(lo)).
struct Range {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t width = 0;

  std::uint64_t count() const { return high - low + 1; }
};

// "ultra-", [1-3,08-10], "x", [..], ...: text, then any number of brackets each followed by text.
struct Item {
  std::string_view head;
  struct Bracket {
    std::vector<Range> ranges;
    std::string_view tail;
  };
  std::vector<Bracket> brackets;
};

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

std::optional<Range> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  if (low.size() > longest_number || high.size() > longest_number) return std::nullopt;
  const auto first = base::parse_number(low);
  const auto last = base::parse_number(high);
  if (!first || !last || *first > *last) return std::nullopt;
  return Range{*first, *last, low.size()};
}

class Expansion {
 public:
  Expansion(std::string_view text, std::size_t limit) : text_(text), limit_(std::min(limit, most_hosts)) {}

  base::Result<std::vector<std::string>> run() {
    if (base::trim(text_).empty()) return refuse("it is empty");
    std::uint64_t hosts = 0;
    std::vector<Item> items;
    std::size_t at = 0;
    for (;;) {
      Item item;
      std::uint64_t count = 0;
      if (const auto wrong = read_item(at, item, count)) return refuse(*wrong);
      hosts += count;
      if (hosts > limit_) return refuse("it names more than " + std::to_string(limit_) + " nodes");
      items.push_back(std::move(item));
      if (at == text_.size()) break;
      ++at;  // the comma
    }
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(hosts));
    for (const Item& item : items) {
      if (!make(item, 0, std::string(item.head), names)) {
        return refuse("a node name in it is longer than " + std::to_string(longest_name) + " bytes");
      }
    }
    return names;
  }

 private:
  // Reads up to the next comma outside brackets; the value is what is wrong.
  std::optional<std::string> read_item(std::size_t& at, Item& item, std::uint64_t& count) {
    std::string_view* text = &item.head;
    std::size_t begin = at;
    count = 1;
    for (; at < text_.size() && text_[at] != ','; ++at) {
      const char c = text_[at];
      if (c == '[') {
        *text = text_.substr(begin, at - begin);
        Item::Bracket bracket;
        if (auto wrong = read_bracket(at, bracket.ranges, count)) return wrong;
        item.brackets.push_back(std::move(bracket));
        text = &item.brackets.back().tail;
        begin = at + 1;
      } else if (c == ']') {
        return "a ']' has no '['";
      } else if (!is_name_char(c)) {
        return "'" + base::printable(text_.substr(at, 1)) + "' cannot be part of a node name";
      }
    }
    *text = text_.substr(begin, at - begin);
    if (item.head.empty() && item.brackets.empty()) return "there is nothing between two commas";
    if (!item.head.empty() && (item.head.front() == '-' || item.head.front() == '.')) {
      return "a node name begins with '" + std::string(1, item.head.front()) + "'";
    }
    return std::nullopt;
  }

  // From '[' to its ']', where `at` is left. `count` is multiplied by the number of hosts within.
  std::optional<std::string> read_bracket(std::size_t& at, std::vector<Range>& ranges, std::uint64_t& count) {
    const std::size_t close = text_.find(']', at);
    if (close == std::string_view::npos) return "a '[' has no ']'";
    const std::string_view inside = text_.substr(at + 1, close - at - 1);
    if (inside.find('[') != std::string_view::npos) return "brackets stand within brackets";
    std::uint64_t hosts = 0;
    for (const std::string_view part : base::split(inside, ',')) {
      const auto range = parse_range(part);
      if (!range) return "'" + base::printable(part, 60) + "' is no range of numbers";
      if (range->high - range->low >= limit_) return "it names more than " + std::to_string(limit_) + " nodes";
      hosts += range->count();
      if (hosts * count > limit_) return "it names more than " + std::to_string(limit_) + " nodes";
      ranges.push_back(*range);
    }
    count *= hosts;
    at = close;
    return std::nullopt;
  }

  bool make(const Item& item, std::size_t level, const std::string& so_far, std::vector<std::string>& names) {
    if (so_far.size() > longest_name) return false;
    if (level == item.brackets.size()) {
      names.push_back(so_far);
      return true;
    }
    const Item::Bracket& bracket = item.brackets[level];
    for (const Range& range : bracket.ranges) {
      for (std::uint64_t number = range.low; number <= range.high; ++number) {
        std::string next = so_far + padded(number, range.width);
        next += bracket.tail;
        if (!make(item, level + 1, next, names)) return false;
      }
    }
    return true;
  }

  base::Error refuse(const std::string& why) const {
    return base::Error{
        base::ExitCode::surroundings, "the node list '" + base::printable(text_, 200) + "' cannot be used: " + why,
        "look at SLURM_JOB_NODELIST of the job; a node list has the form ultra-[1-18]", base::Blame::shared};
  }

  std::string_view text_;
  std::size_t limit_;
};

// "ultra-07" is "ultra-" and 7 in two digits; without a usable number at its end a name is all prefix.
struct Numbered {
  std::string_view prefix;
  std::string_view digits;
  std::uint64_t number = 0;
};

Numbered take_apart(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1]) && name.size() - begin < longest_number) --begin;
  Numbered parts{name.substr(0, begin), name.substr(begin), 0};
  if (const auto number = base::parse_number(parts.digits)) parts.number = *number;
  return parts;
}

}  // namespace

bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= longest_name && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

base::Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t limit) {
  return Expansion(text, limit).run();
}

std::string fold_hostlist(const std::vector<std::string>& names) {
  std::string folded;
  std::size_t at = 0;
  while (at < names.size()) {
    const Numbered first = take_apart(names[at]);
    // Every following name with this prefix goes into one bracket; within it, numbers that follow each other
    // go into one range.
    std::string ranges;
    std::size_t taken = 0;
    while (at + taken < names.size()) {
      const Numbered low = take_apart(names[at + taken]);
      if (low.prefix != first.prefix || low.digits.empty()) break;
      std::size_t length = 1;
      while (at + taken + length < names.size()) {
        const Numbered next = take_apart(names[at + taken + length]);
        if (next.prefix != low.prefix || next.digits != padded(low.number + length, low.digits.size())) break;
        ++length;
      }
      if (!ranges.empty()) ranges += ',';
      ranges += low.digits;
      if (length > 1) {
        ranges += '-';
        ranges += take_apart(names[at + taken + length - 1]).digits;
      }
      taken += length;
    }
    if (!folded.empty()) folded += ',';
    if (taken < 2) {
      folded += names[at];
      ++at;
    } else {
      folded += first.prefix;
      folded += '[' + ranges + ']';
      at += taken;
    }
  }
  return folded;
}

}  // namespace slurm
