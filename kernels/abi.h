// What host and device share. Written by the test `the_header_is_up_to_date` of mscclpp-exec/src/cuda/abi.rs:
// change that file, then run it with MSCCLPP_BLESS=1.
#pragma once
#include "dev.h"

namespace mscclpp {

/// A thread block: its operations are `first..end` of `Launch.instrs`. `operands` and `ids` are those of the first one.
struct Agent {
  uint32_t rank;
  uint32_t block;
  uint32_t first;
  uint32_t end;
  uint32_t operands;
  uint32_t ids;
  uint32_t fifo;
  uint32_t reserved;
};
static_assert(sizeof(Agent) == 32 &&
                  offsetof(Agent, rank) == 0 &&
                  offsetof(Agent, block) == 4 &&
                  offsetof(Agent, first) == 8 &&
                  offsetof(Agent, end) == 12 &&
                  offsetof(Agent, operands) == 16 &&
                  offsetof(Agent, ids) == 20 &&
                  offsetof(Agent, fifo) == 24 &&
                  offsetof(Agent, reserved) == 28,
              "Agent: abi.rs and abi.h disagree");

/// One operation. `slice_index` of `slice_of` parts of every reference; `count`: blocks of a barrier, chunks of a loop;
/// `body`: operations of a loop; `unit`: bytes of a loop's window; `size`: chunks of the first source; `around`: the header
/// of the loop that it is in, counted from 1, or 0; `src_group`, `dst_group`: the multicast group that the sources or the
/// destinations are, counted from 1, or 0.
struct Instr {
  uint8_t action;
  uint8_t reduce;
  uint8_t flags;
  uint8_t kind;
  uint32_t op;
  uint32_t operands;
  uint32_t srcs;
  uint32_t dsts;
  uint32_t first_id;
  uint32_t ids;
  uint32_t slice_index;
  uint32_t slice_of;
  uint32_t count;
  uint32_t body;
  uint32_t size;
  uint64_t unit;
  uint32_t around;
  uint16_t src_group;
  uint16_t dst_group;
};
static_assert(sizeof(Instr) == 64 &&
                  offsetof(Instr, action) == 0 &&
                  offsetof(Instr, reduce) == 1 &&
                  offsetof(Instr, flags) == 2 &&
                  offsetof(Instr, kind) == 3 &&
                  offsetof(Instr, op) == 4 &&
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
                  offsetof(Instr, around) == 56 &&
                  offsetof(Instr, src_group) == 60 &&
                  offsetof(Instr, dst_group) == 62,
              "Instr: abi.rs and abi.h disagree");

/// A range of chunks of a rank's input (0), output (1), plain scratch (2) or packets (3).
struct Operand {
  uint32_t rank;
  uint32_t index;
  uint32_t size;
  uint32_t space;
};
static_assert(sizeof(Operand) == 16 &&
                  offsetof(Operand, rank) == 0 &&
                  offsetof(Operand, index) == 4 &&
                  offsetof(Operand, size) == 8 &&
                  offsetof(Operand, space) == 12,
              "Operand: abi.rs and abi.h disagree");

/// What an operation signals or waits for. `counter`: the pair's inbound counter for a signal, the own one for a wait,
/// a semaphore's units, a barrier's arrivals. A wait expects `launches * per_launch + ordinal` if `ordinal` is not 0, else
/// one more than the last on `expected`.
struct Id {
  uint64_t counter;
  uint64_t expected;
  uint32_t per_launch;
  uint32_t ordinal;
  uint32_t number;
  uint32_t reserved;
};
static_assert(sizeof(Id) == 32 &&
                  offsetof(Id, counter) == 0 &&
                  offsetof(Id, expected) == 8 &&
                  offsetof(Id, per_launch) == 16 &&
                  offsetof(Id, ordinal) == 20 &&
                  offsetof(Id, number) == 24 &&
                  offsetof(Id, reserved) == 28,
              "Id: abi.rs and abi.h disagree");

/// The bytes of a buffer as a plan sees it: parts of `part` bytes, each padded to `padded`. `len`: all bytes.
struct View {
  uint64_t len;
  uint64_t part;
  uint64_t padded;
};
static_assert(sizeof(View) == 24 &&
                  offsetof(View, len) == 0 &&
                  offsetof(View, part) == 8 &&
                  offsetof(View, padded) == 16,
              "View: abi.rs and abi.h disagree");

/// What a launch leaves for the next one, in device memory.
struct State {
  uint64_t launches;
  uint64_t finished;
  uint64_t abort;
  uint64_t reserved;
};
static_assert(sizeof(State) == 32 &&
                  offsetof(State, launches) == 0 &&
                  offsetof(State, finished) == 8 &&
                  offsetof(State, abort) == 16 &&
                  offsetof(State, reserved) == 24,
              "State: abi.rs and abi.h disagree");

/// What a thread block waited for when it gave up. `state`: 0 if it did not. `launch`: counted from 1. `what`: 1 a signal, 2 a
/// semaphore, 3 a barrier, 4 a packet, 5 the proxy. `id`: channel, semaphore, barrier, or first chunk of the packets;
/// `detail`: the packet's number.
struct Report {
  uint32_t state;
  uint32_t what;
  uint32_t instr;
  uint32_t id;
  uint64_t iteration;
  uint64_t detail;
  uint64_t expected;
  uint64_t seen;
  uint64_t launch;
  uint64_t reserved;
};
static_assert(sizeof(Report) == 64 &&
                  offsetof(Report, state) == 0 &&
                  offsetof(Report, what) == 4 &&
                  offsetof(Report, instr) == 8 &&
                  offsetof(Report, id) == 12 &&
                  offsetof(Report, iteration) == 16 &&
                  offsetof(Report, detail) == 24 &&
                  offsetof(Report, expected) == 32 &&
                  offsetof(Report, seen) == 40 &&
                  offsetof(Report, launch) == 48 &&
                  offsetof(Report, reserved) == 56,
              "Report: abi.rs and abi.h disagree");

/// A queue between the blocks of a rank and the host's proxy. `slots`: mapped host memory; `head`: device memory;
/// `handled`: mapped host memory, positions whose work is done.
struct Fifo {
  uint64_t slots;
  uint64_t head;
  uint64_t handled;
  uint64_t size;
};
static_assert(sizeof(Fifo) == 32 &&
                  offsetof(Fifo, slots) == 0 &&
                  offsetof(Fifo, head) == 8 &&
                  offsetof(Fifo, handled) == 16 &&
                  offsetof(Fifo, size) == 24,
              "Fifo: abi.rs and abi.h disagree");

/// A request to the proxy: `bytes` from `src` (zeros if that is 0) to `dst`, then one more on the counter `signal` if that
/// is not 0. Ready when `turn` is its position + 1.
struct Trigger {
  uint64_t turn;
  uint64_t src;
  uint64_t dst;
  uint64_t bytes;
  uint64_t signal;
  uint64_t fifo;
  uint64_t reserved[2];
};
static_assert(sizeof(Trigger) == 64 &&
                  offsetof(Trigger, turn) == 0 &&
                  offsetof(Trigger, src) == 8 &&
                  offsetof(Trigger, dst) == 16 &&
                  offsetof(Trigger, bytes) == 24 &&
                  offsetof(Trigger, signal) == 32 &&
                  offsetof(Trigger, fifo) == 40 &&
                  offsetof(Trigger, reserved) == 48,
              "Trigger: abi.rs and abi.h disagree");

/// A kernel's argument: a plan bound to sizes and buffers. `bases`: input and output of every rank; where there are more
/// ranks than fit, `table` has them. `scratch`: plain scratch and packets of every rank. `reduce`: the reduction in place of
/// the operations' own, if it is below 5. `multicast`: of each group of the device the distance from the input and from
/// the output of the first member that operations name to the multicast address of the same bytes; 0: there is none. Those of
/// scratch and packets lie behind the ranks' in `scratch`. `float_sums_by_switch`: whether switches may sum floats, in whatever
/// order.
struct Launch {
  uint64_t agents;
  uint64_t instrs;
  uint64_t operands;
  uint64_t ids;
  uint64_t fifos;
  uint64_t scratch;
  uint64_t table;
  uint64_t state;
  uint64_t reports;
  uint64_t host_abort;
  uint64_t timeout_ns;
  uint64_t stride;
  uint64_t unit;
  uint64_t wrap;
  uint64_t half_scratch;
  uint64_t half_packets;
  uint64_t len_scratch;
  uint64_t len_packets;
  View input;
  View output;
  uint32_t num_agents;
  uint32_t first_agent;
  uint32_t num_ranks;
  uint32_t divisor;
  uint32_t system_scope;
  uint32_t reduce;
  uint32_t float_sums_by_switch;
  uint32_t reserved;
  uint64_t multicast[8];
  uint64_t bases[64];
};
static_assert(sizeof(Launch) == 800 &&
                  offsetof(Launch, agents) == 0 &&
                  offsetof(Launch, instrs) == 8 &&
                  offsetof(Launch, operands) == 16 &&
                  offsetof(Launch, ids) == 24 &&
                  offsetof(Launch, fifos) == 32 &&
                  offsetof(Launch, scratch) == 40 &&
                  offsetof(Launch, table) == 48 &&
                  offsetof(Launch, state) == 56 &&
                  offsetof(Launch, reports) == 64 &&
                  offsetof(Launch, host_abort) == 72 &&
                  offsetof(Launch, timeout_ns) == 80 &&
                  offsetof(Launch, stride) == 88 &&
                  offsetof(Launch, unit) == 96 &&
                  offsetof(Launch, wrap) == 104 &&
                  offsetof(Launch, half_scratch) == 112 &&
                  offsetof(Launch, half_packets) == 120 &&
                  offsetof(Launch, len_scratch) == 128 &&
                  offsetof(Launch, len_packets) == 136 &&
                  offsetof(Launch, input) == 144 &&
                  offsetof(Launch, output) == 168 &&
                  offsetof(Launch, num_agents) == 192 &&
                  offsetof(Launch, first_agent) == 196 &&
                  offsetof(Launch, num_ranks) == 200 &&
                  offsetof(Launch, divisor) == 204 &&
                  offsetof(Launch, system_scope) == 208 &&
                  offsetof(Launch, reduce) == 212 &&
                  offsetof(Launch, float_sums_by_switch) == 216 &&
                  offsetof(Launch, reserved) == 220 &&
                  offsetof(Launch, multicast) == 224 &&
                  offsetof(Launch, bases) == 288,
              "Launch: abi.rs and abi.h disagree");

/// Most threads of a block, and of one that combines in a wider type than its elements'.
constexpr uint32_t kMostThreads = 1024, kMostThreadsWide = 512;

/// Of all names, sizes and places above.
constexpr uint64_t kAbiHash = 0x3f229eb4c91492c0ull;

}  // namespace mscclpp
