//! The collective calls on device memory.

use std::panic::Location;

use mscclpp_bootstrap::place::enter_call;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::OnStream;
use super::launch::Memory;
use super::transfers::settle;
use crate::communicator::arguments::{Arguments, Lengths};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{DeviceMut, DeviceRef};
use mscclpp_select::Request;

impl OnStream<'_> {
    /// Replaces `buffer` by the reduction of all ranks' buffers. All ranks get the same bits.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn all_reduce_in_place<T: Element>(&self, buffer: &mut impl DeviceMut<T>, op: ReduceOp) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::AllReduce).op(op), buffer)
    }

    /// Writes the reduction of all ranks' inputs to `output`, which is as long as `input`.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn all_reduce<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::AllReduce).op(op), input, output)
    }

    /// Writes all ranks' inputs to `output`, in the order of ranks. It is as long as all of them together.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn all_gather<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::AllGather), input, output)
    }

    /// Gathers into `buffer` what all ranks have in it: rank r brings part r of it, a part for each rank.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut impl DeviceMut<T>) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::AllGather), buffer)
    }

    /// Reduces all ranks' inputs, of a part for each rank, and writes this rank's part of the result to `output`.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::ReduceScatter).op(op), input, output)
    }

    /// Reduces all ranks' buffers, of a part for each rank: part r of rank r's buffer becomes the result's. The other parts
    /// may hold anything afterwards.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn reduce_scatter_in_place<T: Element>(
        &self,
        buffer: &mut impl DeviceMut<T>,
        op: ReduceOp,
    ) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::ReduceScatter).op(op), buffer)
    }

    /// Sends part r of `input` to rank r, and writes what rank r sends to part r of `output`. Both are as long, with equal
    /// parts.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn all_to_all<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::AllToAll), input, output)
    }

    /// [`all_to_all`](Self::all_to_all) with one memory for input and output.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &mut impl DeviceMut<T>) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::AllToAll), buffer)
    }

    /// Replaces `buffer` by the root's.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn broadcast_in_place<T: Element>(&self, buffer: &mut impl DeviceMut<T>, root: u32) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::Broadcast).root(root), buffer)
    }

    /// Writes the root's input to the output of every rank. All ranks pass both, of one length; only the root's input is read.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn broadcast<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        root: u32,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::Broadcast).root(root), input, output)
    }

    /// Replaces the root's buffer by the reduction of all ranks' buffers; the others keep theirs.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn reduce_in_place<T: Element>(
        &self,
        buffer: &mut impl DeviceMut<T>,
        op: ReduceOp,
        root: u32,
    ) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::Reduce).op(op).root(root), buffer)
    }

    /// Writes the reduction of all ranks' inputs to the root's output. All ranks pass both, of one length; the outputs of
    /// the other ranks keep their values.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn reduce<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        op: ReduceOp,
        root: u32,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::Reduce).op(op).root(root), input, output)
    }

    /// Sends `input` to the next rank, the last one to the first, and writes what the rank before sends to `output`.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn send_recv<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
    ) -> Result<(), Error> {
        self.call_separate(Arguments::of(CollectiveKind::SendRecv), input, output)
    }

    /// [`send_recv`](Self::send_recv) with one memory for input and output.
    ///
    /// # Errors
    /// See [`OnStream`].
    #[track_caller]
    pub fn send_recv_in_place<T: Element>(&self, buffer: &mut impl DeviceMut<T>) -> Result<(), Error> {
        self.call_in_place(Arguments::of(CollectiveKind::SendRecv), buffer)
    }

    #[track_caller]
    fn call_separate<T: Element>(
        &self,
        arguments: Arguments,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
    ) -> Result<(), Error> {
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        let lengths = Lengths::Separate(input.len::<T>(), output.len::<T>());
        let request = self.communicator.check_arguments::<T>(arguments, lengths)?;
        self.serve(request, Memory { input: Some(&input), output: &output })
    }

    #[track_caller]
    fn call_in_place<T: Element>(&self, arguments: Arguments, buffer: &mut impl DeviceMut<T>) -> Result<(), Error> {
        let buffer = buffer.lend_mut(self.stream)?;
        let request = self.communicator.check_arguments::<T>(arguments, Lengths::Same(buffer.len::<T>()))?;
        self.serve(request, Memory { input: None, output: &buffer })
    }

    #[track_caller]
    pub(super) fn serve(&self, request: Request, memory: Memory<'_>) -> Result<(), Error> {
        settle(self.communicator, self.stream);
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.record(&mut calls, Some(request), |calls| {
            // The first call connects the ranks.
            let is_first = calls.devices.connection.is_none();
            let _part = is_first.then(|| enter_call(1, || self.communicator.describe(&request)));
            let (connection, mut call) = self.begin(calls, place)?;
            connection.serve(&mut call, request, memory)
        })
    }
}
