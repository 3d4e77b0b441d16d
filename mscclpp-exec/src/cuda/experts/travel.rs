//! What travels of tokens, and the memory where it does.

use mscclpp_base::experts::RowLayout;
use mscclpp_cuda::lend::Lent;

/// Bytes at the end of a row that travels.
pub(super) const TAIL: u64 = 16;

/// What travels of each token besides the expert.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Its row.
    Rows(&'a Lent<'a>),
    /// Its row, and scales, an `f32` for each group of its elements.
    Scaled(&'a Lent<'a>, &'a Lent<'a>),
    /// Its row, rounded to e4m3, and the scales.
    Quantized(&'a Lent<'a>),
}

impl Payload<'_> {
    /// Returns what the rows are when they travel.
    pub fn form(&self) -> PayloadForm {
        match self {
            Self::Rows(_) => PayloadForm::Plain,
            Self::Scaled(..) | Self::Quantized(_) => PayloadForm::Scaled,
        }
    }
}

/// What rows are when they travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadForm {
    /// Rows of the type that is combined.
    Plain,
    /// Rows of e4m3, with scales.
    Scaled,
}

/// Lent memory for the rows of a rank's experts.
pub struct RowsAtExperts<'a> {
    /// Where rows are.
    pub layout: RowLayout,
    /// The rows.
    pub rows: Lent<'a>,
    /// Their scales, if they travel with some.
    pub scales: Option<Lent<'a>>,
    /// The number of rows of each expert; by rank those of each rank and expert.
    pub counts: Lent<'a>,
}

/// The bytes of a row as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) row: u64,
    pub(super) scales: u64,
}

impl Wire {
    pub(super) fn scales_at(self) -> u64 {
        self.row.next_multiple_of(16)
    }

    pub(super) fn stride(self) -> u64 {
        self.scales_at() + self.scales.next_multiple_of(16) + TAIL
    }
}

/// The memory of a launch with counts.
#[derive(Debug)]
pub struct Travel<'a> {
    /// Rows that are sent.
    pub input: Lent<'a>,
    /// Room for those that are received.
    pub output: Lent<'a>,
    /// Rows for each rank.
    pub sent: Lent<'a>,
    /// Rows from each rank.
    pub received: Lent<'a>,
    /// Bytes of a row.
    pub stride: u64,
}
