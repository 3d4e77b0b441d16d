//! Gather and scatter: between all ranks and one.

use std::panic::Location;

use mscclpp_bootstrap::place;

use super::group::Group;
use super::handle::Communicator;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

impl Communicator {
    /// Writes the inputs of all ranks to the output of rank `root`, in the order of ranks. There it is as long as all inputs,
    /// which are equally long; the other ranks' output is not used and may be empty.
    ///
    /// # Cost
    /// A [barrier](Self::barrier), in which the ranks compare their calls; of the root a [transfer](Self::recv) with each other
    /// rank, one after the other; of the others one with the root.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Root`]; those of [`barrier`](Self::barrier) and [`send`](Self::send).
    #[track_caller]
    pub fn gather<T: Element>(&self, input: &[T], output: &mut [T], root: u32) -> Result<(), Error> {
        let _place = place::enter(Location::caller());
        self.check_root("gather", root)?;
        let is_root = self.rank() == root;
        if is_root {
            self.check_whole("gather", "the output", output.len(), "the input", input.len())?;
        }
        self.named_barrier(&format!("gather of {} {} to rank {root}", input.len(), self.element_type(T::TYPE)))?;
        let mut group = Group::new();
        group.send(self, input, root);
        if is_root {
            for (peer, part) in (0..).zip(chunks_mut(output, input.len(), self.num_ranks())) {
                group.recv(self, part, peer);
            }
        }
        group.run()
    }

    /// Writes part r of the input of rank `root` to the output of each rank r. The input is as long there as all outputs, which are
    /// equally long; the other ranks' input is not used and may be empty.
    ///
    /// # Cost
    /// As [`gather`](Self::gather).
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    #[track_caller]
    pub fn scatter<T: Element>(&self, input: &[T], output: &mut [T], root: u32) -> Result<(), Error> {
        let _place = place::enter(Location::caller());
        self.check_root("scatter", root)?;
        let is_root = self.rank() == root;
        if is_root {
            self.check_whole("scatter", "the input", input.len(), "the output", output.len())?;
        }
        self.named_barrier(&format!("scatter of {} {} from rank {root}", output.len(), self.element_type(T::TYPE)))?;
        let mut group = Group::new();
        if is_root {
            for peer in 0..self.num_ranks() {
                group.send(self, &input[peer as usize * output.len()..][..output.len()], peer);
            }
        }
        group.recv(self, output, root);
        group.run()
    }

    /// Waits until all ranks have made a call with a text, by which a rank that makes another one is noticed.
    #[track_caller]
    fn named_barrier(&self, text: &str) -> Result<(), Error> {
        let mut calls = self.calls()?;
        self.guard(&mut calls, |_| {
            let executor = {
                let _part = self.enter_call(|| text.to_owned());
                self.connected()?
            };
            executor.named_barrier(text)
        })
    }
}

/// Divides a slice into parts of one length, which may be 0.
fn chunks_mut<T>(mut slice: &mut [T], len: usize, count: u32) -> impl Iterator<Item = &mut [T]> {
    (0..count).map(move |_| {
        let (part, rest) = std::mem::take(&mut slice).split_at_mut(len);
        slice = rest;
        part
    })
}
