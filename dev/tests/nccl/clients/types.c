// Calls with every type and operator, in odd counts, also with operators that multiply by a scalar of the host or of the device. Bits are compared.
#include "job.h"

enum { kTypes = 12, kMaxCount = 1031 };

static const size_t kSizes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static const int kIsFloat[kTypes] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
static const int kIsSigned[kTypes] = {1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1};
/// Bits of exponents and of fractions of types that C does not have.
static const int kExponents[kTypes] = {[6] = 5, [9] = 8, [10] = 4, [11] = 5};
static const int kFractions[kTypes] = {[6] = 10, [9] = 7, [10] = 3, [11] = 2};

static ncclComm_t comm;
static stream_t stream;
static unsigned char *send, *recv, *host;

/// Writes a number that the type has exactly.
static void encode(int type, double value, unsigned char* at) {
  if (kExponents[type]) {
    unsigned bits = 0;
    if (value != 0) {
      int sign = value < 0, exponent = 0, bias = (1 << (kExponents[type] - 1)) - 1;
      double rest = sign ? -value : value;
      while (rest >= 2) rest /= 2, ++exponent;
      while (rest < 1) rest *= 2, --exponent;
      bits = (unsigned)sign << (kExponents[type] + kFractions[type]) | (unsigned)(exponent + bias) << kFractions[type] |
             (unsigned)((rest - 1) * (1 << kFractions[type]));
    }
    memcpy(at, &bits, kSizes[type]);
  } else if (type == 7) {
    float v = value;
    memcpy(at, &v, 4);
  } else if (type == 8) {
    memcpy(at, &value, 8);
  } else {
    int64_t v = (int64_t)value;
    memcpy(at, &v, kSizes[type]);
  }
}

static double value(int type, int r, size_t i) {
  int v = 1 + (int)((i + r) % 2);
  return kIsSigned[type] && (i / 2 + r) % 3 == 0 ? -v : v;
}

static double reduced(int type, int op, size_t i) {
  double result = value(type, 0, i);
  for (int r = 1; r < ranks; ++r) {
    double v = value(type, r, i);
    result = op == kSum || op == kAvg ? result + v : op == kProd ? result * v : op == kMax ? (v > result ? v : result) : v < result ? v : result;
  }
  if (op == kAvg) result = kIsFloat[type] ? result / ranks : (double)((int64_t)result / ranks);
  return result;
}

static void put(int type, unsigned char* at, size_t count, int r, size_t first) {
  for (size_t i = 0; i < count; ++i) encode(type, value(type, r, first + i), host + i * kSizes[type]);
  write_device(at, host, count * kSizes[type], stream);
}

/// Compares memory with `expected(i)`.
#define CHECK(call, type, at, count, i, expected)                                                                     \
  do {                                                                                                                \
    read_device(host, at, (count) * kSizes[type], stream);                                                            \
    for (size_t i = 0; i < (count); ++i) {                                                                            \
      unsigned char bytes_[8];                                                                                        \
      encode(type, expected, bytes_);                                                                                 \
      if (memcmp(bytes_, host + i * kSizes[type], kSizes[type]))                                                      \
        FAIL("%s: element %zu of %zu of type %d is not %g", call, i, (size_t)(count), type, (double)(expected));      \
    }                                                                                                                 \
  } while (0)

static void reductions(int type, int op, size_t n) {
  size_t size = kSizes[type];
  put(type, send, n, rank, 0);
  OK(ncclAllReduce, REDUCTION, send, recv, n, type, op, comm, stream);
  CHECK("all-reduce", type, recv, n, i, reduced(type, op, i));
  OK(ncclReduce, ROOTED_REDUCTION, send, recv + size, n, type, op, ranks - 1, comm, stream);
  if (rank == ranks - 1) CHECK("reduce", type, recv + size, n, i, reduced(type, op, i));
  put(type, send, n * ranks, rank, 0);
  OK(ncclReduceScatter, REDUCTION, send, recv, n, type, op, comm, stream);
  CHECK("reduce-scatter", type, recv, n, i, reduced(type, op, rank * n + i));
  put(type, send + size, n, rank, 0);
  OK(ncclAllReduce, REDUCTION, send + size, send + size, n, type, op, comm, stream);
  CHECK("all-reduce in place", type, send + size, n, i, reduced(type, op, i));
}

static void multiplied(int type, size_t n, int residence) {
  unsigned char bytes[8], *scalar = bytes;
  encode(type, 2, bytes);
  if (!residence) {
    scalar = device_memory(8);
    write_device(scalar, bytes, 8, stream);
  }
  int op;
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, scalar, type, residence, comm);
  put(type, send, n, rank, 0);
  OK(ncclAllReduce, REDUCTION, send, recv, n, type, op, comm, stream);
  CHECK("multiplied", type, recv, n, i, 2 * reduced(type, kSum, i));
  CHECK("its input", type, send, n, i, value(type, rank, i));
  OK(ncclAllReduce, REDUCTION, send, send, n, type, op, comm, stream);
  CHECK("multiplied in place", type, send, n, i, 2 * reduced(type, kSum, i));
  OK(ncclRedOpDestroy, (int, ncclComm_t), op, comm);
}

static void moves(int type, size_t n) {
  put(type, send, n * ranks, rank, 0);
  OK(ncclAllGather, COLLECTIVE, send, recv, n, type, comm, stream);
  for (int r = 0; r < ranks; ++r) CHECK("all-gather", type, recv + r * n * kSizes[type], n, i, value(type, r, i));
  OK(ncclAlltoAll, COLLECTIVE, send, recv, n, type, comm, stream);
  for (int r = 0; r < ranks; ++r) CHECK("all-to-all", type, recv + r * n * kSizes[type], n, i, value(type, r, rank * n + i));
  OK(ncclBroadcast, ROOTED, send, recv, n, type, 1, comm, stream);
  CHECK("broadcast", type, recv, n, i, value(type, 1, i));
  OK(ncclGroupStart, (void), );
  OK(ncclSend, SEND, send, n, type, (rank + 1) % ranks, comm, stream);
  OK(ncclRecv, RECV, recv, n, type, (rank + ranks - 1) % ranks, comm, stream);
  OK(ncclGroupEnd, (void), );
  CHECK("send", type, recv, n, i, value(type, (rank + ranks - 1) % ranks, i));
}

/// Compiles the kernels that multiply on each rank alone, and then meets the others on the host: simulated devices do not wait for long.
static ncclComm_t compile(ncclComm_t all) {
  ncclComm_t alone, met;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), all, rank, 0, &alone, 0);
  for (int type = 0; type < kTypes; ++type) {
    int op;
    put(type, send, 1, rank, 0);
    OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, send, type, 0, alone);
    OK(ncclAllReduce, REDUCTION, send, recv, 1, type, op, alone, stream);
    synchronize(stream);
  }
  OK(ncclCommDestroy, (ncclComm_t), alone);
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), all, 0, rank, &met, 0);
  return met;
}

int main(void) {
  ncclComm_t all = join();
  stream = new_stream();
  send = device_memory(8 * (kMaxCount * 8 + 2)), recv = device_memory(8 * (kMaxCount * 8 + 2)), host = malloc(8 * (kMaxCount * 8 + 2));
  comm = compile(all);
  size_t counts[] = {1, 3, 17, kMaxCount};
  for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k)
    for (int type = 0; type < kTypes; ++type) {
      // Thirds are not exact.
      for (int op = 0; op <= (ranks == 2 ? kAvg : kMin); ++op) reductions(type, op, counts[k]);
      multiplied(type, counts[k], 1);
      multiplied(type, counts[k], 0);
      moves(type, counts[k]);
    }
  OK(ncclCommDestroy, (ncclComm_t), comm);
  OK(ncclCommDestroy, (ncclComm_t), all);
  printf("ok rank %d\n", rank);
  return 0;
}
