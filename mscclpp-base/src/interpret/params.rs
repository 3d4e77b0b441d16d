//! What a launch needs in addition to the plan: sizes, and the functions for its type and reduction.

use mscclpp_core::check::may_wrap_scratch;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::norm::RowFunctions;
use super::program::{Reductions, ResolvedPlan, SPACES, Space};
use super::reduce::{Divider, Reducer, divider};
use crate::error::{Error, RowsError};
use crate::layout::{Layout, Shape, View};
use crate::message::{Message, PacketType};

/// A message bound to a plan. It holds no memory, so it serves any number of launches.
pub struct Params {
    pub message: Message,
    pub layout: Layout,
    /// By rank and [`Space`].
    pub places: Vec<[Area; SPACES]>,
    /// By [`ReduceOp`].
    pub reducers: [Reducer; 5],
    /// Minimum number of bytes that are combined together: whole elements and whole packets.
    pub grain: u64,
    /// The reduction; `None` if there is none.
    pub reduction: Option<ReduceOp>,
    /// The division that ends an average.
    pub divide: Option<Divider>,
    /// The arithmetic of row norms, in a plan that has them.
    pub rows: Option<RowFunctions>,
    /// Bytes of scratch per rank, plain and as packets.
    pub scratch: [u64; 2],
}

/// Location of a [`Space`] of a rank.
#[derive(Clone, Copy)]
pub struct Area {
    /// Number of the lent slice.
    pub slice: u32,
    /// First byte in it.
    pub base: u64,
    /// Bytes that are added in every other launch.
    pub half: u64,
    pub view: View,
    /// Bytes per chunk after which offsets wrap; 0 if they do not.
    pub wrap: u64,
}

/// Number of slices that a rank lends: input or the only buffer of an in-place plan, output, plain scratch, packets.
/// The two private slices of a process follow those of all ranks.
pub const SLICES: u32 = 4;

impl Params {
    /// Binds a message to a plan.
    ///
    /// # Errors
    /// The errors of [`Layout::new`], [`Error::MessageSize`], [`Error::FixedReduction`],
    /// [`Error::UnsupportedAccumulator`], [`Error::ScratchLimit`].
    pub fn new(program: &ResolvedPlan, message: Message, scratch_limit: u64, pool: u64) -> Result<Self, Error> {
        let rows = program.shape.collective.rows;
        if rows != (message.row > 0) {
            return Err(RowsError::Mode { plan: program.plan.name().to_owned(), rows }.into());
        }
        let layout = Layout::new(&program.shape, &message)?;
        check_size(program, &message)?;
        check_loops(program, &layout)?;
        let op = reduction(program, &message)?;
        let reducer = |op| Reducer::new(message.dtype, op, message.accumulate);
        let no_reducer = || Error::UnsupportedAccumulator { dtype: message.dtype, accumulate: message.accumulate };
        let mut reducers = [reducer(ReduceOp::Sum).ok_or_else(no_reducer)?; 5];
        for (slot, own) in reducers.iter_mut().zip(ReduceOp::ALL) {
            // A plan of sums performs the reduction that the message requests.
            *slot = reducer(if program.reductions == Reductions::Generic { op } else { own }).ok_or_else(no_reducer)?;
        }
        let reduces = program.reductions != Reductions::None;
        let scratch = Scratch::new(program, &layout, scratch_limit, pool)?;
        let packet = if message.packet == PacketType::LL8 { 4 } else { 8 };
        Ok(Self {
            message,
            layout,
            places: places(program, &layout, &scratch),
            reducers,
            grain: (message.dtype.size() as u64).max(packet),
            reduction: reduces.then_some(op),
            rows: RowFunctions::new(message.dtype).filter(|_| rows),
            divide: (reduces && op == ReduceOp::Avg).then(|| divider(message.dtype)),
            scratch: [scratch.plain, scratch.packets],
        })
    }

    pub fn area(&self, rank: u32, space: Space) -> &Area {
        &self.places[rank as usize][space as usize]
    }

    /// Returns the bytes of the two buffers that a rank passes; of the only buffer and 0 if the plan is in place.
    pub fn buffers(&self, program: &ResolvedPlan) -> [u64; 2] {
        let (input, output) = (self.layout.input.len, self.layout.output.len);
        if program.shape.collective.in_place { [input.max(output), 0] } else { [input, output] }
    }

    /// Returns the location of a rank's result, which an average divides; `None` if it has none.
    pub fn result(&self, program: &ResolvedPlan, rank: u32) -> Option<&Area> {
        let collective = program.shape.collective;
        let has_result = collective.kind != CollectiveKind::Reduce || collective.root == rank;
        has_result.then(|| self.area(rank, Space::Output))
    }
}

fn check_size(program: &ResolvedPlan, message: &Message) -> Result<(), Error> {
    let plan = &program.plan;
    // Longer messages have no layout.
    let bytes = message.bytes().unwrap_or(u64::MAX);
    let (least, most) = (plan.min_message_size(), plan.max_message_size());
    if message.any_size || (least..=most).contains(&bytes) {
        return Ok(());
    }
    Err(Error::MessageSize { plan: plan.name().to_owned(), bytes, min: least, max: most })
}

/// Maximum number of iterations of a loop. Each takes a few nanoseconds at least, so more would look like a hang; 64
/// GiB in windows of 1 KiB need a quarter of it.
const MAX_TRIP_COUNT: u64 = 1 << 28;

fn check_loops(program: &ResolvedPlan, layout: &Layout) -> Result<(), Error> {
    for &at in &program.loops {
        let instr = &program.instrs[at as usize];
        let trips = layout.trips(instr.count, layout.window(instr.unit));
        if trips > MAX_TRIP_COUNT {
            let what = format!("{trips} iterations for this message, expected at most {MAX_TRIP_COUNT}");
            return Err(Error::InvalidPlan { path: program.path(at), what });
        }
    }
    Ok(())
}

/// Returns the reduction of a launch.
fn reduction(program: &ResolvedPlan, message: &Message) -> Result<ReduceOp, Error> {
    let fixed = |fixed: &str, asked| {
        Err(Error::FixedReduction { plan: program.plan.name().to_owned(), fixed: fixed.to_owned(), requested: asked })
    };
    let Shape { collective, ranks, .. } = program.shape;
    match (program.reductions, message.op) {
        // The division at the end would divide copies in the outputs as well.
        (Reductions::Generic, Some(asked @ ReduceOp::Avg))
            if ranks > 1 && (!collective.kind.is_reduction() || collective.rows) =>
        {
            fixed(ReduceOp::Sum.name(), asked)
        }
        (Reductions::Generic, asked) => Ok(asked.unwrap_or_default()),
        (Reductions::Fixed(own), Some(asked)) if asked != own => fixed(own.name(), asked),
        (Reductions::Fixed(own), _) => Ok(own),
        (Reductions::Mixed, Some(asked)) => fixed("several operations", asked),
        // A sum, because there is nothing to divide at the end.
        (Reductions::Mixed | Reductions::None, _) => Ok(ReduceOp::Sum),
    }
}

/// Sizes of scratch.
struct Scratch {
    /// Bytes per rank, both halves.
    plain: u64,
    packets: u64,
    /// Bytes of a half.
    half: u64,
    wrap: u64,
}

impl Scratch {
    fn new(program: &ResolvedPlan, layout: &Layout, limit: u64, pool: u64) -> Result<Self, Error> {
        let memory = |bytes| Error::ScratchLimit { plan: program.plan.name().to_owned(), bytes, limit };
        let chunks = program.shape.scratch;
        let half = layout.scratch(chunks).ok_or_else(|| memory(u64::MAX))?;
        let (mut plain_half, mut wrap) = (half, 0);
        if let (true, true, Some(window)) = (program.reuse_resources, half > pool, program.windowed_scratch) {
            // As much of a chunk as the pool has room for, in whole windows so that none is cut.
            let window = window.max(1).checked_next_multiple_of(layout.unit).unwrap_or(u64::MAX);
            let room = pool / u64::from(chunks.max(1)) / window * window;
            // Proved here, because plans are only known to be correct with scratch of its full length.
            if room > 0 && may_wrap_scratch(&program.plan.tree(), room / window) {
                (plain_half, wrap) = (room * u64::from(chunks), room);
            }
        }
        let halves = 1 + u64::from(program.double_scratch);
        let plain = if program.plain_scratch { plain_half * halves } else { 0 };
        let packets = if program.shape.packets { 2 * half * halves } else { 0 };
        let all = plain.checked_add(packets).and_then(|each| each.checked_mul(u64::from(program.shape.ranks)));
        match all {
            Some(all) if all <= limit => Ok(Self { plain, packets, half: plain_half, wrap }),
            all => Err(memory(all.unwrap_or(u64::MAX))),
        }
    }
}

fn places(program: &ResolvedPlan, layout: &Layout, scratch: &Scratch) -> Vec<[Area; SPACES]> {
    let collective = program.shape.collective;
    let double = |bytes: u64| if program.double_scratch { bytes } else { 0 };
    let area = |rank: u32, slot: u32, base: u64, view: View| Area {
        slice: rank * SLICES + slot,
        base,
        half: 0,
        view,
        wrap: 0,
    };
    let payload = scratch.packets / 2 / (1 + u64::from(program.double_scratch));
    (0..program.shape.ranks)
        .map(|rank| {
            let own = |part: u64| u64::from(rank) * part;
            let (input, output) = match (collective.in_place, collective.kind) {
                (false, _) => ((0, 0), (1, 0)),
                (true, CollectiveKind::AllGather) => ((0, own(layout.input.len)), (0, 0)),
                (true, CollectiveKind::ReduceScatter) => ((0, 0), (0, own(layout.output.len))),
                (true, _) => ((0, 0), (0, 0)),
            };
            let ranks = program.shape.ranks;
            [
                area(rank, input.0, input.1, layout.input),
                area(rank, output.0, output.1, layout.output),
                Area { half: double(scratch.half), wrap: scratch.wrap, ..area(rank, 2, 0, View::dense(scratch.half)) },
                Area { half: double(2 * payload), ..area(rank, 3, 0, View::dense(payload)) },
                area(ranks, input.0, input.1, layout.input),
                area(ranks, output.0, output.1, layout.output),
            ]
        })
        .collect()
}
