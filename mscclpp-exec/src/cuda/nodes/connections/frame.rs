//! Headers of messages between nodes.

use bytemuck::{Pod, Zeroable};

use crate::cuda::proxy::Failure;
use crate::error::Error;
use crate::process::Header;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Frame {
    /// Half of the plan's hash.
    pub(super) plan: u64,
    /// Launch of the plan, counted from 1.
    pub(super) launch: u64,
    pub(super) kind: u64,
    /// The receiver's number of a region, the offset of the first byte in it, and the number of bytes.
    pub(super) memory: u64,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// Kinds of messages.
pub(super) mod kind {
    /// Bytes that follow the header.
    pub(in super::super) const DATA: u64 = 1;
    /// Zeros, which do not follow.
    pub(in super::super) const ZEROS: u64 = 2;
    /// One increment of a counter.
    pub(in super::super) const SIGNAL: u64 = 3;
    /// The sender has completed all its work.
    pub(in super::super) const LEAVES: u64 = 4;
    /// The sender aborted.
    pub(in super::super) const GIVES_UP: u64 = 5;
    /// The sender sends nothing more in the launch.
    pub(in super::super) const END: u64 = 6;
}

impl Header for Frame {
    fn bytes(&self) -> u64 {
        if self.kind == kind::DATA { self.bytes } else { 0 }
    }
}

pub(super) fn malformed(peer: u32, frame: &Frame) -> Failure {
    Error::RankLost { peer, why: format!("it sent a frame that no plan expects: {frame:?}") }.into()
}
