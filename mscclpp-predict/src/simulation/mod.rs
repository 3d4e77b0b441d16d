//! Discrete-event simulation of an execution on a machine.
//!
//! A node of an [`Execution`] starts when everything for which it waits has ended and, where another rank is involved,
//! become visible. It takes a fixed time, and then, if it moves data, progresses at the speed that its thread block and
//! its fair share of links and memory allow. Speeds change only when a node starts or ends to move data.

mod carried;
mod cost;
mod dependents;
mod moving;
mod paths;
mod queue;
mod rates;
mod release;
mod timeline;
mod values;

use mscclpp_check::execution::Execution;

pub(crate) use self::carried::bytes_of_links;
use self::cost::Costs;
use self::dependents::Dependents;
use self::moving::Moving;
use self::queue::Queue;
use self::release::Releases;
pub use self::timeline::{Cause, Span, Timeline};
use crate::error::PredictError;
use crate::machine::{Constants, Machine};
use crate::topology::Topology;

// What happens to a node at a time: everything for which it waits is visible, or its fixed part has passed, after which it moves no data,
// or that of the flow in the slot with this number.
const READY: u32 = u32::MAX;
const NO_DATA: u32 = u32::MAX - 1;

/// Time within which ends of flows are one event, relative to the time so far: rounding must not separate equal flows.
const SAME_TIME: f64 = 1e-9;

/// The used part of the capacity of every resource, from each time until the next one: links first, in the order of the topology.
pub(crate) type Usage = Vec<Vec<(f64, f64)>>;

/// Simulates an execution. `bytes` is the size of all buffers of a device, which decides whether they are in its cache. `usage` receives
/// the use of resources.
pub(crate) fn simulate(
    run: &Execution,
    machine: &Machine,
    topology: &Topology,
    constants: &Constants,
    bytes: f64,
    mut usage: Option<&mut Usage>,
) -> Result<Timeline, PredictError> {
    let mut costs = Costs::new(run, machine, topology, constants, bytes)?;
    let launch = costs.values.launch_us;
    let dependents = Dependents::of(run);
    // Ranks on one device share its cache.
    let releases = Releases::of(run, if machine.one_device { 0.0 } else { costs.values.signal_us });
    let mut missing: Vec<u32> = (0..run.nodes.len()).map(|node| run.dependencies(node).len() as u32).collect();
    let mut spans = vec![Span { start: launch, moves: launch, end: launch, after: None }; run.nodes.len()];
    let mut events = Queue::default();
    let first = (0..).zip(&missing).filter(|(_, missing)| **missing == 0);
    events.replace(first.map(|(node, _)| (launch, node, READY)));
    let mut moving = Moving::new(costs.capacities().to_vec());
    let (mut now, mut until) = (launch, launch);
    loop {
        let mut time = events.first().map_or(f64::INFINITY, |(time, _, _)| time);
        if time > until {
            // All that starts or ends at the last time has done so.
            moving.share(now);
            if let Some(usage) = &mut usage {
                moving.record(now, costs.capacities(), usage);
            }
            time = time.min(moving.next_end().unwrap_or(f64::INFINITY));
        }
        if time == f64::INFINITY {
            break;
        }
        now = now.max(time);
        until = now + SAME_TIME * now.max(1.0);
        let mut ended = moving.end(until);
        while let Some((_, node, what)) = events.first().filter(|(time, _, _)| *time <= until) {
            events.pop();
            let span = &mut spans[node as usize];
            match what {
                READY => {
                    span.start = now;
                    let (slot, flow) = moving.prepare();
                    let (fixed, moves) = costs.of(run, node as usize, flow)?;
                    if !moves {
                        moving.cancel(slot);
                    }
                    events.push(now + fixed, node, if moves { slot } else { NO_DATA });
                }
                NO_DATA => {
                    span.moves = now;
                    ended.push(node);
                }
                slot => {
                    span.moves = now;
                    moving.start(now, node, slot);
                }
            }
        }
        for node in ended {
            spans[node as usize].end = now;
            for &(waiter, why) in dependents.of_node(node) {
                let ready = now + costs.latency(&run.nodes[node as usize], &run.nodes[waiter as usize], why);
                let span = &mut spans[waiter as usize];
                // Until the node starts, its start is when the last of what it waits for is visible.
                if span.after.is_none() || ready > span.start {
                    (span.start, span.after) = (ready, Some(node));
                }
                missing[waiter as usize] -= 1;
                if missing[waiter as usize] == 0 {
                    if let Some((store, time)) = releases.acknowledged(waiter, &spans)
                        && time > spans[waiter as usize].start
                    {
                        let span = &mut spans[waiter as usize];
                        (span.start, span.after) = (time, Some(store));
                    }
                    events.push(spans[waiter as usize].start, waiter, READY);
                }
            }
        }
    }
    let total_us = spans.iter().map(|span| span.end).fold(launch, f64::max);
    Ok(Timeline { spans, total_us, launch_us: launch })
}
