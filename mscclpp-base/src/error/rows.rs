//! Mistakes of launches whose messages consist of rows.

use mscclpp_core::diag::Code;

use crate::dtype::DataType;

/// What is wrong with a message of rows, or with the operands of its row norm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The plan normalizes rows, and the message has none or the launch no operands for them; or the reverse.
    #[error(
        "plan `{plan}` {}",
        if *rows { "normalizes rows, found a message without rows or a launch without their operands" }
        else { "does not normalize rows, found a message of rows or operands for them" }
    )]
    Mode {
        /// The plan.
        plan: String,
        /// Whether the plan normalizes rows.
        rows: bool,
    },
    /// Rows of this type are not normalized.
    #[error("expected rows of f32, f16 or bf16, found {dtype}")]
    Type {
        /// The type.
        dtype: DataType,
    },
    /// The bytes of a row are no multiple of 16.
    #[error("a row of {hidden} {dtype} has {} bytes, expected a multiple of 16", u128::from(*hidden) * dtype.size() as u128)]
    Length {
        /// Elements of a row.
        hidden: u64,
        /// Their type.
        dtype: DataType,
    },
    /// The message does not consist of whole rows, or not of equally many for each rank.
    #[error("{count} elements are no whole rows of {hidden} elements for {parts} equal parts")]
    Count {
        /// Elements of the message.
        count: u64,
        /// Elements of a row.
        hidden: u64,
        /// Parts of the message: one for each rank in a reduce-scatter and an all-gather, otherwise one.
        parts: u64,
    },
    /// An operand of the row norm has the wrong length.
    #[error("{operand} of rank {rank} has {found} elements, expected {expected}")]
    Operand {
        /// The rank.
        rank: u32,
        /// The operand.
        operand: &'static str,
        /// The required number of elements.
        expected: u64,
        /// The number of elements.
        found: u64,
    },
    /// A scale is no positive finite number.
    #[error("the scale of rank {rank} is {scale}, expected a positive finite number")]
    Scale {
        /// The rank.
        rank: u32,
        /// The scale, as text.
        scale: String,
    },
    /// Another number of a row norm is not one that it accepts.
    #[error("{number} of rank {rank} is {found}, expected {expected}")]
    Number {
        /// The rank.
        rank: u32,
        /// Which one.
        number: &'static str,
        /// The number, as text.
        found: String,
        /// What it accepts.
        expected: &'static str,
    },
}

impl RowsError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Mode { .. } | Self::Type { .. } | Self::Operand { .. } | Self::Scale { .. } | Self::Number { .. } => {
                Code::WrongBuffers
            }
            Self::Length { .. } | Self::Count { .. } => Code::IndivisibleCount,
        }
    }

    pub(super) fn help(&self) -> String {
        match self {
            Self::Mode { rows: true, .. } => "prepare it with `Message::rows`, and launch it with `launch_rows`".into(),
            Self::Mode { .. } => "prepare it with `Message::of`, and launch it with `launch`".into(),
            Self::Type { .. } => "convert the rows, or reduce them and normalize the result separately".into(),
            Self::Length { .. } => "pad the rows with zeros, or reduce them and normalize the result separately".into(),
            Self::Count { .. } => "pass whole rows; in a reduce-scatter or an all-gather, a multiple of the number of ranks".into(),
            Self::Operand { .. } => "pass as many elements as the rows of the output require; in an all-gather, those of the rank's own part".into(),
            Self::Number { .. } => "pass a number such as 1e-6 for eps, and 0 or 1 for the bias".into(),
            Self::Scale { .. } => "pass the number by which dequantized values are multiplied".into(),
        }
    }

    pub(super) const fn rank(&self) -> Option<u32> {
        match self {
            Self::Operand { rank, .. } | Self::Scale { rank, .. } | Self::Number { rank, .. } => Some(*rank),
            _ => None,
        }
    }
}
