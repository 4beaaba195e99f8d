#include "mig/listing.h"

#include <string>

#include "base/text.h"

namespace mig {

base::Error unreadable(std::string_view call, std::string_view line) {
  return {base::ExitCode::source,
          "`nvidia-smi mig " + std::string(call) + "` printed a line that cannot be read: '" +
              base::printable(base::trim(line), 160) + "'",
          "send this line and the driver's version to the makers of gpu-prolog"};
}

std::optional<unsigned> small_number(std::string_view text) {
  const auto number = base::parse_number(text);
  if (!number || *number > 100'000) return std::nullopt;
  return static_cast<unsigned>(*number);
}

}  // namespace mig
