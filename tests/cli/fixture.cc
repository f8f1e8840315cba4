#include "cli/fixture.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/io/npy.h"
#include "cli/io/safetensors.h"
#include "cli/make_call.h"

namespace anymask::cli {

Directory::Directory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "anymask-test-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) std::abort();
  path_ = pattern;
}

Directory::~Directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> Directory::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  return names;
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void save_npy(const std::string& path, const Tensor& tensor) {
  OutputFiles files;
  write_npy(files, files.open(path), tensor);
  files.commit();
}

void save_safetensors(const std::string& path, const std::vector<Tensor>& tensors) {
  OutputFiles files;
  write_safetensors(files, files.open(path), tensors);
  files.commit();
}

Tensor ints(const char* name, std::vector<int64_t> shape, const std::vector<int64_t>& values, ElementType type) {
  Tensor tensor = make_tensor(name, type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::i32) tensor.as<int32_t>()[i] = static_cast<int32_t>(values[i]);
    if (type == ElementType::i64) tensor.as<int64_t>()[i] = values[i];
    if (type == ElementType::u8 || type == ElementType::boolean)
      tensor.as<uint8_t>()[i] = static_cast<uint8_t>(values[i]);
  }
  return tensor;
}

Tensor randoms(const char* name, std::vector<int64_t> shape, ElementType type) {
  Random random(static_cast<uint64_t>(name[0]));
  return random_tensor(name, type, std::move(shape), random);
}

std::string npy_bytes(const std::string& header, const std::string& data, int version) {
  std::string bytes = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 255);
  return bytes + header + data;
}

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(uint64_t{header.size()} >> (8 * i) & 255);
  return bytes + header + data;
}

}  // namespace anymask::cli
