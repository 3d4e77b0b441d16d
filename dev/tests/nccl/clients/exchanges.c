// Sends and receives in orders that NCCL's buffers allow: each direction between two ranks is a sequence of its own.
// `argv[1]`: what is done; `argv[2]`: the seed of random orders.
#include <signal.h>

#include "job.h"

static ncclComm_t comm;

static uint64_t state;
static uint64_t next(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/// Element `i` of transfer `k` from one rank to another.
static int32_t element(int from, int to, size_t k, size_t i) {
  return (int32_t)(((from * 8 + to) * 64 + k) * 1000003u + i * 7u);
}

static int32_t* filled(int to, size_t k, size_t count, stream_t stream) {
  int32_t *values = malloc(4 * count), *memory = device_memory(4 * count);
  for (size_t i = 0; i < count; ++i) values[i] = element(rank, to, k, i);
  write_device(memory, values, 4 * count, stream);
  free(values);
  return memory;
}

static void send_to(int peer, int32_t* memory, size_t count, stream_t stream) {
  OK(ncclSend, SEND, memory, count, kInt32, peer, comm, stream);
}
static void receive(int peer, int32_t* memory, size_t count, stream_t stream) {
  OK(ncclRecv, RECV, memory, count, kInt32, peer, comm, stream);
}

/// Every rank sends to every other one, each send alone and twice, and then receives, on one stream.
static void sends_first(size_t count) {
  stream_t stream = new_stream();
  int32_t *sent[8][2], *received[8][2];
  for (int r = 0; r < ranks; ++r)
    for (size_t k = 0; k < 2; ++k) sent[r][k] = filled(r, k, count, stream), received[r][k] = device_memory(4 * count);
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < ranks; ++r)
      for (size_t k = 0; r != rank && k < 2; ++k) {
        send_to(r, sent[r][k], count, stream);
        // The caller's memory may be changed as soon as the stream is there.
        CU(cuMemsetD8Async, (unsigned long long, unsigned char, size_t, stream_t), (unsigned long long)sent[r][k], 0, 4 * count, stream);
      }
    for (int r = 0; r < ranks; ++r)
      for (size_t k = 0; r != rank && k < 2; ++k) receive(r, received[r][k], count, stream);
    for (int r = 0; r < ranks; ++r)
      for (size_t k = 0; r != rank && k < 2; ++k) {
        EXPECT(received[r][k], count, stream, i, element(r, rank, k, i));
        int32_t* again = filled(r, k, count, stream);
        CU(cuMemFree_v2, (unsigned long long), (unsigned long long)sent[r][k]);
        sent[r][k] = again;
      }
  }
}

/// Two streams, of which one sends more than any buffer holds; the calls in either order.
static void two_streams(size_t count, int receive_first) {
  int peer = 1 - rank;
  stream_t sends = new_stream(), receives = new_stream();
  int32_t *sent = filled(peer, 0, count, sends), *received = device_memory(4 * count);
  for (int round = 0; round < 2; ++round) {
    if (receive_first) receive(peer, received, count, receives);
    send_to(peer, sent, count, sends);
    if (!receive_first) receive(peer, received, count, receives);
    EXPECT(received, count, receives, i, element(peer, rank, 0, i));
    synchronize(sends);
  }
}

/// One rank makes both transfers in a group, and the other one each alone.
static void group_and_alone(size_t count, int group_of) {
  int peer = 1 - rank;
  stream_t stream = new_stream();
  int32_t *sent = filled(peer, 0, count, stream), *received = device_memory(4 * count);
  for (int round = 0; round < 3; ++round) {
    if (rank == group_of) OK(ncclGroupStart, (void), );
    send_to(peer, sent, count, stream);
    receive(peer, received, count, stream);
    if (rank == group_of) OK(ncclGroupEnd, (void), );
    EXPECT(received, count, stream, i, element(peer, rank, 0, i));
  }
}

/// Transfers of random sizes, whose order is random on each rank but for those of one direction; some of them in groups.
static void random_order(uint64_t seed) {
  enum { kEach = 12 };
  // What all ranks know: the sizes of the transfers from one rank to another.
  static size_t counts[8][8][kEach];
  state = seed * 2654435761u + 88172645463325252u;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      for (int k = 0; k < kEach; ++k) counts[from][to][k] = 1 + next() % (next() % 4 ? 64 : 20000);
  state ^= (uint64_t)(rank + 1) << 32;
  stream_t send_streams[2] = {new_stream(), new_stream()}, of_peer[8], one = new_stream();
  int32_t *sent[8][kEach], *received[8][kEach];
  for (int r = 0; r < ranks; ++r) {
    of_peer[r] = new_stream();
    for (int k = 0; k < kEach; ++k) {
      sent[r][k] = filled(r, k, counts[rank][r][k], one);
      received[r][k] = device_memory(4 * counts[r][rank][k]);
    }
  }
  int done[8][2] = {{0}}, left = 2 * kEach * (ranks - 1), in_group = 0;
  while (left) {
    int peer = next() % ranks, is_sent = next() % 2;
    int* k = &done[peer][is_sent];
    if (peer == rank || *k == kEach) continue;
    if (!in_group && next() % 4 == 0) {
      OK(ncclGroupStart, (void), );
      in_group = 1 + next() % 6;
    }
    if (is_sent) send_to(peer, sent[peer][*k], counts[rank][peer][*k], send_streams[next() % 2]);
    else receive(peer, received[peer][*k], counts[peer][rank][*k], of_peer[peer]);
    ++*k, --left;
    if (in_group && (--in_group == 0 || !left)) {
      OK(ncclGroupEnd, (void), );
      in_group = 0;
    }
  }
  for (int r = 0; r < ranks; ++r)
    for (int k = 0; r != rank && k < kEach; ++k) {
      size_t count = counts[r][rank][k];
      EXPECT(received[r][k], count, of_peer[r], i, element(r, rank, k, i));
    }
  synchronize(send_streams[0]), synchronize(send_streams[1]);
}

/// Transfers of a rank with itself: matched in their order, and only within a group.
static void with_itself(void) {
  stream_t stream = new_stream();
  int32_t *first = filled(rank, 0, 50, stream), *second = filled(rank, 1, 50, stream);
  int32_t *one = device_memory(200), *other = device_memory(200);
  OK(ncclGroupStart, (void), );
  receive(rank, one, 50, stream);
  send_to(rank, first, 50, stream);
  send_to(rank, second, 50, stream);
  receive(rank, other, 50, stream);
  OK(ncclGroupEnd, (void), );
  EXPECT(one, 50, stream, i, element(rank, rank, 0, i));
  EXPECT(other, 50, stream, i, element(rank, rank, 1, i));
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  comm = join();
  if (!strcmp(what, "sends_first")) sends_first(10), sends_first(3000), sends_first(250000);
  if (!strcmp(what, "two_streams")) two_streams(2000000, 0), two_streams(2100000, 1), two_streams(77, 1);
  if (!strcmp(what, "group_and_alone")) group_and_alone(5, 0), group_and_alone(100000, 0);
  // More than any buffer holds.
  if (!strcmp(what, "long_group_and_alone")) group_and_alone(1500000, 0), group_and_alone(1500001, 1);
  if (!strcmp(what, "itself")) with_itself();
  if (!strcmp(what, "random")) random_order(argc > 2 ? strtoull(argv[2], 0, 10) : 1);
  int is_lost = !strcmp(what, "lost"), is_different = !strcmp(what, "different");
  if (is_lost || is_different || !strcmp(what, "deadlock")) {
    // Each rank's stream waits in a send that no buffer holds, before its receive.
    size_t count = is_lost || is_different ? 100 : 2000000;
    stream_t stream = new_stream();
    int32_t *sent = filled(1 - rank, 0, count, stream), *received = device_memory(4 * count);
    // Rank 1 expects more than rank 0 sends.
    if (!is_lost && !(is_different && rank == 1)) send_to(1 - rank, sent, count - is_different, stream);
    // The receive waits for a rank that is lost before it sends.
    if (is_lost && rank == 1) raise(SIGKILL);
    if (!(is_different && rank == 0)) receive(1 - rank, received, count, stream);
    synchronize(stream);
    int code = 0;
    for (; !code; usleep(1000)) OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    printf("rank %d: code %d: %s\n", rank, code, ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(comm));
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
