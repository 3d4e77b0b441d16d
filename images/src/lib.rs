//! Specialized kernels of default plans, compiled ahead of time, as constants.
//!
//! The images are found by the key of their source, which is a hash of its text and of all headers: an image that is older than its source
//! is not found.
#![no_std]
#![forbid(unsafe_code)]

/// Images by the keys of their sources.
///
/// The bytes are the number of images, a row for each in the order of keys, and the images at multiples of 16 bytes. A row has the key as 64
/// hexadecimal digits, the SHA-256 of the image, its position and its length. Numbers are little-endian words of 8 bytes.
#[derive(Debug)]
pub struct Archive {
    /// The CUDA version of the toolkit that compiled the images, 1000 times major plus 10 times minor. Earlier drivers refuse them.
    pub toolkit: u32,
    /// The compute capabilities for which each image has machine code: major, minor. A device runs code for its major number and its own
    /// minor number or an earlier one.
    pub capabilities: &'static [(u32, u32)],
    bytes: &'static [u8],
}

/// One image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// A fat binary, aligned to 16 bytes.
    pub code: &'static [u8],
    /// SHA-256 of the code when it was compiled.
    pub hash: [u8; 32],
}

/// Bytes at an address from which a driver may read whole words.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);

/// All images.
pub static ARCHIVE: Archive = {
    static BYTES: &Aligned<[u8]> = &Aligned(*include_bytes!("../kernels.bin"));
    Archive { toolkit: 13_000, capabilities: &[(8, 0), (9, 0), (10, 0)], bytes: &BYTES.0 }
};

const HEAD: usize = 8;
const KEY: usize = 64;
const HASH: usize = 32;
const ROW: usize = KEY + HASH + 8 + 8;

fn number(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()
}

impl Archive {
    fn rows(&self) -> impl Iterator<Item = &'static [u8]> {
        let count = number(self.bytes).unwrap_or(0);
        self.bytes.get(HEAD..).unwrap_or_default().chunks_exact(ROW).take(count)
    }

    /// Returns the keys.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.rows().filter_map(|row| core::str::from_utf8(&row[..KEY]).ok())
    }

    /// Returns the image of a key; `None` if there is none within the bytes.
    pub fn find(&self, key: &str) -> Option<Image> {
        let row = self.rows().find(|row| row[..KEY] == *key.as_bytes())?;
        let (at, len) = (number(&row[KEY + HASH..])?, number(&row[KEY + HASH + 8..])?);
        let code = self.bytes.get(at..at.checked_add(len)?)?;
        Some(Image { code, hash: row[KEY..KEY + HASH].try_into().ok()? })
    }

    /// Returns whether the images have machine code that a device runs.
    pub fn have_code_for(&self, (major, minor): (u32, u32)) -> bool {
        self.capabilities.iter().any(|known| known.0 == major && known.1 <= minor)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn images_are_found_by_their_keys() {
        for key in ARCHIVE.keys() {
            let image = ARCHIVE.find(key).expect("it is within the bytes");
            assert!(!image.code.is_empty() && (image.code.as_ptr() as usize).is_multiple_of(16), "{key}");
            assert_eq!(ARCHIVE.find(&key[1..]), None);
        }
        assert_eq!(ARCHIVE.find(""), None);
    }

    #[test]
    fn rows_beyond_the_bytes_have_no_image() {
        let mut bytes: Vec<u8> = 3_u64.to_le_bytes().to_vec();
        for (key, at, len) in [(b'a', 120, 4), (b'b', u64::MAX, 4)] {
            bytes.extend([key; KEY]);
            bytes.extend([0; HASH]);
            bytes.extend(u64::to_le_bytes(at));
            bytes.extend(u64::to_le_bytes(len));
        }
        let archive = Archive { toolkit: 0, capabilities: &[], bytes: bytes.leak() };
        assert_eq!(archive.keys().count(), 2);
        assert!(archive.find(&"a".repeat(KEY)).is_some_and(|image| image.code.len() == 4));
        assert_eq!(archive.find(&"b".repeat(KEY)), None);
        for cut in 0..ROW {
            let archive = Archive { toolkit: 0, capabilities: &[], bytes: &archive.bytes[..cut] };
            assert_eq!(archive.keys().count(), 0, "{cut} bytes");
        }
    }

    #[test]
    fn code_runs_on_devices_of_its_major_number() {
        let found = [(7, 5), (8, 0), (8, 9), (9, 0), (10, 3), (12, 0)].map(|device| ARCHIVE.have_code_for(device));
        assert_eq!(found, [false, true, true, true, true, false]);
    }
}
