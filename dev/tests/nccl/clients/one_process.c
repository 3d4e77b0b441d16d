// All ranks in one thread of one process: groups that create communicators, calls and transfers of all of them.
#include "client.h"

enum { kRanks = 4, kCount = 3000 };

// The stack of each thread has it, that of a thread of the library too.
static _Thread_local volatile char storage[2 << 20];

static stream_t streams[kRanks];
static int32_t *send[kRanks], *recv[kRanks];

static void all_reduce(ncclComm_t* comms, int ranks) {
  for (int r = 0; r < ranks; ++r) use_device(r), fill(send[r], r, kCount, streams[r]);
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < ranks; ++r) OK(ncclAllReduce, REDUCTION, send[r], recv[r], kCount, kInt32, kSum, comms[r], streams[r]);
  OK(ncclGroupEnd, (void), );
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, 0);
  for (int r = 0; r < ranks; ++r) {
    use_device(r);
    EXPECT(recv[r], kCount, streams[r], i, sum + ranks * (int32_t)(i % 97));
  }
}

/// Windows of all ranks, whose handles are there when the group has ended.
static void windows(ncclComm_t* comms) {
  void *memory[kRanks], *found[kRanks] = {0};
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) {
    use_device(r);
    OK(ncclMemAlloc, (void**, size_t), &memory[r], 8 * kCount);
    OK(ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comms[r], memory[r], 8 * kCount, &found[r], 1);
  }
  OK(ncclGroupEnd, (void), );
  for (int r = 0; r < kRanks; ++r) {
    void* address;
    OK(ncclWinGetUserPtr, (ncclComm_t, void*, void**), comms[r], found[r], &address);
    if (address != memory[r]) FAIL("window of rank %d: expected %p, found %p", r, memory[r], address);
    use_device(r), fill(memory[r], r, kCount, streams[r]);
  }
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) {
    OK(ncclAllReduce, REDUCTION, memory[r], (int32_t*)memory[r] + kCount, kCount, kInt32, kMax, comms[r], streams[r]);
  }
  OK(ncclGroupEnd, (void), );
  for (int r = 0; r < kRanks; ++r) {
    use_device(r);
    EXPECT((int32_t*)memory[r] + kCount, kCount, streams[r], i, input(kRanks - 1, i));
    OK(ncclCommWindowDeregister, (ncclComm_t, void*), comms[r], found[r]);
    OK(ncclMemFree, (void*), memory[r]);
  }
}

int main(void) {
  storage[0] = 1;
  load();
  for (int r = 0; r < kRanks; ++r) {
    use_device(r);
    streams[r] = new_stream();
    send[r] = device_memory(4 * kCount * kRanks);
    recv[r] = device_memory(4 * kCount * kRanks);
  }
  ncclComm_t comms[kRanks], others[kRanks];
  OK(ncclCommInitAll, (ncclComm_t*, int, const int*), comms, kRanks, 0);
  all_reduce(comms, kRanks);
  windows(comms);

  // A job of an id: the ranks join at the end of the group.
  ncclUniqueId id;
  OK(ncclGetUniqueId, (ncclUniqueId*), &id);
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) {
    use_device(r);
    OK(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &others[r], kRanks, id, r);
  }
  OK(ncclGroupEnd, (void), );
  all_reduce(others, kRanks);

  // Calls and transfers of two communicators in one group: a ring with one, a sum with the other.
  for (int r = 0; r < kRanks; ++r) use_device(r), fill(send[r], r, kCount, streams[r]);
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) {
    OK(ncclSend, SEND, send[r], kCount, kInt32, (r + 1) % kRanks, comms[r], streams[r]);
    OK(ncclRecv, RECV, recv[r], kCount, kInt32, (r + kRanks - 1) % kRanks, comms[r], streams[r]);
    OK(ncclAllReduce, REDUCTION, send[r], recv[r] + kCount, kCount, kInt32, kMax, others[r], streams[r]);
  }
  OK(ncclGroupEnd, (void), );
  for (int r = 0; r < kRanks; ++r) {
    use_device(r);
    EXPECT(recv[r], kCount, streams[r], i, input((r + kRanks - 1) % kRanks, i));
    EXPECT(recv[r] + kCount, kCount, streams[r], i, input(kRanks - 1, i));
  }

  // Halves, created by a group, then grown to all ranks again.
  ncclComm_t halves[kRanks];
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) {
    OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comms[r], r / 2, r, &halves[r], 0);
  }
  OK(ncclGroupEnd, (void), );
  all_reduce(halves, 2);

  // Without rank 3.
  ncclComm_t fewer[kRanks];
  int excluded = 3;
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < 3; ++r) {
    OK(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), others[r], &excluded, 1, &fewer[r], 0, 0);
  }
  OK(ncclGroupEnd, (void), );
  all_reduce(fewer, 3);

  // And with it again, as a new rank.
  OK(ncclCommGetUniqueId, (ncclComm_t, ncclUniqueId*), fewer[0], &id);
  ncclComm_t grown[kRanks];
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) {
    use_device(r);
    OK(ncclCommGrow, (ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, void*), r < 3 ? fewer[r] : 0, kRanks,
       r < 3 ? 0 : &id, r < 3 ? -1 : 3, &grown[r], 0);
  }
  OK(ncclGroupEnd, (void), );
  all_reduce(grown, kRanks);

  ncclComm_t* sets[] = {comms, others, halves, fewer, grown};
  for (int set = 0; set < 5; ++set) {
    for (int r = 0; r < (set == 3 ? 3 : kRanks); ++r) OK(ncclCommDestroy, (ncclComm_t), sets[set][r]);
  }
  printf("ok\n");
  return 0;
}
