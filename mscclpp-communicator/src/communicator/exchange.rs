//! All-to-all with parts of any lengths.

use std::panic::Location;

use super::handle::Communicator;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_bootstrap::place;
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

/// Why a rank cannot receive what the others send it.
#[derive(Clone, Copy)]
enum Refusal {
    /// It has no memory for this number of elements.
    Memory(u64),
    /// A rank sends it another number of bytes than it expects.
    Length { peer: u32, sent: u64, expected: u64 },
}

impl Communicator {
    /// Sends to each rank its part of `input`: the first `counts[0]` elements to rank 0, the next `counts[1]` to rank 1 and
    /// so on. Ranks need not know what others send.
    ///
    /// # Cost
    /// Two small calls to exchange the counts. Where all are equal, an [`all_to_all`](Self::all_to_all); else rounds in which
    /// all parts have one length: the longest part of any rank, rounded up to a power of two, or as much as 16 MiB hold.
    /// Parts that are shorter travel filled up, so lengths that differ by much cost as much as equal ones of the longest.
    /// Rounds go through registered memory, twice their size, which the group keeps.
    ///
    /// # Errors
    /// See [`Communicator`]; [`Error::ReceiveMemory`] if what arrives does not fit into a rank's memory, on all ranks.
    #[track_caller]
    pub fn all_to_all_v<T: Element>(&self, input: &[T], counts: &[usize]) -> Result<AllToAllVOutput<T>, Error> {
        let _place = place::enter(Location::caller());
        self.exchange_in_parts(input, counts, None)
    }

    /// Does what [`all_to_all_v`](Self::all_to_all_v) does, for ranks that know what others send: `expected[r]` elements of rank r.
    ///
    /// # Cost
    /// That of `all_to_all_v`.
    ///
    /// # Errors
    /// Those of `all_to_all_v`; [`Error::PartLength`] if a rank sends another number of elements, on all ranks.
    #[track_caller]
    #[doc(hidden)]
    pub fn all_to_all_v_checked<T: Element>(
        &self,
        input: &[T],
        counts: &[usize],
        expected: &[usize],
    ) -> Result<AllToAllVOutput<T>, Error> {
        let _place = place::enter(Location::caller());
        self.exchange_in_parts(input, counts, Some(expected))
    }

    /// Exchanges data by several calls, which are parts of this one.
    #[track_caller]
    fn exchange_in_parts<T: Element>(
        &self,
        input: &[T],
        counts: &[usize],
        expected: Option<&[usize]>,
    ) -> Result<AllToAllVOutput<T>, Error> {
        let part = self.enter_call(|| format!("{CALL} of {}", self.element_type(T::TYPE)));
        let exchanged = self.exchange(input, counts, expected);
        drop(part);
        self.count_call();
        exchanged
    }

    #[track_caller]
    fn exchange<T: Element>(
        &self,
        input: &[T],
        counts: &[usize],
        expected: Option<&[usize]>,
    ) -> Result<AllToAllVOutput<T>, Error> {
        let (rank, ranks) = (self.rank(), self.num_ranks() as usize);
        let length = |what, expected, found| Error::Length { call: CALL, rank, what, expected, found };
        for (what, list) in [("the list of counts", Some(counts)), ("the list of expected counts", expected)] {
            if let Some(list) = list.filter(|list| list.len() != ranks) {
                return Err(length(what, format!("{ranks}, one per rank"), list.len()));
            }
        }
        let total = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
        if total != Some(input.len()) {
            let total = total.map_or_else(|| "more than the address space".to_owned(), |total| total.to_string());
            return Err(length("the input", format!("{total}, the sum of the counts"), input.len()));
        }

        let mine: Vec<u64> = counts.iter().map(|&count| count as u64).collect();
        let mut theirs = vec![0_u64; ranks];
        self.all_to_all(&mine, &mut theirs)?;
        let received: Vec<usize> = theirs.iter().map(|&count| usize::try_from(count).unwrap_or(usize::MAX)).collect();
        let arriving = received.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
        let mut elements: Vec<T> = Vec::new();
        let refusal = refusal_of_length::<T>(&received, expected)
            .or_else(|| elements.try_reserve_exact(arriving).is_err().then_some(Refusal::Memory(arriving as u64)));

        // Of all ranks: the longest part, how much the shortest lacks to the largest number, and who refuses.
        let longest = mine.iter().copied().max().unwrap_or(0);
        let short_of = u64::MAX - mine.iter().copied().min().unwrap_or(0);
        let mut all = [longest, short_of, refusal.map_or(0, |_| u64::from(rank) + 1)];
        self.all_reduce_in_place(&mut all, ReduceOp::Max)?;
        let [longest, short_of, refusing] = all;
        if let Some(refusing) = refusing.checked_sub(1) {
            return Err(self.refused::<T>(refusing as u32, refusal)?);
        }
        elements.resize(arriving, T::zeroed());

        if longest == u64::MAX - short_of {
            self.all_to_all(input, &mut elements)?;
        } else {
            self.exchange_in_rounds(input, counts, &mut elements, &received, longest)?;
        }
        Ok(AllToAllVOutput { elements, counts: received })
    }

    /// Returns the error of a rank that refuses, whose reason the others do not know yet.
    #[track_caller]
    fn refused<T: Element>(&self, rank: u32, own: Option<Refusal>) -> Result<Error, Error> {
        let mut words = match own.filter(|_| rank == self.rank()) {
            None => [0; 4],
            Some(Refusal::Memory(count)) => [0, count, 0, 0],
            Some(Refusal::Length { peer, sent, expected }) => [1, u64::from(peer), sent, expected],
        };
        self.all_reduce_in_place(&mut words, ReduceOp::Max)?;
        Ok(match words {
            [0, count, ..] => Error::ReceiveMemory { call: CALL, rank, count, bytes: size_of::<T>() },
            [_, peer, sent, expected] => Error::PartLength { call: CALL, rank, peer: peer as u32, sent, expected },
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
