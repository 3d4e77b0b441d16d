//! Everything that host and device share: the only definition of these numbers, enums and structs.
//!
//! `kernels/abi.h` is generated from this module, and a test fails if it is stale. The header asserts the size of every
//! struct and the offset of every field. `HASH` covers all names, types and values; modules have a kernel whose name
//! contains the hash of the header that they were compiled with, and a module without it is rejected when it is loaded.

#[cfg(test)]
mod header;
mod macros;

use mscclpp_core::types::ReduceOp;

use self::macros::{Constant, Enum, Field, Struct, abi};
use mscclpp_base::interpret::Space as HostSpace;

mscclpp_core::device_opcodes! { abi! {
    constants {
        /// Maximum number of threads of a block.
        MAX_THREADS: u32 = 1024;

        /// Maximum number of threads of a block that combines in a wider type than its elements': accumulators need at least
        /// twice the registers.
        MAX_THREADS_WIDE: u32 = 512;

        /// Bytes that a thread moves at once. Operands of specialized kernels consist of whole vectors.
        VECTOR_BYTES: u64 = 16;

        /// Number of instructions in the instruction cache of a block.
        CACHED_INSTRS: u32 = 32;

        /// Number of operands in the instruction cache of a block.
        CACHED_OPERANDS: u32 = 192;

        /// Number of ids in the instruction cache of a block.
        CACHED_IDS: u32 = 96;

        /// Number of ranks whose buffers fit into the kernel parameters.
        INLINE_RANKS: u32 = 32;

        /// Number of ranges in the kernel parameters, and of thread blocks whose ranges may be there.
        PARAM_RANGES: u32 = 48;
        PARAM_ROWS: u32 = 256;

        /// Maximum number of multicast groups of a device.
        MAX_GROUPS: u32 = 4;

        /// `LaunchParams::reduce` of a launch that keeps the reductions of its operations; all smaller values are a
        /// `Reduction`.
        PLAN_REDUCTIONS: u32 = 5;

        /// Bit of `Instr::flags`: the signal publishes no writes.
        FLAG_RELAXED: u8 = 1;

        /// Bit of `Instr::flags`: the put is followed by a signal.
        FLAG_THEN_SIGNAL: u8 = 2;

        /// Bit of `Instr::flags`: the put is followed by a flush.
        FLAG_THEN_FLUSH: u8 = 4;

        /// Bit of `Instr::flags`: an operand is packets.
        FLAG_USES_PACKETS: u8 = 8;

        /// Bit of `Instr::flags`: chunks of inputs and outputs begin where the counts of those before them end.
        FLAG_PACKED: u8 = 16;

        /// Bit of `Instr::flags`: the counted copy is a put, through the proxy.
        FLAG_PORT: u8 = 32;

        /// Words of a row of counts before its counts; rows are whole lines of words.
        COUNT_HEAD: u32 = 3;
        COUNT_LINE: u32 = 8;

        /// Bit of `CountParams::width`.
        COUNT_PLACES: u64 = 16;
    }

    enums {
        /// How two elements are combined.
        Reduction: u8 {
            SUM = 0;
            PROD = 1;
            MIN = 2;
            MAX = 3;
            /// A sum that is divided by the number of ranks after the last operation.
            AVG = 4;
        }

        /// Memory of a rank that contains an operand.
        Space: u32 {
            INPUT = 0;
            OUTPUT = 1;
            /// Plain data in scratch.
            SCRATCH = 2;
            /// Packets in scratch.
            PACKETS = 3;
        }

        /// What a thread block waited for.
        WaitKind: u32 {
            SIGNAL = 1;
            SEMAPHORE = 2;
            BARRIER = 3;
            PACKET = 4;
            PROXY = 5;
            COUNTS = 6;
        }

        /// What counts of a launch exceed.
        CountLimit: u64 {
            /// The maximum of a count.
            ENTRY = 1;
            /// What a rank's input, or its output, has room for.
            INPUT = 2;
            OUTPUT = 3;
        }
    }

    structs {
        /// A thread block.
        Block (48, 4) {
            rank: u32,
            block: u32,
            /// Its instructions are `first..end` of `LaunchParams::instrs`.
            first: u32,
            end: u32,
            /// Its operands and ids are those from one of these numbers to the other.
            operands: u32,
            operands_end: u32,
            ids: u32,
            ids_end: u32,
            /// Index of its rank's FIFO.
            fifo: u32,
            /// For specialized kernels: number of the function that executes it, and its slice of operands of which all thread
            /// blocks of its shape process a slice: index and number of slices.
            shape: u32,
            slice_index: u32,
            slice_of: u32,
        }

        /// One instruction.
        Instr (64, 8) {
            opcode: Opcode,
            reduce: Reduction,
            flags: u8,
            /// Kind of the operation in the plan, for the host.
            kind: u8,
            /// Instructions that the instruction cache holds with their operands and ids if this one is the first.
            cached: u32,
            /// First operand: sources, then destinations.
            operands: u32,
            srcs: u32,
            dsts: u32,
            first_id: u32,
            ids: u32,
            /// Slice of every operand: index and number of slices.
            slice_index: u32,
            slice_of: u32,
            /// Thread blocks of a barrier; chunks of a loop; of a reduction, a bit for each of its first 32 sources that is packets; the
            /// sender of a count.
            count: u32,
            /// Instructions of a loop's body; the receiver of a count.
            body: u32,
            /// Chunks of the first source.
            size: u32,
            /// Bytes of a loop's window.
            unit: u64,
            /// Header of the loop that contains the instruction, counted from 1; 0 outside of loops.
            loop_header: u32,
            /// Multicast group that the sources, or the destinations, are; counted from 1; 0: none.
            src_group: u16,
            dst_group: u16,
        }

        /// A range of chunks of a rank's buffer.
        Operand (16, 4) {
            rank: u32,
            index: u32,
            size: u32,
            space: Space,
        }

        /// What an instruction signals or waits for.
        Id (32, 8) {
            /// Address of the pair's inbound counter for a signal, of the block's own one for a wait, of a semaphore's units, or
            /// of a barrier's arrivals.
            counter: u64,
            /// Address of the number of waits begun on the channel.
            expected: u64,
            /// A wait expects `launches * per_launch + ordinal` if `ordinal` is not 0, otherwise one more than `*expected`.
            per_launch: u32,
            ordinal: u32,
            /// Number of the channel, semaphore or barrier in reports.
            number: u32,
            reserved: u32,
        }

        /// Layout of a buffer as a plan addresses it: parts of `part` bytes, each padded to `padded`.
        View (24, 8) {
            /// Bytes of all parts.
            len: u64,
            part: u64,
            padded: u64,
        }

        /// The bytes that an instruction processes, before an iteration of a loop clips them; of a loop's header, the bytes of a window and
        /// the number of iterations.
        ParamRange (16, 4) {
            start: u32,
            len: u32,
            /// If each operand is one run: the end of the range within all operands. Nothing is to be done after it.
            end: u32,
            /// Whether each operand is one run.
            whole: u16,
            /// If so, the lowest 4 bits that are set in the distance of any operand from the beginning of its buffer.
            low_bits: u16,
        }

        /// State that a launch leaves for the next one, in device memory.
        LaunchState (16, 8) {
            /// Not 0: a thread block has aborted the launch.
            abort: u64,
            reserved: u64,
        }

        /// Abort requests, in mapped host memory. Not 0: requested.
        AbortFlags (8, 4) {
            /// Written by the host, read by the devices.
            host: u32,
            /// Written by the devices, read by the host.
            device: u32,
        }

        /// What a thread block waited for when it aborted.
        WaitReport (64, 8) {
            /// 0: there is no report.
            state: u32,
            kind: WaitKind,
            /// The instruction and its iteration.
            instr: u32,
            /// Channel, semaphore or barrier; the operand of a packet; the FIFO of a proxy; the rank of a row of counts.
            id: u32,
            iteration: u64,
            /// Number of the packet in its operand.
            detail: u64,
            expected: u64,
            seen: u64,
            /// Counted from 1.
            launch: u64,
            reserved: u64,
        }

        /// What a rank passes to a launch of a plan with counts.
        CountParams (48, 8) {
            /// Address of its counts; 0: it passes none.
            given: u64,
            /// Address where the counts of what it receives are stored; 0: nowhere.
            received: u64,
            /// Bytes of its input and output.
            input: u64,
            output: u64,
            /// Bytes of a count: 4 or 8; with `COUNT_PLACES` if the first elements of what it receives are stored after the counts.
            width: u64,
            /// Elements of what it counts: 1, or those of a row.
            unit: u64,
        }

        /// Counts that exceed what a launch has room for, in mapped host memory.
        CountReport (64, 8) {
            /// The `CountLimit`; 0: there is no report. Stored last.
            state: u64,
            /// The rank that passed the count, or whose buffer it is.
            rank: u64,
            demand: u64,
            room: u64,
            /// The other rank of the count; of a sum, of its largest part.
            peer: u64,
            part: u64,
            /// Counted from 1.
            launch: u64,
            reserved: u64,
        }

        /// What a rank passes to the row norms of a launch.
        RowParams (72, 8) {
            /// Addresses of the residual, gamma, and what is written besides the output: sums, quantized rows and their scales; 0: none.
            residual: u64,
            gamma: u64,
            residual_out: u64,
            quantized: u64,
            scales: u64,
            /// Address of the divisor of quantized rows without scales of their own, a float; 0: `factor` is its inverse.
            scale: u64,
            /// Bits of floats: what is added to the mean of the squares, and to gamma; the factor of quantized rows.
            eps: u32,
            bias: u32,
            factor: u32,
            /// Not 0: rows are normalized, otherwise the residual is added only.
            normalizes: u32,
            /// Bytes of a row.
            row: u64,
        }

        /// A queue from the thread blocks of a rank to the host's proxy.
        Fifo (32, 8) {
            /// Address of the `Trigger`s, in mapped host memory.
            slots: u64,
            /// Address of the number of triggers pushed, in device memory.
            head: u64,
            /// Address of the number of triggers whose work is complete, in mapped host memory.
            handled: u64,
            /// Number of slots.
            size: u64,
        }

        /// A request to the proxy: copy `bytes` from `src` (zeros if that is 0) to `dst`, then increment the counter at `signal`
        /// if that is not 0.
        Trigger (64, 8) {
            /// Its position plus 1, stored last: then the trigger is complete.
            turn: u64,
            src: u64,
            dst: u64,
            bytes: u64,
            signal: u64,
            fifo: u64,
            reserved: [u64; 2],
        }

        /// Kernel parameters: a plan bound to sizes and buffers.
        LaunchParams (2384, 8) {
            /// Address of a record for each thread block, of `record_bytes` each: its `Block`, then as many of its first
            /// instructions, operands and ids as all records have room for.
            records: u64,
            record_bytes: u32,
            record_instrs: u32,
            record_operands: u32,
            record_ids: u32,
            /// Address of the number of launches that each thread block has finished.
            launches: u64,
            /// Addresses of the tables of `Instr`, `Operand`, `Id` and `Fifo`.
            instrs: u64,
            operands: u64,
            ids: u64,
            fifos: u64,
            /// Address of a table: plain scratch and packets of every rank, which replace `scratch_bases` if there are more than
            /// `INLINE_RANKS` ranks, then like `multicast` for these.
            scratch: u64,
            /// Address of the address of a table of the memory for packets on this device, of all launches of the plan: the number of
            /// areas, of their vectors, then the address and the vectors of each.
            packets: u64,
            /// Address of a table of a plan with counts: the area of every rank, then its `CountReport`; otherwise 0.
            counts: u64,
            /// Address of a table that replaces `bases` if these have too little room; otherwise 0.
            table: u64,
            /// Addresses of the `LaunchState`, of a `WaitReport` per thread block, and of the `AbortFlags`.
            state: u64,
            reports: u64,
            abort_flags: u64,
            /// Maximum duration of a wait.
            timeout_ns: u64,
            /// Bytes from one chunk to the next.
            stride: u64,
            /// Granularity of slices and windows in bytes.
            unit: u64,
            /// Bytes of a chunk of plain scratch if offsets wrap; otherwise 0.
            wrap: u64,
            /// Bytes from one half of scratch and of packets to the other; 0: there are no halves.
            half_scratch: u64,
            half_packets: u64,
            len_scratch: u64,
            len_packets: u64,
            input: View,
            output: View,
            num_blocks: u32,
            /// Number of the device's first block.
            first_block: u32,
            num_ranks: u32,
            /// Number by which averages are divided.
            divisor: u32,
            /// Not 0: other devices take part.
            system_scope: u32,
            /// The `Reduction` that replaces those of operations, or `PLAN_REDUCTIONS`.
            reduce: u32,
            /// Not 0: switches may reduce floats.
            floats_by_switch: u32,
            /// Not 0: the host has computed the ranges of the instructions that thread blocks have in the cache first.
            has_ranges: u32,
            /// For each multicast group of the device, the distances from the input and from the output of the first member that
            /// operations name to the multicast address of the same bytes; 0: there is none.
            multicast: [u64; 2 * MAX_GROUPS as usize],
            /// Addresses of input and output of every rank; with counts, then a `CountParams` of every rank; with rows, then the first rank
            /// of this process, and a `RowParams` of each of its ranks.
            bases: [u64; 2 * INLINE_RANKS as usize],
            /// Addresses of plain scratch and packets of every rank.
            scratch_bases: [u64; 2 * INLINE_RANKS as usize],
            /// The lowest 4 bits that are set in any of these addresses.
            low_bits: u64,
            /// Ranges of instructions, and for each thread block the number of its first one.
            ranges: [ParamRange; PARAM_RANGES as usize],
            rows: [u8; PARAM_ROWS as usize],
        }
    }
} }

/// Hash of everything that is shared, which must be equal on host and device.
const HASH: u64 = macros::hash(CONSTANTS, ENUMS, STRUCTS);

/// Returns the name of the kernel that only modules with this hash have.
pub(crate) fn kernel_name() -> String {
    format!("mscclpp_abi_{HASH:016x}")
}

impl AbortFlags {
    /// Byte offsets of the flags.
    pub const HOST: u64 = std::mem::offset_of!(Self, host) as u64;
    pub const DEVICE: u64 = std::mem::offset_of!(Self, device) as u64;
}

/// Distances of [`LaunchParams::multicast`].
pub type Distances = [u64; 2 * MAX_GROUPS as usize];

const _: () = assert!(Reduction::AVG.0 as u32 + 1 == PLAN_REDUCTIONS, "a reduction has the number that means none");

impl From<ReduceOp> for Reduction {
    fn from(op: ReduceOp) -> Self {
        match op {
            ReduceOp::Sum => Self::SUM,
            ReduceOp::Prod => Self::PROD,
            ReduceOp::Min => Self::MIN,
            ReduceOp::Max => Self::MAX,
            ReduceOp::Avg => Self::AVG,
        }
    }
}

impl From<HostSpace> for Space {
    /// On devices, copies of inputs and outputs do not exist: peers access the buffers themselves.
    fn from(space: HostSpace) -> Self {
        match space {
            HostSpace::Input | HostSpace::OwnInput => Self::INPUT,
            HostSpace::Output | HostSpace::OwnOutput => Self::OUTPUT,
            HostSpace::Scratch => Self::SCRATCH,
            HostSpace::Packets => Self::PACKETS,
        }
    }
}
