//! Collectives as people write them: each is compiled with this test, and evaluated from its source text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mscclpp_core::dsl::{Channels, Handshake, Memory, MemoryChannel, Program, Rank};
use mscclpp_core::types::BlockSync;

/// What a rank does next on its way around a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Announce,
    Send { chunk: usize },
    Receive,
}

impl Phase {
    /// The phases of a rank.
    fn of(id: usize, ranks: usize) -> Vec<Self> {
        let mut phases = vec![Self::Announce];
        for step in 0..ranks - 1 {
            phases.extend([Self::Send { chunk: (id + ranks - step) % ranks }, Self::Receive]);
        }
        phases
    }
}

/// All-gather around a ring, as a list of phases that a `match` turns into operations.
pub(crate) fn phases(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let next = p.rank((rank.id() + 1) % ranks);
        let to_next = rank.memory_channel(next);
        let to_previous = rank.memory_channel((rank.id() + ranks - 1) % ranks);
        for phase in Phase::of(rank.id(), ranks) {
            match phase {
                Phase::Announce => {
                    to_previous.signal(0).relaxed();
                    to_next.wait(0).relaxed().sync(BlockSync::After);
                    rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
                }
                Phase::Send { chunk } => {
                    to_next.put(next.output().chunk(chunk), rank.output().chunk(chunk), 0);
                    to_next.signal(0).sync(BlockSync::Before);
                }
                Phase::Receive => {
                    to_previous.wait(0).sync(BlockSync::After);
                }
            }
        }
    }
}

/// How an all-gather is cut into thread blocks.
#[derive(Clone, Debug)]
struct Config {
    blocks: usize,
    copies: bool,
    first: Option<usize>,
}

impl Config {
    const BLOCKS: usize = 1;

    fn blocks(self, blocks: usize) -> Self {
        Self { blocks, ..self }
    }

    fn block_of(&self, peer: usize) -> usize {
        self.first.unwrap_or_default() + peer % self.blocks
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { blocks: Self::BLOCKS, copies: true, first: None }
    }
}

/// All-gather among all pairs, with a configuration that has a default.
pub(crate) fn configured(p: &Program) {
    let config = Config { first: Some(0), ..Config::default() }.blocks(2);
    for rank in p.ranks() {
        for peer in p.ranks().filter(|peer| *peer != rank) {
            // Both ends of a channel are on the block of their peer.
            let block = config.block_of(peer.id() + rank.id());
            exchange(rank, peer, block);
        }
        if config.copies {
            rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        }
    }
}

/// One put to a peer, with the handshake before it and the signal after it.
fn exchange(rank: Rank<'_>, peer: Rank<'_>, block: usize) {
    let channel = rank.memory_channel(peer);
    channel.signal(block).relaxed();
    channel.wait(block).relaxed().sync(BlockSync::After);
    channel.put(peer.output().chunk(rank.id()), rank.input().chunk(0), block);
    channel.signal(block).sync(BlockSync::Before);
    channel.wait(block);
}

#[derive(Debug)]
#[allow(dead_code, reason = "the fields are shown by `Debug`")]
enum Unsuitable {
    TooFew { ranks: usize },
    Odd(usize),
}

fn half(ranks: usize) -> Result<usize, Unsuitable> {
    if ranks < 2 {
        return Err(Unsuitable::TooFew { ranks });
    }
    ranks.is_multiple_of(2).then_some(ranks / 2).ok_or(Unsuitable::Odd(ranks))
}

fn partner(id: usize, ranks: usize) -> Result<usize, Unsuitable> {
    let half = half(ranks)?;
    Ok(if id < half { id + half } else { id - half })
}

/// The halves of the ranks swap their inputs; the helpers return results.
pub(crate) fn partners(p: &Program) {
    let partners: Vec<usize> = p
        .ranks()
        .map(|rank| partner(rank.id(), p.num_ranks()))
        .collect::<Result<_, _>>()
        .expect("an even number of ranks");
    for (rank, partner) in p.ranks().zip(partners) {
        let partner = p.rank(partner);
        let channel = rank.memory_channel(partner);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(partner.output().chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0);
    }
}

/// All-gather whose peers are in the order of their distance, the farthest first.
pub(crate) fn farthest_first(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let distance = |peer: &usize| peer.abs_diff(rank.id()).min(ranks - peer.abs_diff(rank.id()));
        let mut peers: Vec<usize> = (0..ranks).filter(|peer| *peer != rank.id()).collect();
        peers.sort_by_key(|peer| (Reverse(distance(peer)), *peer));
        // The handshakes of all peers come first: no rank waits for another one that waits for a third.
        let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        channels.iter().for_each(|channel| {
            channel.signal(0).relaxed();
        });
        channels.iter().for_each(|channel| {
            channel.wait(0).relaxed().sync(BlockSync::After);
        });
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.put(p.rank(*peer).output().chunk(rank.id()), rank.input().chunk(0), 0);
        }
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        for channel in &channels {
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}

/// Signed offsets around a ring, converted with `try_from`, `try_into` and `into`.
pub(crate) fn offsets(p: &Program) {
    let ranks: i32 = p.num_ranks().try_into().expect("few ranks");
    for rank in p.ranks() {
        let id = i32::try_from(rank.id()).unwrap_or(i32::MAX);
        let at = |offset: i32| -> usize { (id + offset).rem_euclid(ranks).try_into().unwrap_or_default() };
        let (next, previous) = (p.rank(at(1)), p.rank(at(-1)));
        let block: usize = u8::from(ranks > 9).into();
        let (send, receive) = (rank.memory_channel(next), rank.memory_channel(previous));
        receive.signal(block).relaxed();
        send.wait(block).relaxed().sync(BlockSync::After);
        send.put(next.output().chunk(0), rank.input().chunk(0), block);
        send.signal(block).sync(BlockSync::Before);
        receive.wait(block).sync(BlockSync::After);
    }
}

/// A position in a grid of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Position(usize, usize);

impl Position {
    const COLUMNS: usize = 2;
    const ORIGIN: Self = Self(0, 0);

    fn of(rank: usize) -> Self {
        Self(rank / Self::COLUMNS, rank % Self::COLUMNS)
    }

    fn rank(self) -> usize {
        let Self(row, column) = self;
        row * Position::COLUMNS + column
    }

    fn mirrored(&self, rows: usize) -> Position {
        Position(rows - 1 - self.0, Self::COLUMNS - 1 - self.1)
    }
}

/// Every rank sends to the opposite corner of a grid, by associated functions and constants.
pub(crate) fn corners(p: &Program) {
    let rows = p.num_ranks() / Position::COLUMNS;
    let positions: BTreeMap<Position, Rank<'_>> = p.ranks().map(|rank| (Position::of(rank.id()), rank)).collect();
    assert_eq!(positions.first_key_value().map(|(position, _)| *position), Some(Position::ORIGIN));
    for (position, rank) in &positions {
        let opposite = p.rank(position.mirrored(rows).rank());
        let channel = rank.memory_channel(opposite);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(opposite.output().chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0);
    }
}

/// The two ends of a rank in a ring.
struct Links<'p> {
    next: Rank<'p>,
    send: MemoryChannel<'p>,
    receive: MemoryChannel<'p>,
}

impl<'p> Links<'p> {
    fn of(p: &'p Program, rank: Rank<'p>) -> Self {
        let next = p.rank((rank.id() + 1) % p.num_ranks());
        let previous = (rank.id() + p.num_ranks() - 1) % p.num_ranks();
        Self { next, send: rank.memory_channel(next), receive: rank.memory_channel(previous) }
    }

    fn handshake(&self) -> &Self {
        self.receive.signal(0).relaxed();
        self.send.wait(0).relaxed().sync(BlockSync::After);
        self
    }

    fn pass_on(&self, rank: Rank<'p>, chunk: usize) {
        self.send.put(self.next.output().chunk(chunk), rank.output().chunk(chunk), 0);
        self.send.signal(0).sync(BlockSync::Before);
        self.receive.wait(0).sync(BlockSync::After);
    }
}

/// All-gather around a ring, with the channels of a rank in a struct with methods.
pub(crate) fn links(p: &Program) {
    for rank in p.ranks() {
        let links = Links::of(p, rank);
        links.handshake();
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        let ranks = p.num_ranks();
        (0..ranks - 1).map(|step| (rank.id() + ranks - step) % ranks).for_each(|chunk| links.pass_on(rank, chunk));
    }
}

/// A tree of ranks.
enum Tree {
    Leaf(usize),
    Node { rank: usize, children: Vec<Tree> },
}

impl Tree {
    fn of(ranks: &[usize]) -> Option<Box<Self>> {
        let (&rank, rest) = ranks.split_first()?;
        let halves = rest.split_at(rest.len().div_ceil(2));
        let children: Vec<Tree> = [halves.0, halves.1].into_iter().filter_map(Tree::of).map(|tree| *tree).collect();
        Some(Box::new(if children.is_empty() { Self::Leaf(rank) } else { Self::Node { rank, children } }))
    }

    fn rank(&self) -> usize {
        match self {
            Self::Leaf(rank) | Self::Node { rank, .. } => *rank,
        }
    }

    fn edges(&self, edges: &mut Vec<(usize, usize)>) {
        if let Self::Node { rank, children } = self {
            for child in children {
                edges.push((*rank, child.rank()));
                child.edges(edges);
            }
        }
    }
}

/// Broadcast along a tree, which is an enum that contains itself.
pub(crate) fn tree(p: &Program) {
    let ranks: Vec<usize> = (0..p.num_ranks()).map(|rank| (rank + p.root()) % p.num_ranks()).collect();
    let mut edges = Vec::new();
    if let Some(tree) = Tree::of(&ranks) {
        tree.edges(&mut edges);
    }
    let root = p.rank(p.root());
    root.copy(root.output().chunk(..), root.input().chunk(..), 0);
    for (from, to) in edges {
        let (from, to) = (p.rank(from), p.rank(to));
        let (down, up) = (from.memory_channel(to), to.memory_channel(from));
        up.signal(0).relaxed();
        down.wait(0).relaxed().sync(BlockSync::After);
        down.put(to.output().chunk(..), from.output().chunk(..), 0);
        down.signal(0).sync(BlockSync::Before);
        up.wait(0).sync(BlockSync::After);
    }
}

/// How a rank takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    #[default]
    Idle = -1,
    Sender = 10,
    Receiver = Role::Sender as isize + 1,
}

/// Ranks in pairs of a sender and a receiver, by the roles that an enum gives them.
pub(crate) fn roles(p: &Program) {
    use Role::{Receiver, Sender};
    let mut roles = vec![Role::default(); p.num_ranks()];
    for (role, own) in [Sender, Receiver].into_iter().cycle().zip(roles.iter_mut()) {
        *own = role;
    }
    assert!(roles.iter().all(|role| *role > Role::Idle) && Receiver as usize == 11, "{roles:?}");
    for (rank, role) in p.ranks().zip(&roles) {
        let peer = p.rank(if matches!(role, Sender) { rank.id() + 1 } else { rank.id() - 1 });
        let channel = rank.memory_channel(peer);
        match role {
            Receiver => {
                channel.signal(0).relaxed();
                channel.wait(0).sync(BlockSync::After);
            }
            Sender => {
                channel.wait(0).relaxed().sync(BlockSync::After);
                channel.put(peer.output().chunk(0), rank.input().chunk(0), 0);
                channel.signal(0).sync(BlockSync::Before);
            }
            Role::Idle => unreachable!("{role:?} at rank {}", rank.id()),
        }
    }
    // The receivers' chunks stay with them.
    for rank in p.ranks().filter(|rank| roles[rank.id()] == Sender) {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 1);
    }
}

/// Work for the thread blocks of a rank.
#[derive(Debug, Default)]
struct Schedule {
    work: BTreeMap<usize, Vec<usize>>,
    total: usize,
}

impl Schedule {
    fn add(&mut self, block: usize, chunk: usize) -> &mut Self {
        self.work.entry(block).or_default().push(chunk);
        self.total += 1;
        self
    }

    fn take(&mut self, block: usize) -> Vec<usize> {
        let chunks = self.work.get_mut(&block).map(std::mem::take).unwrap_or_default();
        self.total -= chunks.len();
        chunks
    }
}

/// Copies from input to output, spread over thread blocks by a schedule that is changed as it goes.
pub(crate) fn scheduled(p: &Program) {
    for rank in p.ranks() {
        let mut schedule = Schedule::default();
        let chunks = rank.input().len();
        (0..chunks).fold(&mut schedule, |schedule, chunk| schedule.add(chunk % 3, chunk));
        let order = [2, 0, 1].iter().copied().try_fold(Vec::new(), |mut order, block| {
            order.push((block, schedule.take(block)));
            (order.len() <= 3).then_some(order)
        });
        assert_eq!(schedule.total, 0, "{schedule:?}");
        for (block, chunks) in order.into_iter().flatten() {
            for chunk in chunks {
                rank.copy(rank.output().chunk(chunk), rank.input().chunk(chunk), block);
            }
        }
    }
}

/// Opens the channels of a node: the peers have started.
fn open<'p>(channels: &[MemoryChannel<'p>], block: usize) -> Handshake<'p, Memory> {
    channels.handshake(block).relaxed()
}

/// All-gather over sets of channels: of a list, a slice, an array, one channel, and none; through memory and ports.
pub(crate) fn handshakes(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let peers: Vec<Rank<'_>> = p.ranks().filter(|peer| *peer != rank).collect();
        let near = rank.memory_channels(&peers);
        let far = rank.port_channels((1..ranks).map(|step| (id + step) % ranks).rev());
        open(&near, 0).sync(BlockSync::After);
        for part in near.chunks(1) {
            part.handshake(0).sync(BlockSync::None);
        }
        let (first, rest) = near.split_first().unwrap();
        first.handshake(0).relaxed().sync(BlockSync::Both);
        rest.handshake(0);
        near[1..].handshake(0);
        near[0].handshake(0);
        [far[0], far[far.len() - 1]].handshake(1).sync(BlockSync::Before);
        rank.memory_channels(0..0).handshake(3).relaxed().sync(BlockSync::After);
        p.pipeline(1 << 12, 1, || {
            for channel in &near {
                channel.put(channel.peer().output().chunk(id), rank.input().chunk(0), 0);
            }
            near.handshake(0);
            far.handshake(1);
        });
        let mut set = Vec::new();
        for peer in near.iter().map(|channel| channel.peer()) {
            set.push(rank.memory_channel(peer));
        }
        set.handshake(2);
        rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
    }
}
