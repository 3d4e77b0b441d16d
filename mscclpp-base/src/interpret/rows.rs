//! Row norms: the operands of a launch besides its inputs and outputs.
//!
//! The operands are memory of one rank, which no operation but its row norms accesses. The plan says which rows of the
//! output a norm writes, each once; the rows of the operands have the same numbers.

use std::fmt;

use super::norm::ROW_SLICES;
use crate::dtype::{E4m3, Element};
use crate::error::{Error, RowsError};
use crate::memory::Loan;

/// The row norm of a launch on one rank: residual, gamma and what is written besides the output.
///
/// The output receives normalized rows, or with [`add_only`](Self::add_only) the sums with the residual. All operands
/// except gamma have a row, or a scale, for every row of the rank's output; in an all-gather, of its own part.
///
/// ```
/// use mscclpp_exec::RowNorm;
///
/// let (residual, gamma, mut sum) = ([0.5_f32; 8], [1.0; 4], [0.0; 8]);
/// let norm = RowNorm::new(1e-6).residual(&residual).gamma(&gamma).residual_out(&mut sum);
/// ```
#[derive(Debug)]
pub struct RowNorm<'a, T> {
    eps: Option<f32>,
    bias: f32,
    gamma: Option<&'a [T]>,
    residual: Option<&'a [T]>,
    residual_out: Option<&'a mut [T]>,
    in_place: bool,
    quantized: Option<(&'a mut [E4m3], Scale<'a>)>,
}

/// Where the scales of quantized rows come from.
#[derive(Debug)]
enum Scale<'a> {
    One(f32),
    Rows(&'a mut [f32]),
}

impl<'a, T: Element> RowNorm<'a, T> {
    /// Creates a norm without residual and gamma; `eps`, which is not negative, is added to the mean of the squares.
    pub const fn new(eps: f32) -> Self {
        let (eps, bias) = (Some(eps), 0.0);
        Self { eps, bias, gamma: None, residual: None, residual_out: None, in_place: false, quantized: None }
    }

    /// Creates one that adds the residual and does not normalize.
    pub const fn add_only() -> Self {
        Self { eps: None, ..Self::new(0.0) }
    }

    /// Sets the residual, which is added to the sum over the ranks.
    #[must_use]
    pub fn residual(mut self, residual: &'a [T]) -> Self {
        self.residual = Some(residual);
        self
    }

    /// Stores the sums with the residual.
    #[must_use]
    pub fn residual_out(mut self, sums: &'a mut [T]) -> Self {
        (self.residual_out, self.in_place) = (Some(sums), false);
        self
    }

    /// Sets the residual, which is replaced by the sums.
    #[must_use]
    pub fn residual_in_place(mut self, residual: &'a mut [T]) -> Self {
        (self.residual, self.residual_out, self.in_place) = (None, Some(residual), true);
        self
    }

    /// Sets the factors of the elements of a row.
    #[must_use]
    pub const fn gamma(mut self, gamma: &'a [T]) -> Self {
        self.gamma = Some(gamma);
        self
    }

    /// Sets a number that is added to every factor; 0 unless set.
    #[must_use]
    pub const fn bias(mut self, bias: f32) -> Self {
        self.bias = bias;
        self
    }

    /// Also stores the rows divided by a scale and rounded to e4m3.
    #[must_use]
    pub fn quantized(mut self, rows: &'a mut [E4m3], scale: f32) -> Self {
        self.quantized = Some((rows, Scale::One(scale)));
        self
    }

    /// Also stores the rows divided by scales of their own and rounded to e4m3, and the scales.
    #[must_use]
    pub fn quantized_by_row(mut self, rows: &'a mut [E4m3], scales: &'a mut [f32]) -> Self {
        self.quantized = Some((rows, Scale::Rows(scales)));
        self
    }

    /// Returns what all ranks pass equally.
    #[doc(hidden)]
    pub fn form(&self) -> RowForm {
        let has_residual = self.residual.is_some() || self.in_place;
        RowForm::new(self.eps, self.bias, self.gamma.is_some(), has_residual)
    }

    /// Returns the parameters and the operands of a rank's norm, whose rows have some bytes.
    ///
    /// # Errors
    /// [`RowsError::Operand`], [`RowsError::Scale`], [`RowsError::Number`].
    #[doc(hidden)]
    pub fn lend(self, rank: u32, bytes: u64, hidden: u64) -> Result<(RowCall, [Loan<'a>; ROW_SLICES]), Error> {
        let (scale, scales) = match &self.quantized {
            Some((_, Scale::One(one))) => (*one, None),
            Some((_, Scale::Rows(scales))) => (0.0, Some(scales.len() as u64)),
            None => (0.0, None),
        };
        let lengths = RowLengths {
            residual: self.residual.map(|residual| residual.len() as u64),
            residual_out: self.residual_out.as_ref().map(|sums| sums.len() as u64),
            gamma: self.gamma.map(|gamma| gamma.len() as u64),
            quantized: self.quantized.as_ref().map(|(rows, _)| rows.len() as u64),
            scales,
            scale,
            device_scale: None,
            eps: self.eps,
            bias: self.bias,
        };
        lengths.check(rank, bytes / size_of::<T>() as u64, hidden)?;
        let call = RowCall { eps: self.eps, bias: self.bias, factor: 1.0 / scale, in_place: self.in_place };
        let read = |list: Option<&'a [T]>| Loan::Read(list.map_or(&[], bytemuck::cast_slice));
        let write = |list: Option<&'a mut [T]>| Loan::Write(list.map_or(&mut [], bytemuck::cast_slice_mut));
        let (quantized, scales) = match self.quantized {
            None => (Loan::Read(&[]), Loan::Read(&[])),
            Some((rows, scales)) => (
                Loan::Write(bytemuck::cast_slice_mut(rows)),
                match scales {
                    Scale::One(_) => Loan::Read(&[]),
                    Scale::Rows(scales) => Loan::Write(bytemuck::cast_slice_mut(scales)),
                },
            ),
        };
        Ok((call, [read(self.residual), read(self.gamma), write(self.residual_out), quantized, scales]))
    }
}

/// What all ranks pass equally to a row norm, so that rows do not depend on the rank that computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowForm {
    /// The bits of eps, if rows are normalized, and those of the bias.
    eps: Option<u32>,
    bias: u32,
    gamma: bool,
    residual: bool,
}

impl RowForm {
    /// Creates a form.
    pub fn new(eps: Option<f32>, bias: f32, gamma: bool, residual: bool) -> Self {
        Self { eps: eps.map(f32::to_bits), bias: bias.to_bits(), gamma, residual }
    }

    /// Returns a number that differs for most forms, the same in every process.
    pub fn number(&self) -> u32 {
        let passed = u32::from(self.gamma) << 1 | u32::from(self.residual);
        let words = [self.eps.unwrap_or(u32::MAX), self.bias, passed];
        words.into_iter().fold(0x811c_9dc5, |hash: u32, word| (hash ^ word).wrapping_mul(0x0100_0193).rotate_left(13))
    }
}

impl fmt::Display for RowForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |is_passed: bool| if is_passed { "with" } else { "without" };
        write!(f, "{} residual", with(self.residual))?;
        match self.eps {
            Some(eps) => write!(f, ", {} gamma, eps {}", with(self.gamma), f32::from_bits(eps))?,
            None => f.write_str(", not normalized")?,
        }
        let bias = f32::from_bits(self.bias);
        if bias == 0.0 { Ok(()) } else { write!(f, ", bias {bias}") }
    }
}

/// Numbers of elements of the operands that a rank passes to its row norms, and the numbers.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are those of the operands")]
pub struct RowLengths {
    pub residual: Option<u64>,
    pub residual_out: Option<u64>,
    pub gamma: Option<u64>,
    pub quantized: Option<u64>,
    pub scales: Option<u64>,
    pub scale: f32,
    pub device_scale: Option<u64>,
    pub eps: Option<f32>,
    pub bias: f32,
}

impl RowLengths {
    /// Checks them for a rank whose norms have some elements, in rows of `hidden` elements.
    ///
    /// # Errors
    /// [`RowsError::Operand`], [`RowsError::Scale`], [`RowsError::Number`].
    pub fn check(&self, rank: u32, elements: u64, hidden: u64) -> Result<(), RowsError> {
        let rows = elements.checked_div(hidden).unwrap_or(0);
        let operands = [
            ("the residual", self.residual, elements),
            ("the output of the residual", self.residual_out, elements),
            ("gamma", self.gamma, hidden),
            ("the output of quantized rows", self.quantized, elements),
            ("the output of scales", self.scales, rows),
            ("the scale", self.device_scale, 1),
        ];
        for (operand, found, expected) in operands {
            if let Some(found) = found.filter(|found| *found != expected) {
                return Err(RowsError::Operand { rank, operand, expected, found });
            }
        }
        let is_scale = self.scale.is_finite() && self.scale > 0.0;
        let needs_scale = self.scales.is_none() && self.device_scale.is_none();
        if self.quantized.is_some() && needs_scale && !is_scale {
            return Err(RowsError::Scale { rank, scale: self.scale.to_string() });
        }
        let eps = self.eps.unwrap_or_default();
        for (number, value, is_right, expected) in [
            ("eps", eps, eps.is_finite() && eps >= 0.0, "a finite number that is not negative"),
            ("the bias", self.bias, self.bias.is_finite(), "a finite number"),
        ] {
            if !is_right {
                return Err(RowsError::Number { rank, number, found: value.to_string(), expected });
            }
        }
        Ok(())
    }
}

/// Parameters of a row norm of a launch.
#[derive(Clone, Copy, Debug)]
pub struct RowCall {
    /// What is added to the mean of the squares; `None` if rows are not normalized.
    pub(super) eps: Option<f32>,
    pub(super) bias: f32,
    /// Of quantized values, if rows have no scales of their own.
    pub(super) factor: f32,
    /// Whether the residual is where its sum is stored.
    pub(super) in_place: bool,
}

/// The row norms of ranks of this process in a launch.
#[derive(Clone, Copy)]
pub struct RowCalls<'a> {
    /// The rank of the first one.
    pub first: u32,
    /// One for each rank.
    pub calls: &'a [RowCall],
}
