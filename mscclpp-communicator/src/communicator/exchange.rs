//! All-to-all with parts of any lengths.
//!
//! Ranks exchange counts and data in one launch (`counted`). Very long parts travel in rounds of equal parts.

mod counted;

use std::cmp::Reverse;
use std::panic::Location;

pub(super) use self::counted::CountedPlans;
use super::handle::Communicator;
use mscclpp_algorithms as algorithms;
use mscclpp_base::dtype::{Element, ElementType};
use mscclpp_base::error::{CountLimit, CountOverflow, Error};
use mscclpp_bootstrap::place::{self, CallText};
use mscclpp_core::types::ReduceOp;

/// What errors and messages name.
const CALL: &str = "all_to_all_v";

/// Bytes of a round's parts for all ranks together.
const ROUND: usize = 16 << 20;

/// What [`Communicator::all_to_all_v`] brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllToAllVOutput<T> {
    /// What the ranks sent, in the order of ranks, without gaps.
    pub elements: Vec<T>,
    /// How many elements each of them sent.
    pub counts: Vec<usize>,
}

impl<T> AllToAllVOutput<T> {
    /// What a rank sent.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn from_rank(&self, rank: u32) -> &[T] {
        let begin: usize = self.counts[..rank as usize].iter().sum();
        &self.elements[begin..begin + self.counts[rank as usize]]
    }
}

/// What a rank sends, and what it expects.
#[derive(Clone, Copy)]
struct Parts<'p, T> {
    input: &'p [T],
    /// Elements for each rank.
    counts: &'p [usize],
    /// Elements that it expects from each rank, if it knows.
    expected: Option<&'p [usize]>,
}

/// Where a rank receives.
enum Output<'o, T> {
    /// As much as arrives.
    Growing(&'o mut Vec<T>),
    /// As much as fits.
    Fixed(&'o mut [T]),
}

impl<T: Element> Output<'_, T> {
    fn elements(&mut self) -> &mut [T] {
        match self {
            Self::Growing(elements) => elements,
            Self::Fixed(elements) => elements,
        }
    }

    /// Makes room for a number of elements, and returns whether there is.
    fn resize(&mut self, len: usize) -> bool {
        match self {
            Self::Growing(elements) => {
                let has_memory = elements.try_reserve_exact(len.saturating_sub(elements.len())).is_ok();
                if has_memory {
                    elements.resize(len, T::zeroed());
                }
                has_memory
            }
            Self::Fixed(elements) => len <= elements.len(),
        }
    }
}

/// Why a rank cannot receive what the others send it.
#[derive(Clone, Copy)]
enum Refusal {
    /// It has no memory for this number of elements.
    Memory(u64),
    /// This number of elements, of which a rank sends the largest part, exceeds its room.
    Room { demand: u64, room: u64, peer: u32, part: u64 },
    /// A rank sends it another number of bytes than it expects.
    Length { peer: u32, sent: u64, expected: u64 },
}

impl Communicator {
    /// Sends to each rank its part of `input`: the first `counts[0]` elements to rank 0, the next `counts[1]` to rank 1 and
    /// so on. Ranks need not know what others send.
    ///
    /// # Cost
    /// One launch, in which each rank also gets the counts of all; a second one if a rank receives more than it sends. Other slices than
    /// registered ones are copied once more. For parts that would take more than 512 MiB if all were as long as the longest: two small
    /// calls to exchange counts, then rounds in which all parts have one length: the longest part of any rank, rounded up to a power of
    /// two, or as much as 16 MiB hold. Rounds go through registered memory, twice their size, which the group keeps.
    ///
    /// # Errors
    /// See [`Communicator`]; [`Error::ReceiveMemory`] if what arrives does not fit into a rank's memory, on all ranks.
    #[track_caller]
    pub fn all_to_all_v<T: Element>(&self, input: &[T], counts: &[usize]) -> Result<AllToAllVOutput<T>, Error> {
        let _place = place::enter(Location::caller());
        let mut elements = Vec::new();
        let parts = Parts { input, counts, expected: None };
        let counts = self.exchange_in_parts(parts, &mut Output::Growing(&mut elements))?;
        Ok(AllToAllVOutput { elements, counts })
    }

    /// Does what [`all_to_all_v`](Self::all_to_all_v) does, with an output of the caller: writes what the ranks send one after the other,
    /// and returns how many elements each of them sends. Elements beyond them keep their values. `expected[r]`, where it is stated: the
    /// elements that this rank expects from rank r.
    ///
    /// # Cost
    /// That of `all_to_all_v`, in one launch.
    ///
    /// # Errors
    /// See [`Communicator`]; [`Error::CountOverflow`] if a rank's output is too short, [`Error::PartLength`] if a rank sends another number of
    /// elements than expected: on all ranks, before data is moved. Where some ranks make this call and others `all_to_all_v`, errors of
    /// outputs name the same rank, each as its call does.
    #[track_caller]
    pub fn all_to_all_v_into<T: Element>(
        &self,
        input: &[T],
        counts: &[usize],
        output: &mut [T],
        expected: Option<&[usize]>,
    ) -> Result<Vec<usize>, Error> {
        let _place = place::enter(Location::caller());
        self.exchange_in_parts(Parts { input, counts, expected }, &mut Output::Fixed(output))
    }

    /// Exchanges data by several calls, which are parts of this one.
    #[track_caller]
    fn exchange_in_parts<T: Element>(
        &self,
        parts: Parts<'_, T>,
        output: &mut Output<'_, T>,
    ) -> Result<Vec<usize>, Error> {
        let part = self.enter_call(|| match self.element_type(T::TYPE) {
            ElementType { dtype, name: None } => CallText::of(CALL, dtype.name()),
            named => format!("{CALL} of {named}").into(),
        });
        let exchanged = self.exchange(parts, output);
        drop(part);
        self.count_call();
        exchanged
    }

    #[track_caller]
    fn exchange<T: Element>(&self, parts: Parts<'_, T>, output: &mut Output<'_, T>) -> Result<Vec<usize>, Error> {
        let (rank, ranks) = (self.rank(), self.num_ranks());
        let Parts { input, counts, expected } = parts;
        let length = |what, expected, found| Error::Length { call: CALL, rank, what, expected, found };
        for (what, list) in [("the list of counts", Some(counts)), ("the list of expected counts", expected)] {
            if let Some(list) = list.filter(|list| list.len() != ranks as usize) {
                return Err(length(what, format!("{ranks}, one per rank"), list.len()));
            }
        }
        let total = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
        if total != Some(input.len()) {
            let total = total.map_or_else(|| "more than the address space".to_owned(), |total| total.to_string());
            return Err(length("the input", format!("{total}, the sum of the counts"), input.len()));
        }
        if (2..=algorithms::MAX_RANKS).contains(&ranks)
            && let Some(received) = self.exchange_in_launch(parts, output)?
        {
            return Ok(received);
        }
        self.exchange_in_calls(parts, output)
    }

    /// Exchanges counts by two small calls, and data by calls with parts of one length.
    #[track_caller]
    fn exchange_in_calls<T: Element>(
        &self,
        parts: Parts<'_, T>,
        output: &mut Output<'_, T>,
    ) -> Result<Vec<usize>, Error> {
        let rank = self.rank();
        let Parts { input, counts, expected } = parts;
        let mine: Vec<u64> = counts.iter().map(|&count| count as u64).collect();
        let mut theirs = vec![0_u64; counts.len()];
        self.all_to_all(&mine, &mut theirs)?;
        let received: Vec<usize> = theirs.iter().map(|&count| usize::try_from(count).unwrap_or(usize::MAX)).collect();
        let arriving = received.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
        let refusal = refusal_of_length::<T>(&received, expected).or_else(|| {
            if output.resize(arriving) {
                return None;
            }
            let Output::Fixed(output) = output else { return Some(Refusal::Memory(arriving as u64)) };
            // The lowest of the ranks with the largest part.
            let (peer, part) = (0_u32..).zip(&theirs).max_by_key(|(peer, part)| (**part, Reverse(*peer)))?;
            Some(Refusal::Room { demand: arriving as u64, room: output.len() as u64, peer, part: *part })
        });

        // Of all ranks: the longest part, how much the shortest lacks to the largest number, and who refuses.
        let longest = mine.iter().copied().max().unwrap_or(0);
        let short_of = u64::MAX - mine.iter().copied().min().unwrap_or(0);
        let mut all = [longest, short_of, refusal.map_or(0, |_| u64::from(rank) + 1)];
        self.all_reduce_in_place(&mut all, ReduceOp::Max)?;
        let [longest, short_of, refusing] = all;
        if let Some(refusing) = refusing.checked_sub(1) {
            return Err(self.refused::<T>(refusing as u32, refusal)?);
        }
        let elements = &mut output.elements()[..arriving];
        if longest == u64::MAX - short_of {
            self.all_to_all(input, elements)?;
        } else {
            self.exchange_in_rounds(input, counts, elements, &received, longest)?;
        }
        Ok(received)
    }

    /// Returns the error of a rank that refuses, whose reason the others do not know yet.
    #[track_caller]
    fn refused<T: Element>(&self, rank: u32, own: Option<Refusal>) -> Result<Error, Error> {
        let mut words = match own.filter(|_| rank == self.rank()) {
            None => [0; 5],
            Some(Refusal::Memory(count)) => [0, count, 0, 0, 0],
            Some(Refusal::Length { peer, sent, expected }) => [1, u64::from(peer), sent, expected, 0],
            Some(Refusal::Room { demand, room, peer, part }) => [2, u64::from(peer), demand, room, part],
        };
        self.all_reduce_in_place(&mut words, ReduceOp::Max)?;
        Ok(match words {
            [0, count, ..] => Error::ReceiveMemory { call: CALL, rank, count, bytes: size_of::<T>() },
            [1, peer, sent, expected, _] => Error::PartLength { call: CALL, rank, peer: peer as u32, sent, expected },
            [_, peer, demand, room, part] => {
                let (limit, demand, peer, part) = (CountLimit::Output, demand as i64, peer as u32, part as i64);
                Error::CountOverflow(CountOverflow { rank, limit, demand, room, peer, part })
            }
        })
    }

    /// Sends pieces of one length, as often as the longest part needs.
    #[track_caller]
    fn exchange_in_rounds<T: Element>(
        &self,
        input: &[T],
        counts: &[usize],
        elements: &mut [T],
        received: &[usize],
        longest: u64,
    ) -> Result<(), Error> {
        let ranks = counts.len();
        let most = (ROUND / size_of::<T>() / ranks).max(1);
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        let piece = longest.checked_next_power_of_two().unwrap_or(most).min(most);
        let bytes = piece * ranks * size_of::<T>();
        let kept = self.calls()?.staging.take();
        let mut staging = match kept {
            Some(staging) if staging[0].len() >= bytes => staging,
            // A call of all ranks, whose staging is as long as this one's.
            _ => [self.alloc::<u8>(bytes)?, self.alloc::<u8>(bytes)?],
        };
        let [outgoing, incoming] = &mut staging;
        let outgoing: &mut [T] = bytemuck::cast_slice_mut(&mut outgoing[..bytes]);
        let incoming: &mut [T] = bytemuck::cast_slice_mut(&mut incoming[..bytes]);
        let mut done = 0;
        while done < longest {
            each_part(counts, done, piece, |peer, begin, len| {
                outgoing[peer * piece..][..len].copy_from_slice(&input[begin..begin + len]);
            });
            self.all_to_all(outgoing, incoming)?;
            each_part(received, done, piece, |peer, begin, len| {
                elements[begin..begin + len].copy_from_slice(&incoming[peer * piece..][..len]);
            });
            done = done.saturating_add(piece);
        }
        self.calls()?.staging = Some(staging);
        Ok(())
    }
}

/// Returns the first rank that sends another number of elements than expected.
fn refusal_of_length<T>(received: &[usize], expected: Option<&[usize]>) -> Option<Refusal> {
    let expected = expected?;
    let peer = received.iter().zip(expected).position(|(received, expected)| received != expected)?;
    let bytes = |count: usize| (count as u64).saturating_mul(size_of::<T>() as u64);
    Some(Refusal::Length { peer: peer as u32, sent: bytes(received[peer]), expected: bytes(expected[peer]) })
}

/// For each part: the start and length of the piece after its first `done` elements.
fn each_part(counts: &[usize], done: usize, piece: usize, mut copy: impl FnMut(usize, usize, usize)) {
    let mut begin = 0;
    for (peer, &count) in counts.iter().enumerate() {
        let len = count.saturating_sub(done).min(piece);
        if len > 0 {
            copy(peer, begin + done, len);
        }
        begin += count;
    }
}

#[cfg(test)]
mod tests;
