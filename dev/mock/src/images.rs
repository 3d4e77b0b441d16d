//! Identifies the kernels in a binary.

use std::ffi::c_void;

use mscclpp_kernels::IMAGES;

/// First word of a fat binary.
const MAGIC: u32 = 0xba55_ed50;

/// Returns the name of the kernels in an image; `None` if it is not an image of this library.
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
    IMAGES.iter().find(|(_, known)| *known == bytes).map(|(name, _)| *name)
}
