// Loads the cache in shared memory: at the beginning of a launch, and when a block has executed the instructions in it.
//
// All loads from tables are in flight at once, since none needs another's result: each thread issues its own before it uses the first.
// Then operands are resolved; at the beginning of a launch by the threads that have loaded them, so that one block sync is enough.
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

/// Copies vectors of tables, which are at `from(number)`, into the cache, `kEach` of a thread at a time: of every `dev_threads()` vectors
/// each thread has one. Numbers of vectors: `instrs`, which follow the `skipped` ones from the block's entry on, `operands`, `ids`.
/// `meanwhile()`: what a thread does while its first vectors are in flight. Called by: all threads of the block.
template <uint32_t kEach, typename From, typename Meanwhile>
DEV void copy_tables(uint32_t skipped, uint32_t instrs, uint32_t operands, uint32_t ids, const From& from, const Meanwhile& meanwhile) {
  InstrCache& c = cache();
  const uint32_t threads = dev_threads(), count = instrs + operands + ids;
  DEV_NO_UNROLL
  for (uint32_t first = dev_thread(); first < count; first += kEach * threads) {
    Loaded<Vec16> data[kEach] = {};
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      if (first + i * threads < count) data[i] = load_table(from(first + i * threads));
    }
    if (first == dev_thread()) meanwhile();
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      uint32_t v = first + i * threads;
      if (v >= count) break;
      Vec16* to = reinterpret_cast<Vec16*>(&c.own) + skipped;
      if (v >= instrs + operands) to = reinterpret_cast<Vec16*>(c.ids), v -= instrs + operands;
      else if (v >= instrs) to = reinterpret_cast<Vec16*>(c.table_operands), v -= instrs;
      to[v] = data[i];
    }
  }
}

/// The flag of a launch's packets: 1, 2, …, and 1 again after the largest one.
DEV uint32_t flag_of(uint64_t sequence) { return static_cast<uint32_t>(sequence % 0xffffffffull) + 1; }

/// Called by: any thread of the block. Returns: the number of launches before this one. The first thread puts the launch's values into the
/// cache, which has them after the next sync. A launch after one that aborted fails at once: its signals would be taken for those that
/// are missing.
DEV uint64_t begin_launch(const LaunchParams& launch, uint32_t block) {
  const Loaded<uint64_t> loaded = load_relaxed_gpu(reinterpret_cast<const uint64_t*>(launch.launches) + block);
  if (dev_thread() != 0) return loaded;
  const Loaded<uint64_t> aborted = load_relaxed_gpu(&reinterpret_cast<LaunchState*>(launch.state)->abort);
  InstrCache& c = cache();
  const uint64_t sequence = loaded;
  c.sequence = sequence;
  c.flag = flag_of(sequence);
  c.block = block;
  c.failed = aborted != 0;
  return sequence;
}

/// Called by: any thread. Resolves the operand at index `slot` of the cache, for a launch with this number of launches before it.
DEV void resolve_cached(const LaunchParams& launch, uint32_t slot, uint64_t sequence) {
  InstrCache& c = cache();
  const ResolvedOperand operand = resolve_operand(launch, c.table_operands[slot], sequence);
  c.operands[slot] = operand;
  c.heads[slot] = operand.at;
}

/// Called by: all threads of the block, after a block sync. Resolves the first `count` operands of the cache.
DEV void resolve_operands(const LaunchParams& launch, uint32_t count) {
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < count; i += dev_threads()) resolve_cached(launch, i, cache().sequence);
}

DEV uint32_t at_most(uint32_t value, uint32_t most) { return value < most ? value : most; }

/// Copies the record of a block into the cache, with or without its instructions, and resolves its operands: each thread those that it has
/// copied, so that it waits for no other. Called by: all threads of the block, first, and before a sync.
template <bool kInstrs>
DEV void load_record(const LaunchParams& launch, uint32_t number) {
  InstrCache& c = cache();
  const uint64_t record = launch.records + static_cast<uint64_t>(number) * launch.record_bytes;
  const uint32_t entry = vectors_of<Block>(1), instrs = vectors_of<Instr>(launch.record_instrs);
  const uint32_t operands = vectors_of<Operand>(launch.record_operands), ids = vectors_of<Id>(launch.record_ids);
  const uint32_t first = kInstrs ? entry + instrs : entry;
  uint64_t sequence = 0;
  iteration() = 0;
  const auto from = [&](uint32_t v) { return vector_at(record, kInstrs || v < entry ? v : v + instrs); };
  const auto begin = [&] { sequence = begin_launch(launch, number); };
  if (first + operands + ids <= dev_threads()) copy_tables<1>(0, first, operands, ids, from, begin);
  else copy_tables<4>(0, first, operands, ids, from, begin);
  DEV_NO_UNROLL
  for (uint32_t v = dev_thread(); v < first + operands; v += dev_threads()) {
    if (v >= first) {
      resolve_cached(launch, v - first, sequence);
    } else if (v == 0) {
      c.first = c.own.first;
    } else if (v == offsetof(Block, operands) / sizeof(Vec16)) {
      c.first_operand = c.own.operands;
      c.first_id = c.own.ids;
    } else if (kInstrs && v >= entry && (v - entry) % vectors_of<Instr>(1) == 0) {
      Instr& instr = c.instrs[(v - entry) / vectors_of<Instr>(1)];
      if (v == entry) c.count = instr.cached;
      // A launch may have its own reduction.
      if (launch.reduce < kPlanReductions) instr.reduce = static_cast<Reduction>(launch.reduce);
    }
  }
}

}  // namespace mscclpp
