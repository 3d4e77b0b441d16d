//! The layout of an image. All numbers are little-endian and nothing is aligned.
//!
//! ```text
//! header      HEADER bytes, the fields below
//! directory   ranks + 1 × u64: byte offset of each rank's section, then of the padding
//! name        UTF-8
//! tags        per tag: i64 value, u64 length of the key, the key in UTF-8; keys ascending
//! expected    what the program states about its outputs: nothing, or one byte and words as in a section
//! sections    one per rank
//! padding     PADDING zero bytes, so that every word can be read as eight bytes
//! ```
//!
//! A section is one byte, the binary logarithm of its word width, then words of that width (1, 2, 4 or 8 bytes, the least
//! that holds its largest number):
//!
//! ```text
//! RANK words          chunk counts of input, output, scratch; numbers of entries of the seven tables that follow
//! channel tables      CHANNELS words each: tag, first number, length
//! remote buffers      REMOTE words each: owner, buffer and access bits
//! semaphores          one word each: initial value, sign in the lowest bit
//! blocks              BLOCK words each: first operation, operations, first table, channel tables, remote buffer tables
//! block tables        TABLE words each: channel kind, first number, length
//! operations          OP words each, a pipeline's body right after its header
//! operands            REF words each
//! numbers             the rest
//! ```
//!
//! The words of the expectations are, for each, rank, first chunk, chunks, number of inputs, then rank and first chunk of each
//! input.
//!
//! "First" entries are counted from the start of their table, and every list starts where the one before ended.

/// The first bytes of an image.
pub(super) const MAGIC: [u8; 8] = *b"mscclpp\0";
/// The version of this layout.
pub(super) const FORMAT: u32 = 3;

/// Offsets of the header's fields.
pub(super) const VERSION: usize = 8;
pub(super) const RANKS: usize = 12;
pub(super) const LENGTH: usize = 16;
pub(super) const HASH: usize = 24;
pub(super) const HASH_END: usize = 40;
pub(super) const RANKS_PER_NODE: usize = 40;
pub(super) const KIND: usize = 44;
pub(super) const PROTOCOL: usize = 45;
pub(super) const FLAGS: usize = 46;
pub(super) const ZERO: usize = 47;
pub(super) const KIND_INPUT: usize = 48;
pub(super) const KIND_OUTPUT: usize = 52;
pub(super) const CHUNK_FACTOR: usize = 56;
pub(super) const ROOT: usize = 60;
pub(super) const THREADS: usize = 64;
pub(super) const ALIGNMENT: usize = 68;
pub(super) const MIN_SIZE: usize = 72;
pub(super) const MAX_SIZE: usize = 80;
pub(super) const NAME_LENGTH: usize = 88;
pub(super) const TAGS_LENGTH: usize = 96;
pub(super) const EXPECTED_LENGTH: usize = 104;
pub(super) const HEADER: usize = 112;

/// Bits of the header's flags.
pub(super) const IN_PLACE: u8 = 1;
pub(super) const REUSE_RESOURCES: u8 = 2;
pub(super) const DOUBLE_SCRATCH: u8 = 4;
pub(super) const DIVIDING: u8 = 8;
pub(super) const ROWS: u8 = 16;

/// Number of zero bytes after the last section.
pub(super) const PADDING: usize = 7;

/// Words of a section's head: three chunk counts and seven table sizes.
pub(super) const RANK: usize = 10;
/// Words of an expectation before its inputs, and of each input.
pub(super) const EXPECTATION: usize = 4;
pub(super) const INPUT: usize = 2;

/// Words of the entries of a section's tables.
pub(super) const CHANNELS: usize = 3;
pub(super) const REMOTE: usize = 2;
pub(super) const BLOCK: usize = 5;
pub(super) const TABLE: usize = 3;
pub(super) const REF: usize = 3;

/// Tags of channel tables: the channel kind, plus the buffer's number for switch channels.
pub(super) const TAG_MEMORY: u64 = 0;
pub(super) const TAG_PORT: u64 = 1;
pub(super) const TAG_SWITCH: u64 = 2;

/// Bits of a remote buffer's second word: the buffer in the lowest two, then who may access it.
pub(super) const ACCESS_MEMORY: u64 = 4;
pub(super) const ACCESS_PORT: u64 = 8;

/// Words of an operation: kind, attributes, numbers of sources, destinations and ids, first reference, first number.
///
/// Its numbers are its ids, then, as the attributes say: slice index and size; sender and receiver of its count; block count; unit, chunks and operations
/// of a pipeline.
pub(super) const OP: usize = 7;

/// Bits of an operation's attributes. Channel kind and reduction are stored plus one, 0 for none.
pub(super) const CHANNEL_MASK: u64 = 3;
pub(super) const REDUCE_SHIFT: u32 = 2;
pub(super) const REDUCE_MASK: u64 = 7;
pub(super) const HAS_SLICE: u64 = 1 << 5;
pub(super) const HAS_BLOCKS: u64 = 1 << 6;
pub(super) const HAS_BODY: u64 = 1 << 7;
pub(super) const SYNC_SHIFT: u32 = 8;
pub(super) const SYNC_MASK: u64 = 3;
pub(super) const HAS_COUNT: u64 = 1 << 10;
pub(super) const ATTRIBUTES_END: u64 = 1 << 11;

/// Pipelines inside pipelines that are decoded. A correct plan has one level.
pub(super) const MAX_DEPTH: usize = 8;

/// The buffer of an operand, as one number: local buffers first, then remote and switch windows alternately.
pub(super) const PLACE_REMOTE: u64 = 3;
pub(super) const PLACE_SWITCH: u64 = 4;

/// Returns a little-endian number of the header, 0 if it is truncated.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk.map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Returns a little-endian number, 0 if it is truncated.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Converts a number to an index; one that does not fit becomes an index past every end.
#[inline]
pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Words of one width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// From the first word to [`PADDING`] bytes after the last one.
    bytes: &'a [u8],
    shift: u32,
}

impl<'a> Words<'a> {
    /// Returns the words of `image[start..end]`, whose first byte is the width; `None` if the range is outside the
    /// image, if the width is invalid, or if a word is truncated.
    pub(super) fn new(image: &'a [u8], start: usize, end: usize) -> Option<Self> {
        let (width, bytes) = image.get(start..end.checked_add(PADDING)?)?.split_first()?;
        let shift = u32::from(*width);
        let length = bytes.len().checked_sub(PADDING)?;
        (shift <= 3 && length.is_multiple_of(1 << shift)).then_some(Self { bytes, shift })
    }

    /// Returns the number of words.
    pub(super) fn len(&self) -> usize {
        (self.bytes.len() - PADDING) >> self.shift
    }

    /// Returns whether no narrower words would hold the numbers.
    pub(super) fn is_least_width(&self) -> bool {
        let all = (0..self.len()).fold(0, |all, at| all | self.get(at));
        self.shift == width(all)
    }

    #[inline]
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - (8 << self.shift))
    }

    /// Returns eight bytes from a word on; past the end, an unspecified number.
    #[inline]
    fn load(&self, at: usize) -> u64 {
        let chunk = self.bytes.get(at << self.shift..).and_then(|bytes| bytes.first_chunk());
        chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk))
    }

    /// Returns a word; past the end, an unspecified number.
    #[inline]
    pub(super) fn get(&self, at: usize) -> u64 {
        self.load(at) & self.mask()
    }

    /// Returns up to four consecutive words. In most plans they are so narrow that one load reads them all.
    #[inline]
    pub(super) fn several<const N: usize>(&self, at: usize) -> [u64; N] {
        const { assert!(N <= 4) };
        if self.shift <= 1 {
            let (all, mask) = (self.load(at), self.mask());
            std::array::from_fn(|i| all >> (i << (3 + self.shift)) & mask)
        } else {
            std::array::from_fn(|i| self.get(at.wrapping_add(i)))
        }
    }

    /// Returns a word that is an index or a count.
    #[inline]
    pub(super) fn index(&self, at: usize) -> usize {
        index(self.get(at))
    }
}

/// Appends the width and the words, in the smallest width that holds them all.
///
/// Written with indexes: macros run it unoptimized, and an iterator then makes several calls per item.
pub(super) fn push_words(out: &mut Vec<u8>, words: &[u64]) {
    let (mut all, mut at) = (0, 0);
    while at < words.len() {
        all |= words[at];
        at += 1;
    }
    let shift = width(all);
    let width = 1 << shift;
    let mut bytes = vec![0; words.len() * width];
    let places = &mut bytes[..];
    at = 0;
    while at < places.len() {
        let word = words[at >> shift];
        let mut byte = 0;
        while byte < width {
            places[at + byte] = (word >> (8 * byte)) as u8;
            byte += 1;
        }
        at += width;
    }
    out.push(shift as u8);
    out.reserve(bytes.len() + PADDING);
    out.extend_from_slice(&bytes);
}

/// Returns the binary logarithm of the bytes that a number takes.
fn width(number: u64) -> u32 {
    match number {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    }
}
