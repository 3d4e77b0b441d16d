//! The buffers of a rank, as the model separates them.

use mscclpp_plan::types::BufferKind;

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Space {
    Input,
    Output,
    Scratch,
    Packets,
}

impl Space {
    pub(crate) const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Scratch, Self::Packets];

    /// Returns the buffer of an operand.
    pub(crate) const fn of(buffer: BufferKind, packets: bool) -> Self {
        match buffer {
            _ if packets => Self::Packets,
            BufferKind::Input => Self::Input,
            BufferKind::Output => Self::Output,
            BufferKind::Scratch => Self::Scratch,
        }
    }

    pub(crate) const fn buffer(self) -> BufferKind {
        match self {
            Self::Input => BufferKind::Input,
            Self::Output => BufferKind::Output,
            Self::Scratch | Self::Packets => BufferKind::Scratch,
        }
    }

    /// Returns whether the caller owns it between launches.
    pub(crate) const fn is_callers(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }
}
