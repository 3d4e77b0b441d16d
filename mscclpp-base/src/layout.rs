//! Byte layout of the chunks of a launch.
//!
//! # Chunk boundaries
//!
//! Every chunk is one *stride* long, and chunk `i` of a buffer begins at `i × stride`, in input, output and scratch
//! alike. The stride is the size that a part of the message needs per chunk, rounded up to the plan's alignment, to
//! whole elements, and to whole packets in plans that use them. Where a message divides evenly, as it must for the
//! reference executor, these are the reference's boundaries.
//!
//! Where it does not, **a launch runs as if the message were padded with zeros to whole strides**: an operation covers
//! the same bytes, packets and loop iterations on both of its ends, but reads past the end of a caller's buffer return
//! zero, and writes past it are dropped. So chunks at the end are shorter than others, or empty, and any number of
//! elements works, including zero. Boundaries must be of this form: a range of several chunks is one contiguous run of
//! bytes, which an author may send as one range and use chunk by chunk, at any index of another buffer. Only chunks of
//! equal length permit that.
//!
//! # Parts
//!
//! In all-gather, reduce-scatter and all-to-all a buffer consists of one part per rank, and chunk `j` of rank `r`'s
//! part must be as long as chunk `j` of the corresponding part at its source. There each part is padded separately:
//! [`View`] maps the padded bytes, which plans address, to those of a caller's buffer, in which parts are dense.

use mscclpp_core::collective::{Collective, CollectiveKind};

use crate::error::{Error, RowsError};
use crate::message::{Message, alignment_unit, lcm};
use crate::numeric::row_norm::{VECTOR, has_rows};

/// Properties of a plan that determine the layout.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub collective: Collective,
    pub ranks: u32,
    /// Number of chunks of every rank's buffers; 0 for an unused one. For scratch, the maximum over all ranks.
    pub input: u32,
    pub output: u32,
    pub scratch: u32,
    /// At least 1.
    pub alignment: u32,
    pub packets: bool,
}

/// Sizes in bytes that all ranks of a launch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes from one chunk to the next.
    pub stride: u64,
    /// Granularity of every boundary: alignment, elements, packets, rows. Divides the stride.
    pub unit: u64,
    /// A rank's input and output.
    pub input: View,
    pub output: View,
}

/// A buffer as a plan addresses it: parts padded to whole strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Bytes of all parts.
    pub len: u64,
    /// Bytes of a part, without and with padding. Equal if there is only one part: then only the end is padding.
    part: u64,
    padded: u64,
}

/// A contiguous range of a [`View`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRun {
    /// First byte in the buffer.
    pub at: u64,
    /// Bytes in the buffer; the bytes missing from `run` are padding.
    pub len: u64,
    /// Number of padded bytes that the range covers.
    pub run: u64,
}

impl View {
    fn new(part: u64, parts: u64, padded: u64) -> Option<Self> {
        let len = part.checked_mul(parts)?;
        let padded = if parts > 1 { padded.max(part) } else { part };
        Some(Self { len, part, padded })
    }

    /// Returns a buffer without padding.
    pub const fn dense(len: u64) -> Self {
        Self { len, part: len, padded: len }
    }

    /// Returns the bytes of a part.
    pub const fn part(&self) -> u64 {
        self.part
    }

    /// Returns the bytes of a part with its padding.
    pub const fn padded(&self) -> u64 {
        self.padded
    }

    /// Returns whether there is padding between parts, so that a range may consist of several contiguous ones.
    #[inline]
    pub const fn is_split(&self) -> bool {
        self.part != self.padded
    }

    /// Returns the contiguous range that begins at padded byte `at` and covers `1..=len` bytes (0 if `len` is 0).
    #[inline(always)]
    pub fn piece(&self, at: u64, len: u64) -> ByteRun {
        if !self.is_split() {
            return ByteRun { at, len: self.len.saturating_sub(at).min(len), run: len };
        }
        let (number, inside) = (at / self.padded, at % self.padded);
        let run = len.min(self.padded - inside);
        let start = number * self.part + inside.min(self.part);
        let end = self.part.saturating_sub(inside).min(self.len.saturating_sub(start));
        ByteRun { at: start, len: end.min(run), run }
    }
}

impl Layout {
    /// Returns the layout of a message.
    ///
    /// # Errors
    /// [`Error::IndivisibleCount`], [`Error::NotDividing`], [`Error::TooLarge`], [`Error::InvalidPlan`] if the plan's
    /// chunk counts do not fit its collective.
    pub fn new(shape: &Shape, message: &Message) -> Result<Self, Error> {
        let size = message.dtype.size() as u64;
        let too_large = || Error::TooLarge { count: message.count, dtype: message.dtype };
        let (input, output) = part_chunks(shape)?;
        let unit = alignment_unit(shape.alignment, shape.packets, message.dtype).ok_or_else(too_large)?;
        let unit = lcm(unit, check_rows(shape, message)?).ok_or_else(too_large)?;
        let (input_count, output_count) = elements(shape, message.count)?;
        let bytes = message.count.checked_mul(size).filter(|&bytes| bytes <= MOST).ok_or_else(too_large)?;
        // The larger buffer determines the stride. For collectives with parts both have the same bytes per chunk
        // anyway.
        let (parts, chunks) = if input.chunks() >= output.chunks() { input.rule() } else { output.rule() };
        let stride = (bytes / parts).div_ceil(chunks).checked_next_multiple_of(unit).ok_or_else(too_large)?;
        if shape.collective.dividing {
            let all = chunks.checked_mul(parts).and_then(|all| all.checked_mul(unit / size)).ok_or_else(too_large)?;
            if !message.count.is_multiple_of(all) {
                return Err(Error::NotDividing { count: message.count, multiple: all });
            }
        }
        let view = |side: Side, count: u64| {
            let bytes = count.checked_mul(size)?;
            // A custom collective's smaller buffer has whole chunks, but never more bytes than the larger one.
            let len = if shape.has_free_counts() { stride.checked_mul(side.chunks())?.min(bytes) } else { bytes };
            let padded = stride.checked_mul(u64::from(side.per_part)).filter(|&padded| padded <= MOST)?;
            padded.checked_mul(side.parts).filter(|&all| all <= MOST)?;
            View::new(len / side.parts.max(1), side.parts, padded)
        };
        Ok(Self {
            stride,
            unit,
            input: view(input, input_count).ok_or_else(too_large)?,
            output: view(output, output_count).ok_or_else(too_large)?,
        })
    }

    /// Returns the bytes of the rows that a rank's row norms may write, and those before them in its output: of all of the
    /// output, or of the rank's own part of an all-gather.
    pub fn normalized_rows(&self, kind: CollectiveKind, rank: u32) -> (u64, u64) {
        match kind {
            CollectiveKind::AllGather => (self.input.len, u64::from(rank) * self.input.len),
            _ => (self.output.len, 0),
        }
    }

    /// Returns the bytes of `chunks` chunks of scratch.
    pub fn scratch(&self, chunks: u32) -> Option<u64> {
        self.stride.checked_mul(u64::from(chunks)).filter(|&bytes| bytes <= MOST / 4)
    }

    /// Returns slice `index` of `of` slices of a range of `len` bytes, as first byte and length: whole units, with the
    /// first slices one longer where they do not divide.
    #[inline]
    pub fn slice(&self, len: u64, index: u32, of: u32) -> (u64, u64) {
        if of <= 1 {
            return (0, len);
        }
        let (units, of) = (len / self.unit, u64::from(of));
        let boundary = |i: u64| (i * (units / of) + i.min(units % of)) * self.unit;
        let (start, end) = (boundary(index.into()), boundary(u64::from(index) + 1));
        (start, end - start)
    }

    /// Returns a loop's window in whole units, so that no element and no packet is cut.
    pub fn window(&self, unit: u64) -> u64 {
        unit.checked_next_multiple_of(self.unit).unwrap_or(u64::MAX)
    }

    /// Returns the trip count of a pipeline over `chunks` chunks in windows of `unit` bytes.
    pub fn trips(&self, chunks: u32, unit: u64) -> u64 {
        (u128::from(self.stride) * u128::from(chunks)).div_ceil(u128::from(unit.max(1))).min(u64::MAX.into()) as u64
    }
}

/// Returns the bytes of a row of a plan that normalizes rows; 1 for any other plan.
fn check_rows(shape: &Shape, message: &Message) -> Result<u64, RowsError> {
    let (hidden, dtype, bytes) = (message.row, message.dtype, message.row_bytes());
    if !shape.collective.rows {
        return Ok(1);
    }
    if !has_rows(dtype) {
        return Err(RowsError::Type { dtype });
    }
    if bytes == 0 || !bytes.is_multiple_of(VECTOR as u64) {
        return Err(RowsError::Length { hidden, dtype });
    }
    let has_parts = matches!(shape.collective.kind, CollectiveKind::ReduceScatter | CollectiveKind::AllGather);
    let parts = if has_parts { u64::from(shape.ranks) } else { 1 };
    match hidden.checked_mul(parts) {
        Some(all) if message.count.is_multiple_of(all) => Ok(bytes),
        _ => Err(RowsError::Count { count: message.count, hidden, parts }),
    }
}

/// Maximum length of a buffer: offsets are signed.
const MOST: u64 = i64::MAX as u64;

impl Shape {
    fn has_free_counts(&self) -> bool {
        matches!(self.collective.kind, CollectiveKind::Custom { .. } | CollectiveKind::Test { .. })
    }
}

/// Chunking of a rank's input or output.
#[derive(Clone, Copy)]
struct Side {
    parts: u64,
    per_part: u32,
}

impl Side {
    fn chunks(self) -> u64 {
        self.parts * u64::from(self.per_part)
    }

    /// Returns the parts and chunks per part that determine the stride; a plan that uses neither buffer has one chunk.
    fn rule(self) -> (u64, u64) {
        (self.parts.max(1), u64::from(self.per_part).max(1))
    }
}

fn part_chunks(shape: &Shape) -> Result<(Side, Side), Error> {
    use CollectiveKind::*;
    let ranks = u64::from(shape.ranks);
    let (input_parts, output_parts) = match shape.collective.kind {
        AllGather => (1, ranks),
        ReduceScatter => (ranks, 1),
        AllToAll | AllToAllV => (ranks, ranks),
        AllReduce | SendRecv | Broadcast | Reduce | Custom { .. } | Test { .. } => (1, 1),
    };
    let side = |what: &str, parts: u64, chunks: u32| {
        let fits = u64::from(chunks).is_multiple_of(parts);
        let side = Side { parts, per_part: (u64::from(chunks) / parts) as u32 };
        fits.then_some(side).ok_or_else(|| Error::InvalidPlan {
            path: "the whole plan".into(),
            what: format!("{chunks} {what} chunks for {parts} ranks, expected a multiple of {parts}"),
        })
    };
    let (mut input, mut output) =
        (side("input", input_parts, shape.input)?, side("output", output_parts, shape.output)?);
    if !shape.has_free_counts() {
        // A buffer that no operation names still has its bytes.
        match (input.per_part, output.per_part) {
            (0, chunks) => input.per_part = chunks,
            (chunks, 0) => output.per_part = chunks,
            (left, right) if left == right => {}
            (left, right) => {
                return Err(Error::InvalidPlan {
                    path: "the whole plan".into(),
                    what: format!("{left} chunks per part of the input and {right} of the output, expected equal ones"),
                });
            }
        }
    }
    Ok((input, output))
}

/// Returns the elements of a rank's input and output, where the larger of them has `count`.
fn elements(shape: &Shape, count: u64) -> Result<(u64, u64), Error> {
    use CollectiveKind::*;
    let ranks = u64::from(shape.ranks);
    let kind = shape.collective.kind;
    if matches!(kind, AllGather | ReduceScatter | AllToAll | AllToAllV) && !count.is_multiple_of(ranks) {
        return Err(Error::IndivisibleCount { collective: kind.name(), count, num_ranks: shape.ranks });
    }
    Ok(match kind {
        AllGather => (count / ranks, count),
        ReduceScatter => (count, count / ranks),
        _ => (count, count),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dtype::DataType;

    fn shape(kind: CollectiveKind, ranks: u32, per_part: u32) -> Shape {
        let mut collective = Collective::new(kind);
        collective.chunk_factor = per_part;
        let (input, output) = collective.chunks(ranks).unwrap();
        Shape { collective, ranks, input, output, scratch: 0, alignment: 16, packets: false }
    }

    fn layout(shape: &Shape, count: u64, dtype: DataType) -> Layout {
        Layout::new(shape, &Message::new(dtype, count)).unwrap()
    }

    #[test]
    fn even_messages_have_the_reference_boundaries() {
        let layout = layout(&shape(CollectiveKind::AllReduce, 8, 2), 16 * 64, DataType::F32);
        assert_eq!((layout.stride, layout.unit), (256, 16));
        assert_eq!(layout.input.piece(3 * 256, 512), ByteRun { at: 768, len: 512, run: 512 });
        // 5 units in 3 slices: 2, 2, 1.
        assert_eq!([0, 1, 2].map(|i| layout.slice(80, i, 3)), [(0, 32), (32, 32), (64, 16)]);
        assert_eq!(layout.trips(2, 100), 6);
    }

    #[test]
    fn buffers_over_four_gigabytes_have_a_layout() {
        let count = (1_u64 << 40) + 3;
        let one = layout(&shape(CollectiveKind::AllReduce, 8, 1), count, DataType::F64);
        assert_eq!(one.stride, (count * 8).div_ceil(8).next_multiple_of(16));
        let last = one.input.piece(7 * one.stride, one.stride);
        assert_eq!((last.at, last.at + last.len), (7 * one.stride, count * 8));
        let parts = layout(&shape(CollectiveKind::AllGather, 8, 3), count / 8 * 8, DataType::F32);
        let (part, piece) = (count / 8 * 4, parts.output.piece(7 * 3 * parts.stride, 3 * parts.stride));
        assert_eq!((piece.at, piece.len), (7 * part, part));
        assert_eq!(parts.trips(1 << 20, 1), parts.stride << 20);
        assert_eq!(one.trips(u32::MAX, 1), u64::MAX, "saturates");
        assert!(parts.scratch(u32::MAX).is_none(), "more scratch than there are addresses");
    }

    #[test]
    fn impossible_messages_are_rejected() {
        let new = |shape: &Shape, count, dtype| Layout::new(shape, &Message::new(dtype, count));
        let gather = shape(CollectiveKind::AllGather, 4, 1);
        assert!(matches!(new(&gather, 7, DataType::U8), Err(Error::IndivisibleCount { count: 7, num_ranks: 4, .. })));
        for count in [u64::MAX, u64::MAX / 8, MOST / 8 + 1] {
            let reduce = shape(CollectiveKind::AllReduce, 4, 1);
            assert!(matches!(new(&reduce, count, DataType::F64), Err(Error::TooLarge { .. })), "{count}");
        }
        let odd = Shape { output: 6, ..gather };
        assert!(matches!(new(&odd, 8, DataType::U8), Err(Error::InvalidPlan { .. })));
        let unequal = Shape { input: 2, ..gather };
        assert!(matches!(new(&unequal, 8, DataType::U8), Err(Error::InvalidPlan { .. })));
    }

    #[test]
    fn custom_collective_has_free_counts() {
        let shape = |input, output| Shape { input, output, ..shape(CollectiveKind::Custom { input, output }, 2, 1) };
        let even = layout(&shape(4, 8), 80, DataType::F32);
        assert_eq!((even.stride, even.input.len, even.output.len), (48, 192, 320));
        let none = layout(&shape(0, 0), 80, DataType::F32);
        assert_eq!((none.stride, none.input.len, none.output.len), (320, 0, 0));
    }

    fn kinds() -> impl Strategy<Value = CollectiveKind> {
        use CollectiveKind::*;
        prop::sample::select(vec![AllReduce, AllGather, ReduceScatter, AllToAll, SendRecv, Broadcast, Reduce])
    }

    proptest! {
        /// Contiguous ranges of all chunks cover a buffer once and in order, on every side of every collective.
        #[test]
        fn chunks_cover_the_buffers(
            kind in kinds(), ranks in 1_u32..9, per_part in 1_u32..7, count in 0_u64..5000,
            dtype in prop::sample::select(DataType::ALL), alignment in 1_u32..70, packets: bool,
        ) {
            let shape = Shape { alignment, packets, ..shape(kind, ranks, per_part) };
            let count = count * u64::from(ranks);
            let layout = layout(&shape, count, dtype);
            prop_assert!(layout.stride.is_multiple_of(layout.unit));
            prop_assert!(layout.unit.is_multiple_of(dtype.size() as u64));
            let sides = [(layout.input, shape.input), (layout.output, shape.output)];
            for (view, chunks) in sides {
                let mut end = 0;
                for chunk in 0..u64::from(chunks) {
                    let piece = view.piece(chunk * layout.stride, layout.stride);
                    prop_assert_eq!(piece.run, layout.stride, "a chunk lies in one part");
                    prop_assert!(piece.len == 0 || piece.at == end, "chunk {} at {}, not {}", chunk, piece.at, end);
                    prop_assert!(piece.len.is_multiple_of(dtype.size() as u64), "an element is cut");
                    end += piece.len;
                }
                prop_assert_eq!(end, view.len);
                // Reading a range in steps of any size visits the same bytes.
                let (mut at, mut seen) = (0, 0);
                let all = u64::from(chunks) * layout.stride;
                while at < all {
                    let piece = view.piece(at, (all - at).min(layout.stride * 3 / 2 + 1));
                    seen += piece.len;
                    at += piece.run;
                }
                prop_assert_eq!(seen, view.len);
            }
        }

        /// Chunk j of rank r's part is as long at its source as at its destination.
        #[test]
        fn chunks_of_both_ends_have_equal_length(ranks in 1_u32..9, per_part in 1_u32..7, part in 0_u64..500) {
            let gather = layout(&shape(CollectiveKind::AllGather, ranks, per_part), part * u64::from(ranks), DataType::U8);
            for rank in 0..u64::from(ranks) {
                for chunk in 0..u64::from(per_part) {
                    let source = gather.input.piece(chunk * gather.stride, gather.stride);
                    let copy = gather.output.piece((rank * u64::from(per_part) + chunk) * gather.stride, gather.stride);
                    prop_assert_eq!(source.len, copy.len);
                    prop_assert_eq!(source.len == 0 || copy.at == rank * part + source.at, true);
                }
            }
        }

        /// The slices of a group cover a range once and in order.
        #[test]
        fn slices_cover_a_range_in_order(chunks in 1_u64..20, of in 1_u32..20, count in 0_u64..1000) {
            let layout = layout(&shape(CollectiveKind::AllReduce, 4, 3), count, DataType::F16);
            let mut end = 0;
            for index in 0..of {
                let (start, len) = layout.slice(chunks * layout.stride, index, of);
                prop_assert_eq!(start, end);
                end = start + len;
            }
            prop_assert_eq!(end, chunks * layout.stride);
        }
    }
}
