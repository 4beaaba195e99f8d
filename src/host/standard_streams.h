// The three descriptors that a program is started with, and what is behind them.
#pragma once

#include <optional>
#include <string_view>

namespace host {

inline constexpr int standard_output = 1;
inline constexpr int standard_error = 2;

// First thing in main: a closed 0, 1 or 2 is opened on /dev/null, since otherwise the next file that is opened, a lock
// or a node list, would become stdout.
void open_missing_standard_streams();

bool is_terminal(int descriptor);
std::optional<unsigned> terminal_width(int descriptor);  // nothing: no terminal, or one that does not say

// Writes all of it, to a pipe or terminal that takes it slowly too; gives up after a second without progress, or when
// the reader is gone. False: not all was written.
bool write_to(int descriptor, std::string_view text);

}  // namespace host
