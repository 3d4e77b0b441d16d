//! Chakra execution traces, which ASTRA-sim reads: a file per rank, with messages of protocol buffers, each after its length.

use super::messages::{Messages, Task, Work};

/// Version of the format.
const VERSION: &str = "0.0.4";

/// Kinds of nodes.
const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;

/// Numbers of the fields.
mod field {
    pub(super) const NAME_OF_ATTRIBUTE: u64 = 1;
    pub(super) const INT32: u64 = 7;
    pub(super) const INT64: u64 = 9;
    pub(super) const UINT64: u64 = 13;
    pub(super) const BOOL: u64 = 27;
    pub(super) const VERSION: u64 = 1;
    pub(super) const ID: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const KIND: u64 = 3;
    pub(super) const AFTER: u64 = 5;
    pub(super) const DURATION: u64 = 7;
    pub(super) const ATTRIBUTE: u64 = 10;
}

/// A message of protocol buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Adds an attribute whose value is in a field.
    fn attribute(&mut self, name: &str, field: u64, value: u64) {
        let mut attribute = Self::default();
        attribute.bytes(field::NAME_OF_ATTRIBUTE, name.as_bytes());
        attribute.number(field, value);
        self.bytes(field::ATTRIBUTE, &attribute.0);
    }
}

/// Returns the file of a rank.
pub(crate) fn file(messages: &Messages, rank: usize) -> Vec<u8> {
    let mut metadata = Message::default();
    metadata.bytes(field::VERSION, VERSION.as_bytes());
    let mut file = Message::default();
    let tasks = messages.tasks.get(rank).map_or(&[][..], Vec::as_slice);
    let nodes = tasks.iter().enumerate().map(|(number, task)| node(rank as u64, number as u64, task));
    for message in std::iter::once(metadata).chain(nodes) {
        file.varint(message.0.len() as u64);
        file.0.extend(message.0);
    }
    file.0
}

fn node(rank: u64, number: u64, task: &Task) -> Message {
    let mut node = Message::default();
    node.number(field::ID, number);
    node.bytes(field::NAME, format!("{} of thread block {}, task {number}", task.name, task.block).as_bytes());
    node.number(
        field::KIND,
        match task.work {
            Work::Send { .. } => SEND,
            Work::Receive { .. } => RECEIVE,
            Work::Local { .. } => COMPUTE,
        },
    );
    let mut after = Message::default();
    task.after.iter().for_each(|earlier| after.varint(u64::from(*earlier)));
    if !after.0.is_empty() {
        node.bytes(field::AFTER, &after.0);
    }
    if let Work::Local { nanoseconds, .. } = task.work {
        // An integer number of microseconds; 0 would be no work.
        node.number(field::DURATION, nanoseconds.div_ceil(1000));
    }
    node.attribute("is_cpu_op", field::BOOL, 0);
    let mut message = |bytes: u64, from: u64, to: u64, tag: u32| {
        node.attribute("comm_size", field::INT64, bytes);
        node.attribute("comm_src", field::INT32, from);
        node.attribute("comm_dst", field::INT32, to);
        node.attribute("comm_tag", field::INT32, u64::from(tag));
    };
    match task.work {
        Work::Send { to, bytes, tag } => message(bytes, rank, u64::from(to), tag),
        Work::Receive { from, bytes, tag } => message(bytes, u64::from(from), rank, tag),
        Work::Local { bytes, .. } => {
            node.attribute("num_ops", field::INT64, bytes);
            node.attribute("tensor_size", field::UINT64, bytes);
        }
    }
    node
}
