// Everything that host and device share. Generated from mscclpp-exec/src/cuda/abi/ by the test
// `abi_header_is_current`: change those files, then run the test with MSCCLPP_BLESS=1.
#pragma once
#include "dev.h"

namespace mscclpp {

/// Maximum number of threads of a block.
constexpr uint32_t kMaxThreads = 1024;

/// Maximum number of threads of a block that combines in a wider type than its elements': accumulators need at least
/// twice the registers.
constexpr uint32_t kMaxThreadsWide = 512;

/// Bytes that a thread moves at once. Operands of specialized kernels consist of whole vectors.
constexpr uint64_t kVectorBytes = 16;

/// Number of instructions in the instruction cache of a block.
constexpr uint32_t kCachedInstrs = 32;

/// Number of operands in the instruction cache of a block.
constexpr uint32_t kCachedOperands = 192;

/// Number of ids in the instruction cache of a block.
constexpr uint32_t kCachedIds = 96;

/// Number of ranks whose buffers fit into the kernel parameters.
constexpr uint32_t kInlineRanks = 32;

/// Number of ranges in the kernel parameters, and of thread blocks whose ranges may be there.
constexpr uint32_t kParamRanges = 48;

constexpr uint32_t kParamRows = 256;

/// Maximum number of multicast groups of a device.
constexpr uint32_t kMaxGroups = 4;

/// `LaunchParams.reduce` of a launch that keeps the reductions of its operations; all smaller values are a
/// `Reduction`.
constexpr uint32_t kPlanReductions = 5;

/// Bit of `Instr.flags`: the signal publishes no writes.
constexpr uint8_t kFlagRelaxed = 1;

/// Bit of `Instr.flags`: the put is followed by a signal.
constexpr uint8_t kFlagThenSignal = 2;

/// Bit of `Instr.flags`: the put is followed by a flush.
constexpr uint8_t kFlagThenFlush = 4;

/// Bit of `Instr.flags`: an operand is packets.
constexpr uint8_t kFlagUsesPackets = 8;

/// Bit of `Instr.flags`: chunks of inputs and outputs begin where the counts of those before them end.
constexpr uint8_t kFlagPacked = 16;

/// Bit of `Instr.flags`: the counted copy is a put, through the proxy.
constexpr uint8_t kFlagPort = 32;

/// Words of a row of counts before its counts; rows are whole lines of words.
constexpr uint32_t kCountHead = 3;

constexpr uint32_t kCountLine = 8;

/// Bit of `CountParams.width`.
constexpr uint64_t kCountPlaces = 16;

/// What an instruction does.
enum class Opcode : uint8_t {
  kNop = 0,
  kCopy = 1,
  kPack = 2,
  kUnpack = 3,
  kForward = 4,
  kReduce = 5,
  kPort = 6,
  kPortForward = 7,
  /// `kReduce` where operands may have multicast addresses.
  kSwitch = 8,
  /// `kForward` where destinations may have a multicast address.
  kSwitchForward = 9,
  kSignal = 10,
  kPortSignal = 11,
  kWait = 12,
  kFlush = 13,
  kAcquire = 14,
  kRelease = 15,
  kBarrier = 16,
  kLoop = 17,
  kExchangeCounts = 18,
  kCopyCounted = 19,
  kRowNorm = 20,
};

/// How two elements are combined.
enum class Reduction : uint8_t {
  kSum = 0,
  kProd = 1,
  kMin = 2,
  kMax = 3,
  /// A sum that is divided by the number of ranks after the last operation.
  kAvg = 4,
};

/// Memory of a rank that contains an operand.
enum class Space : uint32_t {
  kInput = 0,
  kOutput = 1,
  /// Plain data in scratch.
  kScratch = 2,
  /// Packets in scratch.
  kPackets = 3,
};

/// What a thread block waited for.
enum class WaitKind : uint32_t {
  kSignal = 1,
  kSemaphore = 2,
  kBarrier = 3,
  kPacket = 4,
  kProxy = 5,
  kCounts = 6,
};

/// What counts of a launch exceed.
enum class CountLimit : uint64_t {
  /// The maximum of a count.
  kEntry = 1,
  /// What a rank's input, or its output, has room for.
  kInput = 2,
  kOutput = 3,
};

/// A thread block.
struct Block {
  uint32_t rank;
  uint32_t block;
  /// Its instructions are `first..end` of `LaunchParams.instrs`.
  uint32_t first;
  uint32_t end;
  /// Its operands and ids are those from one of these numbers to the other.
  uint32_t operands;
  uint32_t operands_end;
  uint32_t ids;
  uint32_t ids_end;
  /// Index of its rank's FIFO.
  uint32_t fifo;
  /// For specialized kernels: number of the function that executes it, and its slice of operands of which all thread
  /// blocks of its shape process a slice: index and number of slices.
  uint32_t shape;
  uint32_t slice_index;
  uint32_t slice_of;
};
static_assert(sizeof(Block) == 48 &&
                  alignof(Block) == 4 &&
                  offsetof(Block, rank) == 0 &&
                  offsetof(Block, block) == 4 &&
                  offsetof(Block, first) == 8 &&
                  offsetof(Block, end) == 12 &&
                  offsetof(Block, operands) == 16 &&
                  offsetof(Block, operands_end) == 20 &&
                  offsetof(Block, ids) == 24 &&
                  offsetof(Block, ids_end) == 28 &&
                  offsetof(Block, fifo) == 32 &&
                  offsetof(Block, shape) == 36 &&
                  offsetof(Block, slice_index) == 40 &&
                  offsetof(Block, slice_of) == 44,
              "Block differs from the host's");

/// One instruction.
struct Instr {
  Opcode opcode;
  Reduction reduce;
  uint8_t flags;
  /// Kind of the operation in the plan, for the host.
  uint8_t kind;
  /// Instructions that the instruction cache holds with their operands and ids if this one is the first.
  uint32_t cached;
  /// First operand: sources, then destinations.
  uint32_t operands;
  uint32_t srcs;
  uint32_t dsts;
  uint32_t first_id;
  uint32_t ids;
  /// Slice of every operand: index and number of slices.
  uint32_t slice_index;
  uint32_t slice_of;
  /// Thread blocks of a barrier; chunks of a loop; of a reduction, a bit for each of its first 32 sources that is packets; the
  /// sender of a count.
  uint32_t count;
  /// Instructions of a loop's body; the receiver of a count.
  uint32_t body;
  /// Chunks of the first source.
  uint32_t size;
  /// Bytes of a loop's window.
  uint64_t unit;
  /// Header of the loop that contains the instruction, counted from 1; 0 outside of loops.
  uint32_t loop_header;
  /// Multicast group that the sources, or the destinations, are; counted from 1; 0: none.
  uint16_t src_group;
  uint16_t dst_group;
};
static_assert(sizeof(Instr) == 64 &&
                  alignof(Instr) == 8 &&
                  offsetof(Instr, opcode) == 0 &&
                  offsetof(Instr, reduce) == 1 &&
                  offsetof(Instr, flags) == 2 &&
                  offsetof(Instr, kind) == 3 &&
                  offsetof(Instr, cached) == 4 &&
                  offsetof(Instr, operands) == 8 &&
                  offsetof(Instr, srcs) == 12 &&
                  offsetof(Instr, dsts) == 16 &&
                  offsetof(Instr, first_id) == 20 &&
                  offsetof(Instr, ids) == 24 &&
                  offsetof(Instr, slice_index) == 28 &&
                  offsetof(Instr, slice_of) == 32 &&
                  offsetof(Instr, count) == 36 &&
                  offsetof(Instr, body) == 40 &&
                  offsetof(Instr, size) == 44 &&
                  offsetof(Instr, unit) == 48 &&
                  offsetof(Instr, loop_header) == 56 &&
                  offsetof(Instr, src_group) == 60 &&
                  offsetof(Instr, dst_group) == 62,
              "Instr differs from the host's");

/// A range of chunks of a rank's buffer.
struct Operand {
  uint32_t rank;
  uint32_t index;
  uint32_t size;
  Space space;
};
static_assert(sizeof(Operand) == 16 &&
                  alignof(Operand) == 4 &&
                  offsetof(Operand, rank) == 0 &&
                  offsetof(Operand, index) == 4 &&
                  offsetof(Operand, size) == 8 &&
                  offsetof(Operand, space) == 12,
              "Operand differs from the host's");

/// What an instruction signals or waits for.
struct Id {
  /// Address of the pair's inbound counter for a signal, of the block's own one for a wait, of a semaphore's units, or
  /// of a barrier's arrivals.
  uint64_t counter;
  /// Address of the number of waits begun on the channel.
  uint64_t expected;
  /// A wait expects `launches * per_launch + ordinal` if `ordinal` is not 0, otherwise one more than `*expected`.
  uint32_t per_launch;
  uint32_t ordinal;
  /// Number of the channel, semaphore or barrier in reports.
  uint32_t number;
  uint32_t reserved;
};
static_assert(sizeof(Id) == 32 &&
                  alignof(Id) == 8 &&
                  offsetof(Id, counter) == 0 &&
                  offsetof(Id, expected) == 8 &&
                  offsetof(Id, per_launch) == 16 &&
                  offsetof(Id, ordinal) == 20 &&
                  offsetof(Id, number) == 24 &&
                  offsetof(Id, reserved) == 28,
              "Id differs from the host's");

/// Layout of a buffer as a plan addresses it: parts of `part` bytes, each padded to `padded`.
struct View {
  /// Bytes of all parts.
  uint64_t len;
  uint64_t part;
  uint64_t padded;
};
static_assert(sizeof(View) == 24 &&
                  alignof(View) == 8 &&
                  offsetof(View, len) == 0 &&
                  offsetof(View, part) == 8 &&
                  offsetof(View, padded) == 16,
              "View differs from the host's");

/// The bytes that an instruction processes, before an iteration of a loop clips them; of a loop's header, the bytes of a window and
/// the number of iterations.
struct ParamRange {
  uint32_t start;
  uint32_t len;
  /// If each operand is one run: the end of the range within all operands. Nothing is to be done after it.
  uint32_t end;
  /// Whether each operand is one run.
  uint16_t whole;
  /// If so, the lowest 4 bits that are set in the distance of any operand from the beginning of its buffer.
  uint16_t low_bits;
};
static_assert(sizeof(ParamRange) == 16 &&
                  alignof(ParamRange) == 4 &&
                  offsetof(ParamRange, start) == 0 &&
                  offsetof(ParamRange, len) == 4 &&
                  offsetof(ParamRange, end) == 8 &&
                  offsetof(ParamRange, whole) == 12 &&
                  offsetof(ParamRange, low_bits) == 14,
              "ParamRange differs from the host's");

/// State that a launch leaves for the next one, in device memory.
struct LaunchState {
  /// Not 0: a thread block has aborted the launch.
  uint64_t abort;
  uint64_t reserved;
};
static_assert(sizeof(LaunchState) == 16 &&
                  alignof(LaunchState) == 8 &&
                  offsetof(LaunchState, abort) == 0 &&
                  offsetof(LaunchState, reserved) == 8,
              "LaunchState differs from the host's");

/// Abort requests, in mapped host memory. Not 0: requested.
struct AbortFlags {
  /// Written by the host, read by the devices.
  uint32_t host;
  /// Written by the devices, read by the host.
  uint32_t device;
};
static_assert(sizeof(AbortFlags) == 8 &&
                  alignof(AbortFlags) == 4 &&
                  offsetof(AbortFlags, host) == 0 &&
                  offsetof(AbortFlags, device) == 4,
              "AbortFlags differs from the host's");

/// What a thread block waited for when it aborted.
struct WaitReport {
  /// 0: there is no report.
  uint32_t state;
  WaitKind kind;
  /// The instruction and its iteration.
  uint32_t instr;
  /// Channel, semaphore or barrier; the operand of a packet; the FIFO of a proxy; the rank of a row of counts.
  uint32_t id;
  uint64_t iteration;
  /// Number of the packet in its operand.
  uint64_t detail;
  uint64_t expected;
  uint64_t seen;
  /// Counted from 1.
  uint64_t launch;
  uint64_t reserved;
};
static_assert(sizeof(WaitReport) == 64 &&
                  alignof(WaitReport) == 8 &&
                  offsetof(WaitReport, state) == 0 &&
                  offsetof(WaitReport, kind) == 4 &&
                  offsetof(WaitReport, instr) == 8 &&
                  offsetof(WaitReport, id) == 12 &&
                  offsetof(WaitReport, iteration) == 16 &&
                  offsetof(WaitReport, detail) == 24 &&
                  offsetof(WaitReport, expected) == 32 &&
                  offsetof(WaitReport, seen) == 40 &&
                  offsetof(WaitReport, launch) == 48 &&
                  offsetof(WaitReport, reserved) == 56,
              "WaitReport differs from the host's");

/// What a rank passes to a launch of a plan with counts.
struct CountParams {
  /// Address of its counts; 0: it passes none.
  uint64_t given;
  /// Address where the counts of what it receives are stored; 0: nowhere.
  uint64_t received;
  /// Bytes of its input and output.
  uint64_t input;
  uint64_t output;
  /// Bytes of a count: 4 or 8; with `kCountPlaces` if the first elements of what it receives are stored after the counts.
  uint64_t width;
  /// Elements of what it counts: 1, or those of a row.
  uint64_t unit;
};
static_assert(sizeof(CountParams) == 48 &&
                  alignof(CountParams) == 8 &&
                  offsetof(CountParams, given) == 0 &&
                  offsetof(CountParams, received) == 8 &&
                  offsetof(CountParams, input) == 16 &&
                  offsetof(CountParams, output) == 24 &&
                  offsetof(CountParams, width) == 32 &&
                  offsetof(CountParams, unit) == 40,
              "CountParams differs from the host's");

/// Counts that exceed what a launch has room for, in mapped host memory.
struct CountReport {
  /// The `CountLimit`; 0: there is no report. Stored last.
  uint64_t state;
  /// The rank that passed the count, or whose buffer it is.
  uint64_t rank;
  uint64_t demand;
  uint64_t room;
  /// The other rank of the count; of a sum, of its largest part.
  uint64_t peer;
  uint64_t part;
  /// Counted from 1.
  uint64_t launch;
  uint64_t reserved;
};
static_assert(sizeof(CountReport) == 64 &&
                  alignof(CountReport) == 8 &&
                  offsetof(CountReport, state) == 0 &&
                  offsetof(CountReport, rank) == 8 &&
                  offsetof(CountReport, demand) == 16 &&
                  offsetof(CountReport, room) == 24 &&
                  offsetof(CountReport, peer) == 32 &&
                  offsetof(CountReport, part) == 40 &&
                  offsetof(CountReport, launch) == 48 &&
                  offsetof(CountReport, reserved) == 56,
              "CountReport differs from the host's");

/// What a rank passes to the row norms of a launch.
struct RowParams {
  /// Addresses of the residual, gamma, and what is written besides the output: sums, quantized rows and their scales; 0: none.
  uint64_t residual;
  uint64_t gamma;
  uint64_t residual_out;
  uint64_t quantized;
  uint64_t scales;
  /// Address of the divisor of quantized rows without scales of their own, a float; 0: `factor` is its inverse.
  uint64_t scale;
  /// Bits of floats: what is added to the mean of the squares, and to gamma; the factor of quantized rows.
  uint32_t eps;
  uint32_t bias;
  uint32_t factor;
  /// Not 0: rows are normalized, otherwise the residual is added only.
  uint32_t normalizes;
  /// Bytes of a row.
  uint64_t row;
};
static_assert(sizeof(RowParams) == 72 &&
                  alignof(RowParams) == 8 &&
                  offsetof(RowParams, residual) == 0 &&
                  offsetof(RowParams, gamma) == 8 &&
                  offsetof(RowParams, residual_out) == 16 &&
                  offsetof(RowParams, quantized) == 24 &&
                  offsetof(RowParams, scales) == 32 &&
                  offsetof(RowParams, scale) == 40 &&
                  offsetof(RowParams, eps) == 48 &&
                  offsetof(RowParams, bias) == 52 &&
                  offsetof(RowParams, factor) == 56 &&
                  offsetof(RowParams, normalizes) == 60 &&
                  offsetof(RowParams, row) == 64,
              "RowParams differs from the host's");

/// A queue from the thread blocks of a rank to the host's proxy.
struct Fifo {
  /// Address of the `Trigger`s, in mapped host memory.
  uint64_t slots;
  /// Address of the number of triggers pushed, in device memory.
  uint64_t head;
  /// Address of the number of triggers whose work is complete, in mapped host memory.
  uint64_t handled;
  /// Number of slots.
  uint64_t size;
};
static_assert(sizeof(Fifo) == 32 &&
                  alignof(Fifo) == 8 &&
                  offsetof(Fifo, slots) == 0 &&
                  offsetof(Fifo, head) == 8 &&
                  offsetof(Fifo, handled) == 16 &&
                  offsetof(Fifo, size) == 24,
              "Fifo differs from the host's");

/// A request to the proxy: copy `bytes` from `src` (zeros if that is 0) to `dst`, then increment the counter at `signal`
/// if that is not 0.
struct Trigger {
  /// Its position plus 1, stored last: then the trigger is complete.
  uint64_t turn;
  uint64_t src;
  uint64_t dst;
  uint64_t bytes;
  uint64_t signal;
  uint64_t fifo;
  uint64_t reserved[2];
};
static_assert(sizeof(Trigger) == 64 &&
                  alignof(Trigger) == 8 &&
                  offsetof(Trigger, turn) == 0 &&
                  offsetof(Trigger, src) == 8 &&
                  offsetof(Trigger, dst) == 16 &&
                  offsetof(Trigger, bytes) == 24 &&
                  offsetof(Trigger, signal) == 32 &&
                  offsetof(Trigger, fifo) == 40 &&
                  offsetof(Trigger, reserved) == 48,
              "Trigger differs from the host's");

/// Kernel parameters: a plan bound to sizes and buffers.
struct LaunchParams {
  /// Address of a record for each thread block, of `record_bytes` each: its `Block`, then as many of its first
  /// instructions, operands and ids as all records have room for.
  uint64_t records;
  uint32_t record_bytes;
  uint32_t record_instrs;
  uint32_t record_operands;
  uint32_t record_ids;
  /// Address of the number of launches that each thread block has finished.
  uint64_t launches;
  /// Addresses of the tables of `Instr`, `Operand`, `Id` and `Fifo`.
  uint64_t instrs;
  uint64_t operands;
  uint64_t ids;
  uint64_t fifos;
  /// Address of a table: plain scratch and packets of every rank, which replace `scratch_bases` if there are more than
  /// `kInlineRanks` ranks, then like `multicast` for these.
  uint64_t scratch;
  /// Address of the address of a table of the memory for packets on this device, of all launches of the plan: the number of
  /// areas, of their vectors, then the address and the vectors of each.
  uint64_t packets;
  /// Address of a table of a plan with counts: the area of every rank, then its `CountReport`; otherwise 0.
  uint64_t counts;
  /// Address of a table that replaces `bases` if these have too little room; otherwise 0.
  uint64_t table;
  /// Addresses of the `LaunchState`, of a `WaitReport` per thread block, and of the `AbortFlags`.
  uint64_t state;
  uint64_t reports;
  uint64_t abort_flags;
  /// Maximum duration of a wait.
  uint64_t timeout_ns;
  /// Bytes from one chunk to the next.
  uint64_t stride;
  /// Granularity of slices and windows in bytes.
  uint64_t unit;
  /// Bytes of a chunk of plain scratch if offsets wrap; otherwise 0.
  uint64_t wrap;
  /// Bytes from one half of scratch and of packets to the other; 0: there are no halves.
  uint64_t half_scratch;
  uint64_t half_packets;
  uint64_t len_scratch;
  uint64_t len_packets;
  View input;
  View output;
  uint32_t num_blocks;
  /// Number of the device's first block.
  uint32_t first_block;
  uint32_t num_ranks;
  /// Number by which averages are divided.
  uint32_t divisor;
  /// Not 0: other devices take part.
  uint32_t system_scope;
  /// The `Reduction` that replaces those of operations, or `kPlanReductions`.
  uint32_t reduce;
  /// Not 0: switches may reduce floats.
  uint32_t floats_by_switch;
  /// Not 0: the host has computed the ranges of the instructions that thread blocks have in the cache first.
  uint32_t has_ranges;
  /// For each multicast group of the device, the distances from the input and from the output of the first member that
  /// operations name to the multicast address of the same bytes; 0: there is none.
  uint64_t multicast[8];
  /// Addresses of input and output of every rank; with counts, then a `CountParams` of every rank; with rows, then the first rank
  /// of this process, and a `RowParams` of each of its ranks.
  uint64_t bases[64];
  /// Addresses of plain scratch and packets of every rank.
  uint64_t scratch_bases[64];
  /// The lowest 4 bits that are set in any of these addresses.
  uint64_t low_bits;
  /// Ranges of instructions, and for each thread block the number of its first one.
  ParamRange ranges[48];
  uint8_t rows[256];
};
static_assert(sizeof(LaunchParams) == 2384 &&
                  alignof(LaunchParams) == 8 &&
                  offsetof(LaunchParams, records) == 0 &&
                  offsetof(LaunchParams, record_bytes) == 8 &&
                  offsetof(LaunchParams, record_instrs) == 12 &&
                  offsetof(LaunchParams, record_operands) == 16 &&
                  offsetof(LaunchParams, record_ids) == 20 &&
                  offsetof(LaunchParams, launches) == 24 &&
                  offsetof(LaunchParams, instrs) == 32 &&
                  offsetof(LaunchParams, operands) == 40 &&
                  offsetof(LaunchParams, ids) == 48 &&
                  offsetof(LaunchParams, fifos) == 56 &&
                  offsetof(LaunchParams, scratch) == 64 &&
                  offsetof(LaunchParams, packets) == 72 &&
                  offsetof(LaunchParams, counts) == 80 &&
                  offsetof(LaunchParams, table) == 88 &&
                  offsetof(LaunchParams, state) == 96 &&
                  offsetof(LaunchParams, reports) == 104 &&
                  offsetof(LaunchParams, abort_flags) == 112 &&
                  offsetof(LaunchParams, timeout_ns) == 120 &&
                  offsetof(LaunchParams, stride) == 128 &&
                  offsetof(LaunchParams, unit) == 136 &&
                  offsetof(LaunchParams, wrap) == 144 &&
                  offsetof(LaunchParams, half_scratch) == 152 &&
                  offsetof(LaunchParams, half_packets) == 160 &&
                  offsetof(LaunchParams, len_scratch) == 168 &&
                  offsetof(LaunchParams, len_packets) == 176 &&
                  offsetof(LaunchParams, input) == 184 &&
                  offsetof(LaunchParams, output) == 208 &&
                  offsetof(LaunchParams, num_blocks) == 232 &&
                  offsetof(LaunchParams, first_block) == 236 &&
                  offsetof(LaunchParams, num_ranks) == 240 &&
                  offsetof(LaunchParams, divisor) == 244 &&
                  offsetof(LaunchParams, system_scope) == 248 &&
                  offsetof(LaunchParams, reduce) == 252 &&
                  offsetof(LaunchParams, floats_by_switch) == 256 &&
                  offsetof(LaunchParams, has_ranges) == 260 &&
                  offsetof(LaunchParams, multicast) == 264 &&
                  offsetof(LaunchParams, bases) == 328 &&
                  offsetof(LaunchParams, scratch_bases) == 840 &&
                  offsetof(LaunchParams, low_bits) == 1352 &&
                  offsetof(LaunchParams, ranges) == 1360 &&
                  offsetof(LaunchParams, rows) == 2128,
              "LaunchParams differs from the host's");

}  // namespace mscclpp

/// Name of a kernel that only modules with everything above have.
#define MSCCLPP_ABI mscclpp_abi_6036d3c7edec302a
#define MSCCLPP_ABI_NAME "mscclpp_abi_6036d3c7edec302a"
