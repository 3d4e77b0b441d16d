//! One launch of one rank: its thread blocks are scheduled on the calling thread until all have finished.

use super::calls::BufferArgs;
use super::plan::PlanState;
use super::session::{Backoff, PARK_INTERVAL, Session};
use super::timeline::Recorders;
use mscclpp_base::error::{BlockedThreadBlock, Error};
use mscclpp_base::interpret::timeline::Unrecorded;
use mscclpp_base::interpret::{
    AgentState, CountRow, CountRows, Launch, Params, Progress, RowCall, RowCalls, SLICES, Space, Worker,
};
use mscclpp_base::passes::place_in_caller_memory::SLOTS;
use mscclpp_base::shm::Views;
use mscclpp_bootstrap::ActiveTimeout;
use std::time::Instant;

/// State of a running launch.
pub(super) struct LaunchLoop<'d> {
    pub(super) session: &'d mut Session,
    pub(super) context: &'d PlanState,
    pub(super) params: &'d Params,
    pub(super) views: &'d mut Views,
    /// This rank's thread blocks, then its proxy.
    pub(super) states: &'d mut [AgentState],
    pub(super) worker: &'d mut Worker,
    /// By local rank: the peer's buffers when they were last mapped.
    pub(super) mapped: &'d mut [BufferArgs],
    /// Number of the call, and its id, which peers compare.
    pub(super) number: u64,
    pub(super) id: u64,
    pub(super) epoch: LaunchEpoch<'d>,
    /// Bytes of each rank's buffers, by slot.
    pub(super) lens: [u64; SLOTS],
    /// Whether the memory of this rank that peers access stays valid after the launch.
    pub(super) lasting: bool,
    /// Whether this rank has announced to other nodes that it sends nothing more.
    pub(super) has_sent: bool,
}

/// Values that separate a launch's packets from those of earlier launches.
#[derive(Clone, Copy)]
pub(super) struct LaunchEpoch<'d> {
    /// Flag of its packets.
    pub(super) flag: u32,
    /// The number of the plan's launch, counted from 1; even ones use the second half of double scratch.
    pub(super) plan_launch: u64,
    /// Whether its scratch layout differs from that of the plan's last launch: no rank may write to scratch before all
    /// have finished that launch.
    pub(super) wait_for_starts: bool,
    /// What this rank passes to a plan with counts.
    pub(super) counts: Option<&'d CountRow>,
    /// This rank's row norms, in a plan that has them.
    pub(super) rows: Option<&'d RowCall>,
}

/// Result of a pass over the thread blocks.
struct Pass {
    progress: bool,
    done: bool,
}

/// What a rank waits for, which it checks again before it parks.
#[derive(Clone, Copy)]
enum Awaited {
    /// Progress of its thread blocks.
    Progress { peer_buffers_blocked: bool },
    /// The end of a peer's accesses to the buffers of this rank's caller.
    Finish { local_rank: usize },
    /// Something else, while none of its thread blocks may run.
    Other,
}

/// Number of park intervals after the timeout in which a rank keeps waiting while it has not heard from all ranks. The
/// whole machine may have been suspended, and a peer that is about to run is neither absent nor unresponsive.
const MAX_LATE_PARKS: u32 = 100;

/// Duration of a rank's current wait.
#[derive(Default)]
struct Idle {
    backoff: Backoff,
    timeout: Option<ActiveTimeout>,
    /// When the timeout was found to be over, and park intervals since then.
    expired: Option<Instant>,
    late: u32,
}

impl Idle {
    /// Ends the wait, because there was progress.
    #[inline]
    fn reset(&mut self, session: &Session) {
        if self.timeout.is_some() {
            session.history.wait_in(0);
        }
        *self = Self::default();
    }
}

impl LaunchLoop<'_> {
    /// Runs the launch until this rank has finished.
    ///
    /// # Errors
    /// [`Error::Bootstrap`], [`Error::Interrupted`], [`Error::LateData`], [`Error::DroppedBuffer`].
    pub(super) fn run(&mut self, recorders: &mut impl Recorders) -> Result<(), Error> {
        for (state, agent) in self.states.iter_mut().zip(self.context.agents.clone()) {
            *state = AgentState::begin(self.number, self.context.program.agents[agent].start);
        }
        if self.context.proxy.is_some() {
            self.states[self.context.agents.len()] = AgentState::begin(self.number, 0);
        }
        if !self.session.connections.is_empty() {
            self.session.connections.begin(self.context, self.session.launches, self.id);
        }
        if self.epoch.wait_for_starts {
            self.session.connections.announce_call();
            self.wait_for_starts()?;
        }
        let mut peer_buffers_blocked = !self.context.awaited.is_empty();
        let mut finished = !self.context.depends_on_peers();
        let mut idle = Idle::default();
        loop {
            if peer_buffers_blocked && self.map_peer_buffers()? {
                peer_buffers_blocked = false;
            }
            let pass = self.pass(peer_buffers_blocked, recorders)?;
            if !finished && self.has_released_peers() {
                // As early as possible, because peers wait for it.
                self.session.calls.finish(self.number);
                finished = true;
            }
            if pass.progress {
                self.session.calls.unpark_peers(false);
                idle.reset(self.session);
            }
            if pass.done {
                break;
            }
            if !pass.progress {
                self.compare()?;
                self.wait(&mut idle, Awaited::Progress { peer_buffers_blocked }, recorders)?;
            }
        }
        self.compare()?;
        if self.context.depends_on_peers() {
            if !self.lasting {
                self.wait_for_finishes()?;
            }
        } else {
            // No rank waits for this, but it makes reports more precise.
            self.session.calls.finish(self.number);
        }
        self.receive_rest()?;
        self.session.leave_call()
    }

    /// Waits until all ranks have started the launch, and so have finished the earlier ones.
    fn wait_for_starts(&mut self) -> Result<(), Error> {
        let mut idle = Idle::default();
        loop {
            self.compare()?;
            let session = &self.session;
            if (0..session.locals.len())
                .all(|local_rank| local_rank == session.own_local_rank || session.is_compared(local_rank))
            {
                return self.session.synchronize_nodes();
            }
            self.serve_nodes(&mut idle)?;
            self.wait(&mut idle, Awaited::Other, &mut Unrecorded)?;
        }
    }

    /// Divides this rank's average, in its caller's buffer.
    pub(super) fn divide(&mut self) {
        if self.params.divide.is_some() {
            let (rank, params) = (self.session.rank(), self.params);
            if params.result(&self.context.program, rank).is_some() {
                let area = params.area(rank, Space::OwnOutput);
                launch(self.context, params, self.views, self.number, self.epoch, false).divide(
                    self.worker,
                    area,
                    0,
                    u64::MAX,
                );
            }
        }
    }

    /// Runs this rank's thread blocks until each of them is blocked or finished.
    #[inline]
    fn pass(&mut self, peer_buffers_blocked: bool, recorders: &mut impl Recorders) -> Result<Pass, Error> {
        let mut launch = launch(self.context, self.params, self.views, self.number, self.epoch, peer_buffers_blocked);
        let connections = &self.session.connections;
        if !connections.is_empty() {
            launch.remote = Some(connections);
        }
        let agents = &self.context.program.agents[self.context.agents.clone()];
        let mut pass = Pass { progress: false, done: true };
        // Between nodes, thread blocks that the proxy has served run again before anything is sent: the end of what this rank
        // sends then leaves with the data.
        for _ in 0..if connections.is_empty() { 1 } else { 2 } {
            pass.done = true;
            for (block, (code, state)) in agents.iter().zip(self.states.iter_mut()).enumerate() {
                if state.at.instr >= code.end {
                    continue;
                }
                let before = state.at;
                let step = launch.run_recorded(self.worker, code, state, recorders.of(block));
                pass.done &= step == Progress::Next;
                pass.progress |= state.at != before;
            }
            if pass.done && !connections.is_empty() {
                connections.end();
            }
            let Some(proxy) = self.context.proxy else { break };
            let state = &mut self.states[agents.len()];
            let before = state.at;
            launch.serve(self.worker, proxy, state);
            let has_served = state.at != before;
            pass.progress |= has_served;
            pass.done &= self.context.counters.fifos[proxy].is_drained();
            if !has_served {
                break;
            }
        }
        if !connections.is_empty() {
            if !self.has_sent && self.have_passed(&self.context.last_send) {
                connections.send_ends(&self.context.sends_to);
                self.has_sent = true;
            }
            let io =
                connections.progress(self.session.rank(), &launch, &self.context.receives_from, &self.session.plans);
            let io = io.map_err(|error| self.session.fail_on_wire_error(error))?;
            pass.progress |= io.progress;
            pass.done &= io.sent;
        }
        Ok(pass)
    }

    /// Serves the connections to other nodes while none of this rank's thread blocks runs: other ranks may need that
    /// before they reach the point for which this rank waits.
    #[inline]
    fn serve_nodes(&mut self, idle: &mut Idle) -> Result<(), Error> {
        let connections = &self.session.connections;
        if !connections.is_empty() {
            let launch = launch(self.context, self.params, self.views, self.number, self.epoch, false);
            let io =
                connections.progress(self.session.rank(), &launch, &self.context.receives_from, &self.session.plans);
            if io.map_err(|error| self.session.fail_on_wire_error(error))?.progress {
                idle.reset(self.session);
            }
        }
        Ok(())
    }

    /// Returns whether none of this rank's thread blocks accesses peers' buffers any more in this launch.
    #[inline]
    fn has_released_peers(&self) -> bool {
        self.have_passed(&self.context.last_peer_access)
    }

    /// Returns whether each of this rank's thread blocks has passed the given instruction, and the proxy has served
    /// their triggers.
    #[inline]
    fn have_passed(&self, instrs: &[Option<u32>]) -> bool {
        let passed = |(state, last): (&AgentState, &Option<u32>)| {
            last.is_none_or(|last| state.at.instr > last && !(state.loop_start..state.loop_end).contains(&last))
        };
        self.states.iter().zip(instrs).all(passed)
            && self.context.proxy.is_none_or(|proxy| self.context.counters.fifos[proxy].is_drained())
    }

    /// Compares the call with those of the peers that have started it.
    #[inline]
    fn compare(&mut self) -> Result<(), Error> {
        for local_rank in 0..self.session.locals.len() {
            if local_rank != self.session.own_local_rank && !self.session.is_compared(local_rank) {
                self.session.compare(local_rank)?;
            }
        }
        Ok(())
    }

    /// Returns whether all peers have started whose buffers this rank accesses; if so, maps the buffers.
    #[inline]
    fn map_peer_buffers(&mut self) -> Result<bool, Error> {
        for &local_rank in &self.context.awaited {
            if !self.session.is_compared(local_rank) {
                self.session.compare(local_rank)?;
                if !self.session.is_compared(local_rank) {
                    return Ok(false);
                }
            }
        }
        for &local_rank in &self.context.accesses {
            let Some((_, buffer_args)) = self.session.calls.begun(local_rank, self.number) else {
                return Ok(false);
            };
            if self.mapped[local_rank] != buffer_args {
                self.map_buffers(local_rank, buffer_args)?;
                self.mapped[local_rank] = buffer_args;
            }
        }
        Ok(true)
    }

    /// Returns whether all peers have started whose start this rank awaits.
    fn have_started(&self) -> bool {
        self.context.awaited.iter().all(|&local_rank| self.session.calls.begun(local_rank, self.number).is_some())
    }

    /// Maps a peer's buffers.
    fn map_buffers(&mut self, local_rank: usize, buffer_args: BufferArgs) -> Result<(), Error> {
        let peer = self.session.locals[local_rank];
        for (slot, (number, at)) in buffer_args.0.into_iter().enumerate() {
            // The peer passes only buffers that others access.
            if self.lens[slot] == 0 || number == 0 {
                continue;
            }
            let (view, part) = ((peer * SLICES) as usize + slot, at..at.saturating_add(self.lens[slot]));
            // A peer's buffer of packed chunks has any length, up to that of the largest counts.
            let within = |len: u64| if self.context.program.is_packed() { at..part.end.min(len) } else { part.clone() };
            let fits = match self.session.copies_in(number, self.number, slot) {
                Some((memory, expected)) => {
                    at == expected && memory.set_view(self.views, view, local_rank, within(memory.len()))
                }
                None => self.session.region_of(local_rank, number).is_some_and(|it| {
                    let part = within(it.len() as u64);
                    self.views.set(view, &it, part)
                }),
            };
            if !fits {
                let error = Error::DroppedBuffer { rank: self.session.rank(), peer, number };
                return Err(self.session.abort(error));
            }
        }
        Ok(())
    }

    /// Waits until no peer accesses this rank's caller's buffers any more.
    fn wait_for_finishes(&mut self) -> Result<(), Error> {
        let mut idle = Idle::default();
        for at in 0..self.context.finishes.len() {
            let local_rank = self.context.finishes[at];
            while !self.session.calls.is_finished(local_rank, self.number) {
                self.compare()?;
                self.serve_nodes(&mut idle)?;
                self.wait(&mut idle, Awaited::Finish { local_rank }, &mut Unrecorded)?;
            }
        }
        Ok(())
    }

    /// Receives what ranks of other nodes have yet to send in this launch, for which no operation of this rank waits.
    fn receive_rest(&mut self) -> Result<(), Error> {
        let mut idle = Idle::default();
        while self.pending_senders().next().is_some() {
            self.serve_nodes(&mut idle)?;
            self.wait(&mut idle, Awaited::Other, &mut Unrecorded)?;
        }
        Ok(())
    }

    /// Returns the ranks of other nodes that may still send something in this launch.
    fn pending_senders(&self) -> impl Iterator<Item = u32> {
        self.session.connections.pending_senders(&self.context.receives_from)
    }

    /// Waits a little: spins at first, then yields the processor, then parks.
    fn wait(&mut self, idle: &mut Idle, awaited: Awaited, recorders: &mut impl Recorders) -> Result<(), Error> {
        if !idle.backoff.wait(self.session.oversubscribed) {
            self.wait_long(idle, awaited, recorders)?;
        }
        Ok(())
    }

    #[cold]
    fn wait_long(&mut self, idle: &mut Idle, awaited: Awaited, recorders: &mut impl Recorders) -> Result<(), Error> {
        let timeout = self.session.options.timeout;
        if idle.timeout.is_none() {
            self.session.history.wait_in(self.number);
        }
        let left = idle.timeout.get_or_insert_with(|| ActiveTimeout::new(timeout)).update();
        self.write_positions();
        self.session.abort_if_interrupted();
        let cause = self.session.find_cause();
        let is_late = cause.is_none() && left.is_zero();
        // Where no thread block may run, either no peer's buffer was accessed yet, or all accesses have finished.
        let peer_buffers_blocked = !matches!(awaited, Awaited::Progress { peer_buffers_blocked: false });
        if is_late {
            idle.expired.get_or_insert_with(Instant::now);
        }
        if cause.is_some() || (is_late && (idle.late >= MAX_LATE_PARKS || self.is_stalled(peer_buffers_blocked))) {
            self.compare()?;
            return Err(self.interrupt(cause, timeout, idle.expired, peer_buffers_blocked));
        }
        idle.late += u32::from(is_late);
        let token = self.session.calls.prepare_park();
        let has_arrived = match awaited {
            Awaited::Progress { peer_buffers_blocked } => {
                (peer_buffers_blocked && self.have_started()) || self.pass(peer_buffers_blocked, recorders)?.progress
            }
            Awaited::Finish { local_rank } => self.session.calls.is_finished(local_rank, self.number),
            Awaited::Other => false,
        };
        if has_arrived {
            self.session.calls.cancel_park();
            self.session.calls.unpark_peers(false);
            idle.reset(self.session);
        } else {
            self.session.calls.park(token, if left.is_zero() { PARK_INTERVAL } else { PARK_INTERVAL.min(left) });
        }
        Ok(())
    }

    /// Records the positions of this rank's thread blocks.
    fn write_positions(&self) {
        for (agent, state) in self.context.agents.clone().zip(self.states.iter()) {
            self.context.write_position(agent, self.number, state);
        }
    }

    /// Returns whether no thread block of the node can make progress. One can whose last peer has just started the launch.
    #[cold]
    fn is_stalled(&mut self, peer_buffers_blocked: bool) -> bool {
        self.have_all_reported() && !self.stall(peer_buffers_blocked).blocked.iter().any(BlockedThreadBlock::is_ready)
    }

    /// Returns whether all ranks of the node have started the launch, and have finished it or recorded their positions.
    fn have_all_reported(&self) -> bool {
        self.not_started().next().is_none()
            && self.session.peers().all(|local_rank| {
                self.has_reported(self.session.locals[local_rank])
                    || self.session.calls.is_finished(local_rank, self.number)
            })
    }
}

/// Returns the launch as the interpreter sees it.
pub(super) fn launch<'a>(
    context: &'a PlanState,
    params: &'a Params,
    views: &'a Views,
    number: u64,
    epoch: LaunchEpoch<'a>,
    peer_buffers_blocked: bool,
) -> Launch<'a> {
    let PlanState { counters, program, .. } = context;
    let LaunchEpoch { flag, plan_launch, counts, rows, .. } = epoch;
    Launch {
        counters,
        program,
        params,
        memory: views.memory(),
        number,
        flag,
        second_half: plan_launch.is_multiple_of(2),
        counts: counts.map(|row| CountRows { first: context.rank, rows: std::slice::from_ref(row) }),
        counts_number: plan_launch,
        rows: rows.map(|call| RowCalls { first: context.rank, calls: std::slice::from_ref(call) }),
        exclusive: true,
        remote: None,
        peer_buffers_blocked,
    }
}
