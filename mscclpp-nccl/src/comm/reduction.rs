//! Operators of reductions: NCCL's own, and those that multiply by a scalar first.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::Stream;
use mscclpp_exec::cuda::jit::Source;
use mscclpp_exec::{AccumType, DataType, Error};

use super::Comm;
use super::set_up::SetUp;
use crate::abi;
use crate::entry::{Failure, Result, check_pointer};
use crate::forward;

/// The number of the first operator that a program creates.
const FIRST_CREATED: c_int = 5;

/// Threads of a block that multiplies.
const THREADS: u32 = 512;

/// Maximum number of blocks that multiply.
const MAX_BLOCKS: u64 = 1024;

/// A kernel that multiplies elements by a scalar.
const SCALE: &str = include_str!("scale.cu");

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Plain(ReduceOp),
    /// The sum of all ranks' elements, each multiplied by its rank's scalar.
    Scaled(Scalar),
}

/// The factor of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    dtype: DataType,
    /// Its address in device memory; 0 for an immediate one.
    address: u64,
    immediate: u64,
}

impl Scalar {
    /// Returns the scalar for the real NCCL.
    pub(crate) fn for_library(&self) -> forward::Scalar {
        match self.address {
            0 => forward::Scalar::Immediate(self.immediate),
            address => forward::Scalar::Device(address),
        }
    }
}

/// Argument of the kernel.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Arguments {
    input: u64,
    output: u64,
    scalar: u64,
    immediate: u64,
    count: u64,
}

/// The operators that a program has created, by number.
#[derive(Default)]
pub(crate) struct Operators(Mutex<(c_int, BTreeMap<c_int, Scalar>)>);

impl Operators {
    /// Returns an operator for elements of a type.
    ///
    /// # Errors
    /// An invalid argument for a number that is none, or one of another type.
    pub(crate) fn find(&self, number: c_int, dtype: DataType) -> Result<Operator> {
        let plain = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg];
        if let Some(op) = usize::try_from(number).ok().and_then(|number| plain.get(number)) {
            return Ok(Operator::Plain(*op));
        }
        let operators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match operators.1.get(&number) {
            Some(scalar) if scalar.dtype == dtype => Ok(Operator::Scaled(*scalar)),
            Some(scalar) => {
                Err(Failure::argument(format!("op: {number} is for {}, found {dtype} elements", scalar.dtype)))
            }
            None => Err(Failure::argument(format!("op: {number} is no operator of this communicator"))),
        }
    }
}

/// Creates the operator that multiplies by a scalar and adds.
///
/// # Safety
/// The scalar must be valid for reads of an element if it is immediate.
pub(crate) unsafe fn create(comm: &Comm, scalar: *const c_void, dtype: c_int, residence: c_int) -> Result<c_int> {
    comm.ready()?;
    check_pointer("scalar", scalar.cast::<u8>())?;
    let dtype = abi::data_type(dtype).ok_or_else(|| Failure::argument(format!("datatype: {dtype} is none")))?;
    let mut immediate = [0; 8];
    let address = match residence {
        0 => scalar as u64,
        1 => {
            // SAFETY: guaranteed by the caller; at most 8 bytes.
            unsafe { scalar.cast::<u8>().copy_to_nonoverlapping(immediate.as_mut_ptr(), dtype.size()) };
            0
        }
        _ => return Err(Failure::argument(format!("residence: expected 0 or 1, found {residence}"))),
    };
    let mut operators = comm.operators.0.lock().unwrap_or_else(PoisonError::into_inner);
    let number = FIRST_CREATED + operators.0;
    operators.0 = (operators.0 + 1) % (c_int::MAX - FIRST_CREATED);
    operators.1.insert(number, Scalar { dtype, address, immediate: u64::from_ne_bytes(immediate) });
    Ok(number)
}

/// Ends an operator.
pub(crate) fn destroy(comm: &Comm, number: c_int) -> Result<()> {
    let mut operators = comm.operators.0.lock().unwrap_or_else(PoisonError::into_inner);
    match operators.1.remove(&number) {
        Some(_) => Ok(()),
        None if (0..FIRST_CREATED).contains(&number) => Err(Failure::argument(format!("op: {number} is NCCL's own"))),
        None => Err(Failure::argument(format!("op: {number} is no operator of this communicator"))),
    }
}

/// Enqueues the multiplication of `count` elements by a scalar; `output` may be `input`.
///
/// # Errors
/// [`Error::Jit`] if there is no compiler of device code; [`Error::Driver`].
pub(crate) fn scale(
    comm: &Comm,
    stream: &Stream,
    scalar: &Scalar,
    [input, output]: [u64; 2],
    count: u64,
) -> std::result::Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    let Scalar { dtype, address, immediate } = *scalar;
    let executor = Source::executor(dtype, AccumType::Native);
    let executor = executor.ok_or_else(|| Error::Internal(format!("no kernels of {dtype}")))?;
    let mut source = Source::new("scale.cu", SCALE);
    for (name, value) in executor.defines() {
        source = source.define(name.clone(), value.clone());
    }
    let kernel = {
        let _set_up = SetUp::begin()?;
        comm.device.module(&source)?.function("mscclpp_scale")?
    };
    let blocks = count.div_ceil(u64::from(THREADS)).clamp(1, MAX_BLOCKS) as u32;
    let arguments = Arguments { input, output, scalar: address, immediate, count };
    // SAFETY: the kernel takes this struct, and accesses `count` elements of the memory of a call, which its caller keeps until
    // the stream has completed the call; its blocks do not wait for one another.
    unsafe { kernel.launch(stream, blocks, THREADS, &arguments) }
}
