// What the simulator keeps of memory for each block and thread: stores that have not reached memory, and what a wait polled.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

extern "C" {
/// A load of a thread that waits; as in src/launch/sleepers.rs.
struct SimPoll {
  const void* at;
  uint32_t bytes;
  unsigned char value[16];
};
}

/// Copies the bytes of an access: of nearly all, a number that needs no call.
inline void copy(void* to, const void* from, uint32_t bytes) {
  switch (bytes) {
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    case 16: std::memcpy(to, from, 16); break;
    default: std::memcpy(to, from, bytes);
  }
}

inline bool are_equal(const void* one, const void* other, uint32_t bytes) {
  switch (bytes) {
    case 4: return std::memcmp(one, other, 4) == 0;
    case 8: return std::memcmp(one, other, 8) == 0;
    case 16: return std::memcmp(one, other, 16) == 0;
    default: return std::memcmp(one, other, bytes) == 0;
  }
}

/// Bytes of a line of memory.
constexpr uint32_t kLine = 16;

/// A store, or its part in one line. Stores that devices make are aligned, so that each is in one line.
struct Store {
  /// Address of the line, divided by its length.
  uint64_t line;
  /// The next older store in the same set.
  uint32_t older;
  /// Bytes of the line that it changes; 0: it has reached memory.
  uint16_t mask;
  uint8_t first, bytes;
  /// Values at their places in the line.
  unsigned char value[kLine];

  bool overlaps(const Store& other) const { return line == other.line && (mask & other.mask) != 0; }
  char* at() const { return reinterpret_cast<char*>(line * kLine + first); }

  /// Bytes of a line from one on.
  static uint32_t bytes_from(uint32_t first, uint32_t bytes) { return ((1u << bytes) - 1) << first; }
};

/// Stores that may wait in the buffer of a thread.
constexpr size_t kMostStores = 64;

/// Most places of stores that have reached memory, beyond the number of those that wait.
constexpr size_t kFree = 32;

/// Stores that wait, in the order in which they were made. Each line belongs to one of `kSets` sets, whose stores form a chain, the
/// newest first: loads look at these alone, of which there are few even if thousands wait.
template <size_t kSets, typename Index>
class Stores {
 public:
  Stores() { std::fill_n(newest_, kSets, kNone); }

  bool empty() const { return waiting_ == 0; }
  size_t size() const { return waiting_; }

  /// Adds a store, or the parts of one that touches two lines.
  void add(const char* at, const unsigned char* value, uint32_t bytes) {
    const uint64_t address = reinterpret_cast<uint64_t>(at);
    const uint32_t first = address % kLine, here = std::min(bytes, kLine - first);
    Store store = {address / kLine, 0, static_cast<uint16_t>(Store::bytes_from(first, here)), static_cast<uint8_t>(first),
                   static_cast<uint8_t>(here), {}};
    copy(store.value + first, value, here);
    add(store);
    if (here < bytes) add(at + here, value + here, bytes - here);
  }

  void add(const Store& store) {
    list_.push_back(store);
    link(static_cast<Index>(list_.size() - 1));
    ++waiting_;
  }

  /// Calls a function with each store, the oldest first, and removes all.
  template <typename Take>
  void take_all(Take take) {
    for (const Store& store : list_) {
      if (store.mask == 0) continue;
      newest_[set_of(store.line)] = kNone;
      take(store);
    }
    list_.clear();
    waiting_ = 0;
  }

  /// Removes a random store that no older one to the same bytes precedes. `random_below` returns a number below its argument.
  template <typename Random>
  Store take_one(Random random_below) {
    Index pick;
    do {
      pick = static_cast<Index>(random_below(static_cast<uint32_t>(list_.size())));
    } while (list_[pick].mask == 0);
    pick = oldest_like(pick);
    const Store taken = list_[pick];
    unlink(pick);
    --waiting_;
    if (waiting_ == 0) list_.clear();
    else if (list_.size() > 2 * waiting_ + kFree) compact();
    return taken;
  }

  /// Changes what memory has at an address to what a thread sees that sees these stores.
  void see(const char* at, unsigned char* value, uint32_t bytes) const {
    if (waiting_ == 0) return;
    const uint64_t address = reinterpret_cast<uint64_t>(at);
    const uint32_t first = address % kLine, here = std::min(bytes, kLine - first);
    see_line(address / kLine, first, value, here);
    if (here < bytes) see(at + here, value + here, bytes - here);
  }

 private:
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  static size_t set_of(uint64_t line) { return line % kSets; }

  void link(Index at) {
    Index& newest = newest_[set_of(list_[at].line)];
    list_[at].older = newest;
    newest = at;
  }

  void unlink(Index at) {
    Store& store = list_[at];
    Index& newest = newest_[set_of(store.line)];
    if (newest == at) {
      newest = static_cast<Index>(store.older);
    } else {
      size_t newer = newest;
      while (list_[newer].older != at) newer = list_[newer].older;
      list_[newer].older = store.older;
    }
    store.mask = 0;
  }

  /// Removes the places of stores that have reached memory.
  void compact() {
    std::vector<Store> all;
    all.swap(list_);
    for (const Store& store : all) newest_[set_of(store.line)] = kNone;
    for (const Store& store : all) {
      if (store.mask == 0) continue;
      list_.push_back(store);
      link(static_cast<Index>(list_.size() - 1));
    }
  }

  /// The store that must be written before the one at `pick`, or itself: the first of those that lead to it by overlaps.
  Index oldest_like(Index pick) const {
    for (Index found = pick;; pick = found) {
      for (size_t i = list_[pick].older; i != kNone; i = list_[i].older) {
        if (list_[i].overlaps(list_[pick])) found = static_cast<Index>(i);
      }
      if (found == pick) return pick;
    }
  }

  void see_line(uint64_t line, uint32_t first, unsigned char* value, uint32_t bytes) const {
    const uint32_t all = Store::bytes_from(first, bytes);
    uint32_t missing = all;
    for (size_t i = newest_[set_of(line)]; i != kNone; i = list_[i].older) {
      const Store& store = list_[i];
      const uint32_t found = store.line == line ? store.mask & missing : 0;
      if (found == 0) continue;
      if (found == all) {
        copy(value, store.value + first, bytes);
        return;
      }
      for (uint32_t byte = 0; byte < bytes; ++byte) {
        if (found >> (first + byte) & 1) value[byte] = store.value[first + byte];
      }
      missing &= ~found;
      if (missing == 0) return;
    }
  }

  /// Those that wait, and places of some that have reached memory.
  std::vector<Store> list_;
  size_t waiting_ = 0;
  /// The newest store of each set.
  Index newest_[kSets];
};

/// Stores of a thread, of which an index has one byte.
using OwnStores = Stores<128, uint8_t>;
static_assert(2 * (kMostStores + 2) + kFree < 255, "they can be numbered");

/// What a thread has loaded since it last stopped at a wait. If it does nothing else until it stops at the wait again, it would load the
/// same until one of these changes.
struct Polls {
  static constexpr uint32_t kMost = 16;
  static constexpr uint32_t kStopped = kMost + 1;

  uint32_t count = kStopped;
  /// Number of changes of the addresses that may be used, and of bytes by kernels, when it began.
  uint64_t version = 0, changes = 0;
  SimPoll list[kMost];

  void begin(uint64_t current_version, uint64_t current_changes) {
    count = 0;
    version = current_version;
    changes = current_changes;
  }
  void stop() { count = kStopped; }
  bool is_complete(uint64_t now) const { return count != 0 && count <= kMost && version == now; }

  void add(const void* at, const void* value, uint32_t bytes) {
    if (count >= kMost) return stop();
    SimPoll& poll = list[count++];
    poll.at = at;
    poll.bytes = bytes;
    copy(poll.value, value, bytes);
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
