//! Sends and receives. Communicators make them.

use std::sync::Arc;

use mscclpp_bootstrap::place;
use mscclpp_communicator::{Communicator, Group};
use mscclpp_exec::cuda::Stream;
use mscclpp_exec::{DataType, Error, with_type};

use super::{Comm, Memory};
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

    /// Enqueues the transfer.
    fn enqueue(&mut self) -> std::result::Result<(), Error> {
        let (on, _name) = (self.communicator.on(&self.stream), self.enter_name());
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
    if transfer.peer == transfer.communicator.rank() {
        // It is an error of the group, as the other one of the two is missing.
        return make_grouped(vec![transfer]);
    }
    let comm = Arc::clone(&transfer.comm);
    comm.check_known_failure()?;
    comm.result(transfer.enqueue())
}

/// Makes the transfers of a group on one communicator: no transfer waits for another one of the group.
pub(crate) fn make_grouped(mut transfers: Vec<Transfer>) -> Result<()> {
    let Some(comm) = transfers.first().map(|transfer| Arc::clone(&transfer.comm)) else { return Ok(()) };
    comm.check_known_failure()?;
    let mut group = Group::new();
    transfers.iter_mut().for_each(|transfer| transfer.add(&mut group));
    comm.result(group.run())
}
