//! Errors of reading an image.

use thiserror::Error;

use crate::diag::{Code, Diagnostic, Site};

/// Why bytes are not a usable plan image.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes do not begin with the magic number of an image.
    #[error("not a plan image: {found} bytes that do not start with its magic number")]
    Magic {
        /// Number of bytes passed.
        found: usize,
    },
    /// The image has another version of the format.
    #[error(
        "plan image of format version {found}, expected version {expected}: compile the plan again with this \
         version of mscclpp"
    )]
    Version {
        /// Version in the image.
        found: u32,
        /// Version that this crate reads and writes.
        expected: u32,
    },
    /// The number of bytes is wrong.
    #[error("plan image of {found} bytes, expected {expected} bytes as stated in its header")]
    Length {
        /// Number of bytes passed.
        found: u64,
        /// Number of bytes that the header states.
        expected: u64,
    },
    /// The bytes were changed after they were written.
    #[error(
        "plan image with hash {found:032x}, expected {expected:032x} as stated in its header: the image was modified"
    )]
    Hash {
        /// Hash of the bytes.
        found: u128,
        /// Hash in the header.
        expected: u128,
    },
    /// A field of the header has an invalid value.
    #[error("plan image with {what} {found} in its header, expected {expected}")]
    Header {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Its valid values.
        expected: &'static str,
    },
    /// A value inside a rank's section is out of range.
    #[error("plan image, rank {rank}: {what} {found}, expected {expected}")]
    Rank {
        /// The rank.
        rank: u32,
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Its valid values.
        expected: String,
    },
}

impl std::fmt::Debug for ImageError {
    /// Writes the message, for callers that return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<ImageError> for Diagnostic {
    fn from(error: ImageError) -> Self {
        let site = match &error {
            ImageError::Rank { rank, .. } => Site::Path(format!("rank {rank}")),
            _ => Site::None,
        };
        Self::new(Code::BadImage, site, error.to_string()).help("compile the plan again, or copy the file again")
    }
}
