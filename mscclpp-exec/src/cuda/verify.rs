//! Buffers on devices, as a verifier fills and compares them.

use super::Buffers;
use crate::verify::{FILL_BYTE, Verifier, VerifyReport};
use mscclpp_base::error::Error;

impl Verifier {
    /// Fills the buffers of the ranks of this process on their devices, as [`fill`](Self::fill) does. No pending work
    /// may use them.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn fill_device(&self, buffers: &mut Buffers) -> Result<(), Error> {
        for rank in (0..buffers.num_ranks()).filter(|&rank| buffers.is_local(rank)).collect::<Vec<_>>() {
            buffers.write_output(rank, &vec![FILL_BYTE; buffers.output(rank).bytes as usize])?;
            let mut input = vec![0; buffers.input(rank).bytes as usize];
            self.write_input(rank, &mut input);
            buffers.write_input(rank, &input)?;
        }
        Ok(())
    }

    /// Compares the outputs of the ranks of this process on their devices. Does not wait for pending work: synchronize
    /// the stream first.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn check_device(&self, buffers: &Buffers) -> Result<VerifyReport, Error> {
        let mut outputs = Vec::new();
        for rank in (0..buffers.num_ranks()).filter(|&rank| buffers.is_local(rank)) {
            let mut output = vec![0; buffers.output(rank).bytes as usize];
            buffers.read_output(rank, &mut output)?;
            outputs.push((rank, output));
        }
        Ok(self.compare_outputs(&outputs.iter().map(|(rank, output)| (*rank, &output[..])).collect::<Vec<_>>()))
    }
}
