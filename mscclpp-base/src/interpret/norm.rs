//! Norms of rows: the operation, and the norm of one row.

use half::{bf16, f16};

use super::data::{BLOCK, load, store};
use super::launch::{Launch, Progress, Window, Worker};
use super::params::SLICES;
use super::program::{Instr, ResolvedPlan, Space};
use super::rows::RowCall;
use super::state::AgentState;
use crate::dtype::DataType;
use crate::memory::{ProductOperands, Span, SumOperands, add_rows, scale_rows};
use crate::numeric::row_norm::{Partials, RowElement, inverse, largest, quantize, row_scale};
use crate::numeric::{Line, Tile, zeroed};

/// Number of slices that a rank lends for its row norms: residual, gamma, its output, quantized rows, scales.
pub const ROW_SLICES: usize = 5;
const RESIDUAL: usize = 0;
const GAMMA: usize = 1;
const RESIDUAL_OUT: usize = 2;
const QUANTIZED: usize = 3;
const SCALES: usize = 4;

/// Returns the number of the first slice of a rank's operands, counted from the first rank that passes some.
pub fn row_slice(program: &ResolvedPlan, rank: u32) -> usize {
    // After the private slices of a process.
    ((program.shape.ranks + 1) * SLICES) as usize + ROW_SLICES * rank as usize
}

impl<'a> Launch<'a> {
    /// Adds the residual to the rows of one chunk, and normalizes them into another one.
    pub(super) fn norm_rows(&self, worker: &mut Worker, instr: &Instr, rank: u32, state: &mut AgentState) -> Progress {
        let (Some(src), Some(dst)) = (self.program.srcs(instr).first(), self.program.dsts(instr).first()) else {
            return Progress::Next;
        };
        let (Some(rows), Some(functions)) = (self.rows, self.params.rows) else { return Progress::Next };
        let Some(call) = rank.checked_sub(rows.first).and_then(|at| rows.calls.get(at as usize)) else {
            return Progress::Next;
        };
        let first = row_slice(self.program, rank - rows.first);
        let row = self.params.message.row_bytes();
        // The rows of a rank's own part are those of its input, and later ones of its output.
        let before = match dst.space {
            Space::Output | Space::OwnOutput => {
                self.params.layout.normalized_rows(self.program.shape.collective.kind, rank).1
            }
            _ => 0,
        };
        let Window { start, len } = self.window(instr, src.size, state);
        while state.at.done < len {
            let at = start + state.at.done;
            let run = row.min(len - state.at.done);
            let (to, _) = self.span(dst, at, run);
            let place = self.params.area(dst.rank, dst.space).view;
            let position = place.piece(u64::from(dst.index) * self.params.layout.stride + at, run).at;
            if (to.len() as u64) < row {
                // Padding, to the end.
                state.at.done = len;
                break;
            }
            let operands = [0, 1, 2, 3, 4].map(|operand| self.memory.slice(first + operand));
            let norm = Norm { functions, call, operands, number: position.wrapping_sub(before) / row, row };
            norm.run(worker, self.span(src, at, row).0, to, self.params.message.row);
            state.at.done += run;
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }
}

/// The norm of one row.
struct Norm<'l, 'a> {
    functions: RowFunctions,
    call: &'l RowCall,
    operands: [Span<'a>; ROW_SLICES],
    /// Number of the row in the operands, and its bytes.
    number: u64,
    row: u64,
}

impl<'a> Norm<'_, 'a> {
    /// Returns a row of an operand whose elements have the message's type; `None` if the caller passes none.
    fn row_of(&self, operand: usize) -> Option<Span<'a>> {
        let all = self.operands[operand];
        (all.len() > 0).then(|| all.range(self.number * self.row, self.row))
    }

    fn run(&self, worker: &mut Worker, from: Span<'_>, to: Span<'_>, hidden: u64) {
        let Self { functions, call, row, .. } = *self;
        let residual = self.row_of(if call.in_place { RESIDUAL_OUT } else { RESIDUAL });
        let residual_out = self.row_of(RESIDUAL_OUT);
        let len = row as usize;
        match call.eps {
            None => (functions.add)(SumOperands { from, residual, to: [Some(to), residual_out] }, len, None),
            Some(eps) => {
                // Where the sums are until the row is normalized: they are stored once.
                let sums = residual_out.unwrap_or(to);
                let mut partials = Partials::ZERO;
                (functions.add)(SumOperands { from, residual, to: [Some(sums), None] }, len, Some(&mut partials));
                let gamma = self.operands[GAMMA];
                let gamma = (gamma.len() > 0).then_some(gamma);
                let inverse = inverse(partials.sum(), hidden, eps);
                (functions.scale)(ProductOperands { from: sums, gamma, to }, len, call.bias, inverse);
            }
        }
        let quantized = self.operands[QUANTIZED];
        if quantized.len() > 0 {
            self.quantize(worker, to, quantized.range(self.number * hidden, hidden), row / hidden);
        }
    }

    /// Quantizes the row, whose elements have some bytes.
    fn quantize(&self, worker: &mut Worker, from: Span<'_>, to: Span<'_>, size: u64) {
        let Self { functions, call, row, .. } = *self;
        let tile = &mut worker.block;
        let tiles = || (0..row).step_by(BLOCK as usize).map(|at| (at, BLOCK.min(row - at)));
        let mut factor = call.factor;
        if self.operands[SCALES].len() > 0 {
            let mut largest = 0.0;
            for (at, n) in tiles() {
                load(tile, from, at, n);
                largest = (functions.largest)(tile, (n / size) as usize, largest);
            }
            let scale = row_scale(largest);
            self.operands[SCALES].range(4 * self.number, 4).write(&scale.to_le_bytes());
            factor = 1.0 / scale;
        }
        let mut narrow: Tile = zeroed();
        for (at, n) in tiles() {
            load(tile, from, at, n);
            (functions.quantize)(tile, (n / size) as usize, factor, &mut narrow);
            store(&narrow, to, at / size, n / size);
        }
    }
}

/// The steps of a row norm, for a type.
#[derive(Clone, Copy)]
pub struct RowFunctions {
    add: fn(SumOperands<Span<'_>>, usize, Option<&mut Partials>),
    scale: fn(ProductOperands<Span<'_>>, usize, f32, f32),
    largest: fn(&[Line], usize, f32) -> f32,
    quantize: fn(&[Line], usize, f32, &mut [Line]),
}

impl RowFunctions {
    /// Returns the functions for a type; `None` for types of which no rows are normalized.
    pub fn new(dtype: DataType) -> Option<Self> {
        match dtype {
            DataType::F32 => Some(Self::of::<f32>()),
            DataType::F16 => Some(Self::of::<f16>()),
            DataType::BF16 => Some(Self::of::<bf16>()),
            _ => None,
        }
    }

    fn of<T: RowElement>() -> Self {
        Self { add: add_rows::<T>, scale: scale_rows::<T>, largest: largest::<T>, quantize: quantize::<T> }
    }
}
