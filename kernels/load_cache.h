// Loads the cache in shared memory: at the beginning of a launch, and when a block has executed the instructions in it.
//
// All loads from tables are in flight at once, since none needs another's result: each thread issues its own before it uses the first.
// Then operands are resolved.
#pragma once
#include "instr_cache.h"
#include "vector.h"

namespace mscclpp {

/// Vectors of `count` entries of a table.
template <typename T>
DEV uint32_t vectors_of(uint32_t count) {
  static_assert(sizeof(T) % sizeof(Vec16) == 0, "entries are copied as vectors");
  return static_cast<uint32_t>(sizeof(T) / sizeof(Vec16)) * count;
}

DEV const Vec16* vector_at(uint64_t table, uint32_t number) { return reinterpret_cast<const Vec16*>(table) + number; }

/// Copies vectors of tables, which are at `from(number)`, into the cache, `kEach` of a thread at a time. Numbers of vectors: `instrs`,
/// which follow the `skipped` ones from the block's entry on, `operands`, `ids`, `scratch`. Called by: all threads of the block.
template <uint32_t kEach, typename From>
DEV void copy_tables(uint32_t skipped, uint32_t instrs, uint32_t operands, uint32_t ids, uint32_t scratch, const From& from) {
  InstrCache& c = cache();
  const uint32_t threads = dev_threads(), count = instrs + operands + ids + scratch;
  DEV_NO_UNROLL
  for (uint32_t first = dev_thread(); first < count; first += kEach * threads) {
    Loaded<Vec16> data[kEach] = {};
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      if (first + i * threads < count) data[i] = load_table(from(first + i * threads));
    }
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      uint32_t v = first + i * threads;
      if (v >= count) break;
      Vec16* to = reinterpret_cast<Vec16*>(&c.own) + skipped;
      if (v >= instrs + operands + ids) to = reinterpret_cast<Vec16*>(c.scratch), v -= instrs + operands + ids;
      else if (v >= instrs + operands) to = reinterpret_cast<Vec16*>(c.ids), v -= instrs + operands;
      else if (v >= instrs) to = reinterpret_cast<Vec16*>(c.table_operands), v -= instrs;
      to[v] = data[i];
    }
  }
}

/// Vectors of the table of scratch; 0 if it does not fit into the cache.
DEV uint32_t scratch_vectors(const LaunchParams& launch) { return launch.num_ranks <= kInlineRanks ? launch.num_ranks : 0; }

/// The flag of a launch's packets: 1, 2, …, and 1 again after the largest one.
DEV uint32_t flag_of(uint64_t sequence) { return static_cast<uint32_t>(sequence % 0xffffffffull) + 1; }

/// Called by: all threads of the block, first. Returns: launches before this one. The cache has the launch's values after the next
/// sync. A launch after one that aborted fails at once: its signals would be taken for those that are missing.
DEV uint64_t begin_launch(const LaunchParams& launch, uint32_t block) {
  const uint64_t sequence = load_relaxed_gpu(reinterpret_cast<const uint64_t*>(launch.launches) + block);
  iteration() = 0;
  if (dev_thread() == 0) {
    InstrCache& c = cache();
    c.sequence = sequence;
    c.flag = flag_of(sequence);
    c.block = block;
    c.failed = load_relaxed_gpu(&reinterpret_cast<LaunchState*>(launch.state)->abort) != 0;
  }
  return sequence;
}

/// Called by: all threads of the block, behind a block sync. Resolves the first `count` operands of the cache.
DEV void resolve_operands(const LaunchParams& launch, uint64_t sequence, uint32_t count) {
  InstrCache& c = cache();
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < count; i += dev_threads()) {
    const ResolvedOperand resolved = resolve_operand(launch, c.table_operands[i], scratch_table(launch), sequence);
    c.operands[i] = resolved;
    c.heads[i] = resolved.at;
  }
}

}  // namespace mscclpp
