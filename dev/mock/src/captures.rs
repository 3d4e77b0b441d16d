//! Captures of streams: their identifiers and graphs, and the streams that join a capture by an event.
//!
//! The simulator captures single streams. A stream that waits for an event of a capture joins it: its work is captured on the stream
//! of the capture, in the order of the calls, which is one of the orders that the graph allows.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use mscclpp_exec::cuda::Handle;

use crate::calls::ask;
use crate::code::{self, Code};
use crate::state;

/// First handle of a graph; the simulator's handles are lower.
const FIRST_GRAPH: usize = 1 << 40;

/// Distance between handles of graphs: the handles of a graph's operations, each of which depends on the one before, follow its own.
const GRAPH_STRIDE: usize = 1 << 24;

/// Captures and graphs of a device.
#[derive(Default)]
pub(crate) struct Captures {
    /// Current captures, by stream.
    current: BTreeMap<usize, Capture>,
    /// Streams that joined a capture, with the stream of the capture.
    joined: BTreeMap<usize, usize>,
    /// Events whose last record was captured, with the capture.
    events: BTreeMap<usize, u64>,
    graphs: BTreeMap<usize, Graph>,
}

/// A capture.
#[derive(Clone, Copy)]
pub(crate) struct Capture {
    /// Identifier that no other capture of the process has.
    pub(crate) id: u64,
    /// Handle of its graph.
    pub(crate) graph: usize,
    /// Number of operations so far.
    nodes: usize,
}

/// A graph that was captured.
struct Graph {
    simulated: Handle,
    nodes: usize,
    is_instantiated: bool,
}

fn captures<T>(change: impl FnOnce(&mut Captures) -> T) -> Result<T, Code> {
    state::here(|device| change(&mut device.captures))
}

/// Returns the stream on which the work of a stream is captured: itself, unless it joined the capture of another one.
pub(crate) fn origin(stream: usize) -> Result<usize, Code> {
    captures(|captures| captures.joined.get(&stream).copied().unwrap_or(stream))
}

/// Returns the capture of a stream.
pub(crate) fn of(stream: usize) -> Result<Option<Capture>, Code> {
    captures(|captures| captures.current.get(&stream).copied())
}

impl Capture {
    /// Returns the operation on which the next one depends.
    pub(crate) fn last_node(&self) -> Option<usize> {
        (self.nodes > 0).then_some(self.graph + self.nodes)
    }
}

/// Begins to capture a stream.
pub(crate) fn begin(stream: usize) -> Result<(), Code> {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    ask(|driver| driver.begin_capture(Handle(stream)))?;
    let number = COUNT.fetch_add(1, Relaxed);
    let capture = Capture { id: number as u64, graph: FIRST_GRAPH + GRAPH_STRIDE * number, nodes: 0 };
    captures(|captures| captures.current.insert(stream, capture)).map(|_| ())
}

/// Ends the capture of a stream; returns its graph.
pub(crate) fn end(stream: usize) -> Result<usize, Code> {
    let capture = captures(|captures| {
        captures.joined.retain(|_, origin| *origin != stream);
        captures.current.remove(&stream)
    })?;
    let simulated = ask(|driver| driver.end_capture(Handle(stream)))?;
    let Capture { graph, nodes, .. } = capture.ok_or(code::INVALID_VALUE)?;
    captures(|captures| captures.graphs.insert(graph, Graph { simulated, nodes, is_instantiated: false }))?;
    Ok(graph)
}

/// Counts an operation on a stream, if the stream is captured.
pub(crate) fn count(stream: usize) -> Result<(), Code> {
    captures(|captures| {
        if let Some(capture) = captures.current.get_mut(&stream) {
            capture.nodes += 1;
        }
    })
}

/// Rejects a call on a stream that is captured, which the simulator would execute at once.
pub(crate) fn reject(call: &str, stream: usize) -> Result<(), Code> {
    if of(stream)?.is_none() {
        return Ok(());
    }
    eprintln!("{call} with memory of the host cannot be captured on simulated devices");
    Err(code::NOT_SUPPORTED)
}

/// Records an event on a stream, if the stream is captured; returns whether it is.
pub(crate) fn record(event: usize, stream: usize) -> Result<bool, Code> {
    captures(|captures| match captures.current.get(&stream) {
        Some(capture) => {
            captures.events.insert(event, capture.id);
            true
        }
        None => {
            captures.events.remove(&event);
            false
        }
    })
}

/// Lets a stream wait for an event that was captured, so that it joins the capture; returns whether the event was captured.
///
/// # Errors
/// `CUDA_ERROR_STREAM_CAPTURE_MERGE` for a stream of another capture, `CUDA_ERROR_STREAM_CAPTURE_ISOLATION` if the capture has ended.
pub(crate) fn wait(stream: usize, event: usize) -> Result<bool, Code> {
    captures(|captures| {
        let Some(id) = captures.events.get(&event).copied() else { return Ok(false) };
        let of_event = captures.current.iter().find(|(_, capture)| capture.id == id).map(|(stream, _)| *stream);
        let of_event = of_event.ok_or(code::STREAM_CAPTURE_ISOLATION)?;
        match captures.current.contains_key(&stream) {
            true if stream != of_event => return Err(code::STREAM_CAPTURE_MERGE),
            true => {}
            false => drop(captures.joined.insert(stream, of_event)),
        }
        Ok(true)
    })?
}

/// Rejects a query of an event whose last record was captured.
pub(crate) fn check_query(event: usize) -> Result<(), Code> {
    match captures(|captures| captures.events.contains_key(&event))? {
        true => Err(code::CAPTURED_EVENT),
        false => Ok(()),
    }
}

/// Removes an event that is destroyed.
pub(crate) fn remove_event(event: usize) -> Result<(), Code> {
    captures(|captures| captures.events.remove(&event)).map(|_| ())
}

/// Returns the number of operations of a graph.
pub(crate) fn num_nodes(graph: usize) -> Result<usize, Code> {
    captures(|captures| captures.graphs.get(&graph).map(|graph| graph.nodes))?.ok_or(code::INVALID_VALUE)
}

/// Instantiates a graph: the simulator's graphs are ready when they are captured, so this returns that one.
///
/// # Errors
/// `CUDA_ERROR_NOT_SUPPORTED` for a second instance.
pub(crate) fn instantiate(graph: usize) -> Result<usize, Code> {
    captures(|captures| {
        let graph = captures.graphs.get_mut(&graph).ok_or(code::INVALID_VALUE)?;
        if std::mem::replace(&mut graph.is_instantiated, true) {
            eprintln!("a second instance of a graph is not supported on simulated devices");
            return Err(code::NOT_SUPPORTED);
        }
        Ok(graph.simulated.0)
    })?
}

/// Destroys a graph. An instance of it remains.
pub(crate) fn destroy(graph: usize) -> Result<(), Code> {
    let Graph { simulated, is_instantiated, .. } =
        captures(|captures| captures.graphs.remove(&graph))?.ok_or(code::INVALID_VALUE)?;
    if is_instantiated { Ok(()) } else { ask(|driver| driver.destroy_graph(simulated)) }
}
