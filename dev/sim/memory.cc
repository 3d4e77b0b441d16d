// Memory as the coroutines of a launch see it: plain stores are weak.
//
// A plain store goes into a buffer of its thread. It reaches memory at any later time, before or after its neighbours (but
// never before an older one to the same bytes). A thread sees its own stores at once. A block sync moves the buffers of its
// threads to the block: all of the block see them then, others do not yet. A release by any thread of the block sends what
// the block has and what the thread has to memory first. So what is published by too weak an operation, or without a block
// sync, is found missing on the other side under some seed.
#include <cstring>
#include <utility>
#include <vector>

#include "dev_sim.h"

extern "C" {
/// Asks the host whether an address may be used; it remembers what may not.
bool sim_may_use(const void* at, uint32_t bytes, bool write);
/// A number below `bound` of the launch's seed.
uint32_t sim_random(uint32_t bound);
/// Tells the host of an access, if it wants to know.
void sim_record(const void* at, uint32_t bytes, uint32_t kind, uint64_t value);
/// Something changed that others may wait for.
void sim_progress();
/// The addresses behind a multicast address, at most `most`; how many there are. It remembers what is none.
uint32_t sim_members(const void* at, uint32_t bytes, bool write, uint64_t* addresses, uint32_t most);
/// Whether plain stores go to memory at once.
bool sim_is_strong();
thread_local SimThread* sim_thread = nullptr;
}

namespace {

/// Kinds of accesses, as in src/accesses.rs.
enum Kind : uint32_t { kLoad, kStore, kAcquireLoad, kRelaxedStore, kReleaseStore, kRelaxedAdd, kReleaseAdd, kSwap, kTableLoad, kTableUse };

struct Store {
  char* at;
  uint32_t bytes;
  unsigned char value[16];

  bool overlaps(const char* other, uint32_t len) const { return at < other + len && other < at + bytes; }
  void write() const { std::memcpy(at, value, bytes); }
};

using Stores = std::vector<Store>;

/// Stores that wait: of a block, and of its threads.
struct BlockStores {
  Stores block;
  std::vector<Stores> threads;
  /// Number of all of them. The host asks for it in each turn in which no thread makes progress.
  size_t waiting = 0;
};

BlockStores& block_stores() { return *static_cast<BlockStores*>(sim_thread->stores); }
Stores& own_stores() { return block_stores().threads[sim_thread->thread]; }

/// Stores that may wait in one buffer.
constexpr size_t kMost = 64;

/// Writes one store of a list, any that no older one to the same bytes precedes.
void write_one(BlockStores& of, Stores& stores) {
  if (stores.empty()) return;
  size_t pick = sim_random(static_cast<uint32_t>(stores.size()));
  for (size_t i = 0; i < pick; ++i) {
    if (stores[i].overlaps(stores[pick].at, stores[pick].bytes)) {
      pick = i;
      i = static_cast<size_t>(-1);
    }
  }
  stores[pick].write();
  stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(pick));
  --of.waiting;
  sim_progress();
}

void write_all(BlockStores& of, Stores& stores) {
  for (const Store& store : stores) store.write();
  if (!stores.empty()) sim_progress();
  of.waiting -= stores.size();
  stores.clear();
}

void see(const Stores& stores, const char* at, unsigned char* value, uint32_t bytes) {
  for (const Store& store : stores) {
    if (!store.overlaps(at, bytes)) continue;
    for (uint32_t i = 0; i < store.bytes; ++i) {
      std::ptrdiff_t to = store.at + i - at;
      if (to >= 0 && to < static_cast<std::ptrdiff_t>(bytes)) value[to] = store.value[i];
    }
  }
}

}  // namespace

extern "C" {

void* sim_new_stores(uint32_t threads) {
  BlockStores* stores = new BlockStores;
  stores->threads.resize(threads);
  return stores;
}

void sim_free_stores(void* stores) { delete static_cast<BlockStores*>(stores); }

/// Stores that have not reached memory.
size_t sim_waiting_stores(void* stores) { return static_cast<BlockStores*>(stores)->waiting; }

/// Lets one of a block's stores reach memory; whether there was one.
bool sim_write_one(void* stores) {
  BlockStores& of = *static_cast<BlockStores*>(stores);
  // The block's are older than its threads'.
  if (!of.block.empty()) {
    write_one(of, of.block);
    return true;
  }
  size_t start = sim_random(static_cast<uint32_t>(of.threads.size()));
  for (size_t i = 0; of.waiting > 0 && i < of.threads.size(); ++i) {
    Stores& thread = of.threads[(start + i) % of.threads.size()];
    if (!thread.empty()) {
      write_one(of, thread);
      return true;
    }
  }
  return false;
}

/// At a block sync: what a thread stored belongs to its block now.
void sim_share_stores() {
  Stores& own = own_stores();
  Stores& block = block_stores().block;
  block.insert(block.end(), own.begin(), own.end());
  own.clear();
}

static void load(const void* at, void* value, uint32_t bytes) {
  sim_record(at, bytes, kLoad, 0);
  std::memcpy(value, at, bytes);
  see(block_stores().block, static_cast<const char*>(at), static_cast<unsigned char*>(value), bytes);
  see(own_stores(), static_cast<const char*>(at), static_cast<unsigned char*>(value), bytes);
}

static void store(void* at, const void* value, uint32_t bytes) {
  sim_record(at, bytes, kStore, 0);
  sim_progress();
  if (sim_is_strong()) {
    std::memcpy(at, value, bytes);
    return;
  }
  Stores& own = own_stores();
  if (own.size() >= kMost) {
    // What the block has is older than what its threads have.
    write_all(block_stores(), block_stores().block);
    write_one(block_stores(), own);
  }
  Store store = {static_cast<char*>(at), bytes, {}};
  std::memcpy(store.value, value, bytes);
  own.push_back(store);
  ++block_stores().waiting;
}

void sim_load(const void* at, void* value, uint32_t bytes) {
  sim_yield(false);
  if (sim_may_use(at, bytes, false)) load(at, value, bytes);
  else std::memset(value, 0, bytes);
}

void sim_load_table(const void* at, void* value, uint32_t bytes) {
  if (!sim_may_use(at, bytes, false)) {
    std::memset(value, 0, bytes);
    return;
  }
  sim_record(at, bytes, kTableLoad, 0);
  std::memcpy(value, at, bytes);
}

void sim_use_table() { sim_record(nullptr, 0, kTableUse, 0); }

void sim_store(void* at, const void* value, uint32_t bytes) {
  sim_yield(false);
  if (sim_may_use(at, bytes, true)) store(at, value, bytes);
}

/// Members of a multicast address.
constexpr uint32_t kMostMembers = 64;

uint32_t sim_multicast_load(const void* at, void* values, uint32_t bytes, uint32_t most) {
  uint64_t members[kMostMembers];
  sim_yield(false);
  const uint32_t count = sim_members(at, bytes, false, members, most < kMostMembers ? most : kMostMembers);
  for (uint32_t m = 0; m < count; ++m) {
    // Any of those that are left: nobody says in which order a switch asks its members.
    std::swap(members[m], members[m + sim_random(count - m)]);
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
  if (!sim_may_use(at, bytes, false)) return 0;
  if (acquire) sim_record(at, bytes, kAcquireLoad, 0);
  if (bytes == 4) return __atomic_load_n(static_cast<const uint32_t*>(at), __ATOMIC_ACQUIRE);
  return __atomic_load_n(static_cast<const uint64_t*>(at), __ATOMIC_ACQUIRE);
}

static void before_release() {
  write_all(block_stores(), block_stores().block);
  write_all(block_stores(), own_stores());
}

void sim_store_word(void* at, uint64_t value, uint32_t bytes, bool release) {
  sim_yield(false);
  if (!sim_may_use(at, bytes, true)) return;
  sim_record(at, bytes, release ? kReleaseStore : kRelaxedStore, value);
  if (release) before_release();
  if (bytes == 4) __atomic_store_n(static_cast<uint32_t*>(at), static_cast<uint32_t>(value), __ATOMIC_RELEASE);
  else __atomic_store_n(static_cast<uint64_t*>(at), value, __ATOMIC_RELEASE);
  sim_progress();
}

uint64_t sim_add(void* at, uint64_t value, bool release) {
  sim_yield(false);
  if (!sim_may_use(at, 8, true)) return 0;
  sim_record(at, 8, release ? kReleaseAdd : kRelaxedAdd, value);
  if (release) before_release();
  sim_progress();
  return __atomic_fetch_add(static_cast<uint64_t*>(at), value, __ATOMIC_ACQ_REL);
}

uint64_t sim_compare_swap(void* at, uint64_t expected, uint64_t value, uint32_t bytes) {
  sim_yield(false);
  if (!sim_may_use(at, bytes, true)) return 0;
  sim_progress();
  if (bytes == 4) {
    uint32_t old = static_cast<uint32_t>(expected);
    __atomic_compare_exchange_n(static_cast<uint32_t*>(at), &old, static_cast<uint32_t>(value), false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    if (old == static_cast<uint32_t>(expected)) sim_record(at, bytes, kSwap, value);
    return old;
  }
  uint64_t old = expected;
  __atomic_compare_exchange_n(static_cast<uint64_t*>(at), &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  if (old == expected) sim_record(at, bytes, kSwap, value);
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
                               sim_multicast_store, sim_load_table, sim_use_table};

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
