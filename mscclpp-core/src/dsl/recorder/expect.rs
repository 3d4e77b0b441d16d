//! Expectations of programs about their outputs.

use super::{Recorder, describe};
use crate::diag::Code;
use crate::dsl::value::ChunkValue;
use crate::plan::Expectation;

impl Recorder {
    /// Records the expectation of an output chunk.
    pub(in crate::dsl) fn expect(&mut self, output: ChunkValue, inputs: &[ChunkValue]) {
        if inputs.is_empty() {
            let message = format!("`expect` has no inputs for {}", describe(output));
            self.report_error(Code::EmptyList, message, "name the input chunks that it contains");
            return;
        }
        let known = !output.is_poison() && !inputs.iter().any(ChunkValue::is_poison);
        if known && inputs.iter().all(|&input| self.same_size("expect", output, input)) {
            let inputs = inputs.iter().map(|input| (input.rank, input.index)).collect();
            let ChunkValue { rank, index, size, .. } = output;
            let origin = self.origin();
            self.trace.expectations.push(Expectation { rank, chunk: index, len: size, inputs, origin });
        }
    }
}
