// Times of MPI's collectives as `mscclpp bench` measures its own: before every call a rank rewrites its input, after it reads
// its output, neither timed; all ranks synchronize, each times its call, the slowest counts; the median over all calls.
//
// Usage: bench-hosts COLLECTIVE BEGIN END FACTOR SECONDS [ITERATIONS [SKEW]]     sizes in bytes: the larger of a rank's input and output
// Prints: collective, ranks, bytes, microseconds. A wrong result ends all ranks.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static float value(int from, size_t at, int call) { return (float)((at * 7 + (size_t)from * 31 + (size_t)call) % 1024); }

static void fill(float *input, size_t count, int call) {
    for (size_t at = 0; at < count; at++) input[at] = value(rank, at, call);
}

// How often the longest part is as long as the others; 0: all lengths differ.
static int skew;

// How many elements a rank sends to another one in an all-to-all-v: from once to `ranks` times the shortest part, on average `part`.
static int sent(int from, int to, size_t part) {
    int nth = (from + to) % ranks;
    if (skew) return (int)(part * (size_t)ranks * (size_t)(nth == 1 % ranks ? skew : 1) / (size_t)(ranks - 1 + skew));
    return (int)(2 * part * (size_t)(nth + 1) / (size_t)(ranks + 1));
}

// Inputs are small integers, so sums are exact in any order.
static float expected(const char *kind, size_t at, size_t part, int call) {
    float sum = 0;
    if (!strcmp(kind, "all_gather")) return value((int)(at / part), at % part, call);
    if (!strcmp(kind, "all_to_all")) return value((int)(at / part), (size_t)rank * part + at % part, call);
    if (!strcmp(kind, "all_to_all_v")) {
        int from = 0;
        for (; at >= (size_t)sent(from, rank, part); from++) at -= (size_t)sent(from, rank, part);
        for (int to = 0; to < rank; to++) at += (size_t)sent(from, to, part);
        return value(from, at, call);
    }
    if (!strcmp(kind, "broadcast")) return value(0, at, call);
    if (!strcmp(kind, "send_recv")) return value((rank + ranks - 1) % ranks, at, call);
    if (!strcmp(kind, "reduce_scatter")) at += (size_t)rank * part;
    for (int from = 0; from < ranks; from++) sum += value(from, at, call);
    return sum;
}

static void all_to_all_v(float *input, float *output, size_t part) {
    int lists[4][ranks], *to = lists[0], *from = lists[1], *to_at = lists[2], *from_at = lists[3];
    for (int peer = 0; peer < ranks; peer++) {
        to[peer] = sent(rank, peer, part), from[peer] = sent(peer, rank, part);
        to_at[peer] = peer ? to_at[peer - 1] + to[peer - 1] : 0, from_at[peer] = peer ? from_at[peer - 1] + from[peer - 1] : 0;
    }
    MPI_Alltoallv(input, to, to_at, MPI_FLOAT, output, from, from_at, MPI_FLOAT, MPI_COMM_WORLD);
}

static void call_once(const char *kind, float *input, float *output, size_t count, size_t part) {
    int n = (int)count, each = (int)part;
    if (!strcmp(kind, "all_reduce")) MPI_Allreduce(input, output, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(kind, "all_gather")) MPI_Allgather(input, each, MPI_FLOAT, output, each, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(kind, "reduce_scatter")) MPI_Reduce_scatter_block(input, output, each, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(kind, "all_to_all")) MPI_Alltoall(input, each, MPI_FLOAT, output, each, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(kind, "all_to_all_v")) all_to_all_v(input, output, part);
    else if (!strcmp(kind, "reduce")) MPI_Reduce(input, output, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (!strcmp(kind, "broadcast")) MPI_Bcast(rank ? output : input, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else
        MPI_Sendrecv(input, n, MPI_FLOAT, (rank + 1) % ranks, 0, output, n, MPI_FLOAT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void measure(const char *kind, size_t bytes, double seconds, int iterations) {
    size_t part = bytes / sizeof(float) / (size_t)ranks, count = part * (size_t)ranks;
    size_t outputs = !strcmp(kind, "reduce_scatter") ? part : count;
    size_t inputs = !strcmp(kind, "all_gather") ? part : count;
    if (!strcmp(kind, "all_to_all_v")) {
        outputs = 0;
        for (int from = 0; from < ranks; from++) outputs += (size_t)sent(from, rank, part);
    }
    // The root of a reduce or a broadcast is rank 0.
    int has_output = strcmp(kind, "reduce") ? strcmp(kind, "broadcast") || rank : !rank;
    enum { MAX = 4000 };
    static double times[MAX];
    float *input = malloc(count * sizeof *input), *output = malloc(count * sizeof *output), wrong = 0;
    int calls = 0, more = 1;
    double begin = MPI_Wtime();
    for (int call = -2; more; call++) {
        fill(input, inputs, call + 2);
        memset(output, 0xff, outputs * sizeof *output);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        call_once(kind, input, output, count, part);
        double time = MPI_Wtime() - start, slowest;
        for (size_t at = 0; has_output && at < outputs; at++) wrong += output[at] != expected(kind, at, part, call + 2);
        MPI_Allreduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (call >= 0) times[calls++] = slowest;
        more = calls < (iterations ? iterations : MAX) && (iterations || calls < 5 || MPI_Wtime() - begin < seconds);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (wrong) {
        fprintf(stderr, "%s of %zu bytes: wrong results on rank %d\n", kind, bytes, rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    qsort(times, (size_t)calls, sizeof *times, ascending);
    if (!rank) printf("%s %d %zu %.3f\n", kind, ranks, bytes, times[calls / 2] * 1e6);
    free(input);
    free(output);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 6) MPI_Abort(MPI_COMM_WORLD, 2);
    size_t end = strtoull(argv[3], NULL, 10), factor = strtoull(argv[4], NULL, 10);
    int iterations = argc > 6 ? atoi(argv[6]) : 0;
    skew = argc > 7 ? atoi(argv[7]) : 0;
    if (factor < 2 || iterations < 0 || iterations > 4000 || skew < 0) MPI_Abort(MPI_COMM_WORLD, 2);
    for (size_t bytes = strtoull(argv[2], NULL, 10); bytes <= end; bytes *= factor) measure(argv[1], bytes, atof(argv[5]), iterations);
    MPI_Finalize();
    return 0;
}
