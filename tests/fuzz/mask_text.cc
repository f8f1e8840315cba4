// Fuzzes the mask grammar: any text gives a mask that prints as text of an equal mask, or an error.
#include <string>
#include <string_view>

#include "fuzz/whole_mask.h"

namespace {

anymask_named_array named(const char* name, DLTensor& tensor, void* data, DLDataType type, int32_t rank,
                          int64_t* shape) {
  tensor = {};
  tensor.data = data;
  tensor.device = {kDLCPU, 0};
  tensor.dtype = type;
  tensor.ndim = rank;
  tensor.shape = shape;
  return {name, &tensor, 0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Arrays for eight rows and keys.
  int64_t offsets[4] = {0, 3, 3, 8}, four[1] = {4};
  int32_t parents[4] = {-1, 0, 0, 1};
  uint8_t packed[8] = {1, 3, 5, 255, 0, 9, 128, 77}, map[4] = {1, 0, 1, 1};
  float bias[8] = {0, 1, -1, 0.5f, 2, 8, -8, 0};
  int64_t eight_one[2] = {8, 1}, two_two[2] = {2, 2}, one_eight[2] = {1, 8};
  DLTensor tensors[5];
  const anymask_named_array arrays[5] = {named("cu", tensors[0], offsets, {kDLInt, 64, 1}, 1, four),
                                         named("parents", tensors[1], parents, {kDLInt, 32, 1}, 1, four),
                                         named("packed", tensors[2], packed, {kDLUInt, 8, 1}, 2, eight_one),
                                         named("map", tensors[3], map, {kDLUInt, 8, 1}, 2, two_two),
                                         named("bias", tensors[4], bias, {kDLFloat, 32, 1}, 2, one_eight)};
  const std::string text(reinterpret_cast<const char*>(data), size);
  anymask_mask_t mask = nullptr;
  if (anymask_mask_parse(text.c_str(), arrays, 5, &mask) != ANYMASK_OK) return 0;
  char* printed = nullptr;
  anymask::fuzz::require(anymask_mask_text(mask, &printed) == ANYMASK_OK);
  anymask_mask_t again = nullptr;
  int32_t equal = 0;
  // Printed with spaces a text may outgrow what the grammar takes, and lists of more than 16 numbers print as arrays
  // with names of their own; nothing else may keep it from reading back.
  const std::string_view out = printed;
  if (out.size() <= 1'000'000 && out.find("@array") == out.npos) {
    anymask::fuzz::require(anymask_mask_parse(printed, arrays, 5, &again) == ANYMASK_OK);
    anymask::fuzz::require(anymask_mask_equal(mask, again, &equal) == ANYMASK_OK && equal);
    anymask_mask_free(again);
  }
  anymask_free(printed);
  anymask::fuzz::check_whole(mask);
  anymask_mask_free(mask);
  return 0;
}
