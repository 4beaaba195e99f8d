#include "host/os_error.h"

#include <cerrno>
#include <cstring>

namespace host {

std::string os_cure(int os_error) {
  switch (os_error) {
    case EACCES:
    case EPERM:
      return "run as root; if this is root, look at the permissions, the mount options and the security module";
    case ENOSPC:
    case EDQUOT: return "make room on that file system";
    case EROFS: return "mount that file system read-write";
    case EIO: return "look at the kernel's log (dmesg): the disk reports an error";
    case ELOOP: return "a symbolic link is in the way: remove it or name its target";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (`ulimit -n`; LimitNOFILE= of slurmd.service)";
    case EAGAIN:
    case ENOMEM: return "the node is out of memory or processes: look at what uses them";
    default: return "";
  }
}

std::string os_words(int os_error) {
  const char* const said = strerrordesc_np(os_error);  // never translated
  std::string words = said != nullptr ? said : "error " + std::to_string(os_error);
  // "No such file" but "RPC ..." and "I/O ...": a second small letter tells a word from an abbreviation.
  const auto is_small = [](char c) { return (c >= 'a' && c <= 'z') || c == ' '; };
  if (words.size() > 1 && words[0] >= 'A' && words[0] <= 'Z' && is_small(words[1]))
    words[0] = static_cast<char>(words[0] + 32);
  return words;
}

base::Error os_failure(base::ExitCode code, const std::string& what, int os_error) {
  return base::Error{code, what + ": " + os_words(os_error), os_cure(os_error), base::Blame::local, os_error};
}

}  // namespace host
