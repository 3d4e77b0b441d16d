//! Discrete-event simulation of an execution on a machine.
//!
//! A node of an [`Execution`] starts when everything for which it waits has ended and, where another rank is involved,
//! become visible. It takes a fixed time, and then, if it moves data, progresses at the speed that its thread block and
//! its fair share of links and memory allow. Speeds change only when a node starts or ends to move data.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use mscclpp_check::execution::{Dependency, Execution, MovedData, Node};
use mscclpp_plan::raw::OpClass;

use crate::error::PredictError;
use crate::machine::{Constants, Machine};
use crate::rates::{Flow, fair_speeds};
use crate::topology::Topology;

/// When a node was executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Microseconds after the launch.
    pub start: f64,
    /// When it began to move data; its end if it moves none.
    pub moves: f64,
    /// When it ended.
    pub end: f64,
    /// For what it waited last; `None` if for the launch.
    pub after: Option<(u32, Dependency)>,
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
    /// Of which before the first and after the last operation.
    pub launch_us: f64,
    /// Per link with its name, the part of the time in which its bandwidth was used.
    pub link_use: Vec<(String, f64)>,
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
            at = self.spans[node as usize].after.map(|(before, _)| before);
        }
        path.reverse();
        path
    }

    /// Returns how much of the time of the critical path each cause takes.
    pub fn causes(&self) -> [(Cause, f64); 4] {
        let (mut operations, mut latency, mut data) = (0.0, 0.0, 0.0);
        for node in self.critical_path() {
            let span = self.spans[node as usize];
            let ready = span.after.map_or(self.launch_us, |(before, _)| self.spans[before as usize].end);
            latency += (span.start - ready).max(0.0);
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

/// The constants that the model uses, with 0 for latencies and infinity for bandwidths that a machine does not have.
struct Model<'m> {
    constants: &'m Constants,
    topology: &'m Topology,
    one_device: bool,
    /// Edges of shortest paths, per pair of ranks.
    routes: Vec<Vec<Option<Vec<usize>>>>,
    /// Capacities in bytes per microsecond: links, then the memory of devices.
    capacities: Vec<f64>,
    instances: f64,
    /// Per rank, for its loads and for its stores on other ranks: the parts of all of them that pass each link.
    spread: Vec<[Vec<(usize, f64)>; 2]>,
}

const BYTES_PER_US: f64 = 1000.0;

impl Model<'_> {
    fn us(&self, name: &str) -> f64 {
        self.constants.get(name).unwrap_or(0.0)
    }

    /// Returns the microseconds of bytes at a bandwidth.
    fn at(&self, bytes: f64, name: &str) -> f64 {
        self.constants.get(name).map_or(0.0, |gb_per_s| bytes / (gb_per_s * BYTES_PER_US))
    }

    fn memory(&self, rank: u32) -> usize {
        self.topology.edges.len() + if self.one_device { 0 } else { rank as usize }
    }

    /// Adds what a flow of bytes from one rank to another uses.
    fn send(
        &self,
        uses: &mut Vec<(usize, f64)>,
        from: u32,
        to: u32,
        bytes: f64,
        efficiency: &str,
    ) -> Result<(), PredictError> {
        if from == to || self.one_device {
            return Ok(());
        }
        let path = self.routes[from as usize][to as usize].as_ref().ok_or(PredictError::NoRoute { from, to })?;
        let amount = bytes * self.instances / self.constants.get(efficiency).unwrap_or(1.0);
        path.iter().for_each(|&edge| add(uses, edge, amount));
        Ok(())
    }

    /// Computes the parts of loads and stores that pass each link.
    fn compute_spread(&mut self, run: &Execution) -> Result<(), PredictError> {
        let ranks = self.topology.ranks;
        let mut bytes = vec![[vec![0.0; ranks], vec![0.0; ranks]]; ranks];
        for (number, node) in run.nodes.iter().enumerate().filter(|(_, node)| !node.transfer) {
            for access in run.accesses(number).iter().filter(|access| access.owner != node.rank) {
                bytes[node.rank as usize][usize::from(access.write)][access.owner as usize] += access.bytes as f64;
            }
        }
        self.spread = vec![[Vec::new(), Vec::new()]; ranks];
        for (rank, bytes) in bytes.iter().enumerate() {
            for (side, bytes) in bytes.iter().enumerate() {
                let total: f64 = bytes.iter().sum();
                for (other, part) in bytes.iter().enumerate().filter(|(_, part)| **part > 0.0) {
                    let (from, to) = if side == 1 { (rank, other) } else { (other, rank) };
                    let no_route = PredictError::NoRoute { from: from as u32, to: to as u32 };
                    let path = self.routes[from][to].as_ref().ok_or(no_route)?;
                    path.iter().for_each(|&edge| add(&mut self.spread[rank][side], edge, part / total));
                }
            }
        }
        Ok(())
    }

    /// Adds what a load or store of a thread block on another rank uses: thread blocks do not run in step, so a part of all
    /// loads and stores passes links as if they were on all peers at once.
    fn access(
        &self,
        uses: &mut Vec<(usize, f64)>,
        rank: u32,
        access: &MovedData,
        bytes: f64,
        efficiency: &str,
    ) -> Result<(), PredictError> {
        if access.owner == rank || self.one_device {
            return Ok(());
        }
        self.same_node(rank, access.owner)?;
        let spread = self.constants.get("spread").unwrap_or(0.0).min(1.0);
        let (from, to) = if access.write { (rank, access.owner) } else { (access.owner, rank) };
        self.send(uses, from, to, bytes * (1.0 - spread), efficiency)?;
        let amount = bytes * spread * self.instances / self.constants.get(efficiency).unwrap_or(1.0);
        self.spread[rank as usize][usize::from(access.write)]
            .iter()
            .for_each(|&(edge, part)| add(uses, edge, amount * part));
        Ok(())
    }

    /// Returns the fixed time of a node, and how it moves data.
    fn cost(&self, run: &Execution, number: usize) -> Result<(f64, Option<Flow>), PredictError> {
        let node = run.nodes[number];
        let op = self.us("op_us");
        let fixed = match node.kind.class() {
            _ if node.transfer => self.us("proxy_us"),
            OpClass::BlockSync | OpClass::Barrier => self.us("sync_us"),
            _ => op,
        };
        let data = run.accesses(number);
        if data.is_empty() {
            return Ok((fixed, None));
        }
        let in_switch = node.kind.srcs().switch.1 + node.kind.dsts().switch.1 > 0;
        let own = node.rank;
        let mut uses = Vec::new();
        let (mut block_us, mut loads_remote, mut switched) = (0.0, false, (0.0_f64, 0.0_f64));
        for access in data {
            let bytes = if access.packets { 2.0 } else { 1.0 } * access.bytes as f64;
            let memory = self.constants.get("memory_gb_per_s").map(|_| self.memory(access.owner));
            if let Some(memory) = memory {
                add(&mut uses, memory, bytes * self.instances);
            }
            let remote = access.owner != own;
            let side = if access.write { node.kind.dsts() } else { node.kind.srcs() };
            if side.switch.1 > 0 {
                self.same_node(own, access.owner)?;
                // The part of the calling rank passes its links once, whatever the number of ranks.
                self.switch_part(&mut uses, access.owner, bytes, access.write)?;
                let once = if access.write { &mut switched.1 } else { &mut switched.0 };
                if *once == 0.0 {
                    *once = bytes;
                    self.switch_part(&mut uses, own, bytes, !access.write)?;
                }
                continue;
            }
            let (from, to) = if access.write { (own, access.owner) } else { (access.owner, own) };
            let efficiency = match () {
                () if node.transfer => "port_efficiency",
                () if access.packets => "packet_efficiency",
                () if access.write => "put_efficiency",
                () => "get_efficiency",
            };
            match node.transfer {
                true => self.send(&mut uses, from, to, bytes, efficiency)?,
                false => self.access(&mut uses, own, access, bytes, efficiency)?,
            }
            loads_remote |= remote && !access.write;
            block_us += match () {
                () if node.transfer => 0.0,
                () if access.packets => self.at(bytes, "block_packet_gb_per_s"),
                () if remote && access.write => self.at(bytes, "block_put_gb_per_s"),
                () if remote => self.at(bytes, "block_get_gb_per_s"),
                () => self.at(bytes, "block_local_gb_per_s"),
            };
        }
        block_us += self.at(switched.0, "block_reduce_gb_per_s") + self.at(switched.1, "block_multicast_gb_per_s");
        if node.transfer {
            let bytes = data
                .iter()
                .filter(|access| access.write)
                .map(|access| if access.packets { 2.0 } else { 1.0 } * access.bytes as f64)
                .sum();
            block_us += self.at(bytes, "transfer_gb_per_s");
        }
        let latency = match () {
            () if node.transfer => 0.0,
            () if in_switch => self.us("multicast_us"),
            () if loads_remote => self.us("load_us"),
            () => self.us("local_us"),
        };
        let alone_us = uses
            .iter()
            .map(|&(resource, amount)| amount / self.instances / self.capacities[resource])
            .fold(block_us, f64::max);
        let flow = (alone_us > 0.0).then(|| Flow { alone: 1.0 / alone_us, uses });
        Ok((fixed + latency, flow))
    }

    /// Checks that a rank can map the memory of another one.
    fn same_node(&self, from: u32, to: u32) -> Result<(), PredictError> {
        let node = |rank: u32| self.topology.node_of[rank as usize];
        if node(from) == node(to) { Ok(()) } else { Err(PredictError::AcrossNodes { from, to }) }
    }

    /// Adds the use of the links between a rank and its switch.
    fn switch_part(
        &self,
        uses: &mut Vec<(usize, f64)>,
        rank: u32,
        bytes: f64,
        into_rank: bool,
    ) -> Result<(), PredictError> {
        if self.one_device {
            return Ok(());
        }
        let edges = self.topology.edges.iter().enumerate();
        let end = |edge: &crate::topology::Edge| if into_rank { (edge.to, edge.from) } else { (edge.from, edge.to) };
        let found = edges.filter(|(_, edge)| end(edge).0 == rank as usize && end(edge).1 >= self.topology.ranks);
        // The switch of the rank's fastest link.
        let best = found.max_by(|(i, a), (j, b)| a.gb_per_s.total_cmp(&b.gb_per_s).then(j.cmp(i)));
        let (edge, _) = best.ok_or(PredictError::NoSwitch { rank })?;
        let amount = bytes * self.instances / self.constants.get("switch_efficiency").unwrap_or(1.0);
        add(uses, edge, amount);
        Ok(())
    }

    /// Returns the time from the end of a node to when a node that waits for it continues.
    fn latency(&self, from: &Node, to: &Node, why: Dependency) -> f64 {
        let across = self.topology.node_of[from.rank as usize] != self.topology.node_of[to.rank as usize];
        match why {
            Dependency::Signal if from.transfer && across => self.us("network_us"),
            Dependency::Signal | Dependency::Packets if from.transfer => self.us("port_us"),
            Dependency::Signal => self.us("signal_us"),
            Dependency::Packets => self.us("packet_us"),
            Dependency::Release => self.us("semaphore_us"),
            Dependency::Order | Dependency::Flush | Dependency::Barrier | Dependency::Post => 0.0,
        }
    }
}

fn add(uses: &mut Vec<(usize, f64)>, resource: usize, amount: f64) {
    match uses.iter_mut().find(|(known, _)| *known == resource) {
        Some((_, sum)) => *sum += amount,
        None => uses.push((resource, amount)),
    }
}

/// An event of the simulation: the earliest first, then the lowest node.
#[derive(PartialEq)]
struct Event {
    time: f64,
    node: u32,
    /// Whether the fixed part of the node has passed; otherwise the node is ready.
    moves: bool,
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.node.cmp(&self.node)).then(other.moves.cmp(&self.moves))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Time within which ends of flows are one event, relative to the time so far: rounding must not separate equal flows.
const SAME_TIME: f64 = 1e-9;

/// Simulates an execution. `bytes` is the size of all buffers of a device, which decides whether they are in its cache.
pub(crate) fn simulate(
    run: &Execution,
    machine: &Machine,
    topology: &Topology,
    constants: &Constants,
    bytes: f64,
) -> Result<Timeline, PredictError> {
    let cached = constants.get("cache_mib").is_some_and(|mib| bytes <= mib * f64::from(1 << 20));
    let memory = if cached { constants.get("cache_gb_per_s") } else { None }.or(constants.get("memory_gb_per_s"));
    let links = topology.edges.iter().map(|edge| edge.gb_per_s * BYTES_PER_US);
    let devices = if machine.one_device { 1 } else { topology.ranks };
    let capacities =
        links.chain((0..devices).map(|_| memory.map_or(f64::INFINITY, |rate| rate * BYTES_PER_US))).collect();
    let routes = (0..topology.ranks).map(|rank| topology.routes(rank)).collect();
    let instances = f64::from(run.instances.max(1));
    let one_device = machine.one_device;
    let mut model = Model { constants, topology, one_device, routes, capacities, instances, spread: Vec::new() };
    if !one_device {
        model.compute_spread(run)?;
    }
    let model = model;
    let launch = model.us("launch_us");
    let count = run.nodes.len();
    let mut missing = vec![0u32; count];
    let mut first_after = vec![0u32; count + 1];
    for (node, missing) in missing.iter_mut().enumerate() {
        *missing = run.dependencies(node).len() as u32;
        run.dependencies(node).iter().for_each(|(before, _)| first_after[*before as usize + 1] += 1);
    }
    (0..count).for_each(|node| first_after[node + 1] += first_after[node]);
    let mut after = vec![(0u32, Dependency::Order); first_after[count] as usize];
    let mut next = first_after.clone();
    for node in 0..count {
        for &(before, why) in run.dependencies(node) {
            after[next[before as usize] as usize] = (node as u32, why);
            next[before as usize] += 1;
        }
    }
    let mut spans = vec![Span { start: launch, moves: launch, end: launch, after: None }; count];
    let mut events: BinaryHeap<Event> = BinaryHeap::new();
    events.extend((0..count as u32).filter(|node| missing[*node as usize] == 0).map(|node| Event {
        time: launch,
        node,
        moves: false,
    }));
    // What moves data: node, flow, rest of it, speed.
    let mut moving: Vec<(u32, Flow, f64, f64)> = Vec::new();
    let mut pending: Vec<Option<Flow>> = vec![None; count];
    let mut used = vec![0.0; model.capacities.len()];
    let mut now = launch;
    let mut ended: Vec<u32> = Vec::new();
    loop {
        let of_flow = moving.iter().map(|(_, _, rest, speed)| now + rest / speed).fold(f64::INFINITY, f64::min);
        let time = events.peek().map_or(f64::INFINITY, |event| event.time).min(of_flow);
        if time == f64::INFINITY {
            break;
        }
        let passed = (time - now).max(0.0);
        let until = time + SAME_TIME * time.max(1.0);
        let mut changed = false;
        moving.retain_mut(|(node, flow, rest, speed)| {
            let done = (passed * *speed).min(*rest);
            flow.uses.iter().for_each(|&(resource, amount)| used[resource] += amount * done);
            *rest -= done;
            let over = time + *rest / *speed <= until;
            if over {
                ended.push(*node);
                changed = true;
            }
            !over
        });
        now = time;
        ended.sort_unstable();
        while let Some(event) = events.peek().filter(|event| event.time <= until).map(|event| (event.node, event.moves))
        {
            events.pop();
            let (node, moves) = event;
            let span = &mut spans[node as usize];
            if !moves {
                span.start = now;
                let (fixed, flow) = model.cost(run, node as usize)?;
                pending[node as usize] = flow;
                events.push(Event { time: now + fixed, node, moves: true });
                continue;
            }
            span.moves = now;
            match pending[node as usize].take() {
                Some(flow) => {
                    moving.push((node, flow, 1.0, 0.0));
                    changed = true;
                }
                None => ended.push(node),
            }
        }
        for node in ended.drain(..) {
            spans[node as usize].end = now;
            for &(waiter, why) in &after[first_after[node as usize] as usize..first_after[node as usize + 1] as usize] {
                let ready = now + model.latency(&run.nodes[node as usize], &run.nodes[waiter as usize], why);
                let span = &mut spans[waiter as usize];
                // Until the node starts, its start is when the last of what it waits for is visible.
                if span.after.is_none() || ready > span.start {
                    (span.start, span.after) = (ready, Some((node, why)));
                }
                missing[waiter as usize] -= 1;
                if missing[waiter as usize] == 0 {
                    events.push(Event { time: span.start, node: waiter, moves: false });
                }
            }
        }
        if changed {
            moving.sort_unstable_by_key(|(node, ..)| *node);
            let speeds = fair_speeds(moving.iter().map(|(_, flow, ..)| flow), &model.capacities);
            moving.iter_mut().zip(speeds).for_each(|(flow, speed)| flow.3 = speed.max(f64::MIN_POSITIVE));
        }
    }
    let total_us = spans.iter().map(|span| span.end).fold(launch, f64::max);
    let name = |edge: &crate::topology::Edge| format!("{} to {}", topology.names[edge.from], topology.names[edge.to]);
    let link_use = topology
        .edges
        .iter()
        .zip(&used)
        .map(|(edge, bytes)| (name(edge), bytes / (edge.gb_per_s * BYTES_PER_US * total_us)))
        .collect();
    Ok(Timeline { spans, total_us, launch_us: launch, link_use })
}
