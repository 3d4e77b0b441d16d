//! What a rank does on its device with rows of tokens before and after they travel to experts (`kernels/experts/experts.cu`), and the memory
//! for it. The rows travel in launches of a plan with counts, which are in this memory, too.
//!
//! # Why this is sound
//! A kernel accesses the memory here, whose lengths follow from the shape, and memory that is lent to the call, whose lengths are checked
//! before. Choices are read from memory of the caller's, which may change meanwhile: no kernel stores where a choice leads without a
//! comparison, except in `mscclpp_pack_rows`, whose rows are those that the kernels before it have counted. Its memory has a row for each
//! choice of as many tokens as there may be, and no contents of an index table give it another place than one of these, unless the table
//! changes between two kernels of a call, which the contract of [`DeviceRef`] excludes.

mod kernels;
mod lengths;
mod params;
mod travel;

use mscclpp_base::dtype::DataType;
use mscclpp_base::error::{Error, Refusal};
use mscclpp_base::experts::{ExpertShape, RowElement, RowLayout, SCALE_GROUP};
use mscclpp_cuda::device::Device;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::lend::{DeviceMut, DeviceRef, Lent};
use mscclpp_cuda::vector::DeviceVec;

use self::kernels::Kernels;
use self::params::{CombineRows, CountChoices, MoveRows, PackRows, PlaceRows, PlanSends};
pub use self::travel::{Payload, PayloadForm, RowsAtExperts, Travel};
use self::travel::{TAIL, Wire};

/// Threads of a block.
const THREADS: u32 = 256;

/// The kernels and the memory of a rank's calls of one shape.
pub struct ExpertRows {
    device: Device,
    shape: ExpertShape,
    ranks: u32,
    rank: u32,
    dtype: DataType,
    kernels: Kernels,
    /// Numbers by choice, then by received row.
    positions: DeviceVec<u32>,
    totals: DeviceVec<i64>,
    begins: DeviceVec<i64>,
    sent_rows: DeviceVec<i64>,
    places: DeviceVec<i64>,
    /// Rows for each rank, from each rank, and those that have returned.
    sent: DeviceVec<i64>,
    received: DeviceVec<i64>,
    returned: DeviceVec<i64>,
    /// Rows that are sent, and that are received.
    outgoing: DeviceVec<u8>,
    incoming: DeviceVec<u8>,
    /// The last dispatch: tokens, room for rows at the experts.
    tokens: usize,
    room: u64,
}

impl ExpertRows {
    /// Allocates memory, and loads the kernels, which are compiled for the first use on a machine.
    ///
    /// # Errors
    /// [`Error::Length`] for a shape without elements, or with too many; [`Error::ElementType`] for rows that cannot be combined;
    /// [`Error::Jit`] if there is no compiler; [`Error::Driver`].
    pub fn new<T: RowElement>(device: &Device, rank: u32, ranks: u32, shape: ExpertShape) -> Result<Self, Error> {
        let ExpertShape { hidden, num_experts, top_k, max_tokens } = shape;
        let length = |what, expected: String, found| Error::Length { call: "experts", rank, what, expected, found };
        let limits = [
            ("a row", hidden, u64::from(u32::MAX)),
            ("the list of choices of a token", top_k, Refusal::MAX_TOP_K),
            ("the set of tokens", max_tokens, Refusal::MAX_TOKENS),
            ("the set of experts", num_experts, Refusal::MAX_EXPERTS),
        ];
        for (what, found, most) in limits {
            if found == 0 || found as u64 > most {
                return Err(length(what, format!("1 to {most}"), found));
            }
        }
        if !num_experts.is_multiple_of(ranks as usize) {
            return Err(length("the set of experts", format!("as many on each of {ranks} ranks"), num_experts));
        }
        let most = shape.rows_of_pair(ranks).checked_mul(ranks as usize);
        let stride = Wire { row: hidden as u64 * size_of::<T>() as u64, scales: 0 }.stride();
        let bytes = most.and_then(|rows| rows.checked_mul(usize::try_from(stride).ok()?));
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize);
        let too_many = || length("the set of tokens", "rows that fit into the memory of a device".into(), max_tokens);
        let (rows, bytes) = most.zip(bytes).ok_or_else(too_many)?;
        let choices = max_tokens * top_k;
        let device = device.clone();
        Ok(Self {
            kernels: Kernels::load(&device, T::TYPE)?,
            positions: DeviceVec::new(&device, rows.max(choices))?,
            totals: DeviceVec::new(&device, num_experts)?,
            begins: DeviceVec::new(&device, num_experts)?,
            sent_rows: DeviceVec::new(&device, choices)?,
            places: DeviceVec::new(&device, rows)?,
            sent: DeviceVec::new(&device, ranks as usize)?,
            // Nothing was dispatched.
            received: DeviceVec::from_slice(&device, &vec![Refusal::Returned.count(); ranks as usize])?,
            returned: DeviceVec::new(&device, ranks as usize)?,
            outgoing: DeviceVec::new(&device, bytes)?,
            incoming: DeviceVec::new(&device, bytes)?,
            tokens: 0,
            room: 0,
            dtype: T::TYPE,
            device,
            shape,
            ranks,
            rank,
        })
    }

    /// Returns the shape.
    pub fn shape(&self) -> ExpertShape {
        self.shape
    }

    /// Returns the bytes of rows for which a launch has room, from one rank to another.
    pub fn pair_bytes(&self) -> u64 {
        self.incoming.len() as u64 / u64::from(self.ranks)
    }

    /// Returns the maximum number of rows that arrive.
    pub fn most_rows(&self) -> u64 {
        self.places.len() as u64
    }

    fn experts_per_rank(&self) -> usize {
        self.shape.num_experts / self.ranks as usize
    }

    /// Returns the bytes of what travels of a token.
    fn wire(&self, form: PayloadForm) -> Result<Wire, Error> {
        let hidden = self.shape.hidden;
        let row = (hidden * self.dtype.size()) as u64;
        let wire = match form {
            PayloadForm::Plain => return Ok(Wire { row, scales: 0 }),
            PayloadForm::Scaled => Wire { row: hidden as u64, scales: 4 * (hidden / SCALE_GROUP) as u64 },
        };
        match hidden.is_multiple_of(SCALE_GROUP) {
            true => Ok(wire),
            false => Err(self.length("dispatch", "a row", format!("groups of {SCALE_GROUP} elements"), hidden)),
        }
    }

    fn length(&self, call: &'static str, what: &'static str, expected: String, found: usize) -> Error {
        Error::Length { call, rank: self.rank, what, expected, found }
    }

    /// Returns a number of blocks for work on rows: as many as the device runs at once.
    fn blocks(&self, rows: usize) -> u32 {
        let most = (self.device.properties().multiprocessors * 8).max(1);
        u32::try_from(rows).unwrap_or(most).clamp(1, most)
    }

    /// Enqueues the packing of the rows of tokens. More tokens than were declared are refused by the launch.
    ///
    /// # Errors
    /// Those of [`check_tokens`](Self::check_tokens); [`Error::Driver`].
    pub fn pack(&mut self, stream: &Stream, payload: Payload<'_>, choices: &Lent<'_>) -> Result<(), Error> {
        let tokens = self.check_tokens(&payload, choices)?;
        let ExpertShape { num_experts, top_k, max_tokens, .. } = self.shape;
        let wire = self.wire(payload.form())?;
        let (rows, scales) = match payload {
            Payload::Rows(rows) | Payload::Quantized(rows) => (rows, None),
            Payload::Scaled(rows, scales) => (rows, Some(scales)),
        };
        let refusal = Refusal::Tokens { found: tokens as u64, most: max_tokens as u64 };
        let refused = (tokens > max_tokens).then(|| refusal.count());
        let count = if refused.is_some() { 0 } else { tokens * top_k };

        let (positions, totals, begins) =
            (self.positions.lend(stream)?, self.totals.lend(stream)?, self.begins.lend(stream)?);
        let (sent, received) = (self.sent.lend(stream)?, self.received.lend(stream)?);
        let (sent_rows, packed) = (self.sent_rows.lend(stream)?, self.outgoing.lend(stream)?);
        let experts = num_experts as u32;
        let counted = CountChoices {
            choices: address(choices),
            stride: 8,
            received: 0,
            count: count as u64,
            positions: address(&positions),
            totals: address(&totals),
            experts,
            top_k: top_k as u32,
        };
        let planned = PlanSends {
            totals: address(&totals),
            begins: address(&begins),
            sent: address(&sent),
            received: address(&received),
            refused: refused.unwrap_or(0),
            ranks: self.ranks,
            experts,
            top_k: top_k as u32,
            reserved: 0,
        };
        let moved = PackRows {
            rows: address(rows),
            scales: scales.map_or(0, address),
            choices: address(choices),
            positions: address(&positions),
            begins: address(&begins),
            sent: address(&sent),
            sent_rows: address(&sent_rows),
            packed: address(&packed),
            count: count as u64,
            row: rows.len::<u8>().checked_div(tokens).unwrap_or(0) as u64,
            stride: wire.stride(),
            scales_bytes: wire.scales,
            scales_at: wire.scales_at(),
            top_k: top_k as u32,
            experts_per_rank: self.experts_per_rank() as u32,
        };
        let kernels = &self.kernels;
        let pack = if matches!(payload, Payload::Quantized(_)) { &kernels.typed.quantize } else { &kernels.pack };
        // SAFETY: see the module. The memory is lent until these are enqueued.
        unsafe {
            kernels.count.launch(stream, experts, THREADS, &counted)?;
            kernels.plan.launch(stream, 1, THREADS, &planned)?;
            if count > 0 {
                pack.launch(stream, self.blocks(count), THREADS, &moved)?;
            }
        }
        drop((positions, totals, begins, sent, received, sent_rows, packed));
        self.tokens = tokens;
        Ok(())
    }

    /// Returns the memory of the launch that brings rows to the experts, which have room for `room` rows.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn outward(&mut self, stream: &Stream, form: PayloadForm, room: u64) -> Result<Travel<'_>, Error> {
        let stride = self.wire(form)?.stride();
        let bytes = usize::try_from(room.saturating_mul(stride)).unwrap_or(usize::MAX);
        let output = self.incoming.lend_mut(stream)?.narrow::<u8>(&(0..bytes));
        let (input, sent, received) =
            (self.outgoing.lend(stream)?, self.sent.lend(stream)?, self.received.lend_mut(stream)?);
        Ok(Travel { input, output, sent, received, stride })
    }

    /// Enqueues the moves of received rows to their places, and stores their numbers. The arguments are those of [`room`](Self::room).
    ///
    /// # Errors
    /// Those of `room`; [`Error::Driver`].
    pub fn unpack(&mut self, stream: &Stream, form: PayloadForm, results: &RowsAtExperts<'_>) -> Result<(), Error> {
        let [room, _] = self.room(form, results)?;
        let RowsAtExperts { layout, rows, scales, counts } = results;
        let (wire, layout) = (self.wire(form)?, *layout);
        let (ranks, experts) = (self.ranks, self.experts_per_rank() as u32);
        let (slot, alignment) = match layout {
            RowLayout::ByExpert { alignment } => (0, alignment as u64),
            RowLayout::ByRank => (0, 1),
            _ => (self.shape.slots(ranks) as u64 / u64::from(experts), 1),
        };
        let (positions, totals, begins) =
            (self.positions.lend(stream)?, self.totals.lend(stream)?, self.begins.lend(stream)?);
        let (received, packed) = (self.received.lend(stream)?, self.incoming.lend(stream)?);
        let places = self.places.lend(stream)?;
        let counted = CountChoices {
            choices: address(&packed) + wire.stride() - TAIL,
            stride: wire.stride(),
            received: address(&received),
            count: 0,
            positions: address(&positions),
            totals: address(&totals),
            experts,
            top_k: 0,
        };
        let placed = PlaceRows {
            totals: address(&totals),
            begins: address(&begins),
            received: address(&received),
            counts: address(counts),
            slot,
            alignment,
            ranks,
            experts,
            by_rank: u32::from(layout == RowLayout::ByRank),
            reserved: 0,
        };
        let moved = MoveRows {
            packed: address(&packed),
            received: address(&received),
            positions: address(&positions),
            begins: address(&begins),
            totals: address(&totals),
            places: address(&places),
            rows: address(rows),
            scales: scales.as_ref().map_or(0, address),
            room,
            row: wire.row,
            stride: wire.stride(),
            scales_bytes: wire.scales,
            scales_at: wire.scales_at(),
            alignment,
            returned: 0,
            ranks,
            experts,
        };
        let (kernels, blocks) = (&self.kernels, self.blocks(self.places.len()));
        // SAFETY: see the module. The memory is lent until these are enqueued.
        unsafe {
            kernels.count.launch(stream, ranks * experts, THREADS, &counted)?;
            kernels.place.launch(stream, 1, THREADS, &placed)?;
            kernels.unpack.launch(stream, blocks, THREADS, &moved)?;
        }
        drop((positions, totals, begins, received, packed, places));
        self.room = room;
        Ok(())
    }

    /// Enqueues the packing of rows of the experts of this rank, which are where the last dispatch has put them.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many rows as its result had; [`Error::Driver`].
    pub fn give_back(&mut self, stream: &Stream, rows: &Lent<'_>) -> Result<(), Error> {
        self.check_results(rows)?;
        let row = (self.shape.hidden * self.dtype.size()) as u64;
        let (received, packed) = (self.received.lend(stream)?, self.outgoing.lend(stream)?);
        let (places, returned) = (self.places.lend(stream)?, self.returned.lend(stream)?);
        let moved = MoveRows {
            packed: address(&packed),
            received: address(&received),
            positions: 0,
            begins: 0,
            totals: 0,
            places: address(&places),
            rows: address(rows),
            scales: 0,
            room: self.room,
            row,
            stride: Wire { row, scales: 0 }.stride(),
            scales_bytes: 0,
            scales_at: 0,
            alignment: 1,
            returned: address(&returned),
            ranks: self.ranks,
            experts: 0,
        };
        // SAFETY: see the module. The memory is lent until this is enqueued.
        unsafe { self.kernels.give_back.launch(stream, self.blocks(self.places.len()), THREADS, &moved) }
    }

    /// Returns the memory of the launch that brings rows back to their tokens.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn homeward(&mut self, stream: &Stream) -> Result<Travel<'_>, Error> {
        let stride = Wire { row: (self.shape.hidden * self.dtype.size()) as u64, scales: 0 }.stride();
        let output = self.incoming.lend_mut(stream)?;
        let (input, sent, received) =
            (self.outgoing.lend(stream)?, self.received.lend(stream)?, self.returned.lend_mut(stream)?);
        Ok(Travel { input, output, sent, received, stride })
    }

    /// Enqueues the sums of the rows of each token, times their weights.
    ///
    /// # Errors
    /// [`Error::Length`] unless the lists have the lengths of the dispatch; [`Error::Driver`].
    pub fn combine(&self, stream: &Stream, weights: &Lent<'_>, output: &Lent<'_>) -> Result<(), Error> {
        self.check_combine(weights, output)?;
        let row = (self.shape.hidden * self.dtype.size()) as u64;
        let (packed, returned) = (self.incoming.lend(stream)?, self.returned.lend(stream)?);
        let sent_rows = self.sent_rows.lend(stream)?;
        let combined = CombineRows {
            packed: address(&packed),
            returned: address(&returned),
            sent_rows: address(&sent_rows),
            weights: address(weights),
            output: address(output),
            tokens: self.tokens as u64,
            row,
            stride: Wire { row, scales: 0 }.stride(),
            top_k: self.shape.top_k as u32,
            reserved: 0,
        };
        if self.tokens == 0 {
            return Ok(());
        }
        // SAFETY: see the module. The memory is lent until this is enqueued.
        unsafe { self.kernels.typed.combine.launch(stream, self.blocks(self.tokens), THREADS, &combined) }
    }
}

fn address(lent: &Lent<'_>) -> u64 {
    lent.as_slice().address
}
