#include "host/trusted_file.h"

#include <string_view>

namespace host {

namespace {

std::string_view in_words(FileStatus::Kind kind) {
  using Kind = FileStatus::Kind;
  switch (kind) {
    case Kind::regular: return "a file";
    case Kind::directory: return "a folder";
    case Kind::link: return "a symbolic link";
    case Kind::char_device:
    case Kind::block_device: return "a device";
    case Kind::fifo: return "a pipe";
    case Kind::socket: break;
  }
  return "a socket";
}

std::string fault_of(const Files& files, const std::string& path, FileStatus::Kind kind, bool of_root) {
  const auto status = files.status(path);
  if (!status) return status.error().what;
  if (!*status) return "";
  if ((*status)->kind != kind)
    return path + " is " + std::string(in_words((*status)->kind)) + ", not " + std::string(in_words(kind));
  if (of_root && (*status)->uid != 0) return path + " does not belong to root";
  if (((*status)->permissions & 022U) != 0) return path + " can be written by group or others";
  return "";
}

}  // namespace

std::string folder_fault(const Files& files, const std::string& folder, bool of_root) {
  return fault_of(files, folder, FileStatus::Kind::directory, of_root);
}

std::string file_fault(const Files& files, const std::string& path, bool of_root) {
  const std::string folder = folder_fault(files, path.substr(0, path.rfind('/')), of_root);
  return folder.empty() ? fault_of(files, path, FileStatus::Kind::regular, of_root) : folder;
}

}  // namespace host
