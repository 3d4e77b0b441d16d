// Sizes known at run time: the exchange of counts, and copies of as many elements as a count says. The host's counterpart is
// mscclpp-base/src/interpret/counts.rs.
//
// Every rank has an area in the counters' memory, which all devices of the launch reach. In words: the number of the launch whose table
// it has accepted; twice a row of every rank, which launches use in turn; and, for its own thread blocks alone, the table with the sums
// of its rows and columns.
//
// A rank writes its row to the areas of all ranks, those of other nodes through its proxy, and reads theirs from its own. A rank that writes the row of the next launch but one
// has received all rows of the next launch, so every rank has ended this one: rows are in use for one launch at a time. All ranks
// compare the same numbers, so they all accept a table or all reject it. Counted copies move nothing unless the table is that of their
// launch, and stay within the buffers of the launch whatever it says.
#pragma once
#include "channel.h"
#include "copy.h"

namespace mscclpp {

/// The area of a rank.
struct CountArea {
  uint64_t* at;
  uint32_t ranks;

  /// The row of a rank: the number of the launch, elements for which its input and its output have room, counts.
  DEV uint64_t* row(uint64_t sequence, uint32_t rank) const {
    const uint32_t words = (kCountHead + ranks + kCountLine - 1) / kCountLine * kCountLine;
    return at + kCountLine + ((sequence & 1) * ranks + rank) * words;
  }
  /// Counts of sender and receiver (0), elements before those in the input of the sender (1), and in the output of the receiver (2): by
  /// the rank whose row, or whose buffer it is, and the other one.
  DEV uint64_t* table(uint32_t number) const { return row(1, ranks) + number * ranks * ranks; }
};

DEV CountArea area_of(const LaunchParams& launch, uint32_t rank) {
  return CountArea{reinterpret_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(launch.counts)[rank]), launch.num_ranks};
}

/// A word of what the host has given a launch: addresses of input and output of every rank, then a `CountParams` of every rank.
DEV uint64_t launch_word(const LaunchParams& launch, uint32_t word) {
  return launch.table ? reinterpret_cast<const uint64_t*>(launch.table)[word] : launch.bases[word];
}

/// A word of a rank's `CountParams`.
DEV uint64_t count_param(const LaunchParams& launch, uint32_t rank, uint32_t at) {
  return launch_word(launch, 2 * launch.num_ranks + (sizeof(CountParams) * rank + at) / 8);
}

/// Count `number` of the counts that the rank passes, in elements; negative if it passes none. One that is too large stays so.
DEV int64_t given_count(const LaunchParams& launch, uint32_t rank, uint32_t number) {
  const char* from = reinterpret_cast<const char*>(count_param(launch, rank, offsetof(CountParams, given)));
  if (from == nullptr) return -1;
  const bool is_narrow = count_param(launch, rank, offsetof(CountParams, width)) & 4;
  const int64_t count = is_narrow ? load_plain<int32_t>(from + 4 * number) : load_plain<int64_t>(from + 8 * number);
  const int64_t unit = static_cast<int64_t>(count_param(launch, rank, offsetof(CountParams, unit)));
  const int64_t most = static_cast<int64_t>(~0ull >> 1);
  return count < 0 ? count : count > most / unit ? most : count * unit;
}

/// Whether an area is on another node: the proxy has an address for it that no device has.
DEV bool is_far(CountArea area) { return static_cast<int64_t>(reinterpret_cast<uint64_t>(area.at)) < 0; }

/// Pushes a trigger to the rank's proxy. Called by: one thread.
DEV void push(const LaunchParams& launch, uint64_t src, uint64_t dst, uint64_t bytes, uint64_t signal) {
  push_trigger(launch, cache().own.fifo, src, dst, bytes, signal);
}

/// Gives the rank's row to all ranks, and waits for the rows of all. The number of a row of another node is that of its arrivals in its
/// place, as the proxy counts them: one in two launches. Called by: all threads of the block. Syncs: block, in between and at exit.
DEV void exchange_rows(const LaunchParams& launch, uint32_t size) {
  const uint32_t rank = cache().own.rank, ranks = launch.num_ranks;
  const uint64_t sequence = cache().sequence;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ranks * ranks; i += dev_threads()) {
    if (is_far(area_of(launch, i / ranks))) continue;
    const uint64_t count = static_cast<uint64_t>(given_count(launch, rank, i % ranks));
    store_plain<uint64_t>(area_of(launch, i / ranks).row(sequence, rank) + kCountHead + i % ranks, count);
  }
  DEV_NO_UNROLL
  for (uint32_t peer = dev_thread(); peer < ranks; peer += dev_threads()) {
    if (is_far(area_of(launch, peer))) continue;
    uint64_t* row = area_of(launch, peer).row(sequence, rank);
    store_plain<uint64_t>(row + 1, count_param(launch, rank, offsetof(CountParams, input)) / size);
    store_plain<uint64_t>(row + 2, count_param(launch, rank, offsetof(CountParams, output)) / size);
  }
  dev_sync();
  DEV_NO_UNROLL
  for (uint32_t peer = dev_thread(); peer < ranks && !cache().failed; peer += dev_threads()) {
    uint64_t* row = area_of(launch, peer).row(sequence, rank);
    if (is_far(area_of(launch, peer))) {
      // What follows the number of the launch, then the number.
      push(launch, reinterpret_cast<uint64_t>(area_of(launch, rank).row(sequence, rank) + 1),
           reinterpret_cast<uint64_t>(row + 1), 8 * (kCountHead - 1 + ranks), reinterpret_cast<uint64_t>(row));
      continue;
    }
    // order: publishes the row, which the block wrote before its last sync; acquired by `await_counter`.
    store_release_sys(row, sequence + 1);
  }
  DEV_NO_UNROLL
  for (uint32_t peer = dev_thread(); peer < ranks; peer += dev_threads()) {
    const uint64_t expected = is_far(area_of(launch, peer)) ? sequence / 2 + 1 : sequence + 1;
    await_counter(launch, area_of(launch, rank).row(sequence, peer), expected, WaitKind::kCounts, peer);
  }
  dev_sync();
}

/// Whether a count of the table, or, in packed buffers, a sum of counts exceeds its limit; writes the table. Called by: all threads of the
/// block, each of which answers for a part.
DEV bool write_table(const LaunchParams& launch, CountArea area, uint64_t most, bool is_packed) {
  const uint32_t ranks = area.ranks;
  const uint64_t sequence = cache().sequence;
  bool exceeds = false;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ranks * ranks; i += dev_threads()) {
    const uint64_t count = load_plain<uint64_t>(area.row(sequence, i / ranks) + kCountHead + i % ranks);
    store_plain<uint64_t>(area.table(0) + i, count);
    // Negative ones as well.
    exceeds |= count > most;
  }
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < 2 * ranks; i += dev_threads()) {
    const uint32_t side = i / ranks, rank = i % ranks;
    uint64_t sum = 0;
    DEV_NO_UNROLL
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      store_plain<uint64_t>(area.table(1 + side) + rank * ranks + peer, sum);
      const uint32_t sender = side == 0 ? rank : peer, receiver = side == 0 ? peer : rank;
      sum += load_plain<uint64_t>(area.row(sequence, sender) + kCountHead + receiver);
    }
    exceeds |= is_packed && sum > load_plain<uint64_t>(area.row(sequence, rank) + 1 + side);
  }
  return exceeds;
}

/// Finds the first count or sum that exceeds its limit, and reports it unless an earlier report was not read yet. Called by: one thread.
DEV_CALL void report_overflow(const LaunchParams& launch, CountArea area, uint64_t most, bool is_packed) {
  const uint32_t ranks = area.ranks;
  CountReport found = {};
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < ranks * ranks && found.state == 0; ++i) {
    const uint64_t count = load_plain<uint64_t>(area.table(0) + i);
    if (count > most) found = CountReport{static_cast<uint64_t>(CountLimit::kEntry), i / ranks, count, most, i % ranks, count, 0, 0};
  }
  DEV_NO_UNROLL
  for (uint32_t i = 0; is_packed && i < 2 * ranks && found.state == 0; ++i) {
    const uint32_t side = i / ranks, rank = i % ranks;
    const uint64_t room = load_plain<uint64_t>(area.row(cache().sequence, rank) + 1 + side);
    uint64_t sum = 0, part = 0, other = 0;
    DEV_NO_UNROLL
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      const uint64_t count = load_plain<uint64_t>(area.table(0) + (side == 0 ? rank * ranks + peer : peer * ranks + rank));
      sum += count;
      if (peer == 0 || count > part) part = count, other = peer;
    }
    const uint64_t limit = static_cast<uint64_t>(side == 0 ? CountLimit::kInput : CountLimit::kOutput);
    if (sum > room) found = CountReport{limit, rank, sum, room, other, part, 0, 0};
  }
  uint64_t* to = reinterpret_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(launch.counts)[ranks + cache().own.rank]);
  if (load_relaxed_sys(to) != 0) return;
  store_relaxed_sys(to + 1, found.rank);
  store_relaxed_sys(to + 2, found.demand);
  store_relaxed_sys(to + 3, found.room);
  store_relaxed_sys(to + 4, found.peer);
  store_relaxed_sys(to + 5, found.part);
  store_relaxed_sys(to + 6, cache().sequence + 1);
  // order: publishes the report, acquired by the host.
  store_release_sys(to, found.state);
}

/// Exchanges the rows of all ranks, and accepts the table or reports why not. `size`: bytes of an element. Called by: all threads of the
/// block. Syncs: block, at exit.
DEV_CALL void exchange_counts(const LaunchParams& launch, uint32_t size, bool is_packed) {
  exchange_rows(launch, size);
  const uint32_t rank = cache().own.rank, ranks = launch.num_ranks;
  const CountArea area = area_of(launch, rank);
  const uint64_t most = launch.stride / size;
  const bool has_failed = cache().failed != 0;
  const bool exceeds = !has_failed && write_table(launch, area, most, is_packed);
  const bool is_accepted = dev_sync_count(exceeds) == 0 && !has_failed;
  if (dev_thread() == 0) {
    if (is_accepted) store_plain<uint64_t>(area.at, cache().sequence + 1);
    else if (!has_failed) report_overflow(launch, area, most, is_packed);
  }
  char* const received = reinterpret_cast<char*>(count_param(launch, rank, offsetof(CountParams, received)));
  const uint64_t width = count_param(launch, rank, offsetof(CountParams, width));
  // The counts of what it receives, then, where they are wanted, its places in the output.
  const uint32_t numbers = is_accepted && received != nullptr ? (width & kCountPlaces ? 2 : 1) * ranks : 0;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < numbers; i += dev_threads()) {
    const uint64_t* from = i < ranks ? area.table(0) + i * ranks + rank : area.table(2) + rank * ranks + (i - ranks);
    const uint64_t number = load_plain<uint64_t>(from) / count_param(launch, rank, offsetof(CountParams, unit));
    if (width & 4) store_plain<uint32_t>(received + 4 * i, static_cast<uint32_t>(number));
    else store_plain<uint64_t>(received + 8 * i, number);
  }
  dev_sync();
}

/// The chunk that is the operand at index `slot` of the cache.
DEV Span counted_chunk(const LaunchParams& launch, CountArea area, uint32_t size, bool is_packed, uint32_t slot) {
  const Operand& operand = cache().table_operands[slot];
  if (!is_packed || operand.space > Space::kOutput) {
    const uint64_t limit = cache().operands[slot].limit;
    return Span{cache().heads[slot], limit, limit};
  }
  const uint32_t side = static_cast<uint32_t>(operand.space), rank = operand.rank;
  const uint64_t before = load_plain<uint64_t>(area.table(1 + side) + rank * area.ranks + operand.index) * size;
  const uint64_t room = count_param(launch, rank, side == 0 ? offsetof(CountParams, input) : offsetof(CountParams, output));
  const uint64_t len = before < room ? room - before : 0;
  return Span{reinterpret_cast<char*>(launch_word(launch, 2 * rank + side)) + before, len, len};
}

/// Copies the counted elements of one chunk to another one, or lets the proxy do so. `size`: bytes of an element. Called by: all threads
/// of the block; does not sync.
DEV_CALL void copy_counted(const LaunchParams& launch, const Instr& instr, uint32_t size) {
  const CountArea area = area_of(launch, cache().own.rank);
  if (cache().failed || load_plain<uint64_t>(area.at) != cache().sequence + 1) return;
  uint64_t at, len;
  slice_of(launch.unit, load_plain<uint64_t>(area.table(0) + instr.count * area.ranks + instr.body) * size, instr.slice_index,
           instr.slice_of, at, len);
  const uint32_t slot = instr.operands - cache().first_operand;
  const bool is_packed = instr.flags & kFlagPacked;
  const Span from = counted_chunk(launch, area, size, is_packed, slot), to = counted_chunk(launch, area, size, is_packed, slot + 1);
  const uint64_t limit = from.len < to.len ? from.len : to.len, room = at < limit ? limit - at : 0;
  if (len > room) len = room;
  if (!(instr.flags & kFlagPort)) return copy_bytes(to.at + at, from.at + at, len, 0);
  if (dev_thread() == 0 && len > 0) {
    push(launch, reinterpret_cast<uint64_t>(from.at + at), reinterpret_cast<uint64_t>(to.at + at), len, 0);
  }
}

}  // namespace mscclpp
