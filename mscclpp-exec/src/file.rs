//! Files from outside: read up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is longer than the limit.
    TooLong,
    /// What the system says.
    Io(io::Error),
}

/// The bytes of a file of at most `limit` bytes. Never holds more than that.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(ReadError::Io)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() as u64 > limit { Err(ReadError::TooLong) } else { Ok(bytes) }
}
