//! The collective calls.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::arguments::{Arguments, Lengths};
use super::handle::Communicator;
use super::serve::Typed;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

impl Communicator {
    /// Replaces `buffer` by the reduction of all ranks' buffers. All ranks get the same bits.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_reduce_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::AllReduce).op(op), buffer)
    }

    /// Writes the reduction of all ranks' inputs to `output`, which is as long as `input`.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_reduce<T: Element>(&self, input: &[T], output: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::AllReduce).op(op), input, output)
    }

    /// Writes all ranks' inputs to `output`, in the order of ranks. It is as long as all of them together.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::AllGather), input, output)
    }

    /// Gathers into `buffer` what all ranks have in it: rank r brings part r of it, a part for each rank.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::AllGather), buffer)
    }

    /// Reduces all ranks' inputs, of a part for each rank, and writes this rank's part of the result to `output`.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce_scatter<T: Element>(&self, input: &[T], output: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::ReduceScatter).op(op), input, output)
    }

    /// Reduces all ranks' buffers, of a part for each rank: part r of rank r's buffer becomes the result's. The other parts
    /// may hold anything afterwards.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce_scatter_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::ReduceScatter).op(op), buffer)
    }

    /// Sends part r of `input` to rank r, and writes what rank r sends to part r of `output`. Both are as long, with equal
    /// parts; [`all_to_all_v`](Self::all_to_all_v) takes others.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::AllToAll), input, output)
    }

    /// [`all_to_all`](Self::all_to_all) with one memory for input and output.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::AllToAll), buffer)
    }

    /// Replaces `buffer` by the root's.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn broadcast_in_place<T: Element>(&self, buffer: &mut [T], root: u32) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::Broadcast).root(root), buffer)
    }

    /// Writes the root's input to everybody's output. All ranks give both, of one length; only the root's input is read.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn broadcast<T: Element>(&self, input: &[T], output: &mut [T], root: u32) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::Broadcast).root(root), input, output)
    }

    /// Replaces the root's buffer by the reduction of all ranks' buffers; the others keep theirs.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp, root: u32) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::Reduce).op(op).root(root), buffer)
    }

    /// Writes the reduction of all ranks' inputs to the root's output. All ranks give both, of one length; the others'
    /// outputs keep their values.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce<T: Element>(&self, input: &[T], output: &mut [T], op: ReduceOp, root: u32) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::Reduce).op(op).root(root), input, output)
    }

    /// Sends `input` to the next rank, the last one to the first, and writes what the rank before sends to `output`.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn send_recv<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.call(Arguments::of(CollectiveKind::SendRecv), input, output)
    }

    /// [`send_recv`](Self::send_recv) with one memory for input and output.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn send_recv_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::SendRecv), buffer)
    }

    /// Waits until all ranks have made this call.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Error> {
        let mut calls = self.calls()?;
        #[cfg(feature = "cuda")]
        let place = std::panic::Location::caller();
        self.record(&mut calls, None, |calls| {
            #[cfg(feature = "cuda")]
            calls.devices.post_of_host(None, place)?;
            let executor = {
                let _part = self.enter_call(|| "barrier");
                self.connected()?
            };
            let of_calls = || self.inner.observed.counters.of_calls("barrier", "");
            let counters = calls.barriers.get_or_insert_with(of_calls);
            let started = counters.start();
            executor.barrier()?;
            counters.record(0, started, executor.history().last_duration());
            Ok(())
        })
    }

    #[track_caller]
    fn call<T: Element>(&self, arguments: Arguments, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let request = self.check_arguments::<T>(arguments, Lengths::Separate(input.len(), output.len()))?;
        self.serve(request, Typed::Separate(input, output))
    }

    #[track_caller]
    fn call_in_place<T: Element>(&self, arguments: Arguments, buffer: &mut [T]) -> Result<(), Error> {
        let request = self.check_arguments::<T>(arguments, Lengths::Same(buffer.len()))?;
        self.serve(request, Typed::Same(buffer))
    }
}
