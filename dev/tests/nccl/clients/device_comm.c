// Device communicators, of the structures of all versions of NCCL. The memory of simulated devices is memory of the host, so the
// client does with loads and stores what kernels do that are compiled with NVIDIA's headers.
//
// Usage: device_comm [one | nodes]; one: all ranks are in this process; nodes: each rank is on another node, and there are none.
#include "job.h"

enum { kMaxLocal = 4, kBarriers = 3, kHybrid = 2, kListed = 2, kWindowBytes = 3 << 16, kBlocks = 2, kMoreWindows = 40 };

typedef struct { int ranks, rank, stride; } team_t;
typedef struct { uint32_t unit, count; } handle_t;
typedef struct resource_s {
  struct resource_s* next;
  size_t bytes, align;
  uint32_t* out;
  int signals, counters;
  uint32_t *out_signals, *out_counters;
} resource_t;
typedef struct team_requirement_s {
  struct team_requirement_s* next;
  team_t team;
  char multimem;
  void** out;
} team_requirement_t;
typedef struct { uint64_t base, bytes, window; } entry_t;
typedef struct table_s {
  entry_t entries[32];
  struct table_s* next;
} table_t;
typedef struct {
  void* host;
  char* base;
  int local_rank, world_rank;
  uint32_t stride, multicast, network;
} window_t;

/// Where a version has the fields of its structures. `version` 0: without one.
typedef struct {
  const char* name;
  unsigned version;
  size_t requirements, comm, base, stride, multimem, barrier, hybrid;
} layout_t;

static const layout_t layouts[] = {
    {"2.28.9", 0, 56, 200, 48, 64, 112, 120, 0},      {"2.29.3", 22903, 72, 200, 48, 64, 112, 120, 0},
    {"2.29.7", 22907, 88, 224, 48, 64, 112, 120, 0},  {"2.30.7", 23007, 96, 240, 56, 72, 120, 128, 216},
    {"2.31.2", 23102, 120, 248, 48, 56, 72, 80, 176}, {"2.32.3", 23203, 120, 248, 48, 56, 72, 80, 176},
};

/// A rank in this process.
typedef struct {
  ncclComm_t comm;
  int rank;
  char* memory;
  window_t* window;
  uint64_t device[40];
  handle_t listed_barrier, slots;
  uint32_t buffer;
} local_t;

static local_t locals[kMaxLocal];
static int num_locals;
static const layout_t* layout;

#define EACH(l) for (local_t* l = locals; l < locals + num_locals; ++l)

static void expect(int expected, int found, const char* what, int line) {
  const char* text = ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0);
  if (expected != found || (found && !*text)) FAIL("line %d: %s: expected %d, found %d: %s", line, what, expected, found, text);
}
#define EXPECT_CODE(code, name, types, ...) expect(code, NCCL(name, types, __VA_ARGS__), #name, __LINE__)
#define CREATE (ncclComm_t, const void*, void*)
#define DESTROY (ncclComm_t, const void*)
#define WINDOW (ncclComm_t, void*, size_t, void**, int)

#define FIELD(type, at, offset) (*(type*)((char*)(at) + (offset)))

/// Offset of the fields that all versions have alike after the version.
static size_t begin(void) { return layout->version >= 23000 ? 8 : 0; }
static int field(local_t* l, int number) { return FIELD(int, l->device, begin() + 4 * number); }

/// Returns an address of a rank's resources, as kernels compute it.
static char* resource(local_t* l, uint32_t unit, int peer) {
  char* base = FIELD(char*, l->device, layout->base);
  return base + ((uint64_t)peer * FIELD(uint32_t, l->device, layout->stride) << 32) + (size_t)unit * 128;
}

static char* in_window(const window_t* window, size_t offset, int peer) {
  return window->base + ((uint64_t)peer * window->stride << 32) + offset;
}

/// Words of a barrier: epochs with and without multicast, an inbox with multicast, and one for each rank.
static uint32_t* epoch(local_t* l, handle_t barrier, int index) {
  return (uint32_t*)resource(l, barrier.unit, l->rank) + barrier.count + index;
}
static uint32_t* inbox(local_t* l, handle_t barrier, int index, int owner, int peer) {
  return (uint32_t*)resource(l, barrier.unit, owner) + 3 * barrier.count + index * ranks + peer;
}

/// Makes all ranks of this process arrive at a barrier, and then wait there.
static void synchronize_ranks(handle_t (*barrier)(local_t*), int index) {
  EACH(l) {
    uint32_t now = *epoch(l, barrier(l), index) + 1;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != l->rank) __atomic_store_n(inbox(l, barrier(l), index, peer, l->rank), now, __ATOMIC_RELEASE);
    }
  }
  EACH(l) {
    uint32_t now = *epoch(l, barrier(l), index) + 1;
    for (int peer = 0; peer < ranks; ++peer) {
      for (long spins = 0; peer != l->rank; ++spins) {
        uint32_t found = __atomic_load_n(inbox(l, barrier(l), index, l->rank, peer), __ATOMIC_ACQUIRE);
        if (found - now <= UINT32_MAX >> 1) break;
        if (spins > 20000) FAIL("rank %d: rank %d did not arrive at barrier %d, epoch %u", l->rank, peer, index, now);
        usleep(1000);
      }
    }
    *epoch(l, barrier(l), index) = now;
  }
}

static handle_t of_node(local_t* l) { return FIELD(handle_t, l->device, layout->barrier); }
static handle_t hybrid(local_t* l) { return FIELD(handle_t, l->device, layout->hybrid); }
static handle_t listed(local_t* l) { return l->listed_barrier; }

/// Looks a window up by an address in it, as kernels do; 0 if there is none.
static uint64_t look_up(local_t* l, const void* at) {
  for (table_t* table = FIELD(table_t*, l->device, begin() + 24); table; table = table->next) {
    for (int i = 0; i < 32; ++i) {
      entry_t e = table->entries[i];
      if (e.base && e.bytes && e.window && (uint64_t)at - e.base < e.bytes) return e.window;
    }
  }
  return 0;
}

/// Requirements, with the fields that all versions have at `fields`.
typedef struct { char bytes[120]; } requirements_t;
static char* fields(requirements_t* r) { return r->bytes + (layout->version ? 16 : 0); }

static requirements_t requirements(void) {
  requirements_t r = {{0}};
  if (layout->version) {
    FIELD(size_t, r.bytes, 0) = layout->requirements;
    FIELD(unsigned, r.bytes, 8) = 0xcafebeef;
    FIELD(unsigned, r.bytes, 12) = layout->version;
  }
  // A number of contexts is a hint, and traffic classes are undefined.
  FIELD(int, fields(&r), 44) = 4;
  if (layout->requirements >= 96) FIELD(int, fields(&r), 68) = INT_MIN;
  FIELD(int, fields(&r), 20) = layout->version >= 23000 ? kHybrid : 0;
  FIELD(int, fields(&r), 24) = kBarriers;
  return r;
}

static void create(void) {
  team_t team;
  resource_t list[kMaxLocal][3];
  requirements_t r[kMaxLocal];
  int slots = NCCL(ncclLLA2ACalcSlots, (int, int), 4, 12);
  if (slots != 8) FAIL("slots of 4 elements of 12 bytes: expected 8, found %d", slots);
  OK(ncclGroupStart, (void), );
  EACH(l) {
    resource_t* own = list[l - locals];
    team = ((team_t(*)(ncclComm_t))find(nccl_library, "ncclTeamLsa"))(l->comm);
    OK(ncclLsaBarrierCreateRequirement, (team_t, int, handle_t*, resource_t*), team, kListed, &l->listed_barrier, &own[0]);
    OK(ncclLLA2ACreateRequirement, (int, int, handle_t*, resource_t*), kBlocks, slots, &l->slots, &own[1]);
    own[2] = (resource_t){0, 1000, 4096, &l->buffer, 0, 0, 0, 0};
    own[0].next = &own[1], own[1].next = &own[2];
    r[l - locals] = requirements();
    FIELD(resource_t*, fields(&r[l - locals]), 0) = own;
    memset(l->device, 0xee, sizeof l->device);
    use_device(own_device() + l->rank - rank);
    OK(ncclDevCommCreate, CREATE, l->comm, &r[l - locals], l->device);
    // It is read before the group ends.
    memset(&r[l - locals], 0xff, sizeof r[0]), memset(own, 0xff, sizeof list[0]);
  }
  OK(ncclGroupEnd, (void), );
  EACH(l) {
    if (FIELD(uint64_t, l->device, layout->comm) != 0xeeeeeeeeeeeeeeee) FAIL("%s: written beyond its end", layout->name);
    int expected[] = {l->rank, ranks, 0, l->rank, ranks};
    for (int i = 0; i < 5; ++i) {
      if (i != 2 && field(l, i) != expected[i]) FAIL("%s: field %d: expected %d, found %d", layout->name, i, expected[i], field(l, i));
    }
    uint32_t reciprocal = field(l, 2);
    for (uint64_t x = 0; x < 100 && ranks > 1; ++x) {
      uint64_t quotient = x * reciprocal >> 32;
      if (x / ranks - quotient > 1) FAIL("%ld / %d: %ld", (long)x, ranks, (long)quotient);
    }
    if (begin() && FIELD(unsigned, l->device, 4) != layout->version) FAIL("version %u", FIELD(unsigned, l->device, 4));
    if (l->buffer * 128ul % 4096) FAIL("a resource at byte %lu", l->buffer * 128ul);
    if (l->slots.count != 8 || l->listed_barrier.count != kListed) FAIL("handles of other numbers");
    window_t* window = FIELD(window_t*, l->device, begin() + 32);
    if (resource(l, 0, l->rank) != in_window(window, 0, window->local_rank)) FAIL("the resource window differs from its copy");
    if (look_up(l, resource(l, l->buffer, l->rank)) != (uint64_t)window) FAIL("the resource window is not found");
  }
}

static void destroy(void) {
  EACH(l) OK(ncclDevCommDestroy, DESTROY, l->comm, l->device);
  EACH(l) EXPECT_CODE(4, ncclDevCommDestroy, DESTROY, l->comm, l->device);
}

static void barriers(void) {
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kBarriers; ++i) synchronize_ranks(of_node, i);
    for (int i = 0; i < kListed; ++i) synchronize_ranks(listed, i);
    for (int i = 0; layout->hybrid && i < kHybrid; ++i) synchronize_ranks(hybrid, i);
  }
  EACH(l) {
    // They started at zero, and none of the resources overlap.
    for (int i = 0; i < kBarriers; ++i) {
      if (*epoch(l, of_node(l), i) != 5) FAIL("epoch of barrier %d: expected 5, found %u", i, *epoch(l, of_node(l), i));
    }
    for (int i = 0; i < 1000; ++i) {
      if (resource(l, l->buffer, l->rank)[i]) FAIL("byte %d of a resource is not zero", i);
    }
  }
}

/// Every rank writes to the window and to the resources of every one.
static void puts_to_all(void) {
  // No rank writes before all have found zeros.
  synchronize_ranks(of_node, 0);
  EACH(l) {
    for (int peer = 0; peer < ranks; ++peer) {
      FIELD(int, in_window(l->window, 4096 * (l->rank + 1), peer), 0) = 1000 * peer + l->rank;
      FIELD(int, resource(l, l->buffer, peer), 4 * l->rank) = 100 * peer + l->rank;
      // A slot has two words with the epoch after each; it follows the epoch of its block and those of the other parity.
      uint32_t slot[] = {10 * peer + l->rank, 2, ~l->rank, 2};
      char* block = resource(l, l->slots.unit, peer) + 16 * (1 + 2 * l->slots.count);
      memcpy(block + 16 * (1 + l->rank), slot, sizeof slot);
    }
  }
  synchronize_ranks(of_node, 0);
  EACH(l) {
    for (int peer = 0; peer < ranks; ++peer) {
      int expected = 1000 * l->rank + peer, found = FIELD(int, l->memory, 4096 * (peer + 1));
      if (found != expected) FAIL("window, from rank %d: expected %d, found %d", peer, expected, found);
      found = FIELD(int, resource(l, l->buffer, l->rank), 4 * peer), expected = 100 * l->rank + peer;
      if (found != expected) FAIL("resource, from rank %d: expected %d, found %d", peer, expected, found);
      char* block = resource(l, l->slots.unit, l->rank) + 16 * (1 + 2 * l->slots.count);
      uint32_t *slot = (uint32_t*)(block + 16 * (1 + peer)), wanted[] = {10 * l->rank + peer, 2, ~peer, 2};
      if (memcmp(slot, wanted, sizeof wanted)) FAIL("slot of rank %d: found %u %u", peer, slot[0], slot[2]);
    }
    // What the owner writes, others read.
    FIELD(int, l->memory, 0) = 77 + l->rank + layout->version;
  }
  synchronize_ranks(of_node, 1);
  EACH(l) {
    for (int peer = 0; peer < ranks; ++peer) {
      int found = FIELD(int, in_window(l->window, 0, peer), 0), expected = 77 + peer + layout->version;
      if (found != expected) FAIL("window of rank %d: expected %d, found %d", peer, expected, found);
    }
  }
  synchronize_ranks(of_node, 2);
}

static void register_windows(void* memory[], size_t bytes, void* windows[]) {
  OK(ncclGroupStart, (void), );
  for (int i = 0; i < num_locals; ++i) {
    use_device(own_device() + locals[i].rank - rank);
    OK(ncclCommWindowRegister, WINDOW, locals[i].comm, memory[i], bytes, &windows[i], 1);
  }
  OK(ncclGroupEnd, (void), );
}

/// Windows that are registered after the device communicator, more than one table has.
static void more_windows(void) {
  static void *memory[kMoreWindows][kMaxLocal], *windows[kMoreWindows][kMaxLocal];
  for (int n = 0; n < kMoreWindows; ++n) {
    EACH(l) {
      use_device(own_device() + l->rank - rank);
      OK(ncclMemAlloc, (void**, size_t), &memory[n][l - locals], 8192);
    }
    register_windows(memory[n], 8192, windows[n]);
  }
  EACH(l) {
    for (int n = 0; n < kMoreWindows; ++n) {
      char* at = memory[n][l - locals];
      if (look_up(l, at + 8191) != (uint64_t)windows[n][l - locals]) FAIL("window %d is not found", n);
    }
    if (look_up(l, l->memory + kWindowBytes - 1) != (uint64_t)l->window) FAIL("the first window is not found");
    if (look_up(l, &layout)) FAIL("a window of memory of the host is found");
  }
  for (int n = kMoreWindows; n--;) {
    EACH(l) {
      OK(ncclCommWindowDeregister, (ncclComm_t, void*), l->comm, windows[n][l - locals]);
      if (look_up(l, memory[n][l - locals])) FAIL("window %d is found after its end", n);
    }
  }
  for (int n = 0; n < kMoreWindows; ++n) EACH(l) OK(ncclMemFree, (void*), memory[n][l - locals]);
}

/// Memory that is not physical: calls use the window, kernels cannot.
static void other_memory(void) {
  void *memory[kMaxLocal], *windows[kMaxLocal], *found;
  EACH(l) {
    use_device(own_device() + l->rank - rank);
    memory[l - locals] = (void*)(((uint64_t)device_memory(65536 + 4096) + 4095) / 4096 * 4096);
  }
  register_windows(memory, 65536, windows);
  EACH(l) {
    OK(ncclWinGetUserPtr, (ncclComm_t, void*, void**), l->comm, windows[l - locals], &found);
    if (found != memory[l - locals] || look_up(l, found)) FAIL("window of other memory");
    OK(ncclCommWindowDeregister, (ncclComm_t, void*), l->comm, windows[l - locals]);
  }
}

/// Multicast addresses, where the devices have them.
static void multicast(void) {
  int has = getenv("MSCCLPP_MOCK_MULTICAST") != 0;
  requirements_t r[kMaxLocal];
  team_requirement_t teams[kMaxLocal];
  void* bases[kMaxLocal];
  OK(ncclGroupStart, (void), );
  EACH(l) {
    int i = l - locals;
    teams[i] = (team_requirement_t){0, {ranks, l->rank, 1}, 1, &bases[i]};
    r[i] = requirements();
    FIELD(char, fields(&r[i]), 16) = 1;
    FIELD(team_requirement_t*, fields(&r[i]), 8) = &teams[i];
    use_device(own_device() + l->rank - rank);
    OK(ncclDevCommCreate, CREATE, l->comm, &r[i], l->device);
  }
  EXPECT_CODE(has ? 0 : 4, ncclGroupEnd, (void), );
  if (!has) return;
  EACH(l) {
    void *base = FIELD(void*, l->device, layout->multimem), *found, *again;
    if (!base || base != bases[l - locals]) FAIL("multicast base %p and %p", base, bases[l - locals]);
    OK(ncclGetLsaMultimemDevicePointer, (void*, size_t, void**), l->window, 64, &found);
    OK(ncclGetMultimemDevicePointer, (void*, size_t, void*, void**), l->window, 64, base, &again);
    char* computed = (char*)base + 4096ul * l->window->multicast + 64;
    if (computed != found || computed != again) FAIL("multicast address: computed %p, found %p and %p", computed, found, again);
    EXPECT_CODE(4, ncclGetMultimemDevicePointer, (void*, size_t, void*, void**), l->window, 0, 0, &again);
    EXPECT_CODE(4, ncclGetMultimemDevicePointer, (void*, size_t, void*, void**), l->window, 0, (char*)base + 4096, &again);
  }
  destroy();
}

static void wrong_arguments(void) {
  ncclComm_t comm = locals[0].comm;
  void* out = locals[0].device;
  requirements_t r = requirements();
  EXPECT_CODE(4, ncclDevCommCreate, CREATE, 0, &r, out);
  EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, 0, out);
  EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, (char*)&r + 4, out);
  EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, &r, 0);
  EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, &r, (char*)out + 1);
  if (layout->version) {
    FIELD(unsigned, r.bytes, 8) = 0xcafebeee;
    EXPECT_CODE(5, ncclDevCommCreate, CREATE, comm, &r, out);
    r = requirements(), FIELD(unsigned, r.bytes, 12) = 29900;
    EXPECT_CODE(5, ncclDevCommCreate, CREATE, comm, &r, out);
    r = requirements(), FIELD(size_t, r.bytes, 0) = 24;
    EXPECT_CODE(5, ncclDevCommCreate, CREATE, comm, &r, out);
    r = requirements(), FIELD(size_t, r.bytes, 0) = (size_t)-1;
    EXPECT_CODE(5, ncclDevCommCreate, CREATE, comm, &r, out);
  }
  // Counts below 0, and what needs a network.
  for (int at = 20; at < 40; at += 4) {
    r = requirements(), FIELD(int, fields(&r), at) = -1;
    EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, &r, out);
  }
  for (int at = 40; at < 60; at += at == 40 ? 8 : 4) {
    if (at == 56 && layout->requirements < 88) continue;
    r = requirements(), FIELD(int, fields(&r), at) = 1;
    EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, &r, out);
  }
  // Lists: not aligned, without an end, of signals, of too many bytes, aligned to no power of 2; another team.
  resource_t entry = {0};
  for (int wrong = 0; wrong < 5; ++wrong) {
    entry = (resource_t){wrong == 1 ? &entry : 0, wrong == 3 ? SIZE_MAX : 16, wrong == 4 ? 48 * 1024 : 0, 0, wrong == 2, 0, 0, 0};
    r = requirements(), FIELD(char*, fields(&r), 0) = (char*)&entry + (wrong == 0 ? 3 : 0);
    EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, &r, out);
  }
  team_requirement_t team = {0, {ranks + 1, 0, 1}, 1, 0};
  r = requirements(), FIELD(void*, fields(&r), 8) = &team;
  EXPECT_CODE(4, ncclDevCommCreate, CREATE, comm, &r, out);
  EXPECT_CODE(4, ncclDevCommDestroy, DESTROY, comm, 0);
  EXPECT_CODE(4, ncclDevCommDestroy, DESTROY, 0, out);
  uint64_t zeros[40] = {0}, ones[40];
  memset(ones, 0xff, sizeof ones);
  EXPECT_CODE(0, ncclDevCommDestroy, DESTROY, comm, zeros);
  EXPECT_CODE(4, ncclDevCommDestroy, DESTROY, comm, ones);
  FIELD(unsigned, ones, 0) = 0xcafebeef;
  EXPECT_CODE(5, ncclDevCommDestroy, DESTROY, comm, ones);
  handle_t handle;
  team_t whole = {ranks, rank, 1};
  EXPECT_CODE(4, ncclLsaBarrierCreateRequirement, (team_t, int, handle_t*, resource_t*), whole, -1, &handle, &entry);
  EXPECT_CODE(4, ncclLsaBarrierCreateRequirement, (team_t, int, handle_t*, resource_t*), whole, 1, 0, &entry);
  EXPECT_CODE(4, ncclLLA2ACreateRequirement, (int, int, handle_t*, resource_t*), 1, 1, &handle, 0);
  EXPECT_CODE(4, ncclLLA2ACreateRequirement, (int, int, handle_t*, resource_t*), 1, -1, &handle, &entry);
  // More bytes than 64-bit numbers have.
  const int most = 0x7fffffff;
  EXPECT_CODE(4, ncclLLA2ACreateRequirement, (int, int, handle_t*, resource_t*), most, most, &handle, &entry);
  const team_t many = {most, 0, 1};
  EXPECT_CODE(4, ncclLsaBarrierCreateRequirement, (team_t, int, handle_t*, resource_t*), many, most, &handle, &entry);
}

/// The properties say that there is a device interface.
static void properties(void) {
  uint64_t p[20] = {80, 0xcafebeef | 23007ul << 32};
  OK(ncclCommQueryProperties, (ncclComm_t, void*), locals[0].comm, p);
  if (FIELD(char, p, 32) != 1) FAIL("expected a device interface");
  int has_multicast = getenv("MSCCLPP_MOCK_MULTICAST") != 0;
  if (FIELD(char, p, 33) != has_multicast) FAIL("multicast: expected %d, found %d", has_multicast, FIELD(char, p, 33));
}

/// Ranks of several nodes have no device communicators, and calls use windows.
static int on_nodes(void) {
  setenv("MSCCLPP_HOST_ID", getenv("RANK"), 1);
  local_t* l = locals;
  l->comm = join(), l->rank = rank, num_locals = 1;
  layout = &layouts[3];
  uint64_t p[20] = {80, 0xcafebeef | 23007ul << 32};
  OK(ncclCommQueryProperties, (ncclComm_t, void*), l->comm, p);
  if (FIELD(char, p, 32)) FAIL("a device interface of %d nodes", ranks);
  requirements_t r = requirements();
  EXPECT_CODE(5, ncclDevCommCreate, CREATE, l->comm, &r, l->device);
  const char* text = ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0);
  if (!strstr(text, "2 nodes")) FAIL("%s", text);
  OK(ncclCommDestroy, (ncclComm_t), l->comm);
  printf("ok rank %d\n", rank);
  return 0;
}

/// PyTorch destroys what it has created when the process exits, after the communicator.
static void at_exit(void) { EXPECT_CODE(4, ncclDevCommDestroy, DESTROY, locals[0].comm, locals[0].device); }

int main(int count, char** arguments) {
  if (count > 1 && !strcmp(arguments[1], "nodes")) return on_nodes();
  if (count > 1 && !strcmp(arguments[1], "one")) {
    load();
    ranks = num_locals = kMaxLocal;
    ncclComm_t comms[kMaxLocal];
    OK(ncclCommInitAll, (ncclComm_t*, int, const int*), comms, ranks, 0);
    EACH(l) l->comm = comms[l - locals], l->rank = l - locals;
  } else {
    locals[0].comm = join();
    locals[0].rank = rank;
    num_locals = 1;
  }
  layout = &layouts[3];
  properties();
  void *memory[kMaxLocal], *windows[kMaxLocal];
  EACH(l) {
    use_device(own_device() + l->rank - rank);
    OK(ncclMemAlloc, (void**, size_t), (void**)&l->memory, kWindowBytes);
    memory[l - locals] = l->memory;
  }
  register_windows(memory, kWindowBytes, windows);
  EACH(l) {
    l->window = windows[l - locals];
    if (l->window->local_rank != l->rank || l->window->world_rank != l->rank) FAIL("ranks of the window");
  }
  for (size_t n = 0; n < sizeof layouts / sizeof *layouts; ++n) {
    layout = &layouts[n];
    for (int round = 0; round < 2; ++round) {
      create();
      barriers();
      puts_to_all();
      if (n == 3 && round == 0) more_windows(), other_memory();
      destroy();
    }
    multicast();
    wrong_arguments();
  }
  // One that is left is freed with the communicator.
  layout = &layouts[3];
  create();
  barriers();
  EACH(l) OK(ncclCommWindowDeregister, (ncclComm_t, void*), l->comm, l->window);
  EACH(l) OK(ncclMemFree, (void*), l->memory);
  EACH(l) OK(ncclCommDestroy, (ncclComm_t), l->comm);
  atexit(at_exit);
  printf("ok rank %d\n", rank);
  return 0;
}
