//! The flows that move data at one time.
//!
//! Speeds change only when a flow starts or ends, and only of flows that share resources with it, or with flows whose speeds
//! change, where these resources are in demand beyond their capacity.

use super::Usage;
use super::queue::Queue;
use super::rates::{FairShare, Flow};

/// A flow at a speed. Slots are used again, so that flows keep their memory.
struct Active {
    /// Its node, or none.
    node: u32,
    flow: Flow,
    /// What was left of it at a time.
    rest: f64,
    since: f64,
    /// Progress per microsecond; 0 before the first share.
    speed: f64,
    end: f64,
}

/// The node of a slot without a flow that moves: an execution has fewer nodes.
const NO_NODE: u32 = u32::MAX;

impl Default for Active {
    fn default() -> Self {
        Self { node: NO_NODE, flow: Flow::default(), rest: 0.0, since: 0.0, speed: 0.0, end: f64::INFINITY }
    }
}

/// A flow that uses a resource.
#[derive(Clone)]
struct User {
    slot: u32,
    /// The slot may have another node by now.
    node: u32,
    /// What it would use per microsecond at its own speed.
    rate: f64,
}

/// Part of all flows of which the ends change from which on the heap of ends is rebuilt, as a divisor.
const REBUILD: usize = 8;

/// Difference below which two parts of a capacity are equal.
const SAME_PART: f64 = 1e-6;

/// All flows that move data.
pub(super) struct Moving {
    share: FairShare,
    slots: Vec<Active>,
    free: Vec<u32>,
    /// Per resource, the flows that use it, those that have ended since the last share included, and whether they exceeded it then.
    users: Vec<Vec<User>>,
    exceeded: Vec<bool>,
    /// Possible ends of flows with their slots; those at other times than the flow's own end are outdated.
    ends: Queue,
    /// Flows that have started, and resources of flows that have ended, since the last share.
    started: Vec<u32>,
    left: Vec<usize>,
    /// Resources that flows exceed, during a share.
    limited: Vec<usize>,
    /// Per resource and flow, the last share that has seen it.
    seen_resources: Vec<u32>,
    seen_flows: Vec<u32>,
    round: u32,
}

impl Moving {
    pub(super) fn new(capacities: Vec<f64>) -> Self {
        let count = capacities.len();
        Self {
            share: FairShare::new(capacities),
            slots: Vec::new(),
            free: Vec::new(),
            users: vec![Vec::new(); count],
            exceeded: vec![false; count],
            ends: Queue::default(),
            started: Vec::new(),
            left: Vec::new(),
            limited: Vec::new(),
            seen_resources: vec![0; count],
            seen_flows: Vec::new(),
            round: 0,
        }
    }

    /// Returns a slot for a flow that is about to start, with the flow to fill in.
    pub(super) fn prepare(&mut self) -> (u32, &mut Flow) {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(Active::default());
            self.seen_flows.push(0);
        }
        (slot, &mut self.slots[slot as usize].flow)
    }

    /// Frees a slot whose flow does not start.
    pub(super) fn cancel(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Starts to move the data of a node, with the flow of a slot.
    pub(super) fn start(&mut self, now: f64, node: u32, slot: u32) {
        let active = &mut self.slots[slot as usize];
        for &(resource, amount) in &active.flow.uses {
            self.users[resource].push(User { slot, node, rate: amount * active.flow.alone });
        }
        self.started.push(slot);
        (active.node, active.rest, active.since, active.speed, active.end) = (node, 1.0, now, 0.0, f64::INFINITY);
    }

    /// Returns when the next flow ends, if no other one starts before.
    pub(super) fn next_end(&mut self) -> Option<f64> {
        while let Some((time, node, slot)) = self.ends.first() {
            let active = &self.slots[slot as usize];
            if active.node == node && active.end == time {
                return Some(time);
            }
            self.ends.pop();
        }
        None
    }

    /// Ends the flows that end at or before a time, and returns their nodes in order.
    pub(super) fn end(&mut self, until: f64) -> Vec<u32> {
        let mut ended = Vec::new();
        while self.next_end().is_some_and(|time| time <= until) {
            let Some((_, node, slot)) = self.ends.first() else { break };
            self.ends.pop();
            let active = &mut self.slots[slot as usize];
            active.node = NO_NODE;
            self.left.extend(active.flow.uses.iter().map(|(resource, _)| *resource));
            self.free.push(slot);
            ended.push(node);
        }
        ended.sort_unstable();
        ended
    }

    /// Gives every flow its speed.
    pub(super) fn share(&mut self, now: f64) {
        if self.started.is_empty() && self.left.is_empty() {
            return;
        }
        self.round += 1;
        let (mut slots, mut open) = (std::mem::take(&mut self.started), std::mem::take(&mut self.left));
        let mut resources = std::mem::take(&mut self.limited);
        for &slot in &slots {
            self.seen_flows[slot as usize] = self.round;
            open.extend(self.resources(slot));
        }
        while let Some(resource) = open.pop() {
            if std::mem::replace(&mut self.seen_resources[resource], self.round) == self.round {
                continue;
            }
            let all = &self.slots;
            self.users[resource].retain(|user| all[user.slot as usize].node == user.node);
            let before = self.exceeded[resource];
            let exceeds = self.share.exceeds(resource, self.users[resource].iter().map(|user| user.rate).sum());
            self.exceeded[resource] = exceeds;
            if exceeds {
                resources.push(resource);
            }
            if !before && !exceeds {
                continue;
            }
            for at in 0..self.users[resource].len() {
                let slot = self.users[resource][at].slot;
                if std::mem::replace(&mut self.seen_flows[slot as usize], self.round) != self.round {
                    slots.push(slot);
                    open.extend(self.resources(slot));
                }
            }
        }
        let flow_of = |place: usize| &self.slots[slots[place] as usize].flow;
        let factors = self.share.factors(slots.len(), flow_of, &resources);
        // If most ends change, a new heap is faster than many insertions, and drops the old ends.
        let rebuilds = slots.len() >= self.slots.len() / REBUILD;
        for (&slot, factor) in slots.iter().zip(factors) {
            let active = &mut self.slots[slot as usize];
            let speed = (active.flow.alone * factor).max(f64::MIN_POSITIVE);
            if speed == active.speed {
                continue;
            }
            active.rest = (active.rest - (now - active.since) * active.speed).max(0.0);
            (active.since, active.speed, active.end) = (now, speed, now + active.rest / speed);
            if !rebuilds {
                self.ends.push(active.end, active.node, slot);
            }
        }
        if rebuilds {
            let active = (0..).zip(&self.slots).filter(|(_, active)| active.node != NO_NODE);
            self.ends.replace(active.map(|(slot, active)| (active.end, active.node, slot)));
        }
        slots.clear();
        resources.clear();
        (self.started, self.left, self.limited) = (slots, open, resources);
    }

    /// Adds the current use of resources to those before, where it has changed.
    pub(super) fn record(&self, now: f64, capacities: &[f64], usage: &mut Usage) {
        let mut used = vec![0.0; capacities.len()];
        for active in self.slots.iter().filter(|active| active.node != NO_NODE) {
            active.flow.uses.iter().for_each(|&(resource, amount)| used[resource] += amount * active.speed);
        }
        usage.resize_with(capacities.len(), Vec::new);
        for ((samples, used), capacity) in usage.iter_mut().zip(used).zip(capacities) {
            let part = used / capacity;
            if (samples.last().map_or(0.0, |(_, part)| *part) - part).abs() > SAME_PART {
                samples.push((now, part));
            }
        }
    }

    /// Returns the resources of a flow.
    fn resources(&self, slot: u32) -> impl Iterator<Item = usize> {
        self.slots[slot as usize].flow.uses.iter().map(|(resource, _)| *resource)
    }
}
