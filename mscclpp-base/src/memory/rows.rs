//! The two passes over a row that is normalized, in vector registers as wide as the processor has them.
//!
//! The argument for [`fused`](super::fused)'s lines holds for these.

use super::Span;
use crate::numeric::row_norm::{GROUP, Partials, RowElement, add_lines, scale_lines};
use crate::numeric::{LINE, Line};

/// Operands of the sums of a row.
#[derive(Clone, Copy)]
pub struct SumOperands<S> {
    pub from: S,
    /// What is added to each element.
    pub residual: Option<S>,
    pub to: [Option<S>; 2],
}

/// Operands of the products of a row.
#[derive(Clone, Copy)]
pub struct ProductOperands<S> {
    pub from: S,
    pub gamma: Option<S>,
    pub to: S,
}

/// Writes the sums of a row of `len` bytes, and adds their squares to partial sums.
pub fn add_rows<T: RowElement>(row: SumOperands<Span<'_>>, len: usize, partials: Option<&mut Partials>) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
    if let Some(lines) = row.lines(len) {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature; all operands have `len / LINE` lines, and destinations are lent for writing.
            return unsafe { wide::add_512::<T>(lines, len / LINE, partials) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { wide::add_256::<T>(lines, len / LINE, partials) };
        }
    }
    let (load, store) = by_spans(len);
    add::<T, _>(row, len.div_ceil(LINE), partials, load, store, |_, _| ());
}

/// Multiplies a row of `len` bytes by its inverse and by the sum of the bias and gamma.
pub fn scale_rows<T: RowElement>(row: ProductOperands<Span<'_>>, len: usize, bias: f32, inverse: f32) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
    if let Some(lines) = row.lines(len) {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: as in `add_rows`.
            return unsafe { wide::scale_512::<T>(lines, len / LINE, bias, inverse) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { wide::scale_256::<T>(lines, len / LINE, bias, inverse) };
        }
    }
    let (load, store) = by_spans(len);
    scale::<T, _>(row, len.div_ceil(LINE), bias, inverse, load, store);
}

/// Returns how lines of spans of `len` bytes are read and written, of which the last may be shorter.
fn by_spans<'m>(len: usize) -> (impl Fn(Span<'m>, usize) -> Line, impl Fn(Span<'m>, usize, Line)) {
    let bytes = move |i: usize| LINE.min(len - i * LINE);
    (move |span, i| span.load(i * LINE, bytes(i)), move |span, i, line| span.store(i * LINE, bytes(i), line))
}

/// Adds lines, a group at a time. All of a group are read before the first is written: a write delays a later read at nearly the
/// same offset in a page.
#[inline(always)]
fn add<T: RowElement, S: Copy>(
    row: SumOperands<S>,
    count: usize,
    mut partials: Option<&mut Partials>,
    load: impl Fn(S, usize) -> Line,
    store: impl Fn(S, usize, Line),
    will_access: impl Fn(S, usize),
) {
    // The number of lines of a whole group is a constant, so that they stay in registers.
    let whole = count - count % GROUP;
    for first in (0..whole).step_by(GROUP) {
        add_group::<T, S>(row, first, GROUP, partials.as_deref_mut(), &load, &store, &will_access);
    }
    if whole < count {
        add_group::<T, S>(row, whole, count - whole, partials, &load, &store, &will_access);
    }
}

/// Reads a group of lines.
#[inline(always)]
fn read<S: Copy>(from: S, first: usize, count: usize, load: &impl Fn(S, usize) -> Line) -> [Line; GROUP] {
    let mut lines = [Line::ZERO; GROUP];
    for (i, line) in lines[..count].iter_mut().enumerate() {
        *line = load(from, first + i);
    }
    lines
}

/// Adds a group of lines.
#[inline(always)]
fn add_group<T: RowElement, S: Copy>(
    row: SumOperands<S>,
    first: usize,
    count: usize,
    partials: Option<&mut Partials>,
    load: &impl Fn(S, usize) -> Line,
    store: &impl Fn(S, usize, Line),
    will_access: &impl Fn(S, usize),
) {
    let mut sums = read(row.from, first, count, load);
    if let Some(residual) = row.residual {
        (first..first + count).for_each(|i| will_access(residual, i));
        add_lines::<T>(&mut sums, &read(residual, first, count, load));
    }
    for to in row.to.into_iter().flatten() {
        for (i, &sum) in sums[..count].iter().enumerate() {
            store(to, first + i, sum);
        }
    }
    if let Some(partials) = partials {
        partials.add_squares::<T>(first / GROUP, &sums);
    }
}

/// Multiplies lines, a group at a time.
#[inline(always)]
fn scale<T: RowElement, S: Copy>(
    row: ProductOperands<S>,
    count: usize,
    bias: f32,
    inverse: f32,
    load: impl Fn(S, usize) -> Line,
    store: impl Fn(S, usize, Line),
) {
    let whole = count - count % GROUP;
    for first in (0..whole).step_by(GROUP) {
        scale_group::<T, S>(row, first, GROUP, bias, inverse, &load, &store);
    }
    if whole < count {
        scale_group::<T, S>(row, whole, count - whole, bias, inverse, &load, &store);
    }
}

/// Multiplies a group of lines.
#[inline(always)]
fn scale_group<T: RowElement, S: Copy>(
    row: ProductOperands<S>,
    first: usize,
    count: usize,
    bias: f32,
    inverse: f32,
    load: &impl Fn(S, usize) -> Line,
    store: &impl Fn(S, usize, Line),
) {
    let mut products = read(row.from, first, count, load);
    match row.gamma {
        None => scale_lines::<T>(&mut products, None, bias, inverse),
        Some(gamma) => scale_lines::<T>(&mut products, Some(&read(gamma, first, count, load)), bias, inverse),
    }
    for (i, &product) in products[..count].iter().enumerate() {
        store(row.to, first + i, product);
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
mod wide {
    use super::*;
    use crate::memory::Lines;
    use crate::memory::fused::x86;

    impl<'m> SumOperands<Span<'m>> {
        /// Returns the operands as lines, if they have `len` bytes in whole lines, and destinations may be written.
        pub(super) fn lines(self, len: usize) -> Option<SumOperands<Lines<'m>>> {
            let to = |span: Option<Span<'m>>| span.map_or(Some(None), |span| writable(span, len).map(Some));
            let residual = match self.residual {
                Some(residual) => Some(residual.lines(0, len)?),
                None => None,
            };
            Some(SumOperands { from: self.from.lines(0, len)?, residual, to: [to(self.to[0])?, to(self.to[1])?] })
        }
    }

    impl<'m> ProductOperands<Span<'m>> {
        /// As above.
        pub(super) fn lines(self, len: usize) -> Option<ProductOperands<Lines<'m>>> {
            let gamma = match self.gamma {
                Some(gamma) => Some(gamma.lines(0, len)?),
                None => None,
            };
            Some(ProductOperands { from: self.from.lines(0, len)?, gamma, to: writable(self.to, len)? })
        }
    }

    fn writable(span: Span<'_>, len: usize) -> Option<Lines<'_>> {
        span.lines(0, len).filter(|lines| !lines.is_shared())
    }

    /// Defines the loops for one width of registers.
    macro_rules! wide {
        ($feature:literal, $add:ident, $scale:ident, $load:path, $store:path) => {
            /// [`add`].
            ///
            /// # Safety
            /// The processor has the feature, all operands have `count` lines, and destinations are lent for writing.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $add<T: RowElement>(
                row: SumOperands<Lines<'_>>,
                count: usize,
                partials: Option<&mut Partials>,
            ) {
                let load = |lines: Lines<'_>, i: usize| {
                    // SAFETY: line `i` is below `count`.
                    unsafe { $load(lines.base().add(i * LINE)) }
                };
                let store = |lines: Lines<'_>, i: usize, line: Line| {
                    // SAFETY: line `i` is below `count`, and in a destination.
                    unsafe { $store(lines.base().add(i * LINE), line) }
                };
                // The residual of a later row follows that of this one.
                let will_access =
                    |lines: Lines<'_>, i: usize| x86::will_write(lines.base().wrapping_add((i + AHEAD) * LINE));
                add::<T, _>(row, count, partials, load, store, will_access);
            }

            /// [`scale`].
            ///
            /// # Safety
            /// As above.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $scale<T: RowElement>(
                row: ProductOperands<Lines<'_>>,
                count: usize,
                bias: f32,
                inverse: f32,
            ) {
                let load = |lines: Lines<'_>, i: usize| {
                    // SAFETY: line `i` is below `count`.
                    unsafe { $load(lines.base().add(i * LINE)) }
                };
                let store = |lines: Lines<'_>, i: usize, line: Line| {
                    // SAFETY: line `i` is below `count`, and in a destination.
                    unsafe { $store(lines.base().add(i * LINE), line) }
                };
                scale::<T, _>(row, count, bias, inverse, load, store);
            }
        };
    }

    wide!("avx512f", add_512, scale_512, x86::load_512, x86::store_512);
    wide!("avx2", add_256, scale_256, x86::load_256, x86::store_256);

    /// Prefetch distance in lines.
    const AHEAD: usize = 16;
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::memory::{Loan, Table};
    use crate::numeric::Via;
    use crate::numeric::row_norm::{PARTIALS, VECTOR, inverse};

    /// Normalizes a row as the contract says it, element by element.
    fn expected<T: Via<f32>>(row: &[T], residual: &[T], gamma: &[T]) -> (Vec<T>, Vec<T>) {
        let wide = |value: T| {
            let mut wide = [0.0];
            T::widen(&[value], &mut wide);
            wide[0]
        };
        let narrow = |value: f32| {
            let mut narrow = [T::zeroed()];
            T::narrow(&[value], &mut narrow);
            narrow[0]
        };
        let sums: Vec<T> = row.iter().zip(residual).map(|(&a, &b)| narrow(wide(a) + wide(b))).collect();
        let mut partials = [0.0_f32; PARTIALS];
        for (vector, values) in sums.chunks(VECTOR / size_of::<T>()).enumerate() {
            values.iter().for_each(|&value| partials[vector % PARTIALS] += wide(value) * wide(value));
        }
        let mut half = PARTIALS / 2;
        while half > 0 {
            (0..half).for_each(|i| partials[i] += partials[i + half]);
            half /= 2;
        }
        let inverse = inverse(partials[0], row.len() as u64, 1e-6);
        let rows = sums.iter().zip(gamma).map(|(&sum, &gamma)| narrow((wide(sum) * inverse) * (0.5 + wide(gamma))));
        (rows.collect(), sums)
    }

    /// Compares rows of `vectors` vectors, which begin `skip` bytes after a line, with the contract.
    fn check<T: RowElement + std::fmt::Debug>(vectors: usize, skip: usize) {
        let (len, size) = (vectors * VECTOR, size_of::<T>());
        let values = |seed: usize| -> Vec<T> {
            let wide: Vec<f32> = (0..len / size).map(|i| ((i * 29 + seed) % 61) as f32 * 0.37 - 9.1).collect();
            let mut narrow = vec![T::zeroed(); len / size];
            T::narrow(&wide, &mut narrow);
            narrow
        };
        let operands = [values(1), values(2), values(3)];
        let (rows, sums) = expected(&operands[0], &operands[1], &operands[2]);
        // Row, residual, which is replaced by the sums, and gamma, each in its own slice of lines.
        let mut memory: Vec<Vec<Line>> = vec![vec![Line::ZERO; len.div_ceil(LINE) + 2]; 3];
        for (memory, operand) in memory.iter_mut().zip(&operands) {
            bytemuck::cast_slice_mut::<Line, u8>(memory)[skip..skip + len]
                .copy_from_slice(bytemuck::cast_slice(operand));
        }
        let table = Table::default();
        table.lend(
            |lender| {
                memory.iter_mut().for_each(|memory| lender.push(Loan::Write(bytemuck::cast_slice_mut(memory))));
            },
            || {
                let held = table.hold();
                let memory = held.memory();
                let [row, residual, gamma] = [0, 1, 2].map(|i| memory.slice(i).range(skip as u64, len as u64));
                let mut partials = Partials::ZERO;
                let operands = SumOperands { from: row, residual: Some(residual), to: [Some(residual), Some(row)] };
                add_rows::<T>(operands, len, Some(&mut partials));
                let inverse = inverse(partials.sum(), (len / size) as u64, 1e-6);
                let operands = ProductOperands { from: residual, gamma: Some(gamma), to: row };
                scale_rows::<T>(operands, len, 0.5, inverse);
            },
        );
        let found = |i: usize| &bytemuck::cast_slice::<Line, u8>(&memory[i])[skip..skip + len];
        assert_eq!(
            found(0),
            bytemuck::cast_slice::<T, u8>(&rows),
            "rows of {vectors} vectors, {skip} bytes after a line"
        );
        assert_eq!(
            found(1),
            bytemuck::cast_slice::<T, u8>(&sums),
            "sums of {vectors} vectors, {skip} bytes after a line"
        );
        for (i, memory) in memory.iter().enumerate() {
            let bytes = bytemuck::cast_slice::<Line, u8>(memory);
            let around = bytes[..skip].iter().chain(&bytes[skip + len..]);
            assert!(around.into_iter().all(|&byte| byte == 0), "operand {i} is written outside");
        }
    }

    #[test]
    fn rows_of_any_length_and_alignment_have_the_bits_of_the_contract() {
        for vectors in [1, 3, 4, 7, 16, 17, 20, 255, 256, 260, 1025] {
            // Lines, words of no line, and neither.
            for skip in [0, 8, 4] {
                check::<f32>(vectors, skip);
                check::<bf16>(vectors, skip);
                check::<f16>(vectors, skip);
            }
        }
    }
}
