// What a rank does with rows of tokens before and after they travel between ranks: which row goes where, and copies of rows. The rows
// travel in launches of a plan with counts (counts.h), which these kernels write and read in device memory. Compiled at run time; the host's
// counterpart is mscclpp-exec/src/cuda/experts.
//
// A choice is the number of an expert, or -1 for none. A row that travels has `stride` bytes: the row of the token, its scales, and at the
// end the number of the expert on the rank to which it goes. Rows have fixed places: a rank sends by expert, then by token, and an expert has
// the rows of rank 0, 1, and so on. No kernel waits for another one.
//
// A negative count says why nothing travels (`CountOverflow` on the host): the plan finds it in the tables of all ranks, and moves nothing.
// Then the counts of received rows keep the negative number that they had before the launch, and what follows writes nothing.
#include "number.h"
#include "vector.h"

namespace {

/// Maximum number of threads of a block.
constexpr uint32_t kThreads = 256;

/// Bytes at the end of a row that travels.
constexpr uint64_t kTail = 16;

/// Elements of a row that share a scale.
constexpr uint32_t kGroup = 128;

/// Negative counts: one for what follows a dispatch that moved nothing, and one for choices that are wrong.
constexpr int64_t kNothing = static_cast<int64_t>(1ull << 63 | 2ull << 60);
constexpr uint64_t kWrongChoice = 1ull << 63 | 1ull << 60;

DEV int64_t word_at(uint64_t table, uint64_t at) { return load_plain<int64_t>(reinterpret_cast<const char*>(table) + 8 * at); }
DEV void set_word(uint64_t table, uint64_t at, int64_t value) { store_plain<int64_t>(reinterpret_cast<char*>(table) + 8 * at, value); }
DEV uint32_t position_at(uint64_t table, uint64_t at) {
  return load_plain<uint32_t>(reinterpret_cast<const char*>(table) + 4 * at);
}

/// Number of rows that all ranks have sent; 0 if nothing has travelled.
DEV uint64_t received_rows(uint64_t received, uint32_t ranks) {
  int64_t sum = 0;
  DEV_NO_UNROLL
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const int64_t count = word_at(received, rank);
    if (count < 0) return 0;
    sum += count;
  }
  return static_cast<uint64_t>(sum);
}

/// Copies a row. Called by: all threads of the block; does not sync.
DEV void copy_row(char* to, const char* from, uint64_t bytes) {
  const uint64_t vectors = bytes / 16;
  DEV_NO_UNROLL
  for (uint64_t v = dev_thread(); v < vectors; v += dev_threads()) {
    store_any(to + 16 * v, alignment_of(to), load_any<Vec16>(from + 16 * v, alignment_of(from)));
  }
  const uint32_t rest = bytes % 16;
  if (rest != 0 && dev_thread() == vectors % dev_threads()) {
    store_part(to + 16 * vectors, rest, load_part<Vec16>(from + 16 * vectors, rest));
  }
}

}  // namespace

/// Argument of `mscclpp_count_choices`; the host has the same structs.
struct CountChoices {
  /// Address of the first choice, and bytes from one to the next.
  uint64_t choices, stride;
  /// Lengths of the lists of choices, one after the other; 0: there is one list, of `count` choices.
  uint64_t received, count;
  /// For each choice the number of those before it in its list that choose the same expert.
  uint64_t positions;
  /// For each list and expert the number of choices; negative if one is wrong.
  uint64_t totals;
  uint32_t experts;
  /// Choices of a token, which differ; 0: they are those of other ranks, which have checked them.
  uint32_t top_k;
};

namespace {

DEV int64_t choice_at(const CountChoices& params, uint64_t at) {
  return load_plain<int64_t>(reinterpret_cast<const char*>(params.choices) + params.stride * at);
}

/// Returns whether choice `at` is wrong, as the block of an expert sees it: the first one sees those of no expert.
DEV bool is_wrong(const CountChoices& params, uint64_t at, int64_t choice, int64_t expert) {
  if (params.top_k == 0) return false;
  if (choice != expert) return expert == 0 && (choice < -1 || choice >= params.experts);
  DEV_NO_UNROLL
  for (uint64_t before = at - at % params.top_k; before < at; ++before) {
    if (choice_at(params, before) == expert) return true;
  }
  return false;
}

}  // namespace

/// Counts the choices of each list and expert, a block each. A thread has consecutive choices, so that positions are in their order.
KERNEL(kThreads) mscclpp_count_choices(KERNEL_PARAM CountChoices params) {
  SHARED(uint64_t, found, 2 * kThreads);
  const uint32_t list = dev_block() / params.experts, thread = dev_thread(), threads = dev_threads();
  const int64_t expert = dev_block() % params.experts;
  uint64_t begin = 0, len = params.count;
  if (params.received != 0) {
    if (word_at(params.received, 0) < 0) return;
    begin = received_rows(params.received, list);
    len = static_cast<uint64_t>(word_at(params.received, list));
  }
  const uint64_t each = (len + threads - 1) / threads;
  const uint64_t first = each * thread < len ? each * thread : len, end = len - first < each ? len : first + each;
  uint64_t count = 0, wrong = ~0ull;
  DEV_NO_UNROLL
  for (uint64_t i = begin + first; i < begin + end; ++i) {
    const int64_t choice = choice_at(params, i);
    if (wrong == ~0ull && is_wrong(params, i, choice, expert)) wrong = i;
    count += choice == expert;
  }
  found[2 * thread] = count;
  found[2 * thread + 1] = wrong;
  dev_sync();
  uint64_t position = 0;
  DEV_NO_UNROLL
  for (uint32_t before = 0; before < thread; ++before) position += found[2 * before];
  DEV_NO_UNROLL
  for (uint64_t i = begin + first; i < begin + end; ++i) {
    if (choice_at(params, i) != expert) continue;
    store_plain<uint32_t>(reinterpret_cast<char*>(params.positions) + 4 * i, static_cast<uint32_t>(position++));
  }
  if (thread + 1 == threads) {
    DEV_NO_UNROLL
    for (uint32_t other = 0; other < threads; ++other) {
      if (found[2 * other + 1] < wrong) wrong = found[2 * other + 1];
    }
    set_word(params.totals, dev_block(), wrong == ~0ull ? static_cast<int64_t>(position) : -1 - static_cast<int64_t>(wrong));
  }
}
SIM_KERNEL(mscclpp_count_choices, CountChoices)

/// Argument of `mscclpp_plan_sends`.
struct PlanSends {
  /// Of each expert the number of its choices, and where its rows begin among those that are sent.
  uint64_t totals, begins;
  /// Rows for each rank; and those from each rank, of which none has arrived.
  uint64_t sent, received;
  /// What rank 0 gets instead of a count if the host knows what is wrong; otherwise 0.
  int64_t refused;
  uint32_t ranks, experts, top_k, reserved;
};

/// Adds up the rows for each rank, or says which choice is wrong. One block.
KERNEL(kThreads) mscclpp_plan_sends(KERNEL_PARAM PlanSends params) {
  SHARED(uint64_t, wrongs, kThreads);
  const uint32_t thread = dev_thread(), threads = dev_threads(), each = params.experts / params.ranks;
  uint64_t wrong = ~0ull;
  DEV_NO_UNROLL
  for (uint32_t expert = thread; expert < params.experts; expert += threads) {
    const int64_t total = word_at(params.totals, expert);
    if (total < 0 && static_cast<uint64_t>(-1 - total) < wrong) wrong = static_cast<uint64_t>(-1 - total);
    int64_t begin = 0;
    DEV_NO_UNROLL
    for (uint32_t before = 0; before < expert; ++before) begin += word_at(params.totals, before);
    set_word(params.begins, expert, begin);
  }
  wrongs[thread] = wrong;
  dev_sync();
  DEV_NO_UNROLL
  for (uint32_t other = 0; other < threads; ++other) {
    if (wrongs[other] < wrong) wrong = wrongs[other];
  }
  DEV_NO_UNROLL
  for (uint32_t rank = thread; rank < params.ranks; rank += threads) {
    int64_t sum = 0;
    DEV_NO_UNROLL
    for (uint32_t expert = rank * each; expert < (rank + 1) * each; ++expert) sum += word_at(params.totals, expert);
    if (params.refused != 0 || wrong != ~0ull) {
      const uint64_t top_k = params.top_k;
      const uint64_t choice = (wrong / top_k) << 30 | (wrong % top_k) << 22 | params.experts;
      sum = rank != 0 ? 0 : params.refused != 0 ? params.refused : static_cast<int64_t>(kWrongChoice | choice);
    }
    set_word(params.sent, rank, sum);
    set_word(params.received, rank, kNothing);
  }
}
SIM_KERNEL(mscclpp_plan_sends, PlanSends)

/// Argument of the kernels that pack rows.
struct PackRows {
  /// Rows of the tokens; their scales, if they have some.
  uint64_t rows, scales;
  uint64_t choices, positions, begins;
  /// Rows for each rank: nothing is packed if the first one is negative.
  uint64_t sent;
  /// For each choice its row among those that are sent, or -1.
  uint64_t sent_rows;
  /// The rows that are sent.
  uint64_t packed;
  uint64_t count;
  /// Bytes of a row of a token, of a row as it travels, of its scales, and from the beginning of a row to its scales.
  uint64_t row, stride, scales_bytes, scales_at;
  uint32_t top_k, experts_per_rank;
};

namespace {

/// Packs rows, of which `copy(to, token)` copies what travels besides the expert.
template <typename Copy>
DEV void pack_rows(const PackRows& params, const Copy& copy) {
  if (word_at(params.sent, 0) < 0) return;
  DEV_NO_UNROLL
  for (uint64_t i = dev_block(); i < params.count; i += dev_blocks()) {
    const int64_t expert = word_at(params.choices, i);
    const int64_t row = expert < 0 ? -1 : word_at(params.begins, expert) + position_at(params.positions, i);
    if (dev_thread() == 0) set_word(params.sent_rows, i, row);
    if (row < 0) continue;
    char* const to = reinterpret_cast<char*>(params.packed) + params.stride * row;
    copy(to, i / params.top_k);
    if (dev_thread() == 0) store_plain<int64_t>(to + params.stride - kTail, expert % params.experts_per_rank);
  }
}

/// The elements of a vector.
template <typename T>
union Elements {
  Vec16 vec;
  T e[16 / sizeof(T)];
};

/// Rounds groups of elements to e4m3, and stores their scales: the largest magnitude, at least 1e-4, divided by 448. A thread has whole groups.
template <typename T>
DEV void quantize_row(const PackRows& params, char* to, uint64_t token) {
  constexpr uint32_t kElements = 16 / sizeof(T);
  const uint64_t elements = params.row / sizeof(T);
  const char* const from = reinterpret_cast<const char*>(params.rows) + params.row * token;
  DEV_NO_UNROLL
  for (uint64_t group = dev_thread(); group < elements / kGroup; group += dev_threads()) {
    const char* const at = from + group * kGroup * sizeof(T);
    float largest = 1e-4f;
    DEV_NO_UNROLL
    for (uint32_t i = 0; i < kGroup; i += kElements) {
      const Elements<T> values = {load_any<Vec16>(at + i * sizeof(T), alignment_of(at))};
#pragma unroll
      for (uint32_t e = 0; e < kElements; ++e) {
        const float value = Via<T, float>::widen(values.e[e]), magnitude = value < 0 ? -value : value;
        // NaN is left out.
        if (magnitude > largest) largest = magnitude;
      }
    }
    const float factor = dev_divide(448.0f, largest);
    DEV_NO_UNROLL
    for (uint32_t i = 0; i < kGroup; i += kElements) {
      const Elements<T> values = {load_any<Vec16>(at + i * sizeof(T), alignment_of(at))};
#pragma unroll
      for (uint32_t e = 0; e < kElements; ++e) {
        store_plain<uint8_t>(to + group * kGroup + i + e, encode_fp8<4, 3, 0x7e>(Via<T, float>::widen(values.e[e]) * factor));
      }
    }
    store_plain<float>(to + params.scales_at + 4 * group, dev_divide(largest, 448.0f));
  }
}

}  // namespace

KERNEL(kThreads) mscclpp_pack_rows(KERNEL_PARAM PackRows params) {
  pack_rows(params, [&](char* to, uint64_t token) {
    copy_row(to, reinterpret_cast<const char*>(params.rows) + params.row * token, params.row);
    if (params.scales == 0) return;
    copy_row(to + params.scales_at, reinterpret_cast<const char*>(params.scales) + params.scales_bytes * token, params.scales_bytes);
  });
}
SIM_KERNEL(mscclpp_pack_rows, PackRows)

#define MSCCLPP_QUANTIZE(name, T)                                                                     \
  KERNEL(kThreads) name(KERNEL_PARAM PackRows params) {                                               \
    pack_rows(params, [&](char* to, uint64_t token) { quantize_row<T>(params, to, token); });         \
  }                                                                                                   \
  SIM_KERNEL(name, PackRows)

MSCCLPP_QUANTIZE(mscclpp_quantize_rows_f32, float)
MSCCLPP_QUANTIZE(mscclpp_quantize_rows_f16, F16)
MSCCLPP_QUANTIZE(mscclpp_quantize_rows_bf16, BF16)

/// Argument of `mscclpp_place_rows`.
struct PlaceRows {
  /// For each rank and expert the number of its rows, and where they begin in the result.
  uint64_t totals, begins;
  /// Rows from each rank.
  uint64_t received;
  /// Where numbers of rows are stored: of each expert; in the layout by rank of each rank and expert.
  uint64_t counts;
  /// Layout by expert: rows of an expert's slot, or 0; what its first row is a multiple of.
  uint64_t slot, alignment;
  uint32_t ranks, experts;
  /// Layout by rank.
  uint32_t by_rank, reserved;
};

namespace {

/// Rows for an expert from the first `ranks` ranks.
DEV int64_t rows_of(const PlaceRows& params, uint32_t ranks, uint32_t expert) {
  int64_t sum = 0;
  DEV_NO_UNROLL
  for (uint32_t rank = 0; rank < ranks; ++rank) sum += word_at(params.totals, rank * params.experts + expert);
  return sum;
}

}  // namespace

/// Finds where rows begin in the result. One block.
KERNEL(kThreads) mscclpp_place_rows(KERNEL_PARAM PlaceRows params) {
  if (word_at(params.received, 0) < 0) return;
  const uint32_t experts = params.experts;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < params.ranks * experts; i += dev_threads()) {
    const uint32_t rank = i / experts, expert = i % experts;
    int64_t begin = 0;
    if (params.by_rank) {
      DEV_NO_UNROLL
      for (uint32_t before = 0; before < i; ++before) begin += word_at(params.totals, before);
      set_word(params.counts, i, word_at(params.totals, i));
    } else {
      begin = rows_of(params, rank, expert) + static_cast<int64_t>(params.slot) * expert;
      DEV_NO_UNROLL
      for (uint32_t before = 0; params.slot == 0 && before < expert; ++before) {
        const int64_t alignment = static_cast<int64_t>(params.alignment);
        begin += (rows_of(params, params.ranks, before) + alignment - 1) / alignment * alignment;
      }
      if (rank == 0) set_word(params.counts, expert, rows_of(params, params.ranks, expert));
    }
    set_word(params.begins, i, begin);
  }
}
SIM_KERNEL(mscclpp_place_rows, PlaceRows)

/// Argument of `mscclpp_unpack_rows` and `mscclpp_return_rows`.
struct MoveRows {
  /// Rows as they travel, and rows from each rank.
  uint64_t packed, received;
  uint64_t positions, begins, totals;
  /// For each row that was received its place in the result.
  uint64_t places;
  /// The result, and its scales if there are some.
  uint64_t rows, scales;
  /// Rows for which the result has room.
  uint64_t room;
  uint64_t row, stride, scales_bytes, scales_at;
  /// Rows that fill up each expert's to a multiple are zero; 1: none.
  uint64_t alignment;
  /// Counts of rows that return, of which none has arrived.
  uint64_t returned;
  uint32_t ranks, experts;
};

/// Moves rows that were received to their places.
KERNEL(kThreads) mscclpp_unpack_rows(KERNEL_PARAM MoveRows params) {
  const uint64_t count = received_rows(params.received, params.ranks);
  uint32_t rank = 0;
  uint64_t end = 0;
  DEV_NO_UNROLL
  for (uint64_t i = dev_block(); i < count; i += dev_blocks()) {
    while (end <= i && rank < params.ranks) end += static_cast<uint64_t>(word_at(params.received, rank++));
    const char* const from = reinterpret_cast<const char*>(params.packed) + params.stride * i;
    const uint64_t expert = static_cast<uint64_t>(load_plain<int64_t>(from + params.stride - kTail));
    if (expert >= params.experts) continue;
    const uint64_t place =
        static_cast<uint64_t>(word_at(params.begins, (rank - 1) * params.experts + expert)) + position_at(params.positions, i);
    if (place >= params.room) continue;
    if (dev_thread() == 0) set_word(params.places, i, static_cast<int64_t>(place));
    copy_row(reinterpret_cast<char*>(params.rows) + params.row * place, from, params.row);
    if (params.scales == 0) continue;
    copy_row(reinterpret_cast<char*>(params.scales) + params.scales_bytes * place, from + params.scales_at, params.scales_bytes);
  }
  if (params.alignment <= 1 || word_at(params.received, 0) < 0) return;
  DEV_NO_UNROLL
  for (uint32_t expert = dev_block(); expert < params.experts; expert += dev_blocks()) {
    uint64_t total = 0;
    DEV_NO_UNROLL
    for (uint32_t source = 0; source < params.ranks; ++source) {
      total += static_cast<uint64_t>(word_at(params.totals, source * params.experts + expert));
    }
    const uint64_t begin = static_cast<uint64_t>(word_at(params.begins, expert));
    const uint64_t filled = begin + (total + params.alignment - 1) / params.alignment * params.alignment;
    const uint64_t last = filled < params.room ? filled : params.room;
    DEV_NO_UNROLL
    for (uint64_t at = params.row * (begin + total) + dev_thread(); at < params.row * last; at += dev_threads()) {
      store_plain<uint8_t>(reinterpret_cast<char*>(params.rows) + at, 0);
    }
    DEV_NO_UNROLL
    for (uint64_t at = params.scales_bytes * (begin + total) + dev_thread(); params.scales != 0 && at < params.scales_bytes * last;
         at += dev_threads()) {
      store_plain<uint8_t>(reinterpret_cast<char*>(params.scales) + at, 0);
    }
  }
}
SIM_KERNEL(mscclpp_unpack_rows, MoveRows)

/// Packs rows in the order in which they were received.
KERNEL(kThreads) mscclpp_return_rows(KERNEL_PARAM MoveRows params) {
  const uint64_t count = received_rows(params.received, params.ranks);
  DEV_NO_UNROLL
  for (uint64_t i = dev_block(); i < count; i += dev_blocks()) {
    const uint64_t place = static_cast<uint64_t>(word_at(params.places, i));
    if (place >= params.room) continue;
    copy_row(reinterpret_cast<char*>(params.packed) + params.stride * i, reinterpret_cast<const char*>(params.rows) + params.row * place,
             params.row);
  }
  DEV_NO_UNROLL
  for (uint32_t rank = dev_thread(); dev_block() == 0 && rank < params.ranks; rank += dev_threads()) {
    set_word(params.returned, rank, kNothing);
  }
}
SIM_KERNEL(mscclpp_return_rows, MoveRows)

/// Argument of the kernels that combine rows.
struct CombineRows {
  /// The rows that have returned, in the order in which they were sent; their counts.
  uint64_t packed, returned;
  /// For each choice its row, or -1, and its weight.
  uint64_t sent_rows, weights;
  uint64_t output;
  uint64_t tokens, row, stride;
  uint32_t top_k, reserved;
};

namespace {

/// Adds up to 16 bytes of the rows of a token, from byte `at` on. Products and sums are rounded to f32, in the order of the choices.
template <typename T>
DEV void combine_part(const CombineRows& params, uint64_t token, uint64_t at, uint32_t bytes) {
  constexpr uint32_t kElements = 16 / sizeof(T);
  float sum[kElements] = {};
  DEV_NO_UNROLL
  for (uint32_t k = 0; k < params.top_k; ++k) {
    const uint64_t choice = token * params.top_k + k;
    const int64_t row = word_at(params.sent_rows, choice);
    if (row < 0) continue;
    const float weight = load_plain<float>(reinterpret_cast<const char*>(params.weights) + 4 * choice);
    const char* const from = reinterpret_cast<const char*>(params.packed) + params.stride * row + at;
    const Elements<T> values = {bytes == 16 ? load16(from) : load_part<Vec16>(from, bytes)};
#pragma unroll
    for (uint32_t e = 0; e < kElements; ++e) sum[e] = sum[e] + weight * Via<T, float>::widen(values.e[e]);
  }
  Elements<T> result;
#pragma unroll
  for (uint32_t e = 0; e < kElements; ++e) result.e[e] = Via<T, float>::narrow(sum[e]);
  char* const to = reinterpret_cast<char*>(params.output) + params.row * token + at;
  if (bytes == 16) return store_any(to, alignment_of(to), result.vec);
  store_part(to, bytes, result.vec);
}

template <typename T>
DEV void combine_rows(const CombineRows& params) {
  if (word_at(params.returned, 0) < 0) return;
  DEV_NO_UNROLL
  for (uint64_t token = dev_block(); token < params.tokens; token += dev_blocks()) {
    DEV_NO_UNROLL
    for (uint64_t at = 16ull * dev_thread(); at < params.row; at += 16ull * dev_threads()) {
      combine_part<T>(params, token, at, params.row - at < 16 ? static_cast<uint32_t>(params.row - at) : 16);
    }
  }
}

}  // namespace

#define MSCCLPP_COMBINE(name, T)                                                          \
  KERNEL(kThreads) name(KERNEL_PARAM CombineRows params) { combine_rows<T>(params); }     \
  SIM_KERNEL(name, CombineRows)

MSCCLPP_COMBINE(mscclpp_combine_rows_f32, float)
MSCCLPP_COMBINE(mscclpp_combine_rows_f16, F16)
MSCCLPP_COMBINE(mscclpp_combine_rows_bf16, BF16)
