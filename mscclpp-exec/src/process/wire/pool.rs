//! Buffers of messages, which are used again: to allocate and free long ones takes as long as to copy them.

use mscclpp_transport::Buffer;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of unused buffers, enough for the messages that are queued for a rank.
const MAX_UNUSED: usize = 16;

/// Unused buffers of one rank.
#[derive(Clone, Default)]
pub(crate) struct Pool {
    unused: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A source of a put, or received bytes. Returns to its pool when it is dropped.
pub(crate) struct PooledBuffer {
    bytes: Vec<u8>,
    pool: Pool,
}

impl Pool {
    fn take(&self) -> PooledBuffer {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        PooledBuffer { bytes: unused.unwrap_or_default(), pool: self.clone() }
    }

    /// Returns a buffer of at least `len` bytes.
    pub(crate) fn with_len(&self, len: u64) -> PooledBuffer {
        let mut buffer = self.take();
        if buffer.bytes.len() < len as usize {
            buffer.bytes.resize(len as usize, 0);
        }
        buffer
    }

    /// Returns a buffer with the bytes that `fill` appends to it.
    pub(crate) fn filled_by(&self, fill: impl FnOnce(&mut Vec<u8>)) -> PooledBuffer {
        let mut buffer = self.take();
        buffer.bytes.clear();
        fill(&mut buffer.bytes);
        buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut unused = self.pool.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MAX_UNUSED {
            unused.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Buffer for PooledBuffer {}

impl AsMut<[u8]> for PooledBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
