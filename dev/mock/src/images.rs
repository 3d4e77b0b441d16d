//! Identifies the kernels in a binary, or the code that was compiled for the simulator.

use std::ffi::c_void;

use mscclpp_kernels::IMAGES;

use crate::state;

/// First word of a fat binary.
const MAGIC: u32 = 0xba55_ed50;

/// Returns the name of the kernels in an image; `None` if it is not an image of this library, or of a toolkit that is newer than the
/// driver.
///
/// # Safety
/// The pointer must be to an image, which contains its own length.
pub(crate) unsafe fn name_of(image: *const c_void) -> Option<&'static str> {
    let word = |at: usize| {
        // SAFETY: within the header, which has 16 bytes.
        unsafe { image.byte_add(at).cast::<u32>().read_unaligned() }
    };
    if word(0) != MAGIC {
        return None;
    }
    let header = (word(4) >> 16) as usize;
    let len = header + (u64::from(word(8)) | u64::from(word(12)) << 32) as usize;
    // SAFETY: the header states this length.
    let bytes = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), len) };
    let known = IMAGES.iter().filter(|images| images.toolkit <= state::version()).flat_map(|images| images.images);
    known.into_iter().find(|(_, known)| *known == bytes).map(|(name, _)| *name)
}

/// First bytes of an image of [`simulated`] code, which its length and the code follow.
pub(crate) const SIMULATED: [u8; 8] = *b"simulate";

/// Returns the image of code that was compiled for the simulator.
pub(crate) fn simulated(code: &[u8]) -> Vec<u8> {
    [&SIMULATED[..], &(code.len() as u64).to_le_bytes(), code].concat()
}

/// Returns the code in an image of [`simulated`]; `None` if it is another one.
///
/// # Safety
/// As for [`name_of`].
pub(crate) unsafe fn code_of<'a>(image: *const c_void) -> Option<&'a [u8]> {
    let at = image.cast::<u8>();
    // SAFETY: every image has at least 16 bytes, and this one as many as it states.
    unsafe {
        if at.cast::<[u8; 8]>().read() != SIMULATED {
            return None;
        }
        let len = u64::from_le_bytes(at.add(8).cast::<[u8; 8]>().read());
        Some(std::slice::from_raw_parts(at.add(16), len as usize))
    }
}
