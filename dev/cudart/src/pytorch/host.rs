//! Device memory as the host reads and writes it for kernels that it executes, each time once the stream has reached them.

use crate::driver;
use crate::error::Code;

/// Reads bytes of device memory.
pub(super) fn read(address: u64, bytes: usize, stream: usize) -> Result<Vec<u8>, Code> {
    let mut read = vec![0; bytes];
    // SAFETY: the bytes exist until the stream has reached the copy.
    unsafe { driver::cuMemcpyDtoHAsync_v2(read.as_mut_ptr(), address, bytes, stream)? };
    driver::cuStreamSynchronize(stream)?;
    Ok(read)
}

/// Writes bytes to device memory.
pub(super) fn write(address: u64, bytes: &[u8], stream: usize) -> Result<(), Code> {
    // SAFETY: the bytes exist until the stream has reached the copy.
    unsafe { driver::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr(), bytes.len(), stream)? };
    driver::cuStreamSynchronize(stream)
}
