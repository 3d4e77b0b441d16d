//! The messages of an execution.

use std::collections::BTreeMap;

use mscclpp_core::check::execution::{Dependency, Execution, Node};
use mscclpp_predict::Span;

/// Bytes of a signal, and of a request for data: a counter.
const SIGNAL_BYTES: u64 = 8;

/// Microseconds to nanoseconds.
const NANOSECONDS: f64 = 1e3;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Sends a message.
    Send { to: u32, bytes: u64, tag: u32 },
    /// Receives a message.
    Receive { from: u32, bytes: u64, tag: u32 },
    /// Local work.
    Local { nanoseconds: u64, bytes: u64 },
}

/// A task of a rank.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) work: Work,
    /// The thread block that does it.
    pub(crate) block: u32,
    /// Name of the operation.
    pub(crate) name: &'static str,
    /// Numbers of the rank's tasks after which it begins, in ascending order.
    pub(crate) after: Vec<u32>,
}

/// The tasks of all ranks. Those of a rank are in an order in which each is after all on which it depends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    /// By rank.
    pub(crate) tasks: Vec<Vec<Task>>,
    /// Tags that are used, by sender and receiver.
    tags: BTreeMap<(u32, u32), u32>,
}

/// What is known of a node when later ones are written.
#[derive(Clone, Default)]
struct Done {
    /// Tasks of the node's rank, of which all end when it ends.
    tasks: Vec<u32>,
    /// By rank, where its data is received.
    received: Vec<(u32, u32)>,
}

/// An operation, as its tasks have it.
#[derive(Clone, Copy)]
struct Place {
    rank: u32,
    block: u32,
    name: &'static str,
}

impl Messages {
    /// Returns the messages of an execution, whose operations have the given times, for all instances of its plan.
    pub(crate) fn of(run: &Execution, spans: &[Span], num_ranks: usize) -> Self {
        let mut messages = Self { tasks: vec![Vec::new(); num_ranks], tags: BTreeMap::new() };
        let instances = run.num_instances.max(1);
        for instance in 0..instances {
            messages.add_instance(run, spans, |node| Place {
                rank: node.rank,
                block: node.block.saturating_mul(instances).saturating_add(instance),
                name: node.kind.name(),
            });
        }
        messages
    }

    fn add_instance(&mut self, run: &Execution, spans: &[Span], place: impl Fn(&Node) -> Place) {
        let mut done: Vec<Done> = vec![Done::default(); run.nodes.len()];
        // By sending thread block and receiver, the data since the last signal.
        let mut unsignaled: BTreeMap<(u32, u32, u32), Vec<u32>> = BTreeMap::new();
        for (number, node) in run.nodes.iter().enumerate() {
            let at = place(node);
            let mut after = Vec::new();
            for &(earlier, why) in run.dependencies(number) {
                let from = &run.nodes[earlier as usize];
                let earlier = &done[earlier as usize];
                let data = earlier.received.iter().filter(|(rank, _)| *rank == node.rank).map(|(_, task)| *task);
                match why {
                    _ if from.rank == node.rank => after.extend(&earlier.tasks),
                    Dependency::Packets => after.extend(data),
                    _ => {
                        let data = unsignaled.remove(&(from.rank, from.block, node.rank)).unwrap_or_default();
                        after.push(self.message(place(from), at, SIGNAL_BYTES, earlier.tasks.clone()).1);
                        after.extend(data);
                    }
                }
            }
            let accesses = run.accesses(number);
            let (mut tasks, mut received) = (Vec::new(), Vec::new());
            for data in accesses.iter().filter(|data| data.owner != node.rank && !data.write) {
                let owner = Place { rank: data.owner, ..at };
                let asked = self.message(at, owner, SIGNAL_BYTES, after.clone()).1;
                tasks.push(self.message(owner, at, data.bytes, vec![asked]).1);
            }
            let loaded = if tasks.is_empty() { &after } else { &tasks }.clone();
            for data in accesses.iter().filter(|data| data.owner != node.rank && data.write) {
                let owner = Place { rank: data.owner, ..at };
                let bytes = if data.packets { data.bytes.saturating_mul(2) } else { data.bytes };
                let (sent, arrived) = self.message(at, owner, bytes, loaded.clone());
                tasks.push(sent);
                received.push((data.owner, arrived));
                unsignaled.entry((node.rank, node.block, data.owner)).or_default().push(arrived);
            }
            let local: u64 = accesses.iter().filter(|data| data.owner == node.rank).map(|data| data.bytes).sum();
            let span = &spans[number];
            if tasks.is_empty() && local > 0 {
                let nanoseconds = ((span.end - span.start).max(0.0) * NANOSECONDS).round() as u64;
                tasks.push(self.add(at, Work::Local { nanoseconds, bytes: local }, after));
            } else if tasks.is_empty() {
                tasks = after;
            }
            // Else all that is after it would depend on all of them.
            if tasks.len() > 1 {
                tasks = vec![self.add(at, Work::Local { nanoseconds: 0, bytes: 0 }, tasks)];
            }
            done[number] = Done { tasks, received };
        }
    }

    /// Adds a message, and returns its send and its receive.
    fn message(&mut self, from: Place, to: Place, bytes: u64, after: Vec<u32>) -> (u32, u32) {
        let next = self.tags.entry((from.rank, to.rank)).or_default();
        let tag = *next;
        *next += 1;
        let sent = self.add(from, Work::Send { to: to.rank, bytes, tag }, after);
        let received = self.add(to, Work::Receive { from: from.rank, bytes, tag }, Vec::new());
        (sent, received)
    }

    fn add(&mut self, Place { rank, block, name }: Place, work: Work, mut after: Vec<u32>) -> u32 {
        after.sort_unstable();
        after.dedup();
        let tasks = &mut self.tasks[rank as usize];
        tasks.push(Task { work, block, name, after });
        tasks.len() as u32 - 1
    }
}
