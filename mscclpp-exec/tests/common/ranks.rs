//! Ranks on threads.

use mscclpp_exec::Communicator;

/// Runs a function on every rank of a communicator, each on a thread; returns the results in the order of ranks.
pub(crate) fn on_ranks<R: Send>(ranks: u32, body: impl Fn(&Communicator) -> R + Sync) -> Vec<R> {
    let comms = Communicator::local(ranks).expect("a communicator");
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = comms.into_iter().map(|comm| scope.spawn(move || body(&comm))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}
