//! Which kernels a binary holds.

use std::ffi::c_void;

macro_rules! images {
    ($($name:literal)*) => {
        /// The prebuilt binaries, by name.
        const IMAGES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../../prebuilt/", $name, ".fatbin")).as_slice()),)*];
    };
}

images! {
    "i8" "u8" "i32" "u32" "i64" "u64" "f32" "f32_f64" "f64" "f16" "f16_f32" "f16_f64" "bf16" "bf16_f32" "bf16_f64"
    "f8e4m3" "f8e4m3_f32" "f8e4m3_f64" "f8e5m2" "f8e5m2_f32" "f8e5m2_f64"
}

/// How a fat binary begins.
const MAGIC: u32 = 0xba55_ed50;

/// The name of the kernels in an image; `None` if it is not one of ours.
///
/// # Safety
/// There is an image: something that says its own length.
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
    // SAFETY: as the header says.
    let bytes = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), len) };
    IMAGES.iter().find(|(_, known)| *known == bytes).map(|(name, _)| *name)
}
