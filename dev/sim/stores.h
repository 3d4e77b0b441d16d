// What the simulator keeps of memory for each block and thread: stores that have not reached memory, and what a wait polled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" {
/// A load of a thread that waits; as in src/launch/sleepers.rs.
struct SimPoll {
  const void* at;
  uint32_t bytes;
  unsigned char value[16];
};
}

struct Store {
  char* at;
  uint32_t bytes;
  unsigned char value[16];

  bool overlaps(const char* other, uint32_t len) const { return at < other + len && other < at + bytes; }
  bool covers(const char* other, uint32_t len) const { return at <= other && other + len <= at + bytes; }
};

/// Stores that may wait in the buffer of a thread.
constexpr size_t kMostStores = 64;

/// Stores that wait, the oldest first. Most loads are of lines that no store in the list touches: each line belongs to one of
/// `kSets` sets, and `Count` counts the stores that touch lines of a set.
template <size_t kSets, typename Count>
class Stores {
 public:
  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  const Store& operator[](size_t at) const { return list_[at]; }
  std::vector<Store>::const_iterator begin() const { return list_.begin(); }
  std::vector<Store>::const_iterator end() const { return list_.end(); }

  void add(const Store& store) {
    list_.push_back(store);
    count(store, 1);
  }

  void remove(size_t at) {
    count(list_[at], static_cast<Count>(-1));
    list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void clear() {
    for (const Store& store : list_) count(store, static_cast<Count>(-1));
    list_.clear();
  }

  /// The store that must be written before the one at `pick`, or itself: the first of those that lead to it by overlaps.
  size_t oldest_like(size_t pick) const {
    if (is_alone(list_[pick])) return pick;
    for (size_t i = 0; i < pick; ++i) {
      if (list_[i].overlaps(list_[pick].at, list_[pick].bytes)) {
        pick = i;
        i = static_cast<size_t>(-1);
      }
    }
    return pick;
  }

  /// Changes what memory has at an address to what a thread sees that sees these stores.
  void see(const char* at, unsigned char* value, uint32_t bytes) const {
    if (counts_[set_of(at)] == 0 && counts_[set_of(at + bytes - 1)] == 0) return;
    // What precedes a store to all of these bytes is not seen.
    size_t first = list_.size();
    while (first > 0 && !list_[--first].covers(at, bytes)) {
    }
    for (; first < list_.size(); ++first) {
      const Store& store = list_[first];
      if (!store.overlaps(at, bytes)) continue;
      for (uint32_t i = 0; i < store.bytes; ++i) {
        std::ptrdiff_t to = store.at + i - at;
        if (to >= 0 && to < static_cast<std::ptrdiff_t>(bytes)) value[to] = store.value[i];
      }
    }
  }

 private:
  /// No access touches more than two lines.
  static size_t set_of(const char* at) { return (reinterpret_cast<uintptr_t>(at) >> 4) % kSets; }

  void count(const Store& store, Count by) {
    const size_t first = set_of(store.at), last = set_of(store.at + store.bytes - 1);
    counts_[first] = static_cast<Count>(counts_[first] + by);
    if (last != first) counts_[last] = static_cast<Count>(counts_[last] + by);
  }

  /// Whether no other store touches a line of a set that this one touches.
  bool is_alone(const Store& store) const {
    return counts_[set_of(store.at)] == 1 && counts_[set_of(store.at + store.bytes - 1)] == 1;
  }

  std::vector<Store> list_;
  Count counts_[kSets] = {};
};

/// Stores of a thread: each counts twice at most.
using OwnStores = Stores<128, uint8_t>;
static_assert(2 * (kMostStores + 1) < 256, "they can be counted");

/// What a thread has loaded since it last stopped at a wait. If it does nothing else until it stops at the wait again, it would load the
/// same until one of these changes.
struct Polls {
  static constexpr uint32_t kMost = 16;
  static constexpr uint32_t kStopped = kMost + 1;

  uint32_t count = kStopped;
  /// Number of changes of the addresses that may be used, when it began.
  uint64_t version = 0;
  SimPoll list[kMost];

  void begin(uint64_t now) {
    count = 0;
    version = now;
  }
  void stop() { count = kStopped; }
  bool is_complete(uint64_t now) const { return count != 0 && count <= kMost && version == now; }

  void add(const void* at, const void* value, uint32_t bytes) {
    if (count >= kMost) return stop();
    SimPoll& poll = list[count++];
    poll.at = at;
    poll.bytes = bytes;
    std::memcpy(poll.value, value, bytes);
  }
};

struct ThreadMemory {
  OwnStores stores;
  Polls polls;
};

/// An allocation.
struct Piece {
  uint64_t first, len;
  bool has(uint64_t address, uint32_t bytes) const {
    return address >= first && address - first <= len && bytes <= len - (address - first);
  }
};

struct BlockMemory {
  explicit BlockMemory(uint32_t count) : threads(count) {}

  /// Stores that belong to the block: older than those of its threads.
  Stores<1024, uint32_t> stores;
  std::vector<ThreadMemory> threads;
  /// Number of all stores that wait.
  size_t waiting = 0;

  /// Allocations that were used last, of a version of the addresses that may be used.
  static constexpr uint32_t kPieces = 4;
  Piece pieces[kPieces] = {};
  uint32_t next_piece = 0;
  uint64_t version = 0;
};
