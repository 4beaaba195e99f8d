// Small pure text helpers that more than one room needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace base {

std::string_view trim(std::string_view text);

// Lines without their '\n' (and without a '\r' before it). A last line without '\n' counts; an empty rest
// does not.
std::vector<std::string_view> lines(std::string_view text);

// The same lines one after the other, for text of any size: a flood of line feeds makes no flood of memory.
class EachLine {
 public:
  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(std::string_view text);
    std::string_view operator*() const { return line_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const {
      return done_ == other.done_ && (done_ || rest_.size() == other.rest_.size());
    }

   private:
    std::string_view rest_;
    std::string_view line_;
    bool done_ = true;
  };

  explicit EachLine(std::string_view text) : text_(text) {}
  Iterator begin() const { return Iterator(text_); }
  Iterator end() const { return {}; }

 private:
  std::string_view text_;
};

inline EachLine each_line(std::string_view text) { return EachLine(text); }

// Parts between separators, empty parts kept. split("", ',') is one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

// Words between runs of white space; no empty words.
std::vector<std::string_view> words(std::string_view text);

// Whether the brackets of a JSON text stand more than `limit` deep in each other. Looked at before parsing: a parser
// pays for every one of them.
bool nests_deeper_than(std::string_view json, std::size_t limit);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

std::string lower(std::string_view text);
bool equals_ignoring_case(std::string_view a, std::string_view b);
// "1 node", "2 nodes".
std::string counted(std::size_t count, std::string_view noun);

bool contains_ignoring_case(std::string_view text, std::string_view part);

// The whole text as a decimal number without sign; nothing for anything else or on overflow.
std::optional<std::uint64_t> parse_number(std::string_view text);

// Text from outside made fit for one line of a log or terminal: control characters, DEL and bytes that are
// no valid UTF-8 become \xNN, a backslash stays; longer than `limit` bytes is cut with "..." at the end.
// So user text can neither forge a log line nor send an escape code.
std::string printable(std::string_view text, std::size_t limit);
std::string printable(std::string_view text);  // limit: 400 bytes

// Compares "25.05.3" with "25.11": runs of digits as numbers, the rest as text. <0, 0, >0.
int compare_versions(std::string_view a, std::string_view b);

}  // namespace base
