//! The collective calls.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::handle::{Communicator, Typed, reducing};
use crate::dtype::Element;
use crate::error::Error;
use crate::select::Request;

impl Communicator {
    /// Replaces `buffer` by the reduction of all ranks' buffers. All ranks get the same bits.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_reduce_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<(), Error> {
        let request = reducing(self.request::<T>(CollectiveKind::AllReduce, buffer.len()), op);
        self.in_place(request, buffer)
    }

    /// Writes the reduction of all ranks' inputs to `output`, which is as long as `input`.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_reduce<T: Element>(&self, input: &[T], output: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.equal("all_reduce", input.len(), output.len())?;
        let request = reducing(self.request::<T>(CollectiveKind::AllReduce, input.len()), op);
        self.serve(request, Typed::Separate(input, output))
    }

    /// Writes all ranks' inputs to `output`, in the order of ranks. It is as long as all of them together.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.parts("all_gather", "the output", output.len(), "the input", input.len())?;
        let request = self.request::<T>(CollectiveKind::AllGather, output.len());
        self.serve(request, Typed::Separate(input, output))
    }

    /// Gathers into `buffer` what all ranks have in it: rank r brings part r of it, a part for each rank.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.divisible("all_gather_in_place", "the buffer", buffer.len())?;
        let request = self.request::<T>(CollectiveKind::AllGather, buffer.len());
        self.in_place(request, buffer)
    }

    /// Reduces all ranks' inputs, of a part for each rank, and writes this rank's part of the result to `output`.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce_scatter<T: Element>(&self, input: &[T], output: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.parts("reduce_scatter", "the input", input.len(), "the output", output.len())?;
        let request = reducing(self.request::<T>(CollectiveKind::ReduceScatter, input.len()), op);
        self.serve(request, Typed::Separate(input, output))
    }

    /// Reduces all ranks' buffers, of a part for each rank: part r of rank r's buffer becomes the result's. The other parts
    /// may hold anything afterwards.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce_scatter_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp) -> Result<(), Error> {
        self.divisible("reduce_scatter_in_place", "the buffer", buffer.len())?;
        let request = reducing(self.request::<T>(CollectiveKind::ReduceScatter, buffer.len()), op);
        self.in_place(request, buffer)
    }

    /// Sends part r of `input` to rank r, and writes what rank r sends to part r of `output`. Both are as long, with equal
    /// parts; [`all_to_all_v`](Self::all_to_all_v) takes others.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.equal("all_to_all", input.len(), output.len())?;
        self.divisible("all_to_all", "the input", input.len())?;
        let request = self.request::<T>(CollectiveKind::AllToAll, input.len());
        self.serve(request, Typed::Separate(input, output))
    }

    /// [`all_to_all`](Self::all_to_all) with one memory for input and output.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.divisible("all_to_all_in_place", "the buffer", buffer.len())?;
        let request = self.request::<T>(CollectiveKind::AllToAll, buffer.len());
        self.in_place(request, buffer)
    }

    /// Replaces `buffer` by the root's.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn broadcast_in_place<T: Element>(&self, buffer: &mut [T], root: u32) -> Result<(), Error> {
        let request =
            self.rooted("broadcast_in_place", self.request::<T>(CollectiveKind::Broadcast, buffer.len()), root)?;
        self.in_place(request, buffer)
    }

    /// Writes the root's input to everybody's output. All ranks give both, of one length; only the root's input is read.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn broadcast<T: Element>(&self, input: &[T], output: &mut [T], root: u32) -> Result<(), Error> {
        self.equal("broadcast", input.len(), output.len())?;
        let request = self.rooted("broadcast", self.request::<T>(CollectiveKind::Broadcast, input.len()), root)?;
        self.serve(request, Typed::Separate(input, output))
    }

    /// Replaces the root's buffer by the reduction of all ranks' buffers; the others keep theirs.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce_in_place<T: Element>(&self, buffer: &mut [T], op: ReduceOp, root: u32) -> Result<(), Error> {
        let request = self.rooted("reduce_in_place", self.request::<T>(CollectiveKind::Reduce, buffer.len()), root)?;
        self.in_place(reducing(request, op), buffer)
    }

    /// Writes the reduction of all ranks' inputs to the root's output. All ranks give both, of one length; the others'
    /// outputs keep their values.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn reduce<T: Element>(&self, input: &[T], output: &mut [T], op: ReduceOp, root: u32) -> Result<(), Error> {
        self.equal("reduce", input.len(), output.len())?;
        let request = self.rooted("reduce", self.request::<T>(CollectiveKind::Reduce, input.len()), root)?;
        self.serve(reducing(request, op), Typed::Separate(input, output))
    }

    /// Sends `input` to the next rank, the last one to the first, and writes what the rank before sends to `output`.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn send_recv<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.equal("send_recv", input.len(), output.len())?;
        let request = self.request::<T>(CollectiveKind::SendRecv, input.len());
        self.serve(request, Typed::Separate(input, output))
    }

    /// [`send_recv`](Self::send_recv) with one memory for input and output.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn send_recv_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<(), Error> {
        let request = self.request::<T>(CollectiveKind::SendRecv, buffer.len());
        self.in_place(request, buffer)
    }

    /// Waits until all ranks have made this call.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Error> {
        let mut calls = self.calls()?;
        self.record(&mut calls, None, |calls| {
            let executor = self.executor()?;
            let of_calls = || self.inner.observed.counters.of_calls("barrier", "");
            let counters = calls.barriers.get_or_insert_with(of_calls);
            let started = counters.start();
            executor.barrier()?;
            counters.record(0, started, executor.history().last_duration());
            Ok(())
        })
    }

    #[track_caller]
    pub(super) fn in_place<T: Element>(&self, request: Request, buffer: &mut [T]) -> Result<(), Error> {
        self.serve_in_place(Request { in_place: true, ..request }, buffer)
    }

    fn equal(&self, call: &'static str, input: usize, output: usize) -> Result<(), Error> {
        if input == output {
            return Ok(());
        }
        let expected = format!("{input}, the length of the input");
        Err(Error::Length { call, rank: self.rank(), what: "the output", expected, found: output })
    }

    fn parts(
        &self,
        call: &'static str,
        whole: &'static str,
        all: usize,
        part: &'static str,
        one: usize,
    ) -> Result<(), Error> {
        let size = self.num_ranks() as usize;
        if one.checked_mul(size) == Some(all) {
            return Ok(());
        }
        let expected = format!("{size} times the {one} of {part}");
        Err(Error::Length { call, rank: self.rank(), what: whole, expected, found: all })
    }

    fn divisible(&self, call: &'static str, what: &'static str, found: usize) -> Result<(), Error> {
        if found.is_multiple_of(self.num_ranks() as usize) {
            return Ok(());
        }
        let expected = format!("a multiple of {}, the number of ranks", self.num_ranks());
        Err(Error::Length { call, rank: self.rank(), what, expected, found })
    }

    fn rooted(&self, call: &'static str, request: Request, root: u32) -> Result<Request, Error> {
        if root < self.num_ranks() {
            return Ok(Request { root, ..request });
        }
        Err(Error::Root { call, rank: self.rank(), root, num_ranks: self.num_ranks() })
    }
}
