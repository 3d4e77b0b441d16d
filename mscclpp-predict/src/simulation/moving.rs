//! The flows that move data at one time.
//!
//! Speeds change only when a flow starts or ends, and only of flows that share resources with it, or with flows whose speeds
//! change, where these resources are in demand beyond their capacity.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Usage;
use super::rates::{FairShare, Flow};

/// A flow at a speed.
struct Active {
    node: u32,
    flow: Flow,
    /// What was left of it at a time.
    rest: f64,
    since: f64,
    /// Progress per microsecond; 0 before the first share.
    speed: f64,
    end: f64,
}

/// A possible end of a flow, the earliest first, then the lowest node.
#[derive(PartialEq)]
struct End {
    time: f64,
    node: u32,
    slot: u32,
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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
    active: Vec<Option<Active>>,
    free: Vec<u32>,
    /// Per resource, the flows that use it, those that have ended since the last share included, and whether they exceeded it then.
    users: Vec<Vec<User>>,
    exceeded: Vec<bool>,
    ends: BinaryHeap<End>,
    /// Flows that have started, and resources of flows that have ended, since the last share.
    started: Vec<u32>,
    left: Vec<usize>,
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
            active: Vec::new(),
            free: Vec::new(),
            users: vec![Vec::new(); count],
            exceeded: vec![false; count],
            ends: BinaryHeap::new(),
            started: Vec::new(),
            left: Vec::new(),
            seen_resources: vec![0; count],
            seen_flows: Vec::new(),
            round: 0,
        }
    }

    /// Starts to move the data of a node.
    pub(super) fn start(&mut self, now: f64, node: u32, flow: Flow) {
        let slot = self.free.pop().unwrap_or(self.active.len() as u32);
        if slot as usize == self.active.len() {
            self.active.push(None);
            self.seen_flows.push(0);
        }
        for &(resource, amount) in &flow.uses {
            self.users[resource].push(User { slot, node, rate: amount * flow.alone });
        }
        self.started.push(slot);
        self.active[slot as usize] = Some(Active { node, flow, rest: 1.0, since: now, speed: 0.0, end: f64::INFINITY });
    }

    /// Returns when the next flow ends, if no other one starts before.
    pub(super) fn next_end(&mut self) -> Option<f64> {
        while let Some(end) = self.ends.peek() {
            let active = self.active[end.slot as usize].as_ref();
            if active.is_some_and(|active| active.node == end.node && active.end == end.time) {
                return Some(end.time);
            }
            self.ends.pop();
        }
        None
    }

    /// Ends the flows that end at or before a time, and returns their nodes in order.
    pub(super) fn end(&mut self, until: f64) -> Vec<u32> {
        let mut ended = Vec::new();
        while self.next_end().is_some_and(|time| time <= until) {
            let Some(End { slot, node, .. }) = self.ends.pop() else { break };
            let Some(active) = self.active[slot as usize].take() else { continue };
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
        let mut resources = Vec::new();
        for &slot in &slots {
            self.seen_flows[slot as usize] = self.round;
            open.extend(self.resources(slot));
        }
        while let Some(resource) = open.pop() {
            if std::mem::replace(&mut self.seen_resources[resource], self.round) == self.round {
                continue;
            }
            let active = &self.active;
            let moves =
                |user: &User| active[user.slot as usize].as_ref().is_some_and(|active| active.node == user.node);
            self.users[resource].retain(moves);
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
        let flows: Vec<&Flow> =
            slots.iter().filter_map(|slot| self.active[*slot as usize].as_ref().map(|active| &active.flow)).collect();
        let factors = self.share.factors(&flows, &resources);
        // If most ends change, a new heap is faster than many insertions, and drops the old ends.
        let rebuilds = slots.len() >= self.active.len() / REBUILD;
        for (&slot, factor) in slots.iter().zip(factors) {
            let Some(active) = self.active[slot as usize].as_mut() else { continue };
            let speed = (active.flow.alone * factor).max(f64::MIN_POSITIVE);
            if speed == active.speed {
                continue;
            }
            active.rest = (active.rest - (now - active.since) * active.speed).max(0.0);
            (active.since, active.speed, active.end) = (now, speed, now + active.rest / speed);
            if !rebuilds {
                self.ends.push(End { time: active.end, node: active.node, slot });
            }
        }
        if rebuilds {
            let mut ends = std::mem::take(&mut self.ends).into_vec();
            ends.clear();
            ends.extend((0..).zip(&self.active).filter_map(|(slot, active)| {
                active.as_ref().map(|active| End { time: active.end, node: active.node, slot })
            }));
            self.ends = BinaryHeap::from(ends);
        }
    }

    /// Adds the current use of resources to those before, where it has changed.
    pub(super) fn record(&self, now: f64, capacities: &[f64], usage: &mut Usage) {
        let mut used = vec![0.0; capacities.len()];
        for active in self.active.iter().flatten() {
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
        let active = self.active[slot as usize].as_ref();
        active.into_iter().flat_map(|active| active.flow.uses.iter().map(|(resource, _)| *resource))
    }
}
