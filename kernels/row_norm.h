// Row norms: adds the residual to every row of a chunk, and normalizes it. The arithmetic is that of
// mscclpp-base/src/numeric/row_norm.rs, bit for bit; the host's counterpart is mscclpp-base/src/interpret/rows.rs.
//
// Which partial sum takes an element, and how partial sums are combined, depends on the place in the row alone. A team of up to 256 threads
// processes a row, so that a partial sum belongs to one thread; teams of one block process consecutive rows at the same time.
#pragma once
#include "counts.h"
#include "reduce.h"

namespace mscclpp {

/// Number of partial sums of squares.
constexpr uint32_t kRowPartials = 256;

/// Partial sums are combined in two steps of 16 numbers: first those whose numbers are equal modulo this one.
constexpr uint32_t kRowColumns = 16;

/// Types of elements of which rows are normalized.
template <typename T>
constexpr bool kHasRows = false;
template <>
inline constexpr bool kHasRows<float> = true;
template <>
inline constexpr bool kHasRows<F16> = true;
template <>
inline constexpr bool kHasRows<BF16> = true;

/// What the threads of a team exchange.
struct RowPartials {
  float partial[kRowPartials];
  float column[kRowColumns];
};

/// The row of a team.
struct RowPlace {
  const char* from;
  char* to;
  /// Its number in the rank's output, which is that in the operands.
  uint64_t number;
  /// Its vectors; 0 if the team has no row.
  uint64_t vectors;
};

constexpr uint32_t kRowTeams = kMaxThreads / kRowPartials;

/// What the norms of a block need, read again wherever it is needed: the interpreter has no registers left for it.
struct RowState {
  alignas(16) RowParams params;
  /// Threads of a team, a power of two, so that the vectors of a partial sum belong to one thread; and number of teams. Further threads
  /// are a team without rows.
  uint32_t threads, teams;
  /// The operands, and the bytes of them that are processed.
  uint32_t src, dst;
  uint64_t at, len;
  /// For even and odd turns.
  RowPlace places[2][kRowTeams];
  RowPartials partials[kRowTeams];
};

DEV RowState& row_state() {
  SHARED(RowState, the_state, 1);
  return the_state[0];
}

/// The thread's team, and its number there.
DEV uint32_t row_team() { return dev_thread() / row_state().threads; }
DEV uint32_t row_thread() { return dev_thread() % row_state().threads; }
DEV RowPartials& row_partials() { return row_state().partials[row_team()]; }

DEV RowPlace& row_place(uint32_t turn) { return row_state().places[turn][row_team()]; }

/// Puts what the rank passes into the state, and the rows in `len` bytes from byte `at` on of operand `src`, for operand `dst`. Called by: all
/// threads of the block. Syncs: block, at entry and at exit.
DEV_CALL void begin_rows(const LaunchParams& launch, uint32_t src, uint32_t dst, uint64_t at, uint64_t len) {
  constexpr uint32_t kWords = sizeof(RowParams) / 8;
  dev_sync();
  // The number of the first rank that passes something comes before what the ranks pass.
  const uint32_t first = 2 * launch.num_ranks;
  const uint32_t number = cache().own.rank - static_cast<uint32_t>(launch_word(launch, first));
  DEV_NO_UNROLL
  for (uint32_t word = dev_thread(); word < kWords; word += dev_threads()) {
    reinterpret_cast<uint64_t*>(&row_state().params)[word] = launch_word(launch, first + 1 + kWords * number + word);
  }
  if (dev_thread() == 0) {
    uint32_t threads = kRowPartials;
    while (threads > dev_threads()) threads /= 2;
    RowState& state = row_state();
    state.threads = threads;
    state.teams = dev_threads() / threads;
    state.src = src, state.dst = dst, state.at = at, state.len = len;
  }
  dev_sync();
}

/// Finds the row of the thread's team, `done` bytes after the first one. Called by: the first thread of the team.
DEV_CALL void find_row(const LaunchParams& launch, uint64_t done, uint32_t turn) {
  const RowState& state = row_state();
  RowPlace& place = row_place(turn);
  const uint64_t bytes = state.params.row, first = done + row_team() * bytes;
  place.vectors = 0;
  if (row_team() >= state.teams || first >= state.len) return;
  const Span from = span_at(launch, state.src, state.at + first, bytes), to = span_at(launch, state.dst, state.at + first, bytes);
  const uint64_t output = launch_word(launch, 2 * cache().own.rank + 1), room = launch.output.len;
  const uint64_t before = reinterpret_cast<uint64_t>(to.at) - output;
  place.from = from.at;
  place.to = to.at;
  place.number = before / bytes;
  // The last rows of a chunk may be padding.
  if (from.len == bytes && to.len == bytes && before <= room && room - before >= bytes) place.vectors = bytes / 16;
}

/// Combines numbers with those `kHalf` places after them, then half as many, until one is left.
template <uint32_t kHalf, typename Combine>
DEV void fold_halves(float (&value)[kRowColumns], const Combine& combine) {
#pragma unroll
  for (uint32_t i = 0; i < kHalf; ++i) value[i] = combine(value[i], value[i + kHalf]);
  if constexpr (kHalf > 1) fold_halves<kHalf / 2>(value, combine);
}

/// Combines the second half of 16 numbers with the first, until one is left.
template <typename Load, typename Combine>
DEV float fold_column(const Load& load, const Combine& combine) {
  float value[kRowColumns];
#pragma unroll
  for (uint32_t i = 0; i < kRowColumns; ++i) value[i] = load(i);
  fold_halves<kRowColumns / 2>(value, combine);
  return value[0];
}

/// Combines the second half of the team's partials with the first, until one is left, and returns it: the sum, or the largest if `kLargest`.
/// Called by: all threads of the block. Syncs: block, twice: the partials may be written again afterwards.
template <bool kLargest>
DEV_CALL float fold_partials() {
  const auto combine = [](float a, float b) { return kLargest ? (a > b ? a : b) : a + b; };
  RowPartials& own = row_partials();
  dev_sync();
  DEV_NO_UNROLL
  for (uint32_t c = row_thread(); c < kRowColumns; c += row_state().threads) {
    own.column[c] = fold_column([&](uint32_t i) { return own.partial[kRowColumns * i + c]; }, combine);
  }
  dev_sync();
  return fold_column([&](uint32_t i) { return own.column[i]; }, combine);
}

/// The elements of a vector.
template <typename T>
union RowVector {
  Vec16 vec;
  T e[16 / sizeof(T)];
};

DEV Vec16 load_row(const char* at) { return load_any<Vec16>(at, alignment_of(at)); }
DEV void store_row(char* at, const Vec16& vec) { store_any(at, alignment_of(at), vec); }

/// Stores the elements of a vector as e4m3.
template <typename T>
DEV void store_quantized(char* at, const RowVector<T>& row, float factor) {
  constexpr uint32_t kCount = 16 / sizeof(T);
  union {
    typename Bits<kCount>::Type word;
    uint8_t e[kCount];
  } to;
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) to.e[i] = encode_fp8<4, 3, 0x7e>(Via<T, float>::widen(row.e[i]) * factor);
  if (alignment_of(at) >= kCount) return store_plain(at, to.word);
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) store_plain<uint8_t>(at + i, to.e[i]);
}

/// The passes over the row of a team. `kKept`: vectors of a row that each thread keeps in registers, at most; 0: it reads those again that it
/// has stored. A thread reads and writes the vectors of its partial sums alone. Called by: all threads of the block.
template <typename T, uint32_t kKept>
struct RowPasses {
  static constexpr uint32_t kElements = 16 / sizeof(T), kVectors = kKept > 0 ? kKept : 1;
  using Vector = RowVector<T>;
  const RowPlace& place;
  Vector kept[kVectors];

  DEV static float widen(T value) { return Via<T, float>::widen(value); }
  DEV static T narrow(float value) { return Via<T, float>::narrow(value); }

  /// Calls `visit(k, byte)` for each vector of the thread, of which `kept[k]` is for its elements.
  template <typename Visit>
  DEV void each(const Visit& visit) {
    if constexpr (kKept > 0) {
#pragma unroll
      for (uint32_t k = 0; k < kKept; ++k) {
        const uint32_t v = row_thread() + k * row_state().threads;
        if (v < place.vectors) visit(k, 16ull * v);
      }
    } else {
      DEV_NO_UNROLL
      for (uint64_t v = row_thread(); v < place.vectors; v += row_state().threads) visit(0u, 16 * v);
    }
  }

  /// Bytes of the operands with elements of the type before the row.
  DEV uint64_t before() const { return place.number * row_state().params.row; }

  /// Adds the residual, stores the sums, and adds the squares to the partial sums.
  DEV void add() {
    float* const partials = row_partials().partial;
    DEV_NO_UNROLL
    for (uint32_t j = row_thread(); j < kRowPartials; j += row_state().threads) partials[j] = 0;
    // All loads of a row that is kept are in flight at once.
    Vector others[kVectors] = {};
    const auto load = [&](uint32_t k, uint64_t i) {
      kept[k].vec = load_row(place.from + i);
      const char* const residual = reinterpret_cast<const char*>(row_state().params.residual);
      if (residual != nullptr) others[k].vec = load_row(residual + before() + i);
    };
    if constexpr (kKept > 0) each(load);
    each([&](uint32_t k, uint64_t i) {
      if constexpr (kKept == 0) load(k, i);
      if (row_state().params.residual != 0) {
#pragma unroll
        for (uint32_t e = 0; e < kElements; ++e) kept[k].e[e] = narrow(widen(kept[k].e[e]) + widen(others[k].e[e]));
      }
      float partial = partials[i / 16 % kRowPartials];
#pragma unroll
      for (uint32_t e = 0; e < kElements; ++e) partial += widen(kept[k].e[e]) * widen(kept[k].e[e]);
      partials[i / 16 % kRowPartials] = partial;
      char* const sums = reinterpret_cast<char*>(row_state().params.residual_out);
      if (sums != nullptr) store_row(sums + before() + i, kept[k].vec);
      if (kKept == 0 || !row_state().params.normalizes) store_row(place.to + i, kept[k].vec);
    });
  }

  /// Normalizes the sums.
  DEV void normalize() {
    const float sum = fold_partials<false>();
    const float mean = dev_divide(sum, static_cast<float>(row_state().params.row / sizeof(T)));
    const float inverse = dev_divide(1.0f, dev_sqrt(mean + float_of_bits(row_state().params.eps)));
    each([&](uint32_t k, uint64_t i) {
      if constexpr (kKept == 0) kept[k].vec = load_row(place.to + i);
      const char* const gamma = reinterpret_cast<const char*>(row_state().params.gamma);
      if (gamma == nullptr) {
#pragma unroll
        for (uint32_t e = 0; e < kElements; ++e) kept[k].e[e] = narrow(widen(kept[k].e[e]) * inverse);
      } else {
        const float bias = float_of_bits(row_state().params.bias);
        const Vector factor = {load_row(gamma + i)};
#pragma unroll
        for (uint32_t e = 0; e < kElements; ++e) {
          kept[k].e[e] = narrow((widen(kept[k].e[e]) * inverse) * (bias + widen(factor.e[e])));
        }
      }
      store_row(place.to + i, kept[k].vec);
    });
  }

  /// Finds and stores the row's scale. Returns: its inverse.
  DEV float find_scale() {
    float largest = 0;
    each([&](uint32_t k, uint64_t i) {
      if constexpr (kKept == 0) kept[k].vec = load_row(place.to + i);
#pragma unroll
      for (uint32_t e = 0; e < kElements; ++e) {
        const float value = widen(kept[k].e[e]), magnitude = value < 0 ? -value : value;
        // NaN is left out.
        if (magnitude > largest) largest = magnitude;
      }
    });
    DEV_NO_UNROLL
    for (uint32_t j = row_thread(); j < kRowPartials; j += row_state().threads) row_partials().partial[j] = largest;
    largest = fold_partials<true>();
    const float least = 1.0f / (512.0f * 448.0f), scale = dev_divide(largest, 448.0f);
    const float used = scale > least ? scale : least;
    char* const scales = reinterpret_cast<char*>(row_state().params.scales);
    if (place.vectors != 0 && row_thread() == 0) store_plain<float>(scales + 4 * place.number, used);
    return dev_divide(1.0f, used);
  }

  /// Returns: what quantized rows are multiplied by, unless each has a scale of its own.
  DEV float factor() {
    const char* const scale = reinterpret_cast<const char*>(row_state().params.scale);
    return scale != nullptr ? dev_divide(1.0f, load_plain<float>(scale)) : float_of_bits(row_state().params.factor);
  }

  DEV void quantize() {
    const float factor = row_state().params.scales != 0 ? find_scale() : this->factor();
    each([&](uint32_t k, uint64_t i) {
      if constexpr (kKept == 0) kept[k].vec = load_row(place.to + i);
      char* const quantized = reinterpret_cast<char*>(row_state().params.quantized);
      store_quantized<T>(quantized + (before() + i) / sizeof(T), kept[k], factor);
    });
  }
};

/// The passes over a row of which no vector is kept. Calls, of which each has almost all registers.
template <typename T>
struct SeparatePasses {
  uint32_t turn;

  DEV_CALL static void add(uint32_t turn) { RowPasses<T, 0>{row_place(turn), {}}.add(); }
  DEV_CALL static void normalize(uint32_t turn) { RowPasses<T, 0>{row_place(turn), {}}.normalize(); }
  DEV_CALL static void quantize(uint32_t turn) { RowPasses<T, 0>{row_place(turn), {}}.quantize(); }

  DEV void add() const { add(turn); }
  DEV void normalize() const { normalize(turn); }
  DEV void quantize() const { quantize(turn); }
};

/// Normalizes the rows of which `begin_rows` was called. `passes(turn)`: the passes over a row. Called by: all threads of the block. Syncs:
/// block.
template <typename Passes>
DEV void norm_rows(const LaunchParams& launch, const Passes& passes) {
  uint32_t turn = 0;
  DEV_NO_UNROLL
  for (uint64_t done = 0; done < row_state().len; done += row_state().teams * row_state().params.row) {
    if (row_thread() == 0) find_row(launch, done, turn);
    dev_sync();
    auto row = passes(turn);
    row.add();
    if (row_state().params.normalizes) row.normalize();
    if (row_state().params.quantized != 0) row.quantize();
    turn ^= 1;
  }
}

}  // namespace mscclpp
