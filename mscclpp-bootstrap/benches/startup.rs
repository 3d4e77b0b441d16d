//! Time to start a job: ranks as threads of this process, which join over TCP. `cargo bench -p mscclpp-bootstrap --bench startup`.
//!
//! Prints, per number of ranks: the time until all have joined and have passed a barrier, the same per rank, and the
//! descriptors that a rank needs, both ends of its connection to rank 0 included.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::{Bootstrap, Options, RootListener};

/// Stack of a rank's thread.
const STACK_BYTES: usize = 256 << 10;

fn main() {
    let options =
        Options::default().timeout(Duration::from_secs(300)).heartbeat_timeout(Some(Duration::from_secs(120)));
    for ranks in [16, 64, 256, 1024] {
        let before = descriptors();
        let start = Instant::now();
        let joined = Barrier::new(ranks as usize);
        let needed = std::thread::scope(|scope| {
            let listener = RootListener::bind([127, 0, 0, 1].into()).expect("a port");
            let (id, joined) = (listener.unique_id().clone(), &joined);
            let others: Vec<_> = (1..ranks)
                .map(|rank| {
                    let id = id.clone();
                    let join =
                        move || drop(pass(id.join(rank, ranks, options).expect("all ranks join"), joined, start));
                    std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, join).expect("a thread")
                })
                .collect();
            let (first, time) = pass(listener.connect(ranks, options).expect("all ranks join"), joined, start);
            let needed = descriptors() - before;
            first.barrier().expect("no rank is lost");
            others.into_iter().for_each(|thread| thread.join().expect("no panic"));
            println!(
                "{ranks} ranks: {:.0} ms, {:.0} us per rank, {:.1} descriptors per rank",
                time.as_secs_f64() * 1e3,
                time.as_secs_f64() * 1e6 / f64::from(ranks),
                needed as f64 / f64::from(ranks)
            );
            needed
        });
        assert!(needed <= 8 * ranks as usize, "{needed} descriptors for {ranks} ranks");
    }
}

/// Passes a barrier of all ranks, and returns the time until then. Rank 0 counts descriptors between that and another one.
fn pass(rank: Bootstrap, joined: &Barrier, start: Instant) -> (Bootstrap, Duration) {
    rank.barrier().expect("no rank is lost");
    let time = start.elapsed();
    joined.wait();
    if rank.rank() > 0 {
        rank.barrier().expect("no rank is lost");
    }
    (rank, time)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("descriptors").count()
}
