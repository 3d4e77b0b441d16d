//! Structs that host and device share: declared once here, checked on both sides.
//!
//! `abi!` declares a struct and its C++ text, with assertions of its size and of every field's offset. `kernels/abi.h`
//! consists of these texts; a test fails if it is stale, and the module's `abi_hash` must be [`HASH`] when it is
//! loaded.

#![allow(missing_docs, reason = "fields are described where they are filled in and in kernels/abi.h")]

use bytemuck::{Pod, Zeroable};

/// Returns the C++ name of a field's type.
#[cfg(test)]
trait Field {
    const NAME: &'static str;
}

#[cfg(test)]
macro_rules! fields {
    ($($type:ty = $name:literal),*) => { $(impl Field for $type { const NAME: &'static str = $name; })* };
}

#[cfg(test)]
fields!(u8 = "uint8_t", u16 = "uint16_t", u32 = "uint32_t", u64 = "uint64_t");

macro_rules! abi {
    ($($(#[doc = $doc:literal])* $name:ident ($size:literal) { $($field:ident: $type:tt,)* })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: abi!(@rust $type),)* }
            const _: () = assert!(size_of::<$name>() == $size);
        )*

        /// Returns the text of `kernels/abi.h`.
        #[cfg(test)]
        fn header() -> String {
            let mut text = String::from(HEAD);
            $(
                for line in [$($doc),*] {
                    text += &format!("///{line}\n");
                }
                text += concat!("struct ", stringify!($name), " {\n");
                $(text += &abi!(@cpp $field $type);)*
                text += "};\n";
                let mut asserts = vec![format!("sizeof({0}) == {1}", stringify!($name), size_of::<$name>())];
                $(asserts.push(format!(
                    "offsetof({}, {}) == {}",
                    stringify!($name), stringify!($field), std::mem::offset_of!($name, $field)
                ));)*
                text += &format!(
                    "static_assert({},\n              \"{}: abi.rs and abi.h disagree\");\n\n",
                    asserts.join(" &&\n                  "), stringify!($name)
                );
            )*
            text + &format!(
                "/// Most threads of a block, and of one that combines in a wider type than its elements'.\n\
                 constexpr uint32_t kMostThreads = {MOST_THREADS}, kMostThreadsWide = {MOST_THREADS_WIDE};\n\n\
                 /// Of all names, sizes and places above.\nconstexpr uint64_t kAbiHash = {HASH:#x}ull;\n\n}}  // namespace mscclpp\n"
            )
        }

        /// Hash of all names, sizes and offsets, which must be equal on host and device.
        pub(crate) const HASH: u64 = {
            let mut hash = FNV;
            $(
                hash = mix(hash, stringify!($name), size_of::<$name>());
                $(hash = mix(hash, stringify!($field), std::mem::offset_of!($name, $field));)*
            )*
            hash
        };
    };
    (@rust [$type:ty; $len:tt]) => { [$type; $len] };
    (@rust $type:ty) => { $type };
    (@cpp $field:ident [$type:ty; $len:tt]) => {
        format!("  {} {}[{}];\n", <$type as Field>::NAME, stringify!($field), $len)
    };
    (@cpp $field:ident View) => { format!("  View {};\n", stringify!($field)) };
    (@cpp $field:ident $type:ty) => { format!("  {} {};\n", <$type as Field>::NAME, stringify!($field)) };
}

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

const fn mix(mut hash: u64, name: &str, number: usize) -> u64 {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    (hash ^ number as u64).wrapping_mul(0x100_0000_01b3)
}

#[cfg(test)]
const HEAD: &str =
    "// What host and device share. Written by the test `the_header_is_up_to_date` of mscclpp-exec/src/cuda/abi.rs:
// change that file, then run it with MSCCLPP_BLESS=1.
#pragma once
#include \"dev.h\"

namespace mscclpp {

";

abi! {
    /// A thread block: its operations are `first..end` of `Launch.instrs`. `operands` and `ids` are those of the first one.
    Agent (32) {
        rank: u32,
        block: u32,
        first: u32,
        end: u32,
        operands: u32,
        ids: u32,
        fifo: u32,
        reserved: u32,
    }

    /// One operation. `slice_index` of `slice_of` parts of every reference; `count`: blocks of a barrier, chunks of a loop;
    /// `body`: operations of a loop; `unit`: bytes of a loop's window; `size`: chunks of the first source; `around`: the header
    /// of the loop that it is in, counted from 1, or 0; `src_group`, `dst_group`: the multicast group that the sources or the
    /// destinations are, counted from 1, or 0.
    Instr (64) {
        action: u8,
        reduce: u8,
        flags: u8,
        kind: u8,
        op: u32,
        operands: u32,
        srcs: u32,
        dsts: u32,
        first_id: u32,
        ids: u32,
        slice_index: u32,
        slice_of: u32,
        count: u32,
        body: u32,
        size: u32,
        unit: u64,
        around: u32,
        src_group: u16,
        dst_group: u16,
    }

    /// A range of chunks of a rank's input (0), output (1), plain scratch (2) or packets (3).
    Operand (16) {
        rank: u32,
        index: u32,
        size: u32,
        space: u32,
    }

    /// What an operation signals or waits for. `counter`: the pair's inbound counter for a signal, the own one for a wait,
    /// a semaphore's units, a barrier's arrivals. A wait expects `launches * per_launch + ordinal` if `ordinal` is not 0, else
    /// one more than the last on `expected`.
    Id (32) {
        counter: u64,
        expected: u64,
        per_launch: u32,
        ordinal: u32,
        number: u32,
        reserved: u32,
    }

    /// The bytes of a buffer as a plan sees it: parts of `part` bytes, each padded to `padded`. `len`: all bytes.
    View (24) {
        len: u64,
        part: u64,
        padded: u64,
    }

    /// What a launch leaves for the next one, in device memory.
    State (32) {
        launches: u64,
        finished: u64,
        abort: u64,
        reserved: u64,
    }

    /// What a thread block waited for when it gave up. `state`: 0 if it did not. `launch`: counted from 1. `what`: 1 a signal, 2 a
    /// semaphore, 3 a barrier, 4 a packet, 5 the proxy. `id`: channel, semaphore, barrier, or first chunk of the packets;
    /// `detail`: the packet's number.
    Report (64) {
        state: u32,
        what: u32,
        instr: u32,
        id: u32,
        iteration: u64,
        detail: u64,
        expected: u64,
        seen: u64,
        launch: u64,
        reserved: u64,
    }

    /// A queue between the blocks of a rank and the host's proxy. `slots`: mapped host memory; `head`: device memory;
    /// `handled`: mapped host memory, positions whose work is done.
    Fifo (32) {
        slots: u64,
        head: u64,
        handled: u64,
        size: u64,
    }

    /// A request to the proxy: `bytes` from `src` (zeros if that is 0) to `dst`, then one more on the counter `signal` if that
    /// is not 0. Ready when `turn` is its position + 1.
    Trigger (64) {
        turn: u64,
        src: u64,
        dst: u64,
        bytes: u64,
        signal: u64,
        fifo: u64,
        reserved: [u64; 2],
    }

    /// A kernel's argument: a plan bound to sizes and buffers. `bases`: input and output of every rank; where there are more
    /// ranks than fit, `table` has them. `scratch`: plain scratch and packets of every rank. `reduce`: the reduction in place of
    /// the operations' own, if it is below 5. `multicast`: of each group of the device the distance from the input and from
    /// the output of the first member that operations name to the multicast address of the same bytes; 0: there is none. Those of
    /// scratch and packets lie behind the ranks' in `scratch`. `float_sums_by_switch`: whether switches may sum floats, in whatever
    /// order.
    Launch (800) {
        agents: u64,
        instrs: u64,
        operands: u64,
        ids: u64,
        fifos: u64,
        scratch: u64,
        table: u64,
        state: u64,
        reports: u64,
        host_abort: u64,
        timeout_ns: u64,
        stride: u64,
        unit: u64,
        wrap: u64,
        half_scratch: u64,
        half_packets: u64,
        len_scratch: u64,
        len_packets: u64,
        input: View,
        output: View,
        num_agents: u32,
        first_agent: u32,
        num_ranks: u32,
        divisor: u32,
        system_scope: u32,
        reduce: u32,
        float_sums_by_switch: u32,
        reserved: u32,
        multicast: [u64; 8],
        bases: [u64; 64],
    }
}

/// Maximum number of threads of a block.
pub(crate) const MOST_THREADS: u32 = 1024;

/// Maximum number of threads of a block that combines in a wider type than its elements': accumulators need at least
/// twice the registers.
pub(crate) const MOST_THREADS_WIDE: u32 = 512;

/// Number of ranks whose buffers fit into the kernel parameters.
pub(crate) const INLINE_RANKS: usize = 32;

/// Multicast groups of a device, each with two distances in the kernel parameters.
pub(crate) const GROUPS: usize = 4;

#[cfg(test)]
mod tests {
    #[test]
    fn the_header_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/abi.h");
        let expected = super::header();
        if std::env::var_os("MSCCLPP_BLESS").is_some() {
            std::fs::write(path, &expected).expect("kernels/abi.h can be written");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "kernels/abi.h is stale: run this test with MSCCLPP_BLESS=1");
    }
}
