// Files: mapped for reading; written under a temporary name and renamed when all is well.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace anymask::cli {

// Bytes that stay valid while `owner` lives.
struct Bytes {
  const uint8_t* data = nullptr;
  int64_t size = 0;
  std::shared_ptr<const void> owner;
};

// Maps a regular file. `what` names it in messages: "q (q.npy)". Throws UsageError.
Bytes map_file(const std::string& path, const std::string& what);
std::string read_text_file(const std::string& path, const std::string& what);

// Output files that appear all at once. Directories and temporary files are made when declared, so an unwritable place
// is found before anything is computed; whatever was made is removed again unless commit() is reached, also when the
// process is interrupted.
class OutputFiles {
 public:
  // `option` names the place in messages.
  explicit OutputFiles(std::string option = "--out") : option_(std::move(option)) {}
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Makes `path` and its missing parents.
  void make_directory(const std::string& path);
  // Opens a temporary beside `path`; the index is for write().
  int open(const std::string& path);
  void write(int index, const void* data, int64_t size);
  void commit();

 private:
  struct File {
    std::string path, temporary;
    int fd = -1;
    int unfinished = -1;  // cli/io/unfinished.h
  };
  struct Directory {
    std::string path;
    int unfinished = -1;
  };
  std::string option_;
  std::vector<File> files_;
  std::vector<Directory> made_directories_;
};

}  // namespace anymask::cli
