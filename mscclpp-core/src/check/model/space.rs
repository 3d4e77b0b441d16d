//! The memories of a rank.

use crate::types::BufferKind;

/// A memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::check) enum Space {
    Input,
    Output,
    Scratch,
    Packets,
}

impl Space {
    pub(in crate::check) const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Scratch, Self::Packets];

    /// The memory behind a buffer.
    pub(in crate::check) const fn of(buffer: BufferKind, packets: bool) -> Self {
        match buffer {
            _ if packets => Self::Packets,
            BufferKind::Input => Self::Input,
            BufferKind::Output => Self::Output,
            BufferKind::Scratch => Self::Scratch,
        }
    }

    pub(in crate::check) const fn buffer(self) -> BufferKind {
        match self {
            Self::Input => BufferKind::Input,
            Self::Output => BufferKind::Output,
            Self::Scratch | Self::Packets => BufferKind::Scratch,
        }
    }

    /// Whether the caller owns it between launches.
    pub(in crate::check) const fn is_callers(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }
}
