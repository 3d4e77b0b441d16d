//! A long sequence of mixed calls, after which the process uses no more memory than after the first ones.
//!
//! `cargo test --release -p mscclpp-exec --test soak -- --ignored` makes 100 000 calls.

use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Communicator;

/// Returns the bytes of memory of this process without files, which the system loads and evicts.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux says");
    let kib = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    };
    ["RssAnon:", "RssShmem:", "VmSwap:"].map(kib).iter().sum::<u64>() << 10
}

/// Makes mixed calls on four ranks; returns bytes in memory after a third of them, when the caches of prepared calls
/// are nearly full, and at the end.
fn soak(calls: u64) -> (u64, u64) {
    let mut sizes = Vec::new();
    std::thread::scope(|scope| {
        let comms = Communicator::local(4).expect("a group");
        let rank = |comm: Communicator| {
            let mut after_a_third = 0;
            let mut shared = comm.alloc::<f32>(1 << 12).expect("a little memory");
            let mut dice = 1_u64;
            for call in 0..calls {
                dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                // More kinds and sizes than a communicator caches.
                let len = 4 * (1 + (dice >> 40) as usize % 100);
                let me = comm.rank() as f32;
                let mut x = vec![me; len];
                match (dice >> 33) % 6 {
                    0 => comm.all_reduce_in_place(&mut x, ReduceOp::Sum).map(|()| assert_eq!(x[len - 1], 6.0)),
                    1 => comm.broadcast_in_place(&mut x, 2).map(|()| assert_eq!(x[0], 2.0)),
                    2 => comm.all_to_all_in_place(&mut x).map(|()| assert_eq!(x[len - 1], 3.0)),
                    3 => comm.reduce_in_place(&mut x, ReduceOp::Max, 1).map(|()| assert!(me != 1.0 || x[0] == 3.0)),
                    4 => comm
                        .all_to_all_v(&x, &[len, 0, 0, 0])
                        .map(|got| assert_eq!(got.elements.len(), if me == 0.0 { 4 * len } else { 0 })),
                    _ => {
                        shared[..len].fill(me);
                        comm.all_reduce_in_place(&mut shared[..len], ReduceOp::Sum).map(|()| assert_eq!(shared[0], 6.0))
                    }
                }
                .unwrap_or_else(|error| panic!("call {call}: {error}"));
                if call == calls / 3 {
                    after_a_third = resident();
                }
            }
            (after_a_third, resident())
        };
        let threads: Vec<_> = comms.into_iter().map(|comm| scope.spawn(move || rank(comm))).collect();
        sizes = threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect();
    });
    sizes[0]
}

fn is_flat(calls: u64) {
    let (early, late) = soak(calls);
    // The memory that allocators retain varies by a little.
    assert!(late < early + early / 4 + (8 << 20), "{calls} calls: {early} bytes after a third, {late} at the end");
}

#[test]
fn memory_does_not_grow_over_few_calls() {
    is_flat(3_000);
}

#[test]
#[ignore = "takes minutes"]
fn memory_does_not_grow() {
    is_flat(100_000);
}
