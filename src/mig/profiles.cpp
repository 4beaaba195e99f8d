#include "mig/profiles.h"

#include <algorithm>

#include "base/text.h"
#include "mig/listing.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

// Takes a number and the text after it from the front.
std::optional<unsigned> take(std::string_view& text, std::string_view after) {
  const std::size_t end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos || !text.substr(end).starts_with(after)) return std::nullopt;
  const auto number = small_number(text.substr(0, end));
  if (number) text.remove_prefix(end + after.size());
  return number;
}

}  // namespace

std::optional<Shape> parse_shape(std::string_view name) {
  std::string lowered = base::lower(base::trim(name));
  if (lowered.starts_with("mig ")) lowered.erase(0, 4);
  std::string_view rest = base::trim(lowered);
  Shape shape;
  if (const auto part = take(rest, "c.")) shape.compute_slices = *part;
  const auto slices = take(rest, "g.");
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const auto memory = small_number(rest.substr(0, digits));
  if (!slices || *slices == 0 || !memory || *memory == 0 || !rest.substr(digits).starts_with("gb")) return std::nullopt;
  rest.remove_prefix(digits + 2);
  if (!rest.empty() && ((rest.front() != '+' && rest.front() != '-') || rest.size() < 2 ||
                        rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.,+-") != std::string_view::npos)) {
    return std::nullopt;
  }
  shape.slices = *slices;
  shape.memory_gb = *memory;
  shape.attributes = rest;
  return shape;
}

unsigned Profile::slices() const {
  const auto shape = parse_shape(name);
  return shape ? shape->slices : 1;
}

base::Result<Boards> parse_profiles(std::string_view text) {
  Boards boards;
  for (std::string_view line : base::each_line(text)) {
    // The row with the numbers; the row below it (CE, JPEG, OFA) and the banner have no "MIG".
    std::string_view inner = base::trim(line);
    if (!inner.starts_with('|')) continue;
    inner.remove_prefix(1);
    if (inner.ends_with('|')) inner.remove_suffix(1);
    const auto words = base::words(inner);
    if (words.size() < 2 || words[1] != "MIG") continue;
    // "0 MIG 1g.18gb 19 7/7 16.00 No 16 1 0"
    if (words.size() < 7) return unreadable("-lgip", line);
    const auto gpu = small_number(words[0]);
    const auto id = small_number(words[3]);
    const auto counts = base::split(words[4], '/');
    const auto total = counts.size() == 2 ? small_number(counts[1]) : std::nullopt;
    if (!gpu || !id || !total || !parse_shape(words[2])) return unreadable("-lgip", line);
    Profile profile;
    profile.name = words[2];
    profile.id = *id;
    profile.total = *total;
    profile.memory_gib = base::printable(words[5], 20);
    Board& board = boards[*gpu];
    for (const Profile& other : board) {
      if (other.id != profile.id) continue;
      return Error{ExitCode::source,
                   "`nvidia-smi mig -lgip` lists profile ID " + std::to_string(*id) + " of GPU " +
                       std::to_string(*gpu) + " twice (in a file: was it saved twice, or on two nodes, into one?)",
                   "look at `nvidia-smi mig -lgip`"};
    }
    board.push_back(std::move(profile));
  }
  if (boards.empty()) {
    return Error{ExitCode::source,
                 "`nvidia-smi mig -lgip` listed no profile: '" + base::printable(base::trim(text), 200) + "'",
                 "look at `nvidia-smi mig -lgip`"};
  }
  return boards;
}

base::Result<Boards> add_placements(Boards boards, std::string_view text) {
  for (std::string_view line : base::each_line(text)) {
    if (!base::trim(line).starts_with("GPU ")) continue;
    // "GPU  0 Profile ID 19 Placements: {0,1,2}:1" and "GPU  0 Profile ID  5 Placement : {0}:4"
    const std::size_t open = line.find('{');
    const std::size_t close = line.find("}:");
    const auto words = base::words(line.substr(0, std::min(open, line.size())));
    if (words.size() < 5 || words[2] != "Profile") {
      if (words.size() >= 2 && words[0] == "GPU" && words[1].ends_with(':')) continue;  // a line of -L in a saved file
      return unreadable("-lgipp", line);
    }
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      return unreadable("-lgipp", line);
    const auto gpu = small_number(words[1]);
    const auto id = small_number(words[4]);
    const auto size = small_number(base::trim(line.substr(close + 2)));
    if (!gpu || !id || !size || *size == 0) return unreadable("-lgipp", line);
    std::vector<unsigned> starts;
    for (std::string_view part : base::split(line.substr(open + 1, close - open - 1), ',')) {
      if (base::trim(part).empty()) continue;  // "{}": nothing is free here
      const auto start = small_number(base::trim(part));
      if (!start) return unreadable("-lgipp", line);
      starts.push_back(*start);
    }
    Profile* found = nullptr;
    for (Profile& profile : boards[*gpu]) {
      if (profile.id == *id) found = &profile;
    }
    if (found == nullptr) return unreadable("-lgipp", line);
    std::sort(starts.begin(), starts.end());
    found->starts = std::move(starts);
    found->size = *size;
  }
  for (const auto& [gpu, board] : boards) {
    for (const Profile& profile : board) {
      if (profile.size == 0) {
        return Error{ExitCode::source,
                     "`nvidia-smi mig -lgipp` names no placement of profile " + profile.name + " (ID " +
                         std::to_string(profile.id) + ") on GPU " + std::to_string(gpu),
                     "look at `nvidia-smi mig -lgipp`"};
      }
    }
  }
  return boards;
}

}  // namespace mig
