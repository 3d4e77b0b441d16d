//! What the operations of an execution cost on a machine.

use mscclpp_check::execution::{Dependency, Execution, MovedData, Node};
use mscclpp_plan::raw::OpClass;

use super::paths::{Paths, ends, in_switch};
use super::rates::Flow;
use super::values::Values;
use crate::error::PredictError;
use crate::machine::{BYTES_PER_US, Constants, Machine};
use crate::topology::Topology;

/// Computes the costs of operations on a machine.
pub(super) struct Costs<'m> {
    machine: &'m Machine,
    pub(super) values: Values,
    topology: &'m Topology,
    paths: Paths,
    /// Capacities in bytes per microsecond: links, then the memory of devices; then the number of processors, if ranks share them.
    capacities: Vec<f64>,
    /// The place of the processors among the capacities.
    processors: Option<usize>,
    has_memory: bool,
    amounts: Amounts,
}

/// What the current operation uses.
struct Amounts {
    /// Operations that are one node of the execution.
    num_instances: f64,
    /// Per resource.
    all: Vec<f64>,
    /// The resources that it uses.
    touched: Vec<usize>,
}

impl Amounts {
    fn add(&mut self, resource: usize, bytes: f64) {
        if bytes == 0.0 {
            return;
        }
        let amount = &mut self.all[resource];
        if *amount == 0.0 {
            self.touched.push(resource);
        }
        *amount += bytes * self.num_instances;
    }
}

impl<'m> Costs<'m> {
    /// Prepares the costs of an execution. `bytes` is the size of all buffers of a device, which decides whether they are in its cache.
    pub(super) fn new(
        run: &Execution,
        machine: &'m Machine,
        topology: &'m Topology,
        constants: &Constants,
        bytes: f64,
    ) -> Result<Self, PredictError> {
        let cached = constants.get("cache_mib").is_some_and(|mib| bytes <= mib * f64::from(1 << 20));
        let memory = if cached { constants.get("cache_gb_per_s") } else { None }.or(constants.get("memory_gb_per_s"));
        let devices = if machine.one_device { 1 } else { topology.num_ranks };
        let links = topology.edges.iter().map(|edge| edge.gb_per_s * BYTES_PER_US);
        let memories = (0..devices).map(|_| memory.map_or(f64::INFINITY, |rate| rate * BYTES_PER_US));
        let mut capacities: Vec<f64> = links.chain(memories).collect();
        let processors = machine.processors.map(|count| {
            capacities.push(f64::from(count));
            capacities.len() - 1
        });
        let paths = if machine.one_device { Paths::default() } else { Paths::of(run, machine, topology)? };
        Ok(Self {
            machine,
            values: Values::of(constants),
            topology,
            paths,
            amounts: Amounts {
                num_instances: f64::from(run.num_instances.max(1)),
                all: vec![0.0; capacities.len()],
                touched: Vec::new(),
            },
            capacities,
            processors,
            has_memory: memory.is_some(),
        })
    }

    /// Returns the capacities of resources, in bytes per microsecond.
    pub(super) fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// Returns the fixed time of a node, and whether it moves data; `flow` receives how.
    pub(super) fn of(&mut self, run: &Execution, number: usize, flow: &mut Flow) -> Result<(f64, bool), PredictError> {
        let node = &run.nodes[number];
        let values = &self.values;
        let fixed = match node.kind.class() {
            _ if node.opening => 0.0,
            _ if node.transfer => values.proxy_us,
            OpClass::BlockSync | OpClass::Barrier => values.sync_us,
            _ => values.op_us,
        };
        flow.uses.clear();
        let data = run.accesses(number);
        if data.is_empty() {
            return Ok(self.flow(fixed, 0.0, flow));
        }
        let block_us = self.moves(node, data)?;
        let switched = data.iter().any(|access| in_switch(node, access));
        let values = &self.values;
        let latency = match () {
            () if node.transfer => 0.0,
            () if switched => values.multicast_us,
            () if data.iter().any(|access| access.owner != node.rank && !access.write) => values.load_us,
            () => values.local_us,
        };
        let Amounts { all, touched, .. } = &mut self.amounts;
        flow.uses.extend(touched.drain(..).map(|at| (at, std::mem::take(&mut all[at]))));
        Ok(self.flow(fixed + latency, block_us, flow))
    }

    /// Returns the fixed time of a node, and whether it progresses after it, at the speed of the flow. Where ranks share processors, all that a
    /// thread block does takes time of one.
    fn flow(&self, mut fixed: f64, mut block_us: f64, flow: &mut Flow) -> (f64, bool) {
        if let Some(processors) = self.processors {
            block_us += std::mem::take(&mut fixed);
            flow.uses.push((processors, block_us * self.amounts.num_instances));
        }
        let per_instance = |amount: f64| amount / self.amounts.num_instances;
        let alone = flow.uses.iter().map(|&(resource, amount)| per_instance(amount) / self.capacities[resource]);
        let alone_us = alone.fold(block_us, f64::max);
        flow.alone = 1.0 / alone_us;
        (fixed, alone_us > 0.0)
    }

    /// Adds what accesses use, and returns how long the thread block or port takes for them.
    fn moves(&mut self, node: &Node, data: &[MovedData]) -> Result<f64, PredictError> {
        let (mut block_us, mut switched) = (0.0, [0.0; 2]);
        for access in data {
            let bytes = if access.packets { 2.0 } else { 1.0 } * access.bytes as f64;
            if self.has_memory {
                let device = if self.machine.one_device { 0 } else { access.owner as usize };
                self.amounts.add(self.topology.edges.len() + device, bytes);
            }
            if in_switch(node, access) {
                self.switch(node.rank, access, bytes, &mut switched)?;
                continue;
            }
            let remote = access.owner != node.rank;
            if remote && !self.machine.one_device {
                self.send(node, access, bytes)?;
            }
            if node.kind.is_reduce() && !access.write {
                block_us += access.bytes as f64 / self.values.block.sum;
            }
            let rates = &self.values.block;
            block_us += match () {
                () if node.transfer && !access.write => 0.0,
                () if node.transfer => bytes / rates.transfer,
                () if access.packets => bytes / rates.packet,
                () if remote && access.write => bytes / rates.put,
                () if remote => bytes / rates.get,
                () => bytes / rates.local,
            };
        }
        let [loads, stores] = switched;
        Ok(block_us + loads / self.values.block.reduce + stores / self.values.block.multicast)
    }

    /// Adds the links of an access to another rank. Thread blocks do not run in step, so a part of all loads and stores passes links as
    /// if they were on all peers at once.
    fn send(&mut self, node: &Node, access: &MovedData, bytes: f64) -> Result<(), PredictError> {
        let Values { efficiency, spread, .. } = &self.values;
        let efficiency = match () {
            () if node.transfer => efficiency.port,
            () if access.packets => efficiency.packet,
            () if access.write => efficiency.put,
            () => efficiency.get,
        };
        let spread = if node.transfer { 0.0 } else { *spread };
        if !node.transfer {
            self.same_node(node.rank, access.owner)?;
        }
        let (from, to) = ends(node.rank, access);
        let amounts = &mut self.amounts;
        if spread < 1.0 {
            let between = self.paths.between(from, to).iter();
            between.for_each(|&link| amounts.add(link, bytes * (1.0 - spread) / efficiency));
        }
        if spread > 0.0 {
            let all = self.paths.of_all(node.rank, access.write).iter();
            all.for_each(|&(link, part)| amounts.add(link, bytes * spread * part / efficiency));
        }
        Ok(())
    }

    /// Adds the links of an access in a switch, and its bytes to the loads or stores of the operation.
    fn switch(
        &mut self,
        rank: u32,
        access: &MovedData,
        bytes: f64,
        switched: &mut [f64; 2],
    ) -> Result<(), PredictError> {
        if !self.machine.multicast {
            return Err(PredictError::NoMulticast { machine: self.machine.name.clone(), rank });
        }
        self.same_node(rank, access.owner)?;
        let efficiency = self.values.efficiency.switch;
        let link = self.switch_link(access.owner, access.write)?;
        self.amounts.add(link, bytes / efficiency);
        let once = &mut switched[usize::from(access.write)];
        // The part of the calling rank passes its links once, whatever the number of ranks.
        if *once == 0.0 {
            *once = bytes;
            let link = self.switch_link(rank, !access.write)?;
            self.amounts.add(link, bytes / efficiency);
        }
        Ok(())
    }

    fn switch_link(&self, rank: u32, into_rank: bool) -> Result<usize, PredictError> {
        let no_switch = || PredictError::NoSwitch { machine: self.machine.name.clone(), rank };
        self.paths.of_switch(rank, into_rank).ok_or_else(no_switch)
    }

    /// Checks that a rank can map the memory of another one.
    fn same_node(&self, from: u32, to: u32) -> Result<(), PredictError> {
        let node = |rank: u32| self.topology.node_of[rank as usize];
        match node(from) == node(to) {
            true => Ok(()),
            false => Err(PredictError::AcrossNodes {
                machine: self.machine.name.clone(),
                from,
                to,
                ranks_per_node: self.machine.ranks_per_node,
            }),
        }
    }

    /// Returns the time from the end of a node to when a node that waits for it continues.
    pub(super) fn latency(&self, from: &Node, to: &Node, why: Dependency) -> f64 {
        let across = self.topology.node_of[from.rank as usize] != self.topology.node_of[to.rank as usize];
        match why {
            Dependency::Signal | Dependency::Packets if from.transfer && across => self.values.network_us,
            Dependency::Signal | Dependency::Packets if from.transfer => self.values.port_us,
            Dependency::Signal => self.values.signal_us,
            Dependency::Packets => self.values.packet_us,
            Dependency::Release => self.values.semaphore_us,
            Dependency::Order | Dependency::Flush | Dependency::Barrier | Dependency::Post => 0.0,
        }
    }
}
