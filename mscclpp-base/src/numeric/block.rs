//! Units in which workers process data: lines of 64 bytes, tiles of some lines.

use bytemuck::{Pod, Zeroable};

/// Bytes of a line.
pub const LINE: usize = 64;

/// Lines of a tile.
pub const LINES: usize = 16;

/// A line of a message in a worker's private memory. A line holds whole elements of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line(pub [u64; LINE / 8]);

/// As many lines as stay in registers and the nearest cache while sources are combined.
pub type Tile = [Line; LINES];

/// Room for a tile's elements in the widest accumulator: 1-byte elements as f64.
pub type Accumulator = [Line; LINES * 8];

impl Line {
    pub const ZERO: Self = Self([0; LINE / 8]);
}

/// Returns lines of zeros.
pub const fn zeroed<const N: usize>() -> [Line; N] {
    [Line::ZERO; N]
}
