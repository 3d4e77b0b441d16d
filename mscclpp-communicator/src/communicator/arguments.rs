//! Checks of the arguments of collective calls, on any memory.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::handle::Communicator;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_select::Request;

/// What a call states besides its buffers.
#[derive(Clone, Copy)]
pub(super) struct Arguments {
    pub(super) collective: CollectiveKind,
    pub(super) op: Option<ReduceOp>,
    pub(super) root: Option<u32>,
}

impl Arguments {
    pub(super) const fn of(collective: CollectiveKind) -> Self {
        Self { collective, op: None, root: None }
    }

    pub(super) const fn op(self, op: ReduceOp) -> Self {
        Self { op: Some(op), ..self }
    }

    pub(super) const fn root(self, root: u32) -> Self {
        Self { root: Some(root), ..self }
    }

    /// Returns the name of the call, out of place and in place.
    const fn names(self) -> [&'static str; 2] {
        match self.collective {
            CollectiveKind::AllReduce => ["all_reduce", "all_reduce_in_place"],
            CollectiveKind::AllGather => ["all_gather", "all_gather_in_place"],
            CollectiveKind::ReduceScatter => ["reduce_scatter", "reduce_scatter_in_place"],
            CollectiveKind::AllToAll => ["all_to_all", "all_to_all_in_place"],
            CollectiveKind::Broadcast => ["broadcast", "broadcast_in_place"],
            CollectiveKind::Reduce => ["reduce", "reduce_in_place"],
            CollectiveKind::SendRecv => ["send_recv", "send_recv_in_place"],
            _ => ["a collective", "a collective in place"],
        }
    }
}

/// Lengths of the buffers of a call, in elements.
#[derive(Clone, Copy)]
pub(super) enum Lengths {
    /// Out of place: input and output.
    Separate(usize, usize),
    /// In place.
    Same(usize),
}

impl Communicator {
    /// Checks the arguments of a call and returns its request.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Root`].
    pub(super) fn check_arguments<T: Element>(&self, arguments: Arguments, lengths: Lengths) -> Result<Request, Error> {
        use CollectiveKind::{AllGather, AllToAll, ReduceScatter};
        let Arguments { collective, op, root } = arguments;
        let [call, call_in_place] = arguments.names();
        let (call, in_place, count) = match lengths {
            Lengths::Separate(input, output) => {
                match collective {
                    AllGather => self.check_whole(call, "the output", output, "the input", input)?,
                    ReduceScatter => self.check_whole(call, "the input", input, "the output", output)?,
                    _ => self.equal(call, input, output)?,
                }
                if collective == AllToAll {
                    self.divisible(call, "the input", input)?;
                }
                (call, false, input.max(output))
            }
            Lengths::Same(len) => {
                if matches!(collective, AllGather | ReduceScatter | AllToAll) {
                    self.divisible(call_in_place, "the buffer", len)?;
                }
                (call_in_place, true, len)
            }
        };
        root.map_or(Ok(()), |root| self.check_root(call, root))?;
        let request = self.request::<T>(collective, count);
        Ok(Request { in_place, op: op.or(request.op), root: root.unwrap_or(0), ..request })
    }

    pub(super) fn check_root(&self, call: &'static str, root: u32) -> Result<(), Error> {
        let (rank, num_ranks) = (self.rank(), self.num_ranks());
        if root < num_ranks { Ok(()) } else { Err(Error::Root { call, rank, root, num_ranks }) }
    }

    fn equal(&self, call: &'static str, input: usize, output: usize) -> Result<(), Error> {
        if input == output {
            return Ok(());
        }
        let expected = format!("{input}, the length of the input");
        Err(Error::Length { call, rank: self.rank(), what: "the output", expected, found: output })
    }

    /// Checks that one buffer has the length of another one times the number of ranks.
    pub(super) fn check_whole(
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
}
