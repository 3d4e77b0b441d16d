// Memory as the coroutines of a launch see it: plain stores are weak.
//
// A plain store goes into a buffer of its thread. It reaches memory at any later time, before or after its neighbours (but
// never before an older one to the same bytes). A thread sees its own stores at once. A block sync moves the buffers of its
// threads to the block: all of the block see them then, others do not yet. A release by any thread of the block sends what
// the block has and what the thread has to memory first. So what is published by too weak an operation, or without a block
// sync, is found missing on the other side under some seed.
#include <cstring>
#include <utility>

#include "dev_sim.h"
#include "sim/stores.h"

extern "C" {
/// State of the kernels that run at once, the part that memory uses; as in src/launch/run.rs.
struct SimRun {
  /// State of the generator of the launch's seed.
  uint64_t random;
  /// A thread stops at one in this many accesses; 0: never.
  uint32_t stop_at_one_of;
  /// Whether plain stores are weak, and whether the host wants to know of accesses.
  bool weak, records;
  /// Whether anything has changed that others may wait for; the host resets it.
  bool progressed;
  /// Number of consecutive stops at waits, without any progress.
  uint64_t waits;
  /// Number of stores that have not reached memory.
  uint64_t waiting;
  /// Number of changes of the addresses that may be used.
  uint64_t version;
  /// Number of threads that sleep until what they polled changes.
  uint64_t asleep;
  /// Number of changes of bytes by kernels.
  uint64_t changes;
};

/// Finds the allocation with these bytes; the host remembers an access to what is none.
bool sim_allocation(const void* at, uint32_t bytes, bool write, uint64_t* first, uint64_t* len);
/// Suspends the coroutine. Returns when the host resumes it.
void sim_stop();
/// Suspends it at a wait; `count` loads are what it waits for a change of, and it sleeps if there are any.
void sim_wait(const SimPoll* polls, uint32_t count);
/// Tells the host of an access.
void sim_record(const void* at, uint32_t bytes, uint32_t kind, uint64_t value);
/// Tells the host that bytes changed, which a thread that sleeps may wait for.
void sim_wake(SimRun* run, const void* at, uint32_t bytes);
/// The addresses behind a multicast address, at most `most`; how many there are. It remembers what is none.
uint32_t sim_members(const void* at, uint32_t bytes, bool write, uint64_t* addresses, uint32_t most);
__thread SimThread* sim_thread = nullptr;
}

namespace {

/// The kernels that run on this OS thread.
__thread SimRun* run = nullptr;

/// Kinds of accesses, as in src/accesses.rs.
enum Kind : uint32_t { kLoad, kStore, kAcquireLoad, kRelaxedStore, kReleaseStore, kRelaxedAdd, kReleaseAdd, kSwap, kRelaxedLoad, kTableLoad, kUse };

BlockMemory& its_block() { return *static_cast<BlockMemory*>(sim_thread->stores); }
ThreadMemory& its_memory() { return its_block().threads[sim_thread->thread]; }

/// A number below `bound` of the launch's seed.
uint32_t random_below(uint32_t bound) {
  uint64_t& state = run->random;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return static_cast<uint32_t>((state >> 32) * bound >> 32);
}

void record(const void* at, uint32_t bytes, Kind kind, uint64_t value) {
  if (run->records) sim_record(at, bytes, kind, value);
}

/// Something changed that others may wait for.
void make_progress() {
  run->waits = 0;
  run->progressed = true;
}

/// Bytes of memory changed, or what a block sees of them.
void changed(const void* at, uint32_t bytes) {
  make_progress();
  ++run->changes;
  if (run->asleep != 0) sim_wake(run, at, bytes);
}

/// Whether an address may be used.
bool may_use(const void* at, uint32_t bytes, bool write) {
  BlockMemory& block = its_block();
  const uint64_t address = reinterpret_cast<uint64_t>(at);
  if (block.version == run->version) {
    for (const Piece& piece : block.pieces) {
      if (piece.has(address, bytes)) return true;
    }
  } else {
    block.version = run->version;
    for (Piece& piece : block.pieces) piece = {0, 0};
  }
  Piece& piece = block.pieces[block.next_piece];
  if (!sim_allocation(at, bytes, write, &piece.first, &piece.len)) return false;
  block.next_piece = (block.next_piece + 1) % BlockMemory::kPieces;
  return true;
}

void write(const Store& store) {
  copy(store.at(), store.value + store.first, store.bytes);
  changed(store.at(), store.bytes);
}

/// Writes one store of a list, any that no older one to the same bytes precedes.
template <typename Stores>
void write_one(BlockMemory& of, Stores& stores) {
  if (stores.empty()) return;
  write(stores.take_one(random_below));
  --of.waiting;
  --run->waiting;
}

template <typename Stores>
void write_all(BlockMemory& of, Stores& stores) {
  of.waiting -= stores.size();
  run->waiting -= stores.size();
  stores.take_all(write);
}

/// What a thread of a block sees at an address.
void view(const BlockMemory& block, const ThreadMemory& own, const void* at, void* value, uint32_t bytes) {
  copy(value, at, bytes);
  block.stores.see(static_cast<const char*>(at), static_cast<unsigned char*>(value), bytes);
  own.stores.see(static_cast<const char*>(at), static_cast<unsigned char*>(value), bytes);
}

/// Whether a thread of a block still sees what it saw when it polled.
bool is_unchanged(const BlockMemory& block, const ThreadMemory& own) {
  for (uint32_t i = 0; i < own.polls.count; ++i) {
    const SimPoll& poll = own.polls.list[i];
    unsigned char value[16];
    view(block, own, poll.at, value, poll.bytes);
    if (!are_equal(value, poll.value, poll.bytes)) return false;
  }
  return true;
}

void load(const void* at, void* value, uint32_t bytes) {
  record(at, bytes, kLoad, 0);
  view(its_block(), its_memory(), at, value, bytes);
}

void store(void* at, const void* value, uint32_t bytes) {
  record(at, bytes, kStore, 0);
  ThreadMemory& own = its_memory();
  own.polls.stop();
  if (!run->weak) {
    copy(at, value, bytes);
    changed(at, bytes);
    return;
  }
  make_progress();
  if (own.stores.size() >= kMostStores) {
    // What the block has is older than what its threads have.
    write_all(its_block(), its_block().stores);
    write_one(its_block(), own.stores);
  }
  const size_t before = own.stores.size();
  own.stores.add(static_cast<char*>(at), static_cast<const unsigned char*>(value), bytes);
  its_block().waiting += own.stores.size() - before;
  run->waiting += own.stores.size() - before;
}

void before_release() {
  write_all(its_block(), its_block().stores);
  write_all(its_block(), its_memory().stores);
}

}  // namespace

extern "C" {

/// Says which kernels run on this OS thread; null: none. Returns those before.
SimRun* sim_enter_run(SimRun* enters) { return std::exchange(run, enters); }

void* sim_new_stores(uint32_t threads) { return new BlockMemory(threads); }

void sim_free_stores(void* stores) { delete static_cast<BlockMemory*>(stores); }

/// Lets one of a block's stores reach memory; whether there was one.
bool sim_write_one(void* stores) {
  BlockMemory& of = *static_cast<BlockMemory*>(stores);
  // The block's are older than its threads'.
  if (!of.stores.empty()) {
    write_one(of, of.stores);
    return true;
  }
  size_t start = random_below(static_cast<uint32_t>(of.threads.size()));
  for (size_t i = 0; of.waiting > 0 && i < of.threads.size(); ++i) {
    OwnStores& own = of.threads[(start + i) % of.threads.size()].stores;
    if (!own.empty()) {
      write_one(of, own);
      return true;
    }
  }
  return false;
}

/// At a block sync: what a thread stored belongs to its block now.
void sim_share_stores() {
  ThreadMemory& own = its_memory();
  own.polls.stop();
  BlockMemory& block = its_block();
  own.stores.take_all([&block](const Store& store) {
    block.stores.add(store);
    changed(store.at(), store.bytes);
  });
}

/// Whether a thread of a block that sleeps sees something else than when it polled.
bool sim_sees_change(void* stores, uint32_t thread) {
  const BlockMemory& block = *static_cast<BlockMemory*>(stores);
  return !is_unchanged(block, block.threads[thread]);
}

void sim_yield(bool waiting) {
  if (!waiting) {
    if (run->stop_at_one_of != 0 && random_below(run->stop_at_one_of) == 0) sim_stop();
    return;
  }
  Polls& polls = its_memory().polls;
  const bool sleeps =
      polls.is_complete(run->version) && (polls.changes == run->changes || is_unchanged(its_block(), its_memory()));
  sim_wait(polls.list, sleeps ? polls.count : 0);
  polls.begin(run->version, run->changes);
}

void sim_load(const void* at, void* value, uint32_t bytes) {
  sim_yield(false);
  if (may_use(at, bytes, false)) {
    load(at, value, bytes);
    its_memory().polls.add(at, value, bytes);
  } else {
    std::memset(value, 0, bytes);
  }
}

void sim_load_table(const void* at, void* value, uint32_t bytes) {
  if (!may_use(at, bytes, false)) {
    std::memset(value, 0, bytes);
    return;
  }
  record(at, bytes, kTableLoad, 0);
  copy(value, at, bytes);
}

void sim_use() { record(nullptr, 0, kUse, 0); }

void sim_store(void* at, const void* value, uint32_t bytes) {
  sim_yield(false);
  if (may_use(at, bytes, true)) store(at, value, bytes);
}

/// Members of a multicast address.
constexpr uint32_t kMostMembers = 64;

uint32_t sim_multicast_load(const void* at, void* values, uint32_t bytes, uint32_t most) {
  uint64_t members[kMostMembers];
  sim_yield(false);
  its_memory().polls.stop();
  const uint32_t count = sim_members(at, bytes, false, members, most < kMostMembers ? most : kMostMembers);
  for (uint32_t m = 0; m < count; ++m) {
    // Any of those that are left: nobody says in which order a switch asks its members.
    std::swap(members[m], members[m + random_below(count - m)]);
    load(reinterpret_cast<const void*>(members[m]), static_cast<char*>(values) + m * bytes, bytes);
    sim_yield(false);
  }
  return count;
}

void sim_multicast_store(void* at, const void* value, uint32_t bytes) {
  uint64_t members[kMostMembers];
  sim_yield(false);
  const uint32_t count = sim_members(at, bytes, true, members, kMostMembers);
  for (uint32_t m = 0; m < count; ++m) store(reinterpret_cast<void*>(members[m]), value, bytes);
}

uint64_t sim_load_word(const void* at, uint32_t bytes, bool acquire) {
  if (!may_use(at, bytes, false)) return 0;
  record(at, bytes, acquire ? kAcquireLoad : kRelaxedLoad, 0);
  uint64_t value = bytes == 4 ? __atomic_load_n(static_cast<const uint32_t*>(at), __ATOMIC_ACQUIRE)
                              : __atomic_load_n(static_cast<const uint64_t*>(at), __ATOMIC_ACQUIRE);
  its_memory().polls.add(at, &value, bytes);
  return value;
}

void sim_store_word(void* at, uint64_t value, uint32_t bytes, bool release) {
  sim_yield(false);
  if (!may_use(at, bytes, true)) return;
  record(at, bytes, release ? kReleaseStore : kRelaxedStore, value);
  its_memory().polls.stop();
  if (release) before_release();
  if (bytes == 4) __atomic_store_n(static_cast<uint32_t*>(at), static_cast<uint32_t>(value), __ATOMIC_RELEASE);
  else __atomic_store_n(static_cast<uint64_t*>(at), value, __ATOMIC_RELEASE);
  changed(at, bytes);
}

uint64_t sim_add(void* at, uint64_t value, bool release) {
  sim_yield(false);
  if (!may_use(at, 8, true)) return 0;
  record(at, 8, release ? kReleaseAdd : kRelaxedAdd, value);
  its_memory().polls.stop();
  if (release) before_release();
  const uint64_t old = __atomic_fetch_add(static_cast<uint64_t*>(at), value, __ATOMIC_ACQ_REL);
  changed(at, 8);
  return old;
}

uint64_t sim_compare_swap(void* at, uint64_t expected, uint64_t value, uint32_t bytes) {
  sim_yield(false);
  if (!may_use(at, bytes, true)) return 0;
  its_memory().polls.stop();
  uint64_t old = expected;
  if (bytes == 4) {
    uint32_t word = static_cast<uint32_t>(expected);
    __atomic_compare_exchange_n(static_cast<uint32_t*>(at), &word, static_cast<uint32_t>(value), false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    old = word;
    expected = static_cast<uint32_t>(expected);
  } else {
    __atomic_compare_exchange_n(static_cast<uint64_t*>(at), &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
  if (old != expected) {
    make_progress();
    return old;
  }
  record(at, bytes, kSwap, value);
  changed(at, bytes);
  return old;
}

/// Runs a kernel in the coroutine at hand.
void sim_enter(SimThread* thread, const SimKernel* kernel, const void* argument) {
  sim_thread = thread;
  kernel->run(argument);
}

/// Says which coroutine runs.
void sim_resume(SimThread* thread) { sim_thread = thread; }

SimThread** sim_self() { return &sim_thread; }

/// For kernels that are loaded.
extern const SimHost sim_functions;
const SimHost sim_functions = {sim_self,      sim_yield,      sim_meet, sim_now,         sim_shared, sim_load, sim_store,
                               sim_load_word, sim_store_word, sim_add,  sim_compare_swap, sim_multicast_load,
                               sim_multicast_store, sim_load_table, sim_use, sim_fail};

extern const SimModule sim_modules[];

/// A kernel of a module; null if there is none.
const SimKernel* sim_find(const char* module, const char* name) {
  for (const SimModule* m = sim_modules; m->name != nullptr; ++m) {
    if (std::strcmp(m->name, module) != 0) continue;
    for (const SimKernel* k = m->kernels; k->name != nullptr; ++k) {
      if (std::strcmp(k->name, name) == 0) return k;
    }
  }
  return nullptr;
}
}
