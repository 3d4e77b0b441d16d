//! Kernels that were compiled ahead of time, by their sources.

use mscclpp_images::{ARCHIVE, Image};
use sha2::{Digest, Sha256};

use crate::driver::Properties;
use crate::jit::Source;

/// Returns the key of a source among the images.
pub fn key(source: &Source) -> String {
    source.key("ahead of time")
}

/// Returns whether there is an image of a source, for devices of any kind.
pub fn contains(source: &Source) -> bool {
    ARCHIVE.find(&key(source)).is_some()
}

/// Returns the image of a source, if there is one that the driver accepts and the device runs.
pub(crate) fn find(source: &Source, properties: &Properties) -> Option<&'static [u8]> {
    let is_accepted = ARCHIVE.toolkit <= properties.driver && ARCHIVE.have_code_for(properties.capability);
    is_accepted.then(|| ARCHIVE.find(&key(source))).flatten().and_then(intact)
}

/// Returns the code of an image; `None` if it is not what was compiled.
fn intact(image: Image) -> Option<&'static [u8]> {
    let is_intact = Sha256::digest(image.code)[..] == image.hash;
    if !is_intact {
        log::warn!("a kernel that was compiled ahead of time is damaged, and not used");
    }
    is_intact.then_some(image.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_images_are_not_used() {
        let code = b"code";
        let hash = Sha256::digest(code).into();
        assert_eq!(intact(Image { code, hash }), Some(&code[..]));
        assert_eq!(intact(Image { code: b"cod", hash }), None);
    }
}
