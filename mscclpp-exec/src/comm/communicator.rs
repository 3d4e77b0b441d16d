//! The handle of one rank to its group.

use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::Element;
use crate::process::{Executor, SharedBuffer};
use mscclpp_bootstrap::{Address, Bootstrap, Error, Options, RootListener, Secret, UniqueId};

/// One rank's handle to a group of ranks. Cloning it is cheap, and all clones are the same rank.
///
/// A communicator can be sent to another thread. Its collective calls are made one at a time, by all ranks in the same
/// order; see [`Bootstrap`] for how they fail.
#[derive(Clone, Debug)]
pub struct Communicator {
    bootstrap: Arc<Bootstrap>,
    executor: Arc<Mutex<Option<Executor>>>,
}

impl Communicator {
    /// `ranks` ranks in this process, for as many threads.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for no rank at all, [`Error::TooManyRanks`] for more than 16384.
    pub fn local(ranks: u32) -> Result<Vec<Self>, Error> {
        Ok(Bootstrap::local(ranks)?.into_iter().map(Self::from).collect())
    }

    /// [`local`](Self::local) with other deadlines.
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn local_with(ranks: u32, options: Options) -> Result<Vec<Self>, Error> {
        Ok(Bootstrap::local_with(ranks, options)?.into_iter().map(Self::from).collect())
    }

    /// Joins the job that a launcher describes in the environment: `mscclpp launch`, torchrun, mpirun, srun and their like.
    /// `docs/launching.md` lists the variables.
    ///
    /// # Errors
    /// As [`Bootstrap::from_env`].
    pub fn from_env() -> Result<Self, Error> {
        Ok(Bootstrap::from_env()?.into())
    }

    /// Joins the job of `num_ranks` ranks as `rank`. Rank 0 listens at `address`, the others look for it there.
    ///
    /// # Errors
    /// As [`Bootstrap::connect`].
    pub fn connect(address: &Address, rank: u32, size: u32, secret: &Secret, options: Options) -> Result<Self, Error> {
        Ok(Bootstrap::connect(address, rank, size, secret, options)?.into())
    }

    /// Brings `num_ranks` ranks together, as rank 0, whose [id](Host::unique_id) the others have.
    ///
    /// # Errors
    /// As [`RootListener::connect`].
    pub fn from_listener(host: RootListener, size: u32, options: Options) -> Result<Self, Error> {
        Ok(host.connect(size, options)?.into())
    }

    /// Joins the job of an id as `rank`, which is not 0.
    ///
    /// # Errors
    /// As [`UniqueId::join`].
    pub fn join(id: &UniqueId, rank: u32, size: u32, options: Options) -> Result<Self, Error> {
        Ok(id.join(rank, size, options)?.into())
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.bootstrap.rank()
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.bootstrap.num_ranks()
    }

    /// How the ranks tell each other small things: addresses, sizes, agreements.
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.bootstrap
    }

    /// The way to the other ranks' memory. The first call connects the ranks of each node, so all ranks make it.
    ///
    /// # Errors
    /// As [`Executor::new`].
    pub fn executor(&self) -> Result<Executor, crate::Error> {
        let mut transport = self.executor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = &*transport {
            return Ok(transport.clone());
        }
        let new = Executor::new(Arc::clone(&self.bootstrap))?;
        Ok(transport.insert(new).clone())
    }

    /// A buffer of `len` elements, zero at first, that launches use without copies. A call of all ranks; lengths may differ.
    ///
    /// # Errors
    /// As [`Executor::alloc`].
    pub fn alloc<T: Element>(&self, len: usize) -> Result<SharedBuffer<T>, crate::Error> {
        self.executor()?.alloc(len)
    }

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// As [`Bootstrap::all_gather`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.bootstrap.barrier()
    }

    /// What each rank brought, in the order of ranks; for small things, at most [`Bootstrap::gather_limit`] bytes each.
    ///
    /// # Errors
    /// As [`Bootstrap::all_gather`].
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.bootstrap.all_gather(bytes)
    }

    /// A communicator of the ranks that are left when a group has failed; see [`Bootstrap::shrink`].
    ///
    /// # Errors
    /// As [`Bootstrap::shrink`].
    pub fn shrink(&self, lost: &[u32]) -> Result<Self, Error> {
        Ok(self.bootstrap.shrink(lost)?.into())
    }

    /// Divides the ranks: those with one `colour` become a communicator, ordered by `key` and then by rank. A rank without
    /// colour gets none.
    ///
    /// # Errors
    /// As [`Bootstrap::all_gather`].
    pub fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Self>, Error> {
        Ok(self.bootstrap.split(colour, key)?.map(Self::from))
    }

    /// The communicator of `ranks`, in that order; `None` on the others. All ranks call it with the same list.
    ///
    /// # Errors
    /// As [`Bootstrap::subgroup`].
    pub fn subgroup(&self, ranks: &[u32]) -> Result<Option<Self>, Error> {
        Ok(self.bootstrap.subgroup(ranks)?.map(Self::from))
    }
}

impl From<Bootstrap> for Communicator {
    fn from(bootstrap: Bootstrap) -> Self {
        Self { bootstrap: Arc::new(bootstrap), executor: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_communicator_can_be_sent_and_shared() {
        fn both<T: Send + Sync + Clone>() {}
        both::<Communicator>();
    }
}
