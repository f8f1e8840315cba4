// Pictures of real masks against their dense form: every cell's share and kind, counts, planes of sequences and heads.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/library.h"
#include "cli/picture/picture.h"
#include "tests/picture/synthetic.h"

namespace anymask::cli {
namespace {

MaskHandle parse(const std::string& text) {
  anymask_mask_t mask = nullptr;
  check(anymask_mask_parse(text.c_str(), nullptr, 0, &mask));
  return MaskHandle(mask);
}

anymask_lengths lengths_of(int64_t s_q, int64_t s_kv, int64_t batch = 1, int64_t h_q = 1, int64_t h_kv = 1) {
  anymask_lengths lengths{};
  lengths.struct_size = sizeof lengths;
  lengths.batch = batch, lengths.s_q = s_q, lengths.s_kv = s_kv, lengths.h_q = h_q, lengths.h_kv = h_kv;
  return lengths;
}

std::vector<uint8_t> dense(anymask_mask_t mask, const anymask_lengths& lengths, int64_t sequence, int64_t head) {
  std::vector<uint8_t> kept(static_cast<size_t>(lengths.s_q * lengths.s_kv));
  int64_t shape[] = {lengths.s_q, lengths.s_kv};
  const DLTensor out{kept.data(), {kDLCPU, 0}, 2, {kDLUInt, 8, 1}, shape, nullptr, 0};
  check(anymask_mask_dense(mask, &lengths, sequence, head, 0, 0, &out));
  return kept;
}

// The same grid laid over the dense form by the slow, obvious way.
void expect_as_dense(anymask_mask_t mask, const anymask_lengths& lengths, const PictureOptions& options) {
  const MaskPicture p = make_picture(mask, lengths, options);
  const std::vector<uint8_t> kept = dense(mask, lengths, options.sequence, options.head);
  const MaskPicture expected =
      synthetic(p.title, p.s_q, p.s_kv, {p.cell_q, p.cell_kv, p.tile_q, p.tile_kv},
                [&](int64_t q, int64_t kv) { return kept[static_cast<size_t>(q * p.s_kv + kv)] != 0; });
  EXPECT_EQ(p.s_q, lengths.s_q);
  EXPECT_EQ(p.s_kv, lengths.s_kv);
  EXPECT_LE(p.rows, options.max_rows);
  EXPECT_LE(p.cols, options.max_cols);
  EXPECT_EQ(p.rows, expected.rows);
  EXPECT_EQ(p.cols, expected.cols);
  EXPECT_EQ(p.share, expected.share) << p.title;
  EXPECT_EQ(p.tile, expected.tile) << p.title;
  EXPECT_EQ(p.kept, expected.kept);
  EXPECT_EQ(p.pairs, expected.pairs);
  EXPECT_EQ(std::tuple(p.full_tiles, p.partial_tiles, p.empty_tiles),
            std::tuple(expected.full_tiles, expected.partial_tiles, expected.empty_tiles))
      << p.title;
}

TEST(MakePicture, EveryCellAgreesWithTheDenseForm) {
  for (const char* text : {"full", "none", "causal", "window(37, 5)", "causal & window(100, 0) | keys(0, 9)",
                           "stride(3)", "chunked(70)", "prefix(130) & ~chunked(32)"}) {
    const MaskHandle mask = parse(text);
    for (const auto& [s_q, s_kv] : {std::pair{16, 16}, {200, 200}, {1, 500}, {300, 70}, {97, 333}}) {
      for (const int64_t cells : {int64_t{512}, int64_t{64}, int64_t{10}, int64_t{1}}) {
        PictureOptions options;
        options.max_rows = options.max_cols = cells;
        expect_as_dense(mask.get(), lengths_of(s_q, s_kv), options);
        options.transposed = true;
        options.tile_m = 32, options.tile_n = 128;
        expect_as_dense(mask.get(), lengths_of(s_q, s_kv), options);
      }
    }
  }
}

TEST(MakePicture, RandomMasksAgreeWithTheDenseForm) {
  const anymask_lengths lengths = lengths_of(150, 260, 2, 4, 2);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    anymask_mask_t raw = nullptr;
    check(anymask_mask_random(seed, &lengths, 4, &raw));
    const MaskHandle mask(raw);
    PictureOptions options;
    options.sequence = static_cast<int64_t>(seed % 2), options.head = static_cast<int64_t>(seed % 4);
    options.max_rows = 20 + static_cast<int64_t>(seed), options.max_cols = 90 - static_cast<int64_t>(seed);
    options.transposed = seed % 3 == 0;
    options.tile_m = static_cast<int32_t>(8 + seed % 40), options.tile_n = 64;
    expect_as_dense(mask.get(), lengths, options);
  }
}

TEST(MakePicture, DrawsPairsWhenThePlaneFits) {
  EXPECT_TRUE(make_picture(parse("causal").get(), lengths_of(128, 128), {}).elements());
  const MaskPicture larger = make_picture(parse("causal").get(), lengths_of(129, 129), {});
  EXPECT_FALSE(larger.elements());
  EXPECT_GT(larger.rows, 40);
}

TEST(MakePicture, OblongPlanesKeepTheirProportionWithinLimits) {
  const MaskPicture tall = make_picture(parse("causal").get(), lengths_of(100000, 16), {});
  EXPECT_EQ(tall.cols, 16);
  EXPECT_GT(tall.rows, 60);
  const MaskPicture wide = make_picture(parse("causal").get(), lengths_of(1024, 8192), {});
  EXPECT_EQ(wide.rows, 16) << "64 queries a cell";
  EXPECT_EQ(wide.cols, 128);
}

TEST(MakePicture, SequencesAndHeadsHaveTheirOwnPlanes) {
  const MaskHandle mask =
      parse("per_batch([causal, full]) & per_head([window(2, 0), window(4, 0), window(2, 0), none])");
  const anymask_lengths lengths = lengths_of(8, 8, 2, 4, 4);
  for (int64_t sequence = 0; sequence < 2; ++sequence) {
    for (int64_t head = 0; head < 4; ++head) {
      PictureOptions options;
      options.sequence = sequence, options.head = head;
      expect_as_dense(mask.get(), lengths, options);
    }
  }
  PictureOptions options;
  options.sequence = 1;
  const std::vector<MaskPicture> pictures = make_head_pictures(mask.get(), lengths, options);
  ASSERT_EQ(pictures.size(), 3u);
  EXPECT_EQ(pictures[0].note, "sequence 1 of 2, heads 0, 2");
  EXPECT_EQ(pictures[1].note, "sequence 1 of 2, head 1");
  EXPECT_EQ(pictures[2].note, "sequence 1 of 2, head 3");
  EXPECT_EQ(pictures[2].kept, 0);
  options.head = 1;
  EXPECT_EQ(make_picture(mask.get(), lengths, options).note, "sequence 1 of 2, head 1 of 4");
}

TEST(MakePicture, EqualHeadsAreOnePicture) {
  const std::vector<MaskPicture> pictures = make_head_pictures(parse("causal").get(), lengths_of(8, 8, 1, 32, 8), {});
  ASSERT_EQ(pictures.size(), 1u);
  EXPECT_EQ(pictures[0].note, "");
}

TEST(MakePicture, PackedSequencesHaveTheirOwnLengths) {
  int32_t offsets[] = {0, 5, 5, 12};
  int64_t shape[] = {4};
  const DLTensor cu{offsets, {kDLCPU, 0}, 1, {kDLInt, 32, 1}, shape, nullptr, 0};
  anymask_lengths lengths{};
  lengths.struct_size = sizeof lengths;
  lengths.cu_seqlens_q = lengths.cu_seqlens_kv = &cu;
  PictureOptions options;
  options.sequence = 2;
  const MaskPicture last = make_picture(parse("causal").get(), lengths, options);
  EXPECT_EQ(last.s_q, 7);
  EXPECT_EQ(last.kept, 28);
  EXPECT_EQ(last.note, "sequence 2 of 3");
  options.sequence = 1;
  EXPECT_EQ(make_picture(parse("causal").get(), lengths, options).rows, 0) << "an empty sequence has no cells";
}

TEST(MakePicture, ZeroSizesHaveNoCells) {
  for (const auto& [s_q, s_kv] : {std::pair{0, 16}, {16, 0}, {0, 0}}) {
    const MaskPicture p = make_picture(parse("causal").get(), lengths_of(s_q, s_kv), {});
    EXPECT_EQ(p.rows * p.cols, 0);
    EXPECT_EQ(p.s_q, s_q);
    EXPECT_EQ(p.s_kv, s_kv);
  }
}

TEST(MakePicture, RefusesPlanesThatAreNotThere) {
  const MaskHandle mask = parse("causal");
  for (const auto& [sequence, head] : {std::pair{2, 0}, {-1, 0}, {0, 4}, {0, -1}}) {
    PictureOptions options;
    options.sequence = sequence, options.head = head;
    EXPECT_THROW(make_picture(mask.get(), lengths_of(8, 8, 2, 4, 4), options), UsageError);
  }
}

}  // namespace
}  // namespace anymask::cli
