//! Expectations of a program.

use super::context::ReadState;
use super::lexer::Stop;
use super::ops::objects;
use super::value::{Fields, Read};
use crate::Expectation;
use crate::origin::Origin;

/// The keys of an expectation.
pub(super) struct RawExpectation {
    rank: u32,
    index: u32,
    size: u32,
    inputs: Vec<RawInput>,
}

/// Chunks of an input, as many as of the output.
struct RawInput {
    rank: u32,
    index: u32,
}

objects! {
    RawExpectation, "an object with \"rank\", \"index\", \"size\" and \"inputs\"", "expectation", 0b1111,
        Self { rank: 0, index: 0, size: 0, inputs: Vec::new() },
        { "rank" => rank, "index" => index, "size" => size, "inputs" => inputs, };
    RawInput, "an object with \"rank\" and \"index\"", "input", 0b11, Self { rank: 0, index: 0 },
        { "rank" => rank, "index" => index, };
}

impl RawExpectation {
    pub(super) fn build(self) -> Expectation {
        let Self { rank, index, size, inputs } = self;
        let inputs = inputs.into_iter().map(|input| (input.rank, input.index)).collect();
        Expectation { rank, chunk: index, len: size, inputs, origin: Origin::UNKNOWN }
    }
}
