//! Functions that the examples share: running a plan at several sizes, verified, with a table; running as one rank of a
//! job, or as several.

pub mod mixture;

use std::time::Instant;

use mscclpp::ErrorKind;
use mscclpp::prelude::*;
use mscclpp::runtime::Verifier;

/// Launches per size; the fastest one is shown.
const LAUNCHES: u32 = 10;

/// Runs a plan on the CPU with f32 sums at several message sizes in bytes, compares every element of every rank with a naive
/// result in f64, and prints a row for each size.
///
/// # Errors
/// A plan that cannot run at one of the sizes.
///
/// # Panics
/// If an element is wrong.
pub fn demonstrate(plan: &Plan, sizes: &[u64]) -> mscclpp::Result<()> {
    let ranks = plan.num_ranks();
    let place = if plan.collective().in_place { "in place" } else { "out of place" };
    println!(
        "plan `{}`: {} of {ranks} ranks, {place}, {} bytes",
        plan.name(),
        plan.collective().kind.name(),
        plan.image().len()
    );
    println!("{:>12} {:>12} {:>12} {:>8}", "bytes", "time us", "GB/s", "wrong");
    let world = Executor::new(ranks);
    for &bytes in sizes {
        let mut run = world.prepare(plan, Message::new(DataType::F32, bytes / 4))?;
        let mut buffers = run.buffers()?;
        let verifier = Verifier::new(&run, 1);
        let mut best = f64::INFINITY;
        let mut wrong = 0;
        for _ in 0..LAUNCHES {
            verifier.fill(&mut buffers);
            let start = Instant::now();
            run.launch_buffers(&mut buffers)?;
            best = best.min(start.elapsed().as_secs_f64());
            let report = verifier.check(&buffers);
            assert!(!report.is_unverified(), "a collective with a known result");
            wrong += report.wrong;
        }
        println!("{bytes:>12} {:>12.1} {:>12.2} {wrong:>8}", best * 1e6, bytes as f64 / best / 1e9);
        assert_eq!(wrong, 0, "`{}` at {bytes} bytes", plan.name());
    }
    println!();
    Ok(())
}

/// Runs `body` on the rank that the launcher's environment describes; without a launcher, on `ranks` ranks of this
/// process, each on a thread.
///
/// # Errors
/// Ranks that fail to connect, and the error of `body` on the first rank that failed.
pub fn on_ranks(ranks: u32, body: impl Fn(&Communicator) -> mscclpp::Result<()> + Sync) -> mscclpp::Result<()> {
    match Communicator::from_env() {
        Ok(comm) => {
            body(&comm)?;
            // Rank 0 forwards the last messages of the other ranks, so no rank exits before the barrier.
            Ok(comm.barrier()?)
        }
        Err(error) if error.kind() == ErrorKind::NotLaunched => std::thread::scope(|scope| {
            let body = &body;
            let start = |comm| scope.spawn(move || body(&comm));
            let threads: Vec<_> = Communicator::local(ranks)?.into_iter().map(start).collect();
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect();
            results.into_iter().collect()
        }),
        Err(error) => Err(error.into()),
    }
}
