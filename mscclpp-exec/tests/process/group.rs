//! Ranks as threads, each with a separate bootstrap.

use std::sync::Arc;
use std::time::Duration;

use mscclpp_bootstrap::Bootstrap;
use mscclpp_exec::process::{Executor, Options};

/// Long enough for a busy machine, short enough for a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Runs `f` on every rank of a job and returns the results, in the order of ranks.
pub fn each<R: Send>(ranks: u32, f: impl Fn(Executor) -> R + Sync) -> Vec<R> {
    each_with(ranks, Options::default().timeout(DEADLINE), f)
}

/// Runs [`each`] with options.
pub fn each_with<R: Send>(ranks: u32, options: Options, f: impl Fn(Executor) -> R + Sync) -> Vec<R> {
    let f = &f;
    std::thread::scope(|scope| {
        let groups = Bootstrap::local(ranks).expect("a group");
        let threads: Vec<_> = groups
            .into_iter()
            .map(|group| scope.spawn(move || f(Executor::with_options(Arc::new(group), options).expect("a transport"))))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
