//! The parts of an algorithm: GPUs, their thread blocks, and the steps of these.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::BufferKind;

use super::Mistake;
use super::xml::Element;

/// Collectives by their names in files.
const COLLECTIVES: [(&str, CollectiveKind); 6] = [
    ("allreduce", CollectiveKind::AllReduce),
    ("allgather", CollectiveKind::AllGather),
    ("reducescatter", CollectiveKind::ReduceScatter),
    ("reduce_scatter", CollectiveKind::ReduceScatter),
    ("alltoall", CollectiveKind::AllToAll),
    ("broadcast", CollectiveKind::Broadcast),
];

/// An algorithm.
#[derive(Debug)]
pub(super) struct Algorithm {
    pub(super) name: String,
    pub(super) kind: CollectiveKind,
    pub(super) in_place: bool,
    /// The GPUs, by rank.
    pub(super) gpus: Vec<Gpu>,
    /// The connections over which thread blocks send: sender, receiver and channel, with the number of chunks of each message.
    pub(super) connections: BTreeMap<Connection, Vec<u32>>,
}

/// Sender, receiver and channel.
pub(super) type Connection = (u32, u32, u32);

/// A rank.
#[derive(Debug)]
pub(super) struct Gpu {
    /// Chunks of input, output and scratch.
    pub(super) chunks: [u32; 3],
    pub(super) blocks: Vec<Block>,
}

/// A thread block.
#[derive(Debug)]
pub(super) struct Block {
    /// Over which it sends and receives.
    pub(super) send: Option<Connection>,
    pub(super) receive: Option<Connection>,
    pub(super) steps: Vec<Step>,
}

/// A step of a thread block.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) line: u32,
    pub(super) kind: StepKind,
    pub(super) src: Chunks,
    pub(super) dst: Chunks,
    /// Number of chunks.
    pub(super) count: u32,
    /// Thread block and step of the same GPU for which it waits.
    pub(super) after: Option<(usize, usize)>,
}

/// The first chunk of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chunks {
    pub(super) buffer: BufferKind,
    pub(super) first: u32,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Send,
    Receive,
    ReceiveCopySend,
    ReceiveReduceSend,
    ReceiveReduceCopy,
    ReceiveReduceCopySend,
    Copy,
    Reduce,
    Nothing,
}

impl StepKind {
    const NAMES: [(&str, Self); 9] = [
        ("s", Self::Send),
        ("r", Self::Receive),
        ("rcs", Self::ReceiveCopySend),
        ("rrs", Self::ReceiveReduceSend),
        ("rrc", Self::ReceiveReduceCopy),
        ("rrcs", Self::ReceiveReduceCopySend),
        ("cpy", Self::Copy),
        ("re", Self::Reduce),
        ("nop", Self::Nothing),
    ];

    /// Returns whether it sends.
    pub(super) fn sends(self) -> bool {
        matches!(self, Self::Send | Self::ReceiveCopySend | Self::ReceiveReduceSend | Self::ReceiveReduceCopySend)
    }

    /// Returns whether it receives.
    pub(super) fn receives(self) -> bool {
        !matches!(self, Self::Send | Self::Copy | Self::Reduce | Self::Nothing)
    }

    /// Returns whether it reads or changes its source.
    fn has_source(self) -> bool {
        !matches!(self, Self::Receive | Self::ReceiveCopySend | Self::Nothing)
    }

    /// Returns whether it writes its destination.
    fn has_destination(self) -> bool {
        !matches!(self, Self::Send | Self::ReceiveReduceSend | Self::Nothing)
    }
}

/// An element in the elements that contain it.
struct Node<'e> {
    element: &'e Element,
    path: String,
}

impl<'e> Node<'e> {
    /// `key`: the attribute that distinguishes elements of this name.
    fn new(element: &'e Element, key: &str, outer: Option<&Self>) -> Self {
        let value = element.attributes.iter().find(|(name, _)| name == key);
        let own = value.map_or_else(
            || format!("<{}>", element.name),
            |(_, value)| format!("<{} {key}=\"{value}\">", element.name),
        );
        Self { element, path: outer.map_or(own.clone(), |outer| format!("{own} of {}", outer.path)) }
    }

    fn mistake(&self, reason: impl Into<String>) -> Mistake {
        Mistake { line: self.element.line, element: self.path.clone(), reason: reason.into() }
    }

    fn get(&self, name: &str) -> Option<&'e str> {
        self.element.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    fn text(&self, name: &str) -> Result<&'e str, Mistake> {
        self.get(name).ok_or_else(|| self.mistake(format!("expected attribute `{name}`, found none")))
    }

    /// Returns a number, or `None` for -1.
    fn number_or_none(&self, name: &str) -> Result<Option<u32>, Mistake> {
        let text = self.text(name)?;
        if text.trim() == "-1" {
            return Ok(None);
        }
        let wrong = || self.mistake(format!("{name}: expected -1 to {}, found `{text}`", i32::MAX));
        text.trim().parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()).map(Some).ok_or_else(wrong)
    }

    fn number(&self, name: &str) -> Result<u32, Mistake> {
        let number = self.number_or_none(name)?;
        number.ok_or_else(|| self.mistake(format!("{name}: expected 0 to {}, found `-1`", i32::MAX)))
    }

    /// Returns one of several named values.
    fn one_of<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Mistake> {
        let text = self.text(name)?;
        let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            self.mistake(format!("{name}: expected one of {}, found `{text}`", words.join(", ")))
        })
    }

    /// Returns the elements in it, which have one name and are distinguished by an attribute.
    fn children(&self, name: &str, key: &str) -> Result<Vec<Node<'e>>, Mistake> {
        let child = |element: &'e Element| {
            if element.name == name {
                return Ok(Node::new(element, key, Some(self)));
            }
            let found = Node::new(element, key, Some(self));
            Err(found.mistake(format!("expected `<{name}>`, found `<{}>`", element.name)))
        };
        self.element.children.iter().map(child).collect()
    }
}

impl Algorithm {
    /// Reads an algorithm.
    ///
    /// # Errors
    /// The first mistake.
    pub(super) fn read(root: &Element) -> Result<Self, Mistake> {
        let root = Node::new(root, "name", None);
        if root.element.name != "algo" {
            return Err(root.mistake(format!("expected `<algo>`, found `<{}>`", root.element.name)));
        }
        let kind = root.one_of("coll", &COLLECTIVES)?;
        let nodes = root.children("gpu", "id")?;
        let found = nodes.len() as u32;
        if root.get("ngpus").is_some() && root.number("ngpus")? != found || found < 2 {
            let expected = root.get("ngpus").unwrap_or("2 or more");
            return Err(root.mistake(format!("expected {expected} GPUs, found {found}")));
        }
        let mut gpus: Vec<Option<Gpu>> = nodes.iter().map(|_| None).collect();
        let mut ends = Ends::default();
        for node in &nodes {
            let rank = node.number("id")?;
            let slot = gpus.get_mut(rank as usize);
            let slot = slot.ok_or_else(|| node.mistake(format!("id: expected 0 to {}, found {rank}", found - 1)))?;
            if slot.is_some() {
                return Err(node.mistake(format!("id: expected one GPU of each number, found {rank} twice")));
            }
            *slot = Some(Gpu::read(node, rank, found, &mut ends)?);
        }
        let in_place = root.get("inplace").is_some_and(|value| value.trim() == "1");
        let name = root.get("name").filter(|name| !name.trim().is_empty()).unwrap_or("msccl");
        let name = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        let connections = ends.matched()?;
        Ok(Self { name, kind, in_place, gpus: gpus.into_iter().flatten().collect(), connections })
    }
}

/// Maximum number of characters of a plan's name.
const MAX_NAME: usize = 100;

/// The messages of a side of connections: where each is sent or received, and its chunks.
type Side = BTreeMap<Connection, Vec<(Mistake, u32)>>;

/// The two sides of connections.
#[derive(Default)]
struct Ends {
    sends: Side,
    receives: Side,
}

impl Ends {
    /// Matches the sends of each connection with its receives, in order.
    fn matched(self) -> Result<BTreeMap<Connection, Vec<u32>>, Mistake> {
        let Self { mut sends, mut receives } = self;
        let all: Vec<Connection> = sends.keys().chain(receives.keys()).copied().collect();
        for connection in all {
            let (sent, received) = (sends.entry(connection).or_default(), receives.entry(connection).or_default());
            let (from, to, channel) = connection;
            let over = format!("from GPU {from} to GPU {to} over channel {channel}");
            for number in 0..sent.len().max(received.len()) {
                let (mistake, reason) = match (sent.get(number), received.get(number)) {
                    (Some((_, sent)), Some((_, received))) if sent == received => continue,
                    (Some((at, sent)), Some((_, received))) => {
                        (at, format!("cnt: expected {received}, as message {number} {over} is received, found {sent}"))
                    }
                    (Some((at, _)), None) => (at, format!("expected a receive of message {number} {over}, found none")),
                    (None, Some((at, _))) => (at, format!("expected a send of message {number} {over}, found none")),
                    (None, None) => continue,
                };
                return Err(Mistake { line: mistake.line, element: mistake.element.clone(), reason });
            }
        }
        let chunks = |messages: Vec<(Mistake, u32)>| messages.into_iter().map(|(_, count)| count).collect();
        Ok(sends.into_iter().map(|(connection, messages)| (connection, chunks(messages))).collect())
    }
}

impl Gpu {
    fn read(node: &Node<'_>, rank: u32, num_ranks: u32, ends: &mut Ends) -> Result<Self, Mistake> {
        let chunks = [node.number("i_chunks")?, node.number("o_chunks")?, node.number("s_chunks")?];
        let nodes = node.children("tb", "id")?;
        let mut blocks = Vec::new();
        for (number, block) in nodes.iter().enumerate() {
            if block.number("id")? as usize != number {
                return Err(block.mistake(format!(
                    "id: expected thread blocks in order, so {number}, found {}",
                    block.text("id")?
                )));
            }
            blocks.push(Block::read(block, rank, num_ranks, ends)?);
        }
        for (block, node) in blocks.iter().zip(&nodes) {
            for (step, element) in block.steps.iter().zip(node.children("step", "s")?) {
                if let Some((of, at)) = step.after
                    && blocks.get(of).is_none_or(|other| at >= other.steps.len())
                {
                    return Err(element
                        .mistake(format!("depid: expected a step of this GPU, found step {at} of thread block {of}")));
                }
            }
        }
        Ok(Self { chunks, blocks })
    }
}

impl Block {
    fn read(node: &Node<'_>, rank: u32, num_ranks: u32, ends: &mut Ends) -> Result<Self, Mistake> {
        let channel = node.number("chan")?;
        let peer = |name: &str| {
            let peer = node.number_or_none(name)?;
            match peer {
                Some(peer) if peer >= num_ranks || peer == rank => {
                    Err(node.mistake(format!("{name}: expected -1 or another GPU below {num_ranks}, found {peer}")))
                }
                peer => Ok(peer),
            }
        };
        let send = peer("send")?.map(|peer| (rank, peer, channel));
        let receive = peer("recv")?.map(|peer| (peer, rank, channel));
        let mut steps = Vec::new();
        for (number, element) in node.children("step", "s")?.iter().enumerate() {
            if element.number("s")? as usize != number {
                return Err(
                    element.mistake(format!("s: expected steps in order, so {number}, found {}", element.text("s")?))
                );
            }
            let step = Step::read(element)?;
            for (is_used, connection, name, side) in [
                (step.kind.sends(), send, "send", &mut ends.sends),
                (step.kind.receives(), receive, "recv", &mut ends.receives),
            ] {
                if is_used {
                    let expected = format!("expected a thread block with a peer `{name}`, found -1");
                    let connection = connection.ok_or_else(|| element.mistake(expected))?;
                    side.entry(connection).or_default().push((element.mistake(""), step.count));
                }
            }
            steps.push(step);
        }
        for (connection, name, side) in [(send, "send", &ends.sends), (receive, "recv", &ends.receives)] {
            // Messages of two thread blocks would have no order.
            let used = connection.and_then(|connection| side.get(&connection)).map_or(0, Vec::len);
            let own = steps.iter().filter(|step| if name == "send" { step.kind.sends() } else { step.kind.receives() });
            if used > own.count() {
                return Err(
                    node.mistake(format!("{name}: expected one thread block per peer and channel, found another one"))
                );
            }
        }
        Ok(Self { send, receive, steps })
    }
}

impl Step {
    fn read(node: &Node<'_>) -> Result<Self, Mistake> {
        let kind = node.one_of("type", &StepKind::NAMES)?;
        let buffers = [("i", BufferKind::Input), ("o", BufferKind::Output), ("s", BufferKind::Scratch)];
        let chunks = |is_used: bool, buffer: &str, offset: &str| {
            // What a step does not use may be anything.
            let unused = Chunks { buffer: BufferKind::Input, first: 0 };
            if !is_used {
                return Ok(unused);
            }
            Ok(Chunks { buffer: node.one_of(buffer, &buffers)?, first: node.number(offset)? })
        };
        let src = chunks(kind.has_source(), "srcbuf", "srcoff")?;
        let dst = chunks(kind.has_destination(), "dstbuf", "dstoff")?;
        let count = if kind == StepKind::Nothing { 0 } else { node.number("cnt")? };
        if count == 0 && kind != StepKind::Nothing {
            return Err(node.mistake("cnt: expected 1 or more, found 0"));
        }
        let after = match (node.number_or_none("depid")?, node.number_or_none("deps")?) {
            (Some(block), Some(step)) => Some((block as usize, step as usize)),
            (None, _) => None,
            (Some(_), None) => {
                return Err(node.mistake("deps: expected a step of the thread block `depid`, found `-1`"));
            }
        };
        Ok(Self { line: node.element.line, kind, src, dst, count, after })
    }
}
