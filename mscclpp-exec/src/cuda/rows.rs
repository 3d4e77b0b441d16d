//! Row norms of launches on devices: what ranks pass besides their inputs and outputs (`kernels/row_norm.h`).

use mscclpp_base::dtype::{DataType, E4m3, Element};
use mscclpp_base::error::{Error, RowsError};
use mscclpp_base::interpret::{Params, RowForm, RowLengths};
use mscclpp_base::message::Message;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::lend::{DeviceMut, DeviceRef, Lent};
use mscclpp_cuda::slice::DeviceSlice;

/// The operands in device memory of a rank's row norms, as of a [`RowNorm`](mscclpp_base::interpret::RowNorm).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowOperands {
    /// What is added to the mean of the squares; `None`: the residual is added, and rows are not normalized.
    pub eps: Option<f32>,
    /// What is added to every factor.
    pub bias: f32,
    /// The factors of the elements of a row.
    pub gamma: Option<DeviceSlice>,
    /// Rows that are added to the sums over the ranks.
    pub residual: Option<DeviceSlice>,
    /// Where the sums with the residual are stored; may be the residual.
    pub residual_out: Option<DeviceSlice>,
    /// Where rows of e4m3 are stored.
    pub quantized: Option<DeviceSlice>,
    /// The divisor of quantized rows, unless there is `device_scale` or there are `scales`.
    pub scale: f32,
    /// The divisor of quantized rows, an `f32` that the launch reads, unless there are `scales`.
    pub device_scale: Option<DeviceSlice>,
    /// Where the divisor of each quantized row is stored, an `f32`.
    pub scales: Option<DeviceSlice>,
}

impl RowOperands {
    /// Checks their lengths for a rank whose output has a number of elements.
    fn check(&self, rank: u32, dtype: DataType, elements: u64, hidden: u64) -> Result<(), RowsError> {
        let &Self { eps, bias, gamma, residual, residual_out, quantized, scale, device_scale, scales } = self;
        let of_type = |slice: DeviceSlice| slice.bytes / dtype.size() as u64;
        let lengths = RowLengths {
            residual: residual.map(of_type),
            residual_out: residual_out.map(of_type),
            gamma: gamma.map(of_type),
            quantized: quantized.map(|slice| slice.bytes),
            scales: scales.map(|slice| slice.bytes / 4),
            scale,
            device_scale: device_scale.map(|slice| slice.bytes / 4),
            eps,
            bias,
        };
        lengths.check(rank, elements, hidden)
    }

    /// Returns the parameters of a rank of a collective of some kind.
    pub(super) fn params(&self, kind: CollectiveKind, rank: u32, params: &Params) -> Result<abi::RowParams, Error> {
        let Message { dtype, row, .. } = params.message;
        let (bytes, before) = params.layout.normalized_rows(kind, rank);
        self.check(rank, dtype, bytes / dtype.size() as u64, row)?;
        let &Self { eps, bias, gamma, residual, residual_out, quantized, scale, device_scale, scales } = self;
        let address = |slice: Option<DeviceSlice>| slice.map_or(0, |slice| slice.address);
        // Kernels number rows from the first one of the output on: operands begin as many rows earlier as are before the rank's
        // own ones. A plan has no norms of those, so that nothing before the operands is accessed. No operand becomes 0, which
        // would be none: its address is larger than the length of the output, which is in memory as well.
        let rows = |slice: Option<DeviceSlice>, bytes: u64| {
            slice.map_or(0, |slice| slice.address.wrapping_sub(before / params.message.row_bytes() * bytes))
        };
        Ok(abi::RowParams {
            residual: rows(residual, params.message.row_bytes()),
            gamma: address(gamma),
            residual_out: rows(residual_out, params.message.row_bytes()),
            quantized: rows(quantized, row),
            scales: rows(scales, 4),
            scale: address(device_scale),
            eps: eps.unwrap_or_default().to_bits(),
            bias: bias.to_bits(),
            factor: (1.0 / scale).to_bits(),
            normalizes: eps.is_some().into(),
            row: params.message.row_bytes(),
        })
    }
}

/// The row norm of a call on device memory: residual, gamma and what is written besides the output, as in
/// [`RowNorm`](mscclpp_base::interpret::RowNorm).
pub struct DeviceRowNorm<'a, T: Element> {
    eps: Option<f32>,
    bias: f32,
    gamma: Option<&'a dyn DeviceRef<T>>,
    residual: Option<&'a dyn DeviceRef<T>>,
    residual_out: Option<&'a mut dyn DeviceMut<T>>,
    in_place: bool,
    quantized: Option<&'a mut dyn DeviceMut<E4m3>>,
    scale: f32,
    device_scale: Option<&'a dyn DeviceRef<f32>>,
    scales: Option<&'a mut dyn DeviceMut<f32>>,
}

impl<'a, T: Element> DeviceRowNorm<'a, T> {
    /// Creates a norm without residual and gamma; `eps` is added to the mean of the squares.
    pub const fn new(eps: f32) -> Self {
        Self {
            eps: Some(eps),
            bias: 0.0,
            gamma: None,
            residual: None,
            residual_out: None,
            in_place: false,
            quantized: None,
            scale: 0.0,
            device_scale: None,
            scales: None,
        }
    }

    /// Creates one that adds the residual and does not normalize.
    pub const fn add_only() -> Self {
        Self { eps: None, ..Self::new(0.0) }
    }

    /// Sets the residual, which is added to the sum over the ranks.
    #[must_use]
    pub fn residual(mut self, residual: &'a dyn DeviceRef<T>) -> Self {
        self.residual = Some(residual);
        self
    }

    /// Stores the sums with the residual.
    #[must_use]
    pub fn residual_out(mut self, sums: &'a mut dyn DeviceMut<T>) -> Self {
        (self.residual_out, self.in_place) = (Some(sums), false);
        self
    }

    /// Sets the residual, which is replaced by the sums.
    #[must_use]
    pub fn residual_in_place(mut self, residual: &'a mut dyn DeviceMut<T>) -> Self {
        (self.residual, self.residual_out, self.in_place) = (None, Some(residual), true);
        self
    }

    /// Sets the factors of the elements of a row.
    #[must_use]
    pub fn gamma(mut self, gamma: &'a dyn DeviceRef<T>) -> Self {
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
    pub fn quantized(mut self, rows: &'a mut dyn DeviceMut<E4m3>, scale: f32) -> Self {
        (self.quantized, self.scale, self.device_scale, self.scales) = (Some(rows), scale, None, None);
        self
    }

    /// Also stores the rows divided by a scale in device memory and rounded to e4m3. The launch reads the scale, a list of one element, and
    /// in a graph each replay does; nothing checks that it is larger than 0.
    #[must_use]
    pub fn quantized_by(mut self, rows: &'a mut dyn DeviceMut<E4m3>, scale: &'a dyn DeviceRef<f32>) -> Self {
        (self.quantized, self.device_scale, self.scales) = (Some(rows), Some(scale), None);
        self
    }

    /// Also stores the rows divided by scales of their own and rounded to e4m3, and the scales.
    #[must_use]
    pub fn quantized_by_row(mut self, rows: &'a mut dyn DeviceMut<E4m3>, scales: &'a mut dyn DeviceMut<f32>) -> Self {
        (self.quantized, self.device_scale, self.scales) = (Some(rows), None, Some(scales));
        self
    }

    /// Returns what all ranks pass equally.
    #[doc(hidden)]
    pub fn form(&self) -> RowForm {
        let has_residual = self.residual.is_some() || self.in_place;
        RowForm::new(self.eps, self.bias, self.gamma.is_some(), has_residual)
    }

    /// Lends the operands to a call on a stream.
    ///
    /// # Errors
    /// As [`DeviceRef::lend`].
    #[doc(hidden)]
    pub fn lend(self, stream: &Stream) -> Result<LentRows<'a>, Error> {
        let mut lent = Vec::new();
        let mut keep = |operand: Result<Lent<'a>, Error>| {
            let operand = operand?;
            let slice = operand.as_slice();
            lent.push(operand);
            Ok::<_, Error>(slice)
        };
        let residual_out = self.residual_out.map(|sums| keep(sums.lend_mut(stream))).transpose()?;
        let residual = self.residual.map(|residual| keep(residual.lend(stream))).transpose()?;
        let operands = RowOperands {
            eps: self.eps,
            bias: self.bias,
            gamma: self.gamma.map(|gamma| keep(gamma.lend(stream))).transpose()?,
            residual: if self.in_place { residual_out } else { residual },
            residual_out,
            quantized: self.quantized.map(|rows| keep(rows.lend_mut(stream))).transpose()?,
            scale: self.scale,
            device_scale: self.device_scale.map(|scale| keep(scale.lend(stream))).transpose()?,
            scales: self.scales.map(|scales| keep(scales.lend_mut(stream))).transpose()?,
        };
        Ok(LentRows { operands, _lent: lent })
    }
}

impl<T: Element> std::fmt::Debug for DeviceRowNorm<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceRowNorm").field("eps", &self.eps).field("bias", &self.bias).finish_non_exhaustive()
    }
}

/// The operands of a call's row norm in lent memory.
#[doc(hidden)]
#[derive(Debug)]
pub struct LentRows<'a> {
    pub(super) operands: RowOperands,
    _lent: Vec<Lent<'a>>,
}

impl LentRows<'_> {
    /// Checks the lengths of the operands for a rank whose output has a number of elements, in rows of `hidden` elements.
    ///
    /// # Errors
    /// [`RowsError::Operand`], [`RowsError::Scale`].
    pub fn check(&self, rank: u32, dtype: DataType, elements: u64, hidden: u64) -> Result<(), RowsError> {
        self.operands.check(rank, dtype, elements, hidden)
    }
}
