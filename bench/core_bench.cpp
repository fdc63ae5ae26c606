// Micro-benchmarks of the core, each of what one check or one add does. Everything stays in the
// CPU's caches here: in a large filter each new chunk costs a miss on top.
//
// Inputs come from tables and arguments, never from DoNotOptimize on a small variable: with g++
// that of Google Benchmark 1.7 leaves another value in it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bloomfilter/chunk.hpp"
#include "bloomfilter/hash.hpp"
#include "bloomfilter/layout.hpp"
#include "bloomfilter/sizing.hpp"

namespace bloomfilter {
namespace {

// How many names, digests or masks a benchmark goes round in: a power of two, large enough that
// branches cannot be learnt by heart.
constexpr std::size_t kRound = 4096;

std::vector<std::string> names() {
  std::mt19937_64 random(1);
  std::vector<std::string> names(kRound);
  for (std::string &name : names) {
    name.resize(5 + random() % 16);
    for (char &c : name) c = "abcdefghijklmnopqrstuvwxyz012345"[random() % 32];
  }
  return names;
}

std::vector<Digest> digests() {
  std::mt19937_64 random(2);
  std::vector<Digest> digests(kRound);
  for (Digest &digest : digests) digest = {random(), random()};
  return digests;
}

std::vector<Positions> masks() {
  std::vector<Positions> masks;
  for (const Digest &digest : digests()) masks.push_back(positions_of(digest));
  return masks;
}

using Chunk = std::array<std::uint8_t, kChunkBytes>;

// A chunk as full as it is meant to be: 763 items, half the bits, one maybe in 170.
Chunk full_chunk() {
  std::mt19937_64 random(3);
  Chunk chunk{};
  for (int i = 0; i < 763; ++i) chunk_add(chunk, positions_of(Digest{random(), random()}));
  return chunk;
}

// md5 of a name of 5 to 20 bytes.
void hash_by_openssl(benchmark::State &state) {
  const std::vector<std::string> keys = names();
  Hasher hasher;
  if (!hasher.open()) return state.SkipWithError("no MD5");
  std::size_t i = 0;
  for (auto _ : state) {
    Digest digest{};
    hasher.start() && hasher.add(keys[i++ % kRound]) && hasher.finish(digest);
    benchmark::DoNotOptimize(digest);
  }
  hasher.close();
}
BENCHMARK(hash_by_openssl);

void hash_name(benchmark::State &state) {
  const std::vector<std::string> keys = names();
  Hasher hasher;
  if (!hasher.open()) return state.SkipWithError("no MD5");
  std::size_t i = 0;
  for (auto _ : state) {
    Digest digest{};
    hasher.hash(keys[i++ % kRound], digest);
    benchmark::DoNotOptimize(digest);
  }
  hasher.close();
}
BENCHMARK(hash_name);

// Eight names at once; the time is that of all eight.
void hash_eight_names(benchmark::State &state) {
  const std::vector<std::string> keys = names();
  std::array<md5::Block, md5::kLanes> blocks{};
  std::size_t i = 0;
  for (auto _ : state) {
    for (md5::Block &block : blocks) {
      const std::string &key = keys[i++ % kRound];
      key.copy(md5::text_of(block), key.size());
      md5::pad(block, key.size());
    }
    std::array<Digest, md5::kLanes> digests;
    md5::digest_lanes(blocks, digests);
    benchmark::DoNotOptimize(digests);
  }
}
BENCHMARK(hash_eight_names);

// All positions of a name, its hash included: k of 7 takes one digest, 16 two, 32 four.
void hash_and_positions(benchmark::State &state) {
  const std::vector<std::string> keys = names();
  const auto k = static_cast<std::size_t>(state.range(0));
  Hasher hasher;
  if (!hasher.open()) return state.SkipWithError("no MD5");
  std::array<std::uint16_t, kMaxHashes> positions{};
  std::size_t i = 0;
  for (auto _ : state) {
    const std::string &key = keys[i++ % kRound];
    Digest digest{};
    hasher.hash(key, digest);
    positions_of(hasher, key, digest, std::span(positions).first(k));
    benchmark::DoNotOptimize(positions);
  }
  hasher.close();
}
BENCHMARK(hash_and_positions)->Arg(7)->Arg(16)->Arg(32);

// From a digest to its chunk and seven positions.
void chunk_and_positions(benchmark::State &state) {
  const std::vector<Digest> of = digests();
  const auto chunks = static_cast<std::int32_t>(state.range(0));
  std::size_t i = 0;
  for (auto _ : state) {
    const Digest &digest = of[i++ % kRound];
    benchmark::DoNotOptimize(chunk_of(digest, chunks));
    benchmark::DoNotOptimize(positions_of(digest));
  }
}
BENCHMARK(chunk_and_positions)->Arg(131072);

// A check that says no: it stops at the first bit that is missing.
void chunk_contains_other(benchmark::State &state) {
  const Chunk chunk = full_chunk();
  const std::vector<Positions> of = masks();
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(chunk_contains(chunk, of[i++ % kRound]));
}
BENCHMARK(chunk_contains_other);

// A check that says maybe: it looks at all seven bits.
void chunk_contains_member(benchmark::State &state) {
  const std::vector<Positions> of = masks();
  Chunk chunk{};
  for (const Positions &positions : of) chunk_add(chunk, positions);
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(chunk_contains(chunk, of[i++ % kRound]));
}
BENCHMARK(chunk_contains_member);

void chunk_add_item(benchmark::State &state) {
  Chunk chunk{};
  const std::vector<Positions> of = masks();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(chunk_add(chunk, of[i++ % kRound]));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(chunk_add_item);

// The guard's work at each update; the offset is that of a chunk in a tuple, 4 modulo 8.
void chunk_covers_chunk(benchmark::State &state) {
  const auto offset = static_cast<std::size_t>(state.range(0));
  const Chunk chunk = full_chunk();
  alignas(64) std::array<std::uint8_t, kChunkBytes + 64> whole{}, part{};
  std::copy(chunk.begin(), chunk.end(), whole.begin() + offset);
  std::copy(chunk.begin(), chunk.end(), part.begin() + offset);
  const auto view = [&](const std::array<std::uint8_t, kChunkBytes + 64> &bytes) {
    return ChunkView(bytes.data() + offset, static_cast<std::size_t>(kChunkBytes));
  };
  for (auto _ : state) {
    benchmark::DoNotOptimize(whole);
    benchmark::DoNotOptimize(chunk_covers(view(whole), view(part)));
  }
  state.SetBytesProcessed(state.iterations() * kChunkBytes);
}
BENCHMARK(chunk_covers_chunk)->Arg(0)->Arg(4);

void chunk_merge_chunk(benchmark::State &state) {
  const Chunk source = full_chunk();
  Chunk target{};
  for (auto _ : state) {
    merge_bits(target.data(), source);
    benchmark::DoNotOptimize(target);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kChunkBytes);
}
BENCHMARK(chunk_merge_chunk);

void table_geometry_of(benchmark::State &state) {
  const auto capacity = static_cast<double>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(table_geometry(capacity, 0.01));
}
BENCHMARK(table_geometry_of)->Arg(1000000)->Arg(100000000)->Unit(benchmark::kMicrosecond);

void value_geometry_of(benchmark::State &state) {
  const auto capacity = static_cast<double>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(value_geometry(capacity, 0.01));
}
BENCHMARK(value_geometry_of)->Arg(100)->Arg(100000000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bloomfilter
