//! A launch allocates no memory on any thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use mscclpp_algorithms as algorithms;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_exec::Message;
use mscclpp_exec::cpu::{Executor, Options};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call to the system's allocator, which fulfills the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller fulfills the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfills the contract of `dealloc`, and `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn launches_do_not_allocate() {
    let names =
        ["allreduce_all_pairs", "allreduce_packets", "allgather_two_nodes", "allreduce_switch_pipeline", "send_recv"];
    for name in names {
        let algorithm = algorithms::find(name).expect(name);
        let mut spec = algorithm.spec(8, algorithm.ranks_per_node(8).expect("eight ranks make nodes"));
        spec.instances = 1;
        let trace = algorithm.record(spec, &algorithm.arguments([]).expect("defaults")).expect(name);
        let plan = Plan::new(&lower(&trace).expect(name));
        for parallel_from in [0, u64::MAX] {
            let options = Options::default().workers(Some(3)).parallel_from(parallel_from);
            let message = Message::of::<f32>(8 * 1000).any_size();
            let mut run = Executor::with_options(8, options).prepare(&plan, message).expect(name);
            let mut buffers = run.buffers().expect("memory");
            let mut allocations = |launches: u32| {
                let before = ALLOCATIONS.load(SeqCst);
                (0..launches).for_each(|_| run.launch_buffers(&mut buffers).expect(name));
                ALLOCATIONS.load(SeqCst) - before
            };
            // The first launch starts the workers, which allocate their memory when they first run, and grows tables.
            allocations(20);
            let begun = Instant::now();
            while allocations(50) > 0 {
                assert!(begun.elapsed() < Duration::from_secs(60), "{name}, {parallel_from}: it goes on allocating");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
