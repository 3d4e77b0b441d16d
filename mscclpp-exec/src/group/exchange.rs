//! All-to-all with parts of any lengths.

use super::error::Error;
use super::handle::Group;
use crate::dtype::Element;
use mscclpp_core::vocab::ReduceOp;

/// Bytes of a round's parts for all ranks together.
const ROUND: usize = 16 << 20;

/// What [`Group::all_to_all_v`] brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanged<T> {
    /// What the ranks sent, in the order of ranks, without gaps.
    pub elements: Vec<T>,
    /// How many elements each of them sent.
    pub counts: Vec<usize>,
}

impl<T> Exchanged<T> {
    /// What a rank sent.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn of(&self, rank: u32) -> &[T] {
        let begin: usize = self.counts[..rank as usize].iter().sum();
        &self.elements[begin..begin + self.counts[rank as usize]]
    }
}

impl Group {
    /// Sends to each rank its part of `input`: the first `counts[0]` elements to rank 0, the next `counts[1]` to rank 1 and
    /// so on. Ranks need not know what others send.
    ///
    /// # Cost
    /// Two small calls to exchange the counts, then rounds in which all parts have one length: the longest part of any
    /// rank, rounded up to a power of two, or as much as 16 MiB hold. Parts that are shorter travel filled up, so lengths
    /// that differ by much cost as much as equal ones of the longest.
    ///
    /// # Errors
    /// See [`Group`]; [`Error::NoMemory`] if what arrives does not fit into memory.
    #[track_caller]
    pub fn all_to_all_v<T: Element>(&mut self, input: &[T], counts: &[usize]) -> Result<Exchanged<T>, Error> {
        const CALL: &str = "all_to_all_v";
        let (rank, ranks) = (self.rank(), self.size() as usize);
        let length = |what, expected, found| Error::Length { call: CALL, rank, what, expected, found };
        if counts.len() != ranks {
            return Err(length("the list of counts", format!("{ranks}, one for each rank"), counts.len()));
        }
        let total = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
        if total != Some(input.len()) {
            let total = total.map_or_else(|| "more than there are addresses".to_owned(), |total| total.to_string());
            return Err(length("the input", format!("{total}, the sum of the counts"), input.len()));
        }

        let mine: Vec<u64> = counts.iter().map(|&count| count as u64).collect();
        let mut theirs = vec![0_u64; ranks];
        self.all_to_all(&mine, &mut theirs)?;
        let mut longest = [mine.iter().copied().max().unwrap_or(0)];
        self.all_reduce(&mut longest, ReduceOp::Max)?;

        let arriving = theirs.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let no_memory = || Error::NoMemory { call: CALL, rank, elements: arriving, bytes: size_of::<T>() };
        let mut elements: Vec<T> = Vec::new();
        let reserved = usize::try_from(arriving).ok().and_then(|arriving| elements.try_reserve_exact(arriving).ok());
        // Who has no memory takes part in the rounds all the same, or the others would wait for it.
        if reserved.is_some() {
            elements.resize(arriving as usize, T::zeroed());
        }
        let received: Vec<usize> = theirs.iter().map(|&count| count as usize).collect();

        let most = (ROUND / size_of::<T>() / ranks).max(1);
        let piece =
            usize::try_from(longest[0]).unwrap_or(usize::MAX).checked_next_power_of_two().unwrap_or(most).min(most);
        let rounds = longest[0].div_ceil(piece as u64);
        let mut outgoing = vec![T::zeroed(); piece * ranks];
        let mut incoming = outgoing.clone();
        for round in 0..rounds {
            let done = (round * piece as u64) as usize;
            each_part(counts, done, piece, |peer, begin, len| {
                outgoing[peer * piece..][..len].copy_from_slice(&input[begin..begin + len]);
            });
            self.all_to_all(&outgoing, &mut incoming)?;
            if reserved.is_some() {
                each_part(&received, done, piece, |peer, begin, len| {
                    elements[begin..begin + len].copy_from_slice(&incoming[peer * piece..][..len]);
                });
            }
        }
        match reserved {
            Some(()) => Ok(Exchanged { elements, counts: received }),
            None => Err(no_memory()),
        }
    }
}

/// For each part: where the piece behind its first `done` elements begins, and how long it is.
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
