#include "cuda/config/topk_select.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace anymask {
namespace {

constexpr int32_t block_warps = 16, max_cluster = 8;

int32_t power_of_two(int64_t at_least) {
  int32_t x = 1;
  while (x < at_least) x *= 2;
  return x;
}

// The most neighbours, of 1 to 8, that leave the teams almost as busy as single rows would.
int32_t neighbours(int64_t rows, int64_t teams) {
  const auto turns = [&](int64_t at_once) { return at_once * ((rows - 1) / (at_once * teams) + 1); };
  int32_t at_once = 8;
  while (at_once > 1 && 33 * turns(1) < 32 * turns(at_once)) at_once /= 2;
  return at_once;
}

}  // namespace

TopkSelectConfig choose_topk_select(DType dtype, int64_t rows, int64_t keys, const CudaDevice& device) {
  TopkSelectConfig config{.dtype = dtype};
  const int64_t chunk = 32 * 16 / static_cast<int64_t>(size_of(dtype));  // keys of a warp, 16 bytes a lane
  config.chunks = keys <= 4 * chunk ? 4 : 16;
  const int64_t segments = std::max<int64_t>((keys - 1) / (config.chunks * chunk) + 1, 1);
  if (segments <= block_warps) {
    config.warps = power_of_two(segments);
  } else {
    config.warps = block_warps;
    const int64_t blocks = (segments - 1) / block_warps + 1;
    if (device.major >= 9 && blocks <= max_cluster) {
      config.cluster = power_of_two(blocks);
    } else {
      config.segments = static_cast<int32_t>(blocks);
    }
  }
  const int64_t groups = std::max<int64_t>(std::min<int64_t>(device.num_sms / config.cluster, rows), 1);
  config.blocks = static_cast<int32_t>(groups) * config.cluster;
  config.rows_at_once = neighbours(std::max<int64_t>(rows, 1), groups * (block_warps / config.warps));
  return config;
}

std::vector<Fact> TopkSelectConfig::facts() const {
  const std::string team = cluster > 1 ? cat("a cluster of ", cluster, " blocks a row")
                           : warps > 1 ? cat(warps, " warps a row")
                                       : "a warp a row";
  return {{"selection", cat(team, ", ", chunks * 16 / static_cast<int32_t>(size_of(dtype)), " keys a lane",
                            segments > 1 ? cat(", ", segments, " stretches read for every count") : "")},
          {"selection blocks", cat(blocks, ", ", rows_at_once, rows_at_once > 1 ? " rows at once" : " row at once")}};
}

}  // namespace anymask
