//! Continues after failures: without lost ranks, and with new ones.

use std::sync::Arc;

use mscclpp_bootstrap::{Bootstrap, Options, RootListener, UniqueId};
use mscclpp_core::collective::CollectiveKind;

use super::decide::decide;
use super::forced::Forced;
use super::handle::Communicator;
use mscclpp_base::error::Error;
use mscclpp_select::{Registry, Request};

impl Communicator {
    /// Creates a communicator of the remaining ranks, in the same order; all of them call this. `lost` is what
    /// [`Error::lost`] of the failure reports, without any rank after a mismatch or a revocation. See [`Bootstrap::shrink`].
    ///
    /// The new communicator has the registry of this one, which its first call compares among the ranks, and plans that
    /// were compiled for its number of ranks are used. Buffers of [`alloc`](Self::alloc) remain memory, but are not
    /// registered with the new communicator.
    ///
    /// # Errors
    /// As [`Bootstrap::shrink`].
    pub fn shrink(&self, lost: &[u32]) -> Result<Self, Error> {
        Ok(self.continued(self.inner.bootstrap.shrink(lost)?))
    }

    /// Compiles the plans that the calls so far need with one rank fewer, so that the first calls after a shrink by one rank
    /// compile none. Not a call of all ranks: each rank decides whether it spends the time. Returns the number of kinds and
    /// sizes of calls.
    ///
    /// # Cost
    /// The time to compile and check the plans, as in the first call of each kind and size, and their memory, a few
    /// kilobytes each. Nothing is shared with other ranks until the shrink, after which the first calls connect the ranks
    /// and share memory.
    ///
    /// # Errors
    /// [`Error::Select`] and [`Error::NoPlan`] if a call cannot be made with one rank fewer; [`Error::Busy`].
    #[doc(hidden)]
    pub fn prepare_for_shrink(&self) -> Result<usize, Error> {
        let calls = self.calls()?;
        let Some(registry) = self.lock_registry().clone() else { return Ok(0) };
        let mut prepared = 0;
        for request in calls.cache.requests().filter_map(|request| self.without_one_rank(request)) {
            decide(&registry, &Forced::default(), &request, self.rank())?;
            prepared += 1;
        }
        Ok(prepared)
    }

    /// Returns a request as it is made with one rank fewer, and equal parts of the ranks; none if no rank remains.
    fn without_one_rank(&self, request: &Request) -> Option<Request> {
        let ranks = request.num_ranks;
        let fewer = ranks.checked_sub(1).filter(|fewer| *fewer > 0)?;
        let bytes = match request.collective {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => {
                request.bytes / u64::from(ranks) * u64::from(fewer)
            }
            _ => request.bytes,
        };
        // Several nodes are full no more.
        let ranks_per_node = if self.inner.bootstrap.num_nodes() == 1 { fewer } else { 1 };
        Some(Request { num_ranks: fewer, ranks_per_node, bytes, root: request.root.min(fewer - 1), ..*request })
    }

    /// Listens for processes that join when the ranks call [`grow`](Self::grow); see [`Bootstrap::listen_for_newcomers`].
    ///
    /// # Errors
    /// As [`Bootstrap::listen_for_newcomers`].
    #[doc(hidden)]
    pub fn listen_for_newcomers(&self) -> Result<RootListener, Error> {
        Ok(self.inner.bootstrap.listen_for_newcomers()?)
    }

    /// Creates a communicator of these ranks and new processes, which take the ranks `newcomers`; see [`Bootstrap::grow`].
    /// Rank 0 passes the listener. The new communicator has the registry of this one; a new process that needs another one
    /// than the default sets it before its first call.
    ///
    /// # Errors
    /// As [`Bootstrap::grow`].
    pub fn grow(&self, newcomers: &[u32], listener: Option<RootListener>) -> Result<Self, Error> {
        self.wait_for_started();
        Ok(self.continued(self.inner.bootstrap.grow(newcomers, listener)?))
    }

    /// Joins a communicator that grows, as a new process; see [`Bootstrap::join_grown`].
    ///
    /// # Errors
    /// As [`Bootstrap::join_grown`].
    pub fn join_grown(id: &UniqueId, rank: u32, num_ranks: u32, options: Options) -> Result<Self, Error> {
        Ok(Bootstrap::join_grown(id, rank, num_ranks, options)?.into())
    }

    /// Creates a communicator of all ranks of the launcher's job again: of those that remain, which call this, and of those
    /// that the launcher has restarted, which call [`from_env`](Self::from_env). See [`Bootstrap::grow_from_env`].
    ///
    /// # Errors
    /// As [`Bootstrap::grow_from_env`].
    pub fn grow_from_env(&self) -> Result<Self, Error> {
        Ok(self.continued(self.inner.bootstrap.grow_from_env()?))
    }

    /// Ends the communicator for all its ranks, whose pending and later calls then fail with this rank's name; they can
    /// continue with [`shrink`](Self::shrink). See [`Bootstrap::revoke`].
    pub fn revoke(&self) {
        self.inner.bootstrap.revoke();
    }

    /// Ends the communicator for all its ranks, whose calls then fail with this rank's name and `reason`. The communicator
    /// that it was split from continues. See [`Bootstrap::abort`].
    pub fn abort(&self, reason: &str) {
        self.inner.bootstrap.abort(reason);
    }

    fn continued(&self, bootstrap: Bootstrap) -> Self {
        let registry: Option<Arc<Registry>> = self.lock_registry().clone();
        let continued = Self { timeout: self.timeout, ..Self::with_inherited(bootstrap, registry, false) };
        continued.set_order_policy(self.order_policy());
        #[cfg(feature = "cuda")]
        continued.inner.kernels.follow(&self.inner.kernels);
        continued
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mscclpp_core::types::ReduceOp;

    use super::*;

    /// Calls that need plans of several kinds.
    fn work(comm: &Communicator) {
        for len in [1_usize, 3000, 300_000] {
            let mut x = vec![1_u32; len];
            comm.all_reduce_in_place(&mut x, ReduceOp::Sum).unwrap();
            assert_eq!(x, vec![comm.num_ranks(); len]);
            comm.all_gather(&x, &mut vec![0; len * comm.num_ranks() as usize]).unwrap();
        }
    }

    #[test]
    fn calls_after_a_prepared_shrink_compile_no_plan() {
        for is_prepared in [false, true] {
            let ranks = Communicator::local(4).unwrap();
            let body = |comm: Communicator| {
                work(&comm);
                assert_eq!(if is_prepared { comm.prepare_for_shrink().unwrap() } else { 6 }, 6);
                let before = comm.registry().unwrap().num_plans();
                if comm.rank() == 3 {
                    return;
                }
                let shrunk = comm.shrink(&[3]).unwrap();
                work(&shrunk);
                assert_eq!(shrunk.registry().unwrap().num_plans() == before, is_prepared);
            };
            thread::scope(|scope| ranks.into_iter().for_each(|comm| _ = scope.spawn(|| body(comm))));
        }
    }
}
