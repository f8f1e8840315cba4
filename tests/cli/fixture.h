// A directory of small input files, made once for all tests of the command line, removed at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/io/tensor.h"

namespace anymask::cli {

class Directory {
 public:
  Directory();
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const;  // of all files below, sorted

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::string& path, const std::string& bytes);
void save_npy(const std::string& path, const Tensor& tensor);
void save_safetensors(const std::string& path, const std::vector<Tensor>& tensors);

Tensor ints(const char* name, std::vector<int64_t> shape, const std::vector<int64_t>& values,
            ElementType type = ElementType::i32);
Tensor randoms(const char* name, std::vector<int64_t> shape, ElementType type = ElementType::f32);

// A .npy file with this header and data, whatever they say.
std::string npy_bytes(const std::string& header, const std::string& data, int version = 1);
// A .safetensors file with this header and data, whatever they say.
std::string safetensors_bytes(const std::string& header, const std::string& data);

}  // namespace anymask::cli
