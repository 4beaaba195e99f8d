// What nvidia-imex-ctl says, parsed: pure functions on its text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace imex {

// One connection of the matrix. Words we do not know are `unknown`, which counts as not connected.
enum class Link {
  connected,
  never,
  invalid,
  recovering,
  disconnected,
  authenticating,
  version_mismatch,
  map_mismatch,
  unknown
};

Link parse_link(std::string_view word);  // a text cell ("C", "!M!") or a JSON word ("CONNECTED")
std::string_view show_cell(Link link);   // the text form's cell; "?" for unknown
std::string_view explain(Link link);     // what it means, for people

struct NodeView {
  std::string address;  // as printed
  std::string status;   // READY, UNAVAILABLE, ...
  std::string version;  // may be empty
};

// A domain as one daemon sees it. Of other nodes it knows what they told it over the command port; only its
// own entry is first-hand.
struct DomainView {
  std::vector<NodeView> nodes;           // by node id
  std::vector<std::vector<Link>> links;  // links[from][to]; the diagonal is there but means nothing
  std::string state;                     // UP, DEGRADED, DOWN, as printed
};

// `nvidia-imex-ctl -N`. Error: source, for text without nodes, ids out of order, a matrix that is not square
// or of another size than the node table.
base::Result<DomainView> parse_status_text(std::string_view text);

// `nvidia-imex-ctl -N -j`. Key order is not fixed, keys may differ in case (DCGM ignores it too).
base::Result<DomainView> parse_status_json(std::string_view text);

// `nvidia-imex-ctl -q`: the one word, if it is one we know; else empty.
std::string parse_local_status(std::string_view text);

}  // namespace imex
