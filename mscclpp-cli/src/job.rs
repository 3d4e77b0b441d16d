//! Runs a function on every rank: of this process, or of the job that a launcher started.

use mscclpp_communicator::Communicator;
use mscclpp_exec::error::ErrorKind;

use crate::error::{Error, Result};
use crate::memory;

/// Runs `body` on the ranks of this process: the given number on threads, or the one that the environment describes.
/// Returns the result of the first of them.
///
/// # Errors
/// [`Error::Call`] if the ranks fail to join, and the error of `body` on the first rank that failed.
pub(crate) fn on_ranks<R: Send>(ranks: Option<u32>, body: impl Fn(&Communicator) -> Result<R> + Sync) -> Result<R> {
    let Some(ranks) = ranks else {
        let comm = Communicator::from_env().map_err(|error| match error.kind() {
            ErrorKind::NotLaunched => Error::Usage(format!(
                "{error}; start the command with `mscclpp launch`, or pass --ranks to run ranks in this process"
            )),
            _ => error.into(),
        })?;
        let result = body(&comm)?;
        // Rank 0 forwards the others' messages, so no rank exits before the barrier.
        comm.bootstrap().barrier().map_err(mscclpp_exec::Error::from)?;
        return Ok(result);
    };
    let groups = Communicator::local(ranks)?;
    std::thread::scope(|scope| {
        let body = &body;
        let start = |comm: Communicator| std::thread::Builder::new().spawn_scoped(scope, move || body(&comm));
        let threads: std::result::Result<Vec<_>, _> = groups.into_iter().map(start).collect();
        let threads = threads.map_err(|error| mscclpp_exec::Error::SpawnThread(error.to_string()))?;
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<R>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        // All threads are joined, also if one failed.
        let results: Vec<_> = threads.into_iter().map(join).collect();
        let mut first = None;
        for result in results {
            let result = result?;
            first.get_or_insert(result);
        }
        first.ok_or_else(|| Error::Usage("--ranks 0: expected at least one rank".into()))
    })
}

/// Joins the job of several ranks that a launcher has started this process for; `None` if there is no such job, or if it has one rank.
///
/// # Errors
/// [`Error::Call`] if the ranks fail to join.
pub(crate) fn launched() -> Result<Option<Communicator>> {
    match Communicator::from_env() {
        Ok(comm) => Ok(Some(comm).filter(|comm| comm.num_ranks() > 1)),
        Err(error) if error.kind() == ErrorKind::NotLaunched => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Rejects a call for which all ranks of this host together have too little memory, if each of them needs `each` bytes.
/// It is a call of all ranks, which return together: none of them allocates while another one still checks.
///
/// # Errors
/// [`Error::Memory`]; [`Error::Call`] on the other ranks.
pub(crate) fn require_memory(comm: &Communicator, what: impl FnOnce() -> String, each: u64) -> Result<()> {
    let bootstrap = comm.bootstrap();
    let node = bootstrap.node_of(comm.rank())?;
    let here = (0..comm.num_ranks()).filter(|&rank| bootstrap.node_of(rank).is_ok_and(|other| other == node)).count();
    memory::require(what, each.saturating_mul(here as u64))?;
    Ok(comm.bootstrap().barrier().map_err(mscclpp_exec::Error::from)?)
}
