//! The times of an execution, and its critical path.

/// When a node was executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Microseconds after the launch.
    pub start: f64,
    /// When it began to move data; its end if it moves none.
    pub moves: f64,
    /// When it ended.
    pub end: f64,
    /// The node for which it waited last; `None` if it waited for the launch.
    pub after: Option<u32>,
}

/// What a part of the predicted time is spent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The launch of the kernel and its end.
    Launch,
    /// Dispatch of operations, block syncs and latency of loads.
    Operations,
    /// Latency between ranks: signals, packets and the network.
    Latency,
    /// Moving data.
    Data,
}

/// The times of an execution.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Per node of the execution.
    pub spans: Vec<Span>,
    /// Time from the launch to the end of the kernel, in microseconds.
    pub total_us: f64,
    /// Of which before the first operation, for the launch and the end of the kernel.
    pub launch_us: f64,
}

impl Timeline {
    /// Returns the nodes of the critical path, the first one first.
    pub fn critical_path(&self) -> Vec<u32> {
        let last =
            (0..self.spans.len()).max_by(|a, b| self.spans[*a].end.total_cmp(&self.spans[*b].end).then(b.cmp(a)));
        let mut path = Vec::new();
        let mut at = last.map(|node| node as u32);
        while let Some(node) = at {
            path.push(node);
            at = self.spans[node as usize].after;
        }
        path.reverse();
        path
    }

    /// Returns when what a node waited for had ended.
    pub fn ready(&self, node: u32) -> f64 {
        self.spans[node as usize].after.map_or(self.launch_us, |before| self.spans[before as usize].end)
    }

    /// Returns how much of the time of the critical path each cause takes.
    pub fn causes(&self) -> [(Cause, f64); 4] {
        let (mut operations, mut latency, mut data) = (0.0, 0.0, 0.0);
        for node in self.critical_path() {
            let span = self.spans[node as usize];
            latency += (span.start - self.ready(node)).max(0.0);
            operations += span.moves - span.start;
            data += span.end - span.moves;
        }
        [
            (Cause::Launch, self.launch_us),
            (Cause::Operations, operations),
            (Cause::Latency, latency),
            (Cause::Data, data),
        ]
    }
}
