//! Binds a plan to a message.

use std::sync::Arc;

use mscclpp_core::plan::Plan;

use super::executor::Executor;
use super::launch::PreparedPlan;
use super::lender::RING_BYTES;
use super::plan::{PlanState, Prepared, lines};
use super::plan_memory::{Parts, PlanMemory};
use super::session::Session;
use mscclpp_base::dtype::ElementType;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::{Params, ResolvedPlan, SLICES, resolve, row_slice};
use mscclpp_base::interpret::{check_nodes, links};
use mscclpp_base::message::Message;
use mscclpp_base::passes::place_in_caller_memory::SLOTS;
use mscclpp_base::shm::{SharedCacheLines, Views};

impl Executor {
    /// Binds a plan to a message: does everything that can be done without buffers. A collective call of all ranks.
    ///
    /// The first call for a plan reads the plan, in time linear in the number of operations of all ranks. Memory that
    /// peers share for it (counters, scratch, copies of slices that are not shared) is exchanged when it is new or must
    /// grow.
    ///
    /// # Errors
    /// Before the rank waits for any other: [`Error::RankCountMismatch`], [`Error::InvalidPlan`],
    /// [`Error::MessageSize`], [`Error::IndivisibleCount`], [`Error::TooLarge`], [`Error::FixedReduction`],
    /// [`Error::UnsupportedAccumulator`], [`Error::ScratchLimit`]: the same on all ranks that pass the same arguments.
    /// [`Error::Bootstrap`] if ranks pass different arguments, one does not make the call, or the communicator has failed;
    /// [`Error::OutOfMemory`], [`Error::Busy`].
    #[track_caller]
    pub fn prepare(&self, plan: &Plan, message: Message) -> Result<PreparedPlan, Error> {
        self.prepare_as(plan, message, None)
    }

    /// Does what [`prepare`](Self::prepare) does. `call`: how messages name the launches, and the type of the elements as the program has it.
    #[track_caller]
    #[doc(hidden)]
    pub fn prepare_as(
        &self,
        plan: &Plan,
        message: Message,
        call: Option<(&str, ElementType)>,
    ) -> Result<PreparedPlan, Error> {
        let mut session = self.inner.session()?;
        let found = session.find_plan(plan, self.num_ranks())?;
        let options = session.options;
        let params = Params::new(session.program(&found), message, options.scratch_limit, options.scratch_pool)?;
        let mut text = describe(plan, &message, call.map_or(message.dtype.into(), |(_, elements)| elements));
        if let Some((name, _)) = call.filter(|_| message.row > 0) {
            // What the norms of all ranks have in common is in the name only.
            text += &format!(", {name}");
        }
        let name = call.map_or(&*text, |(name, _)| name);
        session.agree(&format!("prepare of {text}"), name)?;
        let at = match found {
            Found::Known(at) => at,
            Found::New(program) => session.add_plan(*program)?,
        };
        let scratch = session.grow_scratch(at, params.scratch)?;
        let context = Arc::clone(&session.plans[at].context);
        if context.placement.shares {
            session.grow_staging(params.buffers(&context.program))?;
        }
        let views = session.views(&context.program, &scratch);
        let id = session.history.id_of(&format!("launch of {text}"), name, false);
        drop(session);
        Ok(PreparedPlan::new(Arc::clone(&self.inner), context, params, (views, scratch), id))
    }
}

/// Describes a call: `` plan `ring` (5f0c…), 1000 f32, sum, … ``
pub fn describe(plan: &Plan, message: &Message, elements: ElementType) -> String {
    let Message { count, row, dtype: _, op, accumulate, packet, any_size: _ } = message;
    let op = op.map_or("as planned", |op| op.name());
    let name: String = plan.name().chars().take(100).collect();
    let hash = plan.hash() as u64;
    let rows = if *row > 0 { format!(" in rows of {row}") } else { String::new() };
    format!("plan `{name}` ({hash:016x}), {count} {elements}{rows}, {op}, accumulator {accumulate}, {packet:?}")
}

/// Number of the stream that carries port channels between two ranks.
const STREAM: u64 = 0x706f_7274;

/// A plan of a communicator.
enum Found {
    /// Its position among the prepared plans.
    Known(usize),
    New(Box<ResolvedPlan>),
}

impl Session {
    fn find_plan(&self, plan: &Plan, ranks: u32) -> Result<Found, Error> {
        if let Some(at) = self.plans.iter().position(|known| known.context.is_of(plan)) {
            return Ok(Found::Known(at));
        }
        let (expected, found) = (plan.num_ranks(), ranks);
        if expected != found {
            return Err(Error::RankCountMismatch { plan: plan.name().to_owned(), expected, found });
        }
        let program = resolve(plan)?;
        check_nodes(&program, &self.nodes)?;
        Ok(Found::New(Box::new(program)))
    }

    fn program<'a>(&'a self, found: &'a Found) -> &'a ResolvedPlan {
        match found {
            Found::Known(at) => &self.plans[*at].context.program,
            Found::New(program) => program,
        }
    }

    /// Checks that all ranks of all nodes make this call. `text` distinguishes calls, messages show `name`.
    pub(super) fn agree(&mut self, text: &str, name: &str) -> Result<(), Error> {
        self.history.id_of(text, name, false);
        self.exchange_drops(text)?;
        if !self.has_several_nodes() {
            return Ok(());
        }
        let all = self.gather_on_nodes(text.as_bytes())?;
        match all.iter().position(|other| other != text.as_bytes()) {
            None => Ok(()),
            Some(peer) => Err(self.mismatch(self.number, peer as u32)),
        }
    }

    /// Connects this rank to the ranks on other nodes with which it has port channels.
    fn connect_nodes(&mut self, program: &ResolvedPlan) -> Result<(), Error> {
        let rank = self.rank();
        let peers = links(program, &self.nodes).into_iter().filter(|&(one, _)| one == rank).map(|(_, other)| other);
        for peer in peers.filter(|&peer| !self.connections.has(peer)).collect::<Vec<_>>() {
            let stream = self.bootstrap.data_stream(peer, STREAM)?;
            self.connections.add(peer, stream)?;
        }
        Ok(())
    }

    /// Creates the counters of a plan, and returns the plan's position.
    fn add_plan(&mut self, program: ResolvedPlan) -> Result<usize, Error> {
        // Peers on this node wait for this rank in what follows, while those on other nodes continue.
        self.connect_nodes(&program).map_err(|error| self.abort(error))?;
        let bytes = SharedCacheLines::bytes(lines(&program));
        let counters = self.allocate(bytes, Parts::First, "counters of a plan", "counters", true)?;
        let context = PlanState::new(program, self.rank(), &self.locals, &self.nodes, counters.lines(0));
        self.plans.push(Prepared { context: Arc::new(context), _counters: counters, scratch: [None, None] });
        Ok(self.plans.len() - 1)
    }

    /// Grows a plan's plain and packet scratch to the sizes that a message needs. Older prepared plans keep theirs.
    fn grow_scratch(&mut self, plan: usize, bytes: [u64; 2]) -> Result<[Option<Arc<PlanMemory>>; 2], Error> {
        for (kind, text) in ["scratch", "scratch for packets"].into_iter().enumerate() {
            if self.plans[plan].scratch[kind].as_ref().map_or(0, |memory| memory.len()) >= bytes[kind] {
                continue;
            }
            let memory = self.allocate(bytes[kind], Parts::All, text, "scratch", true)?;
            if kind == 1 {
                self.packets.retain(|packets| packets.strong_count() > 0);
                self.packets.push(Arc::downgrade(&memory));
            }
            self.plans[plan].scratch[kind] = Some(memory);
        }
        Ok(self.plans[plan].scratch.clone())
    }

    /// Allocates memory for copies of slices: for those that are not shared, whose pages are allocated on first use,
    /// and for short ones.
    fn grow_staging(&mut self, bytes: [u64; SLOTS]) -> Result<(), Error> {
        if self.ring.is_none() {
            self.ring = Some(self.allocate(RING_BYTES, Parts::All, "buffers for short copies", "copies", true)?);
        }
        for (slot, bytes) in bytes.into_iter().enumerate() {
            let have = self.staging[slot].as_ref().map_or(0, |memory| memory.len());
            if have < bytes {
                // If the allocation fails, older prepared plans keep their memory.
                self.staging[slot] = Some(self.allocate(bytes, Parts::All, "buffers for copies", "copies", false)?);
            }
        }
        Ok(())
    }

    /// Returns the memory that launches access, except the caller's buffers.
    fn views(&self, program: &ResolvedPlan, scratch: &[Option<Arc<PlanMemory>>; 2]) -> Views {
        let mut views = Views::new(row_slice(program, 1));
        for (local_rank, rank) in self.locals.iter().enumerate() {
            for (kind, memory) in scratch.iter().enumerate() {
                if let Some(memory) = memory {
                    memory.set_view(&mut views, (rank * SLICES) as usize + SLOTS + kind, local_rank, 0..memory.len());
                }
            }
        }
        views
    }
}
