//! What a world keeps of a plan on the device.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex};

use super::abi;
use super::device::Device;
use super::memory::{DeviceMemory, MappedMemory};
use super::proxy::Proxies;
use super::tables::{Counters, Tables};
use crate::error::Error;
use crate::interpret::Program;

/// A plan on a device. Launches of all sizes share it, one at a time.
pub(super) struct Context {
    pub(super) program: Program,
    pub(super) counters: Counters,
    pub(super) counter_memory: DeviceMemory,
    agents: DeviceMemory,
    instrs: DeviceMemory,
    operands: DeviceMemory,
    ids: DeviceMemory,
    state: DeviceMemory,
    reports: DeviceMemory,
    /// Word 0: the host asks the device to give up. Word 1: the device has given up.
    flags: Arc<MappedMemory>,
    pub(super) proxies: Option<Proxies>,
    /// Plain scratch and packets of every rank.
    scratch: Mutex<Vec<[DeviceMemory; 2]>>,
    /// Their addresses, which do not move when scratch grows.
    scratch_table: DeviceMemory,
}

impl Context {
    pub(super) fn new(device: &Device, program: Program) -> Result<Self, Error> {
        let driver = device.driver();
        let counters = Counters::new(&program);
        let counter_memory = DeviceMemory::holding(driver, &counters.initial(&program))?;
        let tables = Tables::new(&program, &counters, counter_memory.address());
        let flags = Arc::new(MappedMemory::new(driver, 64)?);
        let proxies = if program.proxies.is_empty() { None } else { Some(Proxies::new(device, &program, &flags)?) };
        Ok(Self {
            agents: DeviceMemory::holding(driver, &tables.agents)?,
            instrs: DeviceMemory::holding(driver, &tables.instrs)?,
            operands: DeviceMemory::holding(driver, &tables.operands)?,
            ids: DeviceMemory::holding(driver, &tables.ids)?,
            state: DeviceMemory::zeroed(driver, size_of::<abi::State>() as u64)?,
            reports: DeviceMemory::zeroed(driver, (tables.agents.len() * size_of::<abi::Report>()) as u64)?,
            flags,
            proxies,
            scratch: Mutex::default(),
            scratch_table: DeviceMemory::zeroed(driver, 16 * u64::from(program.shape.ranks))?,
            counter_memory,
            counters,
            program,
        })
    }

    /// The parts of a launch's argument that are the same for all launches of the plan.
    pub(super) fn fill(&self, launch: &mut abi::Launch) {
        launch.agents = self.agents.address();
        launch.instrs = self.instrs.address();
        launch.operands = self.operands.address();
        launch.ids = self.ids.address();
        launch.fifos = self.proxies.as_ref().map_or(0, Proxies::table);
        launch.scratch = self.scratch_table.address();
        launch.state = self.state.address();
        launch.reports = self.reports.address();
        launch.host_abort = self.flags.device(0);
        launch.num_agents = self.program.agents.len() as u32;
        launch.num_ranks = self.program.shape.ranks;
    }

    /// Gives every rank at least so much plain scratch and packets. What there is already may be in use by launches under
    /// way, so it is only replaced after the device is idle.
    pub(super) fn grow_scratch(&self, device: &Device, [plain, packets]: [u64; 2]) -> Result<(), Error> {
        let mut scratch = self.scratch.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let enough = |memory: &DeviceMemory, bytes: u64| memory.bytes() >= bytes.max(16);
        if !scratch.is_empty() && scratch.iter().all(|[a, b]| enough(a, plain) && enough(b, packets)) {
            return Ok(());
        }
        let driver = device.driver();
        let [plain, packets] =
            scratch.iter().fold([plain, packets], |[p, q], [a, b]| [p.max(a.bytes()), q.max(b.bytes())]);
        // `zeroed` waits until the device is idle.
        let grown = (0..self.program.shape.ranks)
            .map(|_| Ok([DeviceMemory::zeroed(driver, plain)?, DeviceMemory::zeroed(driver, packets)?]))
            .collect::<Result<Vec<_>, Error>>()?;
        let addresses: Vec<u64> = grown.iter().flatten().map(DeviceMemory::address).collect();
        driver.upload(self.scratch_table.address(), bytemuck::cast_slice(&addresses))?;
        *scratch = grown;
        Ok(())
    }

    /// Whether a launch gave up.
    pub(super) fn has_given_up(&self) -> bool {
        self.flags.word(4).load(Acquire) != 0
    }

    /// Asks a launch under way to give up.
    pub(super) fn abort(&self) {
        self.flags.word(0).store(1, Relaxed);
    }

    /// What every thread block that gave up waited for, by its number.
    pub(super) fn reports(&self, device: &Device) -> Result<Vec<(u32, abi::Report)>, Error> {
        let mut reports = vec![<abi::Report as bytemuck::Zeroable>::zeroed(); self.program.agents.len()];
        device.driver().download(bytemuck::cast_slice_mut(&mut reports), self.reports.address())?;
        Ok((0_u32..).zip(reports).filter(|(_, report)| report.state != 0).collect())
    }

    /// Everything as before the first launch. The device is idle.
    pub(super) fn reset(&self, device: &Device) -> Result<(), Error> {
        let driver = device.driver();
        driver.upload(self.counter_memory.address(), bytemuck::cast_slice(&self.counters.initial(&self.program)))?;
        self.state.clear()?;
        self.reports.clear()?;
        // Flags begin again, so packets of earlier launches must go.
        for [_, packets] in self.scratch.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
            packets.clear()?;
        }
        if let Some(proxies) = &self.proxies {
            proxies.reset()?;
        }
        self.flags.word(0).store(0, Relaxed);
        self.flags.word(4).store(0, Relaxed);
        Ok(())
    }
}
