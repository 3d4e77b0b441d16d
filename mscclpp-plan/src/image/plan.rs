//! A plan as bytes, and what its header says of it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::layout::*;
use super::origins::OriginTable;
use super::{ImageError, RankView, decode, encode, origins, validate};
use crate::collective::Collective;
use crate::origin::{Origin, SourceLocation};
use crate::types::Protocol;
use crate::{Expectation, PlanTree};

/// An execution plan.
///
/// Immutable and cheap to clone. Two plans are equal if their images are; source locations are ignored.
#[derive(Clone)]
pub struct Plan {
    pub(super) image: Bytes,
    pub(super) origins: Bytes,
}

/// Bytes of the binary, or shared ones.
#[derive(Clone)]
pub(super) enum Bytes {
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Plan {
    /// Creates a plan whose image and origins are in the binary. Costs nothing and checks nothing.
    ///
    /// For generated code, whose bytes come from [`Plan::new`]. Other bytes go through [`Plan::from_bytes`]; with wrong
    /// bytes here, views are empty or meaningless, but nothing panics. [`Plan::check_header`] checks whether the bytes have
    /// this version of the format.
    #[inline]
    #[doc(hidden)]
    pub const fn from_static(image: &'static [u8], origins: &'static [u8]) -> Self {
        Self { image: Bytes::Static(image), origins: Bytes::Static(origins) }
    }

    /// Encodes a tree. Equal trees give equal images, on every machine.
    ///
    /// Time and memory are linear in the size of the tree.
    pub fn new(tree: &PlanTree) -> Self {
        Self { image: Bytes::Shared(encode::encode(tree).into()), origins: Bytes::Shared(origins::encode(tree).into()) }
    }

    /// Returns whether bytes begin like an image; plan files in JSON do not.
    #[doc(hidden)]
    pub fn is_image(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Creates a plan from bytes of any source, after validating all of them. Does not check the plan itself;
    /// `Plan::load` does.
    ///
    /// # Errors
    /// Any difference from an image that [`Plan::new`] writes: another format or version, missing or changed bytes,
    /// and, even under a correct hash, any count, position or enum value out of range.
    pub fn from_bytes(image: Vec<u8>) -> Result<Self, ImageError> {
        let plan = Self { image: Bytes::Shared(image.into()), origins: Bytes::Static(&[]) };
        validate::image(&plan)?;
        Ok(plan)
    }

    /// Returns the same plan with other origins, those that [`Plan::origins`] returned for an equal plan.
    #[must_use]
    #[doc(hidden)]
    pub fn with_origins(mut self, origins: Vec<u8>) -> Self {
        self.origins = Bytes::Shared(origins.into());
        self
    }

    /// Checks magic number, version and length, in constant time.
    ///
    /// # Errors
    /// The first of the three that is wrong.
    #[doc(hidden)]
    pub fn check_header(&self) -> Result<(), ImageError> {
        validate::outline(&self.image)
    }

    /// Returns the bytes of the image.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Returns the encoded source locations of the operations; empty if they are unknown.
    #[doc(hidden)]
    pub fn origins(&self) -> &[u8] {
        &self.origins
    }

    /// Returns the whole plan as a tree; `Plan::new` of it gives the same image.
    pub fn tree(&self) -> PlanTree {
        decode::decode(self)
    }

    /// Returns a hash over everything but the origins, as stored in the image.
    pub fn hash(&self) -> u128 {
        u128::from(u64_at(&self.image, HASH + 8)) << 64 | u128::from(u64_at(&self.image, HASH))
    }

    /// Returns the plan's name.
    pub fn name(&self) -> &str {
        self.text(self.texts(), u64_at(&self.image, NAME_LENGTH))
    }

    /// Returns the collective, with its chunking before replication and whether it is in place.
    pub fn collective(&self) -> Collective {
        decode::collective(&self.image)
    }

    /// Returns whether scratch is sized for packets.
    pub fn protocol(&self) -> Protocol {
        if self.image.get(PROTOCOL) == Some(&(Protocol::LL as u8)) { Protocol::LL } else { Protocol::Simple }
    }

    /// Returns the number of ranks.
    #[inline]
    pub fn num_ranks(&self) -> u32 {
        let most = self.image.len().saturating_sub(HEADER + 8 + PADDING) / 8;
        u32_at(&self.image, RANKS).min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Returns the number of ranks per node.
    pub fn ranks_per_node(&self) -> u32 {
        u32_at(&self.image, RANKS_PER_NODE)
    }

    /// Returns whether launches of all sizes share one scratch pool.
    #[doc(hidden)]
    pub fn reuse_resources(&self) -> bool {
        self.flag(REUSE_RESOURCES)
    }

    /// Returns the number of CUDA threads per thread block.
    pub fn threads_per_block(&self) -> u32 {
        u32_at(&self.image, THREADS)
    }

    /// Returns whether launches alternate between two halves of scratch.
    #[doc(hidden)]
    pub fn double_scratch(&self) -> bool {
        self.flag(DOUBLE_SCRATCH)
    }

    /// Returns the granularity of chunk boundaries, in bytes.
    #[doc(hidden)]
    pub fn buffer_alignment(&self) -> u32 {
        u32_at(&self.image, ALIGNMENT)
    }

    /// Returns the smallest message size, inclusive: bytes of the larger of a rank's input and output.
    pub fn min_message_size(&self) -> u64 {
        u64_at(&self.image, MIN_SIZE)
    }

    /// Returns the largest message size, inclusive: bytes of the larger of a rank's input and output.
    pub fn max_message_size(&self) -> u64 {
        u64_at(&self.image, MAX_SIZE)
    }

    /// Returns the tags, which are labels for selectors, keys ascending.
    pub fn tags(&self) -> impl Iterator<Item = (&str, i64)> {
        let mut at = self.texts().saturating_add(index(u64_at(&self.image, NAME_LENGTH)));
        let end = at.saturating_add(index(u64_at(&self.image, TAGS_LENGTH))).min(self.image.len());
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let value = u64_at(&self.image, at) as i64;
                let length = u64_at(&self.image, at.saturating_add(8));
                let key = self.text(at.saturating_add(16), length);
                at = at.saturating_add(16).saturating_add(index(length));
                (key, value)
            })
        })
    }

    /// Returns the value of a tag.
    pub fn tag(&self, key: &str) -> Option<i64> {
        self.tags().find_map(|(found, value)| (found == key).then_some(value))
    }

    /// Returns the program's expectations of its outputs (`Program::expect`), without
    /// their source locations.
    #[doc(hidden)]
    pub fn expectations(&self) -> impl Iterator<Item = Expectation> {
        expectations(self.expectation_words())
    }

    /// Returns the words of the expectations; `None` if there are none.
    fn expectation_words(&self) -> Option<Words<'_>> {
        let (start, length) = (self.expected(), index(u64_at(&self.image, EXPECTED_LENGTH)));
        Words::new(&self.image, start, start.checked_add(length)?)
    }

    /// Returns a rank's part of the plan, in constant time; `None` if the plan has no such rank.
    #[inline]
    #[doc(hidden)]
    pub fn rank(&self, rank: u32) -> Option<RankView<'_>> {
        if rank >= self.num_ranks() {
            return None;
        }
        let entry = HEADER + 8 * rank as usize;
        let [start, end] = [entry, entry + 8].map(|at| index(u64_at(&self.image, at)));
        RankView::new(Words::new(&self.image, start, end)?)
    }

    /// Returns all ranks' parts in order.
    #[doc(hidden)]
    pub fn ranks(&self) -> impl Iterator<Item = RankView<'_>> {
        (0..self.num_ranks()).filter_map(|rank| self.rank(rank))
    }

    /// Returns the source location of an operation. `op` is its flat index in its thread block, as in
    /// [`BlockView::op`](super::BlockView::op).
    #[doc(hidden)]
    pub fn location(&self, rank: u32, block: u32, op: u32) -> Option<SourceLocation> {
        let block = self.rank(rank)?.block(block)?;
        let op = (op < block.num_ops()).then_some(op)?;
        OriginTable::new(&self.origins)?.place(rank, block.first_op() + op as usize)
    }

    pub(super) fn origin_table(&self) -> Option<OriginTable<'_>> {
        OriginTable::new(&self.origins)
    }

    fn flag(&self, flag: u8) -> bool {
        self.image.get(FLAGS).is_some_and(|flags| flags & flag != 0)
    }

    /// Returns the offset of the texts.
    fn texts(&self) -> usize {
        HEADER + 8 * (self.num_ranks() as usize + 1)
    }

    /// Returns the offset of the expectations.
    fn expected(&self) -> usize {
        let texts = [NAME_LENGTH, TAGS_LENGTH].map(|at| index(u64_at(&self.image, at)));
        texts.into_iter().fold(self.texts(), usize::saturating_add)
    }

    fn text(&self, start: usize, length: u64) -> &str {
        let text = self.image.get(start..start.saturating_add(index(length)));
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }
}

/// Returns the expectations that words encode, up to the first one that is incomplete.
fn expectations(words: Option<Words<'_>>) -> impl Iterator<Item = Expectation> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let words = words.as_ref()?;
        let number = |at: usize| u32::try_from(words.get(at)).ok();
        let inputs = at + EXPECTATION;
        // Checks counts before allocating: an input takes a word at least.
        let room = words.len().checked_sub(inputs)? / INPUT;
        let count = Some(words.index(at + 3)).filter(|count| *count <= room)?;
        let [rank, chunk, len] = [number(at)?, number(at + 1)?, number(at + 2)?];
        at = inputs + count * INPUT;
        let inputs = (inputs..at).step_by(INPUT).map(|at| Some((number(at)?, number(at + 1)?)));
        Some(Expectation { rank, chunk, len, inputs: inputs.collect::<Option<_>>()?, origin: Origin::UNKNOWN })
    })
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.image[..] == other.image[..]
    }
}

impl Eq for Plan {}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("name", &self.name())
            .field("collective", &self.collective())
            .field("ranks", &self.num_ranks())
            .field("bytes", &self.image.len())
            .field("hash", &format_args!("{:032x}", self.hash()))
            .finish()
    }
}
