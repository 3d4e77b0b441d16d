//! Ranks on threads.

use mscclpp_exec::group::Group;

/// Runs a function on every rank of a group, each on a thread; what they return, in the order of ranks.
pub(crate) fn on_ranks<R: Send>(ranks: u32, body: impl Fn(&mut Group) -> R + Sync) -> Vec<R> {
    let groups = Group::local(ranks).expect("a group");
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = groups.into_iter().map(|mut group| scope.spawn(move || body(&mut group))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}
