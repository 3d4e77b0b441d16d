//! Sends and receives, which no rank makes wait on the host.
//!
//! The transfers of one direction between two ranks are a sequence, whatever travels in the other one. A transfer whose size is
//! prepared is one launch on the caller's stream. The first one of a size needs the other rank, which may come much later, so that
//! a thread makes it on a stream of the direction, and the caller's stream waits for it with a counter. A send alone, outside of a
//! group, is copied to a buffer first if it is short, so that the caller's stream does not wait for the receiver. Longer ones of a
//! group are made at the same time, each on the stream of its direction.
//!
//! | module | contents |
//! |---|---|
//! | `lane` | the transfers of one direction, and the thread that makes the first ones |
//! | `buffer` | memory for sends that wait for their receiver |
//! | `counter` | counters in device memory, at which streams wait |

mod buffer;
mod counter;
mod lane;

use std::sync::Arc;

use mscclpp_bootstrap::place;
use mscclpp_exec::cuda::Stream;
use mscclpp_exec::{Communicator, DataType, Error, Group};

pub(crate) use self::lane::Lanes;
use crate::comm::{Comm, Memory};
use crate::element::with_type;
use crate::entry::Result;

/// A send to another rank, or a receive from one.
pub(crate) struct Transfer {
    pub(crate) comm: Arc<Comm>,
    pub(crate) communicator: Communicator,
    pub(crate) stream: Arc<Stream>,
    pub(crate) memory: Memory,
    pub(crate) dtype: DataType,
    pub(crate) peer: u32,
    pub(crate) is_sent: bool,
}

impl Transfer {
    /// Lets messages name the function.
    fn enter_name(&self) -> place::Named {
        place::enter_name(if self.is_sent { "ncclSend" } else { "ncclRecv" })
    }

    fn is_with_itself(&self) -> bool {
        self.peer == self.communicator.rank()
    }

    /// Returns whether the ranks have made a transfer of this size before, so that a launch waits for no rank on the host.
    fn is_prepared(&self) -> bool {
        let len = self.memory.bytes() as usize / self.dtype.size();
        let on = self.communicator.on(&self.stream);
        with_type!(self.dtype, T => on.is_transfer_prepared::<T>(len, self.peer, self.is_sent))
    }

    /// Enqueues the transfer on a stream. Waits for the other rank if it is not prepared.
    fn enqueue(&mut self, stream: &Stream) -> std::result::Result<(), Error> {
        let (on, _name) = (self.communicator.on(stream), self.enter_name());
        match self.is_sent {
            true => with_type!(self.dtype, T => on.send::<T>(&self.memory, self.peer)),
            false => with_type!(self.dtype, T => on.recv::<T>(&mut self.memory, self.peer)),
        }
    }

    /// Adds the transfer to a group.
    fn add<'a>(&'a mut self, group: &mut Group<'a>) {
        let _name = self.enter_name();
        let Self { communicator, stream, memory, peer, .. } = self;
        match self.is_sent {
            true => with_type!(self.dtype, T => group.send_on::<T>(communicator.on(stream), &*memory, *peer)),
            false => with_type!(self.dtype, T => group.recv_on::<T>(communicator.on(stream), memory, *peer)),
        }
    }
}

/// Makes a transfer outside of a group.
pub(crate) fn make(mut transfer: Transfer) -> Result<()> {
    let comm = Arc::clone(&transfer.comm);
    comm.check_known_failure()?;
    if transfer.is_with_itself() {
        // It is an error of the group, as the other one of the two is missing.
        let mut group = Group::new();
        transfer.add(&mut group);
        return comm.result(group.run());
    }
    let made = lane::make_alone(transfer);
    comm.result(made)
}

/// Makes the transfers of a group on one communicator: no transfer waits for another one of the group.
pub(crate) fn make_grouped(mut transfers: Vec<Transfer>) -> Result<()> {
    let Some(comm) = transfers.first().map(|transfer| Arc::clone(&transfer.comm)) else { return Ok(()) };
    transfers.iter().try_for_each(|transfer| transfer.comm.check_known_failure())?;
    let made = lane::make_beside(&mut transfers).and_then(|deferred| {
        let mut group = Group::new();
        transfers.iter_mut().for_each(|transfer| transfer.add(&mut group));
        group.run()?;
        deferred.into_iter().try_for_each(lane::Deferred::wait)
    });
    comm.result(made)
}
