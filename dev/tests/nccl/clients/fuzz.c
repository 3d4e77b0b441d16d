// Random calls with random arguments, valid and invalid ones mixed: each returns a code of NCCL's. `argv[1]` is the seed.
#include "client.h"

static uint64_t state;

static uint64_t next(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

static char* memory;  // On the device.
static char host[4096] __attribute__((aligned(64)));
static ncclComm_t comms[4];
static stream_t stream;

static ncclComm_t comm(void) {
  switch (next() % 6) {
    case 0: return 0;
    case 1: return (void*)(uintptr_t)(next() % 100000);
    default: return comms[next() % 4];
  }
}
static void* device(void) {
  switch (next() % 5) {
    case 0: return 0;
    case 1: return memory + 1 + next() % 15;
    default: return memory + 16 * (next() % 64);
  }
}
/// Memory of the host for results.
static void* out(void) {
  switch (next() % 5) {
    case 0: return 0;
    case 1: return host + 1 + next() % 7;
    default: return host + 8 * (next() % 16);
  }
}
static size_t count(void) { return next() % 8 ? next() % 64 : next(); }
static int number(void) { return next() % 4 ? (int)(next() % 14) - 1 : (int)next(); }
static void* config(void) {
  if (next() % 3 == 0) return 0;
  static uint64_t words[32];
  for (int i = 0; i < 32; ++i) words[i] = next() % 3 ? 0x8000000080000000ull : next() % 5;
  size_t sizes[] = {48, 72, 80, 88, 96, 120, 16, 200, 3};
  words[0] = sizes[next() % 9];
  words[1] = next() % 4 ? 0xcafebeef : next();
  // Texts, lists and events.
  words[4] = words[5] = words[6] = words[2] = words[8] = 0;
  return next() % 8 ? (void*)words : (char*)words + 4;
}

int main(int argc, char** argv) {
  state = argc > 1 ? strtoull(argv[1], 0, 10) * 2654435761u + 88172645463325252u : 1;
  load();
  use_device(0);
  memory = device_memory(1 << 20);
  stream = new_stream();
  int codes[9] = {0}, depth = 0;
  for (int i = 0; i < 4000; ++i) {
    if (!comms[i % 4]) {
      ncclUniqueId id;
      OK(ncclGetUniqueId, (ncclUniqueId*), &id);
      ncclComm_t created;
      int code = NCCL(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, void*), &created, 1, id, 0, 0);
      // In a group it is complete when the group ends.
      if (!code) comms[i % 4] = created;
    }
    int code;
    switch (next() % 26) {
      case 0: code = NCCL(ncclAllReduce, REDUCTION, device(), device(), count(), number(), number(), comm(), stream); break;
      case 1: code = NCCL(ncclAllGather, COLLECTIVE, device(), device(), count(), number(), comm(), stream); break;
      case 2: code = NCCL(ncclReduceScatter, REDUCTION, device(), device(), count(), number(), number(), comm(), stream); break;
      case 3: code = NCCL(ncclBroadcast, ROOTED, device(), device(), count(), number(), number(), comm(), stream); break;
      case 4: code = NCCL(ncclReduce, ROOTED_REDUCTION, device(), device(), count(), number(), number(), number(), comm(), stream); break;
      case 5: code = NCCL(ncclAlltoAll, COLLECTIVE, device(), device(), count(), number(), comm(), stream); break;
      case 6: code = NCCL(ncclGather, ROOTED, device(), device(), count(), number(), number(), comm(), stream); break;
      case 7: code = NCCL(ncclSend, SEND, device(), count(), number(), number(), comm(), stream); break;
      case 8: code = NCCL(ncclRecv, RECV, device(), count(), number(), number(), comm(), stream); break;
      case 9: code = NCCL(ncclCommCount, (ncclComm_t, int*), comm(), out()); break;
      case 10: code = NCCL(ncclCommUserRank, (ncclComm_t, int*), comm(), out()); break;
      case 11: code = NCCL(ncclCommGetAsyncError, (ncclComm_t, int*), comm(), out()); break;
      case 12: code = NCCL(ncclCommRegister, (ncclComm_t, void*, size_t, void**), comm(), device(), count(), out()); break;
      case 13: code = NCCL(ncclCommDeregister, (ncclComm_t, void*), comm(), device()); break;
      case 14: code = NCCL(ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm(), device(), count(), out(), number()); break;
      case 15: code = NCCL(ncclCommWindowDeregister, (ncclComm_t, void*), comm(), device()); break;
      case 16: code = NCCL(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), out(), out(), number(), number(), comm()); break;
      case 17: code = NCCL(ncclRedOpDestroy, (int, ncclComm_t), number(), comm()); break;
      case 18: code = NCCL(ncclCommMemStats, (ncclComm_t, int, uint64_t*), comm(), number(), out()); break;
      case 19: code = NCCL(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), comm(), out(), number(), out(), config(), number()); break;
      case 20:
        if (depth) code = NCCL(ncclGroupEnd, (void), ), --depth;
        else code = NCCL(ncclGroupStart, (void), ), ++depth;
        break;
      case 21: code = NCCL(ncclAllReduceConfig, (const void*, void*, size_t, int, int, ncclComm_t, stream_t, void*), device(), device(), count(), number(), number(), comm(), stream, config()); break;
      case 22: code = NCCL(ncclCommInitRankScalable, (ncclComm_t*, int, int, int, void*, void*), out(), number() % 2, number(), number(), host, config()); break;
      case 23: code = NCCL(ncclParamGetI64, (void*, int64_t*), (void*)(uintptr_t)(next() % 20), out()); break;
      case 24: code = NCCL(ncclCommSuspend, (ncclComm_t, int), comm(), number()); break;
      default:
        if (depth) continue;
        code = NCCL(ncclCommDestroy, (ncclComm_t), comms[i % 4]);
        if (code) FAIL("seed %s: destroy: %d", argc > 1 ? argv[1] : "", code);
        // Also calls on a handle that is gone.
        NCCL(ncclCommCount, (ncclComm_t, int*), comms[i % 4], out());
        comms[i % 4] = 0;
    }
    if (code < 0 || code > 8 || code == 3) FAIL("seed %s, call %d: code %d", argc > 1 ? argv[1] : "", i, code);
    ++codes[code];
  }
  while (depth--) NCCL(ncclGroupEnd, (void), );
  if (codes[0] < 100 || codes[4] < 100) FAIL("%d calls succeeded, %d were invalid", codes[0], codes[4]);
  return 0;
}
