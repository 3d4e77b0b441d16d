//! The last launch of an executor on a device, which the next one follows.

use std::sync::Arc;

use mscclpp_cuda::capture::SetUp;
use mscclpp_cuda::device::stream::{Event, Lane, Used};
use mscclpp_cuda::driver;

/// The last launch on a device.
#[derive(Default)]
pub(super) struct LastLaunch {
    /// The last one that was no part of a graph.
    used: Option<Used>,
    graphs: Option<Graphs>,
}

/// What orders launches from the first captured one on.
struct Graphs {
    /// Recorded at the end of each launch: nothing else tells when a graph has been launched.
    end: Event,
    /// Recorded in captures after each captured launch, for launches of the same capture on other streams.
    captured: Event,
    /// Capture of the last captured launch, and the stream: its next launches there follow without a wait, which would take time in each
    /// launch of the graph.
    last: Option<(u64, driver::Handle)>,
    /// The stream on which `end` was recorded first: destroying one may wait for its work.
    _first: Option<Lane>,
}

impl LastLaunch {
    /// Returns the last launch that was no part of a graph.
    pub(super) fn used(&self) -> Option<&Used> {
        self.used.as_ref()
    }

    /// Orders the work that is enqueued on a stream from now on after all launches so far, or, if the stream is captured, after all that
    /// are enqueued before the graph is launched.
    pub(super) fn follow(&mut self, lane: &Arc<Lane>, is_captured: bool) -> driver::Result<()> {
        let (driver, stream) = (lane.driver(), lane.handle());
        if !is_captured {
            return match &self.graphs {
                Some(graphs) => driver.wait_event(stream, graphs.end.handle()),
                None => self.used.iter().filter(|used| !used.is_of(lane)).try_for_each(|used| lane.follow(used)),
            };
        }
        let graphs = match &mut self.graphs {
            Some(graphs) => graphs,
            None => self.graphs.insert(Graphs::new(lane, self.used.as_ref())?),
        };
        match (graphs.last, driver.capture_id(stream)?) {
            (Some((last, on)), Some(id)) if last == id && on == stream => Ok(()),
            (Some((last, _)), Some(id)) if last == id => driver.wait_event(stream, graphs.captured.handle()),
            _ => driver.wait_event_in_graph(stream, graphs.end.handle()),
        }
    }

    /// Makes the work on a stream so far, which follows what was the last launch, part of the last one.
    pub(super) fn add(&mut self, lane: &Arc<Lane>, is_captured: bool) -> driver::Result<()> {
        let (driver, stream) = (lane.driver(), lane.handle());
        match &mut self.graphs {
            Some(graphs) if is_captured => {
                driver.record_in_graph(graphs.end.handle(), stream)?;
                driver.record(graphs.captured.handle(), stream)?;
                graphs.last = driver.capture_id(stream)?.map(|id| (id, stream));
                return Ok(());
            }
            None if is_captured => return Ok(()),
            Some(graphs) => driver.record(graphs.end.handle(), stream)?,
            None => {}
        }
        lane.add_to(&mut self.used)
    }
}

impl Graphs {
    /// `used`: the last launch. One on a stream of this library that is captured meanwhile is the caller's to wait for.
    fn new(lane: &Lane, used: Option<&Used>) -> driver::Result<Self> {
        let device = lane.device();
        let _set_up = SetUp::begin(device.driver(), true)?;
        let first = used.map(|_| Lane::create(device)).transpose()?;
        let end = match (&first, used) {
            (Some(first), Some(used)) => {
                first.follow(used)?;
                Event::on(first)?
            }
            _ => Event::unrecorded(device)?,
        };
        Ok(Self { end, captured: Event::unrecorded(device)?, last: None, _first: first })
    }
}
