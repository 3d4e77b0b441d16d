//! The context of a program of the older API, which creates chunks, scratch and channels on demand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;

use super::chunk::ChunkRef;
use crate::collective::Collective;
use crate::diag::{Code, Diagnostic};
use crate::dsl::registry::{ChannelValue, SwitchValue};
use crate::dsl::{BlockList, Program};
use crate::origin::SourceLocation;
use crate::types::{BufferKind, ChannelKind};

/// A program of the older API while it is recorded.
#[derive(Debug)]
pub struct ProgramContext<'p> {
    program: &'p Program,
    collective: Collective,
    /// The number of chunks of the program per chunk of this API.
    scale: u32,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Per rank: scratch used so far, in chunks of this API.
    scratch: Vec<u32>,
    channels: BTreeMap<Key, [ChannelValue; 2]>,
    switches: BTreeMap<(BufferKind, Vec<u32>), SwitchValue>,
}

/// Key of a channel between two ranks: the ranks in ascending order, the kind, the thread block, and the buffers of
/// sender and receiver.
type Key = (u32, u32, ChannelKind, usize, BufferKind, BufferKind);

/// One rank, for operations without a chunk.
#[derive(Clone, Copy, Debug)]
pub struct RankRef<'p> {
    program: &'p Program,
    rank: usize,
}

impl RankRef<'_> {
    /// Synchronizes several thread blocks of this rank; with one, its threads.
    #[track_caller]
    pub fn barrier(&self, tb_list: impl BlockList) {
        self.program.rank(self.rank).barrier(tb_list);
    }
}

impl<'p> ProgramContext<'p> {
    pub(super) fn new(program: &'p Program, collective: Collective, scale: u32) -> Self {
        let state = State { scratch: vec![0; program.num_ranks()], ..State::default() };
        Self { program, collective, scale, state: RefCell::new(state) }
    }

    pub(super) fn program(&self) -> &'p Program {
        self.program
    }

    pub(super) fn scale(&self) -> u32 {
        self.scale
    }

    /// Sets the source location of the following calls, instead of the caller's.
    #[doc(hidden)]
    pub fn set_location(&self, location: SourceLocation) {
        self.program.set_location(Some(location));
    }

    /// Returns the number of ranks.
    pub fn num_ranks(&self) -> usize {
        self.program.num_ranks()
    }

    /// Returns one rank, for its barriers.
    pub fn rank(&self, rank: usize) -> RankRef<'p> {
        RankRef { program: self.program, rank }
    }

    /// Returns a reference to `size` chunks of a rank's buffer from `index` on.
    ///
    /// In place, the smaller of input and output is a part of the larger one, and a reference to it is one to the
    /// larger. Scratch grows on demand.
    ///
    /// # Errors
    /// Reports M0002 for a rank, M0004 for chunks that do not exist, M0006 for a size of 0.
    #[track_caller]
    pub fn chunk(&self, rank: usize, buffer: BufferKind, index: impl TryInto<i64>, size: usize) -> ChunkRef<'_> {
        self.reference(rank, buffer, index.try_into().unwrap_or(i64::MAX), size)
    }

    #[track_caller]
    pub(super) fn reference(&self, rank: usize, buffer: BufferKind, index: i64, size: usize) -> ChunkRef<'_> {
        if rank >= self.num_ranks() {
            self.program.rank(rank);
            return ChunkRef::poison(self);
        }
        let rank = rank as u32;
        if size == 0 {
            self.file(
                Code::EmptyChunk,
                format!("an empty range of the {buffer} of rank {rank}"),
                "name at least one chunk",
            );
            return ChunkRef::poison(self);
        }
        let len = self.len(buffer);
        let end = u32::try_from(size).ok().and_then(|size| u32::try_from(index).ok()?.checked_add(size));
        let fits = end.is_some_and(|end| end <= len && end.checked_mul(self.scale).is_some());
        let (Some(end), true) = (end, fits) else {
            let last = index.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
            let help = match buffer {
                BufferKind::Scratch => "scratch has at most 2^32 - 1 chunks".to_owned(),
                _ => format!("use chunks in 0..{len}, or a larger chunk factor"),
            };
            self.file(
                Code::ChunkOutOfRange,
                format!("chunks {index}..{last} are outside the {buffer} of rank {rank}, which has {len} chunks"),
                help,
            );
            return ChunkRef::poison(self);
        };
        let index = end - size as u32;
        if buffer == BufferKind::Scratch {
            self.grow_scratch(rank, end);
        }
        let (buffer, index) = self.collective.canonical_chunk(rank, buffer, index, self.collective.chunk_factor);
        ChunkRef::new(self, rank, buffer, index, size as u32)
    }

    /// Returns the length of a buffer, in chunks of this API.
    fn len(&self, buffer: BufferKind) -> u32 {
        let (input, output) = self.collective.chunks(self.program.num_ranks() as u32).unwrap_or_default();
        match buffer {
            BufferKind::Input => input / self.scale,
            BufferKind::Output => output / self.scale,
            BufferKind::Scratch => u32::MAX,
        }
    }

    /// Returns the chunks of scratch that a rank has used so far.
    pub(super) fn scratch_len(&self, rank: usize) -> u32 {
        self.state.borrow().scratch.get(rank).copied().unwrap_or(0)
    }

    #[track_caller]
    fn grow_scratch(&self, rank: u32, end: u32) {
        let more = {
            let mut state = self.state.borrow_mut();
            let used = &mut state.scratch[rank as usize];
            let more = end.saturating_sub(*used);
            *used += more;
            more
        };
        if more > 0 {
            self.program.rank(rank as usize).scratch(more as usize * self.scale as usize);
        }
    }

    /// Makes the scratch of all ranks equally long, as packets require.
    pub(super) fn level_scratch(&self) {
        let longest = self.state.borrow().scratch.iter().copied().max().unwrap_or(0);
        for rank in 0..self.num_ranks() {
            self.grow_scratch(rank as u32, longest);
        }
    }

    /// Returns the channel from `local` to `peer` for data that moves from the buffer `from` of one to the buffer `to`
    /// of the other. Both ends are created together, so that they are paired whichever end is used first.
    #[track_caller]
    pub(super) fn channel(
        &self,
        [local, peer]: [u32; 2],
        kind: ChannelKind,
        tb: usize,
        [from, to]: [BufferKind; 2],
    ) -> ChannelValue {
        let (low, high) = (local.min(peer), local.max(peer));
        let key = (low, high, kind, tb, from, to);
        let known = self.state.borrow().channels.get(&key).copied();
        let ends = known.unwrap_or_else(|| {
            let ends = [[low, high], [high, low]].map(|[src, dst]| {
                let (rank, peer) = (self.program.rank(src as usize), dst as usize);
                match kind {
                    ChannelKind::Port => rank.port_channel(peer).value(),
                    _ => rank.memory_channel(peer).value(),
                }
            });
            self.state.borrow_mut().channels.insert(key, ends);
            ends
        });
        ends[usize::from(local != low)]
    }

    /// Returns the switch channel over one buffer of several ranks, in ascending order.
    #[track_caller]
    pub(super) fn switch(&self, buffer: BufferKind, ranks: Vec<u32>) -> SwitchValue {
        let key = (buffer, ranks);
        if let Some(known) = self.state.borrow().switches.get(&key) {
            return *known;
        }
        let switch = self.program.switch_channel(&key.1, buffer).value();
        self.state.borrow_mut().switches.insert(key, switch);
        switch
    }

    /// Reports a finding at the location of the call.
    #[track_caller]
    pub(super) fn file(&self, code: Code, message: impl Into<String>, help: impl Into<String>) {
        let site = self.program.site(Location::caller());
        self.program.report(Diagnostic::new(code, site, message).help(help));
    }
}
