//! The memory of calls: that of tensors, and that which a rank's calls use one after the other.

use super::forms::Forms;
use mscclpp_exec::{Element, Error};

use crate::tensor::View;

/// What the calls of a rank use one after the other: memory, which grows to the largest call, and in which form they are made.
#[derive(Default)]
pub(crate) struct Staging {
    words: Vec<u64>,
    pub(super) forms: Forms,
}

impl Staging {
    /// Returns memory of a number of bytes, aligned to 8.
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<&mut [u8], Error> {
        let words = bytes.div_ceil(8);
        if self.words.len() < words {
            let more = words - self.words.len();
            self.words.try_reserve_exact(more).map_err(|error| Error::System {
                what: format!("cannot allocate {bytes} bytes for a call"),
                reason: error.to_string(),
            })?;
            self.words.resize(words, 0);
        }
        Ok(&mut bytemuck::cast_slice_mut(&mut self.words)[..bytes])
    }
}

/// Returns the elements of a view, which the call reads.
///
/// Sound because views come from tensors that the caller of the call keeps until it has ended, and that are dense and aligned.
/// Programs that change a tensor during a call have a data race, as with any backend of PyTorch.
pub(super) fn read<T: Element>(view: &View) -> &'static [T] {
    // SAFETY: as above; `T` is the type in which the elements are moved, or has its size.
    unsafe { view.slice() }
}

/// Returns the elements of a view, which the call writes; see [`read`].
#[allow(clippy::mut_from_ref)]
pub(super) fn written<T: Element>(view: &View) -> &'static mut [T] {
    // SAFETY: as for `read`; calls whose input and output overlap copy the input first.
    unsafe { view.slice_mut() }
}

/// Writes the inputs one after the other.
pub(super) fn concatenate(inputs: &[View], all: &mut [u8]) {
    let mut rest = all;
    for input in inputs {
        let (part, next) = std::mem::take(&mut rest).split_at_mut(input.bytes);
        part.copy_from_slice(read(input));
        rest = next;
    }
}

/// Writes to each output its part, in order.
pub(super) fn divide(all: &[u8], outputs: &[View]) {
    let mut rest = all;
    for output in outputs {
        let (part, next) = rest.split_at(output.bytes);
        written::<u8>(output).copy_from_slice(part);
        rest = next;
    }
}
