#include "cli/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cli/args.h"
#include "cli/io/unfinished.h"

namespace anymask::cli {

namespace {

struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

}  // namespace

Bytes map_file(const std::string& path, const std::string& what) {
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // non-blocking: a FIFO nobody writes to must not hang
  if (fd < 0) throw UsageError(what + " cannot be read: " + std::strerror(errno));
  const Descriptor closer{fd};
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw UsageError(what + " cannot be read: " + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw UsageError(what + " is not a regular file: give the path of a file");
  Bytes bytes;
  bytes.size = status.st_size;
  if (bytes.size == 0) return bytes;
  const auto length = static_cast<size_t>(bytes.size);
  void* mapping = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapping == MAP_FAILED) throw UsageError(what + " cannot be mapped into memory: " + std::strerror(errno));
  bytes.data = static_cast<const uint8_t*>(mapping);
  bytes.owner =
      std::shared_ptr<const void>(mapping, [length](const void* p) { ::munmap(const_cast<void*>(p), length); });
  return bytes;
}

std::string read_text_file(const std::string& path, const std::string& what) {
  const Bytes bytes = map_file(path, what);
  if (bytes.size > (int64_t{16} << 20))
    throw UsageError(what + " has " + std::to_string(bytes.size) + " bytes; a mask's text has at most 16 MiB");
  std::string text(reinterpret_cast<const char*>(bytes.data), static_cast<size_t>(bytes.size));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

void OutputFiles::make_directory(const std::string& path) {
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end != path.size() && path[end] != '/') continue;
    const std::string prefix = path.substr(0, end);
    if (::mkdir(prefix.c_str(), 0777) == 0) {
      made_directories_.push_back({prefix, unfinished(prefix)});
      continue;
    }
    const int error = errno;
    struct stat status {};
    if (::stat(prefix.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) continue;
      throw UsageError(option_ + ": " + prefix +
                       " exists and is not a directory: name another, or a file ending in .safetensors");
    }
    throw UsageError(option_ + ": the directory " + prefix + " cannot be made: " + std::strerror(error));
  }
}

int OutputFiles::open(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw UsageError(option_ + ": " + path + " exists and is not a regular file: remove it, or write elsewhere");
  }
  File file;
  file.path = path;
  file.temporary = path + ".part" + std::to_string(::getpid());
  file.fd = ::open(file.temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.fd < 0) throw UsageError(option_ + ": " + path + " cannot be written: " + std::strerror(errno));
  file.unfinished = unfinished(file.temporary);
  files_.push_back(file);
  return static_cast<int>(files_.size()) - 1;
}

void OutputFiles::write(int index, const void* data, int64_t size) {
  const File& file = files_[static_cast<size_t>(index)];
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::write(file.fd, from, static_cast<size_t>(std::min<int64_t>(size, int64_t{1} << 30)));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw UsageError(option_ + ": " + file.path + " cannot be written: " + std::strerror(errno));
    from += wrote;
    size -= wrote;
  }
}

void OutputFiles::commit() {
  for (File& file : files_) {
    const int fd = std::exchange(file.fd, -1);
    if (::close(fd) != 0) throw UsageError(option_ + ": " + file.path + " cannot be written: " + std::strerror(errno));
  }
  for (File& file : files_) {
    if (std::rename(file.temporary.c_str(), file.path.c_str()) != 0) {
      throw UsageError(option_ + ": " + file.path + " cannot be written: " + std::strerror(errno));
    }
    file.temporary.clear();
    finished(file.unfinished);
  }
  for (const Directory& directory : made_directories_) finished(directory.unfinished);
  made_directories_.clear();
}

OutputFiles::~OutputFiles() {
  for (const File& file : files_) {
    if (file.fd >= 0) ::close(file.fd);
    if (file.temporary.empty()) continue;
    ::unlink(file.temporary.c_str());
    finished(file.unfinished);
  }
  for (auto directory = made_directories_.rbegin(); directory != made_directories_.rend(); ++directory) {
    ::rmdir(directory->path.c_str());
    finished(directory->unfinished);
  }
}

}  // namespace anymask::cli
