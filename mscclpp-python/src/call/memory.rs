//! The memory of calls: that of tensors, and that which a rank's calls use one after the other.

use mscclpp_exec::{Element, Error};

use crate::tensor::View;

/// Memory of a rank that its calls use one after the other; it grows to the largest call.
#[derive(Default)]
pub(crate) struct Staging(Vec<u64>);

impl Staging {
    /// Returns memory of a number of bytes, aligned to 8.
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<&mut [u8], Error> {
        let words = bytes.div_ceil(8);
        if self.0.len() < words {
            let more = words - self.0.len();
            self.0.try_reserve_exact(more).map_err(|error| Error::System {
                what: format!("cannot allocate {bytes} bytes for a call"),
                reason: error.to_string(),
            })?;
            self.0.resize(words, 0);
        }
        Ok(&mut bytemuck::cast_slice_mut(&mut self.0)[..bytes])
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

/// Returns a view of a copy.
pub(super) fn copied(view: &View, staging: &mut Staging) -> Result<View, Error> {
    let copy = staging.bytes(view.bytes)?;
    copy.copy_from_slice(read(view));
    Ok(View { address: copy.as_ptr() as usize, ..*view })
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
