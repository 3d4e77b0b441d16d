//! Ranks on threads.

use mscclpp_communicator::Communicator;

/// Runs a function on every rank of a communicator, each on a thread; returns the results in the order of ranks.
pub(crate) fn on_ranks<R: Send>(ranks: u32, body: impl Fn(&Communicator) -> R + Sync) -> Vec<R> {
    on_comms(Communicator::local(ranks).expect("a communicator"), body)
}

/// Runs a function on each of the ranks of this process, each on a thread; returns the results in their order.
pub(crate) fn on_comms<R: Send>(comms: Vec<Communicator>, body: impl Fn(&Communicator) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = comms.into_iter().map(|comm| scope.spawn(move || body(&comm))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}
