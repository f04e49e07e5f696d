// Shape on its own: every byte of a buffer belongs to one chunk and one round, and tables say where.
#include "schedule/shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace hocket {
namespace {

// How often each byte of a buffer is covered by the chunks of all rounds.
std::vector<uint32_t> cover(const Shape& shape, Buf b, uint32_t chunks, uint64_t bytes) {
  std::vector<uint32_t> times(bytes, 0);
  for (uint32_t q = 0; q < shape.rounds(); ++q)
    for (uint32_t c = 0; c < chunks; ++c) {
      const Span s = shape.span(b, c, q);
      EXPECT_LE(s.offset + s.bytes, bytes);
      for (uint64_t i = s.offset; i < s.offset + s.bytes && i < bytes; ++i) ++times[i];
    }
  return times;
}

constexpr Collective kBlocks[] = {Collective::all_gather, Collective::gather, Collective::reduce_scatter,
                                  Collective::scatter, Collective::all_to_all};

static_assert(Shape(100, 4, 3, 48).rounds() == 3);
static_assert(Shape(BlockLayout{Collective::all_gather, 4, 1, 8, 20, 8}).rounds() == 3);
static_assert(Shape(BlockLayout{Collective::all_gather, 4, 1, 8, 20, 8}).span(Buf::out, 2, 1).offset ==
              (2 * 20 + 8) * 8);

TEST(RoundMajor, CoversEveryByteOnce) {
  for (const uint64_t elems : {0u, 1u, 15u, 16u, 17u, 100u, 1000u})
    for (const uint32_t chunks : {1u, 2u, 3u, 7u})
      for (const uint64_t round : {16u, 48u, 4096u}) {
        const Shape shape(elems, 4, chunks, round);
        for (const Buf b : {Buf::in, Buf::out})
          EXPECT_EQ(cover(shape, b, chunks, elems * 4), std::vector<uint32_t>(elems * 4, 1)) << elems << " " << chunks;
        for (uint32_t q = 0; q < shape.rounds(); ++q)
          for (uint32_t j = 0; j < 2 * chunks; ++j) {
            EXPECT_EQ(shape.span(Buf::scratch, j, q).bytes, shape.span(Buf::out, j % chunks, q).bytes);
            EXPECT_LE(shape.span(Buf::scratch, j, q).bytes, shape.scratch_stride());
            EXPECT_EQ(shape.span(Buf::scratch, j, q).offset, j * shape.scratch_stride());
          }
      }
}

TEST(Blocks, OfOneSizeFollowOneAnother) {
  for (const Collective c : kBlocks)
    for (const uint64_t elems : {0u, 1u, 15u, 16u, 17u, 100u})
      for (const uint32_t n : {1u, 2u, 5u})
        for (const uint64_t round : {16u, 48u, 4096u}) {
          const Shape shape(BlockLayout{c, n, n - 1, 4, elems, round});
          EXPECT_EQ(shape.rounds(), elems <= round ? 1 : (elems + round - 1) / round);
          EXPECT_EQ(shape.scratch_stride() % kChunkAlign, 0u);
          const uint32_t in = in_is_own_block(c) ? 1 : n, out = out_is_own_block(c) ? 1 : n;
          EXPECT_EQ(cover(shape, Buf::in, in, in * elems * 4), std::vector<uint32_t>(in * elems * 4, 1));
          EXPECT_EQ(cover(shape, Buf::out, out, out * elems * 4), std::vector<uint32_t>(out * elems * 4, 1));
          for (uint32_t q = 0; q < shape.rounds(); ++q) {
            EXPECT_LE(shape.span(Buf::out, 0, q).bytes, round * 4);
            EXPECT_EQ(shape.span(Buf::scratch, n, q).bytes, shape.span(Buf::in, 0, q).bytes);
            EXPECT_EQ(shape.span(Buf::scratch, n, q).offset, n * shape.scratch_stride());
          }
        }
}

TEST(Blocks, OfATableLieWhereItSays) {
  const uint64_t counts[] = {5, 0, 40, 16}, displs[] = {100, 7, 0, 60};
  for (const Collective c : kBlocks) {
    if (c == Collective::all_to_all) continue;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const Shape shape(BlockLayout{c, 4, rank, 2, 40, 32, counts, displs});
      EXPECT_EQ(shape.rounds(), 2u);
      EXPECT_EQ(shape.scratch_stride(), 64u);  // a round of the largest block
      const Buf own = in_is_own_block(c) ? Buf::in : Buf::out, all = in_is_own_block(c) ? Buf::out : Buf::in;
      for (uint32_t b = 0; b < 4; ++b) {
        const Span first = shape.span(all, b, 0), second = shape.span(all, b, 1);
        EXPECT_EQ(first.offset, displs[b] * 2);
        EXPECT_EQ(first.bytes, std::min<uint64_t>(counts[b], 32) * 2);
        EXPECT_EQ(second.bytes, counts[b] > 32 ? (counts[b] - 32) * 2 : 0);
        EXPECT_EQ(second.offset, (displs[b] + std::min<uint64_t>(counts[b], 32)) * 2) << "stays inside the block";
        for (uint32_t q = 0; q < 2; ++q) {
          EXPECT_EQ(shape.span(Buf::scratch, b, q).bytes, shape.span(all, b, q).bytes);
          EXPECT_EQ(shape.span(Buf::scratch, b + 4, q).bytes, shape.span(all, b, q).bytes);
        }
      }
      for (uint32_t q = 0; q < 2; ++q) {
        EXPECT_EQ(shape.span(own, 0, q).bytes, shape.span(all, rank, q).bytes);
        EXPECT_EQ(shape.span(own, 0, q).offset, std::min<uint64_t>(counts[rank], q * 32) * 2) << "starts at 0";
      }
    }
  }
}

// Sizes without places: blocks stand as far apart as the largest one needs.
TEST(Blocks, OfATableWithoutDisplacementsStandApart) {
  const uint64_t counts[] = {1, 3};
  const Shape shape(BlockLayout{Collective::gather, 2, 0, 4, 3, 16, counts});
  EXPECT_EQ(shape.span(Buf::out, 1, 0).offset, 12u);
  EXPECT_EQ(shape.span(Buf::out, 0, 0).bytes, 4u);
}

}  // namespace
}  // namespace hocket
