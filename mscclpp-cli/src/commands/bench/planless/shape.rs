//! Which elements each rank sends to each other one in a call that has no plan.

use mscclpp_exec::DataType;

use crate::args::BenchArgs;
use crate::error::{Error, Result};

/// A call that has no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PlanlessCall {
    Gather,
    Scatter,
    AllToAllV,
    Barrier,
}

impl PlanlessCall {
    pub(in super::super) const ALL: [Self; 4] = [Self::Gather, Self::Scatter, Self::AllToAllV, Self::Barrier];

    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllToAllV => "all_to_all_v",
            Self::Barrier => "barrier",
        }
    }

    /// Returns the call that is asked for, if it has no plan.
    pub(in super::super) fn of(args: &BenchArgs) -> Option<Self> {
        let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "");
        let asked = plain(args.collective.as_ref()?);
        Self::ALL.into_iter().find(|call| plain(call.name()) == asked)
    }
}

/// A call of one size, as one rank sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) call: PlanlessCall,
    pub(super) dtype: DataType,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) root: u32,
    /// Elements of a part, on average.
    part: usize,
    /// How often the longest part of each rank is as long as all others, which are equally long.
    skew: Option<u32>,
}

impl Shape {
    /// The call whose larger buffer has a number of bytes, rounded up to equal parts.
    pub(super) fn new(
        call: PlanlessCall,
        bytes: u64,
        dtype: DataType,
        rank: u32,
        ranks: u32,
        root: u32,
    ) -> Result<Self> {
        let unit = u64::from(ranks) * dtype.size() as u64;
        let part = bytes.div_ceil(unit);
        let too_large = || Error::Usage(format!("{bytes} bytes cannot be rounded up to a multiple of {unit}"));
        part.checked_mul(unit).ok_or_else(too_large)?;
        let part = usize::try_from(part).map_err(|_| too_large())?;
        Ok(Self { call, dtype, rank, ranks, root, part, skew: None })
    }

    /// Sets how often the longest part of an all-to-all-v is as long as the others.
    pub(super) fn with_skew(self, skew: Option<u32>) -> Self {
        Self { skew, ..self }
    }

    /// Bytes of the larger buffer, if parts have equal lengths.
    pub(super) fn bytes(&self) -> u64 {
        self.part as u64 * u64::from(self.ranks) * self.dtype.size() as u64
    }

    /// Returns the number of elements that a rank sends to another one.
    fn sent(&self, from: u32, to: u32) -> usize {
        match self.call {
            PlanlessCall::Gather if to != self.root => 0,
            PlanlessCall::Scatter if from != self.root => 0,
            PlanlessCall::Gather | PlanlessCall::Scatter => self.part,
            PlanlessCall::AllToAllV => {
                let (ranks, nth, all) = (u128::from(self.ranks), (from + to) % self.ranks, self.part as u128);
                let length = match self.skew.map(u128::from) {
                    // Parts of one to n times the shortest.
                    None => 2 * all * (u128::from(nth) + 1) / (ranks + 1),
                    Some(skew) => all * ranks * if nth == 1 % self.ranks { skew } else { 1 } / (ranks - 1 + skew),
                };
                length as usize
            }
            PlanlessCall::Barrier => 0,
        }
    }

    /// Returns the number of elements that this rank sends to each rank.
    pub(super) fn sent_to(&self) -> Vec<usize> {
        (0..self.ranks).map(|to| self.sent(self.rank, to)).collect()
    }

    /// Returns the number of elements that this rank receives from each rank.
    pub(super) fn received_from(&self) -> Vec<usize> {
        (0..self.ranks).map(|from| self.sent(from, self.rank)).collect()
    }

    /// Writes this rank's input of the call with a number.
    pub(super) fn fill(&self, nth: u64, input: &mut [u8]) {
        for (at, byte) in input.iter_mut().enumerate() {
            *byte = byte_at(nth, self.rank, at);
        }
    }

    /// Returns the number of wrong elements in this rank's output of the call with a number.
    pub(super) fn count_wrong(&self, nth: u64, output: &[u8]) -> u64 {
        let size = self.dtype.size();
        let mut elements = output.chunks(size);
        let mut wrong = 0;
        for (from, len) in (0..).zip(self.received_from()) {
            let before: usize = (0..self.rank).map(|to| self.sent(from, to)).sum();
            for element in before..before + len {
                let expected = (element * size..(element + 1) * size).map(|at| byte_at(nth, from, at));
                wrong += u64::from(!elements.next().is_some_and(|found| expected.eq(found.iter().copied())));
            }
        }
        wrong + elements.count() as u64
    }
}

/// A byte of a rank's input: other ones in each call, on each rank and in each part.
fn byte_at(nth: u64, rank: u32, at: usize) -> u8 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (nth << 8 | u64::from(rank)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed >> 32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of a rank, from the inputs of all ranks by the definition of the calls.
    fn output(shape: &Shape, nth: u64) -> Vec<u8> {
        let of_rank = |rank| Shape { rank, ..shape.clone() };
        let mut output = Vec::new();
        for from in (0..shape.ranks).map(of_rank) {
            let mut input = vec![0; from.sent_to().iter().sum::<usize>() * shape.dtype.size()];
            from.fill(nth, &mut input);
            let mut rest = &input[..];
            for (to, len) in (0..).zip(from.sent_to()) {
                let part;
                (part, rest) = rest.split_at(len * shape.dtype.size());
                if to == shape.rank {
                    output.extend(part);
                }
            }
        }
        output
    }

    #[test]
    fn every_wrong_element_is_counted() {
        for call in PlanlessCall::ALL {
            for (ranks, bytes) in [(1, 64), (2, 100), (5, 4096)] {
                for rank in 0..ranks {
                    let shape = Shape::new(call, bytes, DataType::F32, rank, ranks, ranks - 1).expect("it fits");
                    let mut found = output(&shape, 3);
                    assert_eq!(found.len(), shape.received_from().iter().sum::<usize>() * 4);
                    assert_eq!(shape.count_wrong(3, &found), 0, "{shape:?}");
                    if found.is_empty() {
                        continue;
                    }
                    assert_ne!(shape.count_wrong(4, &found), 0, "{shape:?}: the result of another call");
                    found[0] ^= 1;
                    assert_eq!(shape.count_wrong(3, &found), 1, "{shape:?}");
                    found.truncate(found.len() - 4);
                    assert!(shape.count_wrong(3, &found) >= 1, "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn parts_of_any_lengths_fill_the_larger_buffer() {
        let shape = |rank| Shape::new(PlanlessCall::AllToAllV, 60 * 4 * 5, DataType::F32, rank, 5, 0).expect("it fits");
        for rank in 0..5 {
            assert_eq!(shape(rank).sent_to().iter().sum::<usize>(), 300);
            assert_eq!(shape(rank).received_from().iter().sum::<usize>(), 300);
        }
        assert_eq!(shape(1).sent_to(), [40, 60, 80, 100, 20]);
        let skewed = |skew| shape(1).with_skew(Some(skew)).sent_to();
        assert_eq!([skewed(1), skewed(8)], [vec![60; 5], vec![200, 25, 25, 25, 25]]);
    }
}
