// An errno as an Error with words: what failed, why, and what a person can do about it.
#pragma once

#include <string>

#include "base/result.h"

namespace host {

// `what` without the reason: "cannot read /etc/x"; the reason is put behind it.
base::Error os_failure(base::ExitCode code, const std::string& what, int os_error);

// "no such file or directory", as the C library says it but without the capital letter.
std::string os_words(int os_error);

// What a person can do about it; empty where the number alone does not tell.
std::string os_cure(int os_error);

}  // namespace host
