// IP literals as text. inet_pton and inet_ntop only: no name is looked up, no system call made.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace base {

bool is_ipv4_literal(std::string_view text);
bool is_ipv6_literal(std::string_view text);  // without brackets or zone

// inet_ntop's form of an IPv4 or IPv6 literal ("fd00:0::1" -> "fd00::1", "::ffff:10.0.0.1" -> "10.0.0.1");
// nothing for a name, a literal with a port, brackets or a zone.
std::optional<std::string> canonical_address(std::string_view text);

}  // namespace base
