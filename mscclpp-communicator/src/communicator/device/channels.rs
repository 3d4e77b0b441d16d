//! Channels for user-supplied kernels.

use std::panic::Location;

use super::OnStream;
use super::posted::Kind;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::channels::{ChannelOptions, Channels};
use mscclpp_exec::cuda::{DeviceRef, DeviceVec, bytes_of};

impl OnStream<'_> {
    /// Connects kernels of all ranks by [channels](mscclpp_exec::cuda::channels) over `memory`, which [`alloc`](Self::alloc) has returned. A call of
    /// all ranks, with as many elements and the same options. Waits of kernels have the timeout of the call
    /// ([`Communicator::with_timeout`](crate::Communicator::with_timeout)).
    ///
    /// # Errors
    /// As [`OnStream`]; [`Error::Capturing`]; [`Error::NotShareable`] on all ranks if the memory of
    /// one of them is not of `alloc` of this communicator. Different sizes or options are different calls.
    #[track_caller]
    pub fn channels<T: Element>(&self, memory: DeviceVec<T>, options: ChannelOptions) -> Result<Channels<T>, Error> {
        if self.stream().is_capturing()? {
            return Err(Error::Capturing { what: "cannot connect channels".into() });
        }
        let (mut calls, place) = (self.communicator().calls()?, Location::caller());
        self.communicator().record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.check(call.stream)?;
            connection.post(Kind::Channels(options, bytes_of::<T>(memory.len())), &call)?;
            let counters = connection.alloc::<u64>(&call, options.num_counters(self.communicator().num_ranks()))?;
            let lent = memory.lend(self.stream()).map(|lent| lent.registration());
            let memory = lent.and_then(|registration| match registration {
                Some(registration) if registration.executor == connection.executor.number() => Ok(memory),
                _ => {
                    let (rank, reason) = (self.communicator().rank(), "it is not of `OnStream::alloc`".into());
                    Err(Error::NotShareable { rank, reason })
                }
            });
            Channels::new(&connection.executor, memory, counters, options, self.communicator().timeout())
        })
    }
}
