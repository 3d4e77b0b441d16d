//! Import and export of tensors of other libraries.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::dlpack::{ManagedTensor, RawTensor, Tensor, TensorDevice, TensorType, export};
use mscclpp_exec::cuda::{Device, DeviceBuffer, DeviceSlice, Executor};
use mscclpp_exec::{DataType, Error, Message};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("tensors::launches_on_tensors", launches_on_tensors),
        Trial::test("tensors::unusable_tensor_is_freed", unusable_tensor_is_freed),
        Trial::test("tensors::offsets_and_shapes", offsets_and_shapes),
        Trial::test("tensors::shapes_of_other_sizes_are_refused", shapes_of_other_sizes_are_refused),
    ]
}

fn device() -> Result<Device, Failed> {
    Ok(Device::with_driver(simulator(Options::default())?))
}

/// Buffers that were exported as tensors and imported again; the simulator reports memory that is freed twice or never.
fn launches_on_tensors() -> Result<(), Failed> {
    let device = device()?;
    let algorithm = algorithms::find("allreduce_ring").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let world = Executor::new(&device, 2);
    let mut run = world.prepare(&plan, Message::new(DataType::F32, 30).any_size())?;
    let mut tensors = Vec::new();
    for rank in 0..2_u8 {
        let mut buffer = DeviceBuffer::new(&device, 120)?;
        let values: Vec<u8> = (0..30).flat_map(|at| (f32::from(rank) + at as f32).to_le_bytes()).collect();
        buffer.write(&values)?;
        let capsule = export(buffer, DataType::F32, &[5, 6])?;
        // SAFETY: just made; a shape and strides of two dimensions.
        let [shape, strides] = unsafe {
            let raw = &capsule.as_ref().tensor;
            [raw.shape, raw.strides].map(|at| std::slice::from_raw_parts(at, 2).to_vec())
        };
        assert_eq!((shape, strides), (vec![5, 6], vec![6, 1]));
        // SAFETY: just created, and passed to no other code.
        tensors.push(unsafe { Tensor::import(capsule.as_ptr(), &device)? });
    }
    let stream = world.stream()?;
    let outputs = [DeviceBuffer::new(&device, 120)?, DeviceBuffer::new(&device, 120)?];
    let slices = [0, 1].map(|rank| [tensors[rank].as_slice(), outputs[rank].as_slice()]);
    // SAFETY: memory of this device, which lives until the launch is complete.
    unsafe { run.launch(slices.into_iter(), &stream)? };
    run.synchronize(&stream)?;
    for (tensor, output) in tensors.iter().zip(outputs) {
        assert_eq!((tensor.dtype(), tensor.as_slice().bytes), (DataType::F32, 120));
        let mut found = vec![0; 120];
        output.read(&mut found)?;
        for (at, bytes) in found.chunks_exact(4).enumerate() {
            let value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if value != 2.0 * at as f32 + 1.0 {
                return Err(format!("element {at}: {value}").into());
            }
        }
    }
    Ok(())
}

static FREED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count(_: *mut ManagedTensor) {
    FREED.fetch_add(1, Relaxed);
}

/// Returns a tensor of floats that owns nothing.
fn tensor(data: u64, shape: &mut [i64], strides: Option<&mut [i64]>) -> ManagedTensor {
    let tensor = RawTensor {
        data: data as *mut c_void,
        device: TensorDevice { kind: 2, ordinal: 0 },
        ndim: shape.len() as i32,
        dtype: TensorType { code: 2, bits: 32, lanes: 1 },
        shape: shape.as_mut_ptr(),
        strides: strides.map_or(null_mut(), <[i64]>::as_mut_ptr),
        byte_offset: 0,
    };
    ManagedTensor { tensor, context: null_mut(), deleter: Some(count) }
}

fn unusable_tensor_is_freed() -> Result<(), Failed> {
    let device = device()?;
    type Change = fn(&mut ManagedTensor);
    let changes: [(&str, Change); 9] = [
        ("a tensor on device 0 of kind 1, expected", |t| t.tensor.device.kind = 1),
        ("a tensor on device 3 of kind 2, expected one on device 0", |t| t.tensor.device.ordinal = 3),
        ("of type 2 with 24 bits", |t| t.tensor.dtype.bits = 24),
        ("of type 9 with 32 bits", |t| t.tensor.dtype.code = 9),
        ("and 4 lanes", |t| t.tensor.dtype.lanes = 4),
        ("of -1 dimensions", |t| t.tensor.ndim = -1),
        ("without shape", |t| t.tensor.shape = null_mut()),
        ("without memory", |t| t.tensor.data = null_mut()),
        // SAFETY: there are two dimensions.
        ("of shape [-2, 3]", |t| unsafe { *t.tensor.shape = -2 }),
    ];
    for (number, (expected, change)) in (1..).zip(changes) {
        let (mut shape, mut strides) = ([2, 3], [3, 1]);
        let mut raw = tensor(256, &mut shape, Some(&mut strides));
        change(&mut raw);
        // SAFETY: a tensor that lives until the end of the iteration, and that no other code uses.
        match unsafe { Tensor::import(&raw mut raw, &device) } {
            Err(error @ Error::Tensor { .. }) if error.to_string().contains(expected) => {}
            other => return Err(format!("{expected}: {other:?}").into()),
        }
        assert_eq!(FREED.load(Relaxed), number, "{expected}");
    }
    let (mut shape, mut strides) = ([2, 3], [1, 2]);
    let mut raw = tensor(256, &mut shape, Some(&mut strides));
    // SAFETY: as above.
    let refused = unsafe { Tensor::import(&raw mut raw, &device) };
    assert!(matches!(&refused, Err(Error::Tensor { found, .. }) if found.contains("strides [1, 2]")), "{refused:?}");
    assert_eq!(FREED.load(Relaxed), 10);
    // Twice as many bytes as a stride can count.
    let (mut shape, mut strides) = ([1 << 62, 2], [2, 1]);
    let mut raw = tensor(256, &mut shape, Some(&mut strides));
    raw.tensor.dtype = TensorType { code: 1, bits: 8, lanes: 1 };
    // SAFETY: as above.
    let refused = unsafe { Tensor::import(&raw mut raw, &device) };
    assert!(matches!(&refused, Err(Error::Tensor { expected, .. }) if expected.contains("fits")), "{refused:?}");
    assert_eq!(FREED.load(Relaxed), 11);
    Ok(())
}

unsafe extern "C" fn nothing(_: *mut ManagedTensor) {}

fn offsets_and_shapes() -> Result<(), Failed> {
    let device = device()?;
    /// Shape, strides, offset, and the expected range of the elements.
    type Case<'a> = (&'a mut [i64], Option<&'a mut [i64]>, u64, DeviceSlice);
    let cases: [Case<'_>; 5] = [
        (&mut [2, 3], None, 0, DeviceSlice { address: 256, bytes: 24 }),
        (&mut [2, 3], Some(&mut [3, 1]), 8, DeviceSlice { address: 264, bytes: 24 }),
        // The stride of a dimension of length one is not significant.
        (&mut [1, 3], Some(&mut [77, 1]), 0, DeviceSlice { address: 256, bytes: 12 }),
        (&mut [], None, 4, DeviceSlice { address: 260, bytes: 4 }),
        (&mut [5, 0], Some(&mut [9, 9]), 0, DeviceSlice::EMPTY),
    ];
    for (shape, strides, offset, expected) in cases {
        let mut raw = tensor(256, shape, strides);
        raw.tensor.byte_offset = offset;
        raw.deleter = if offset == 0 { Some(nothing) } else { None };
        // SAFETY: a tensor that lives until the end of the iteration, and that no other code uses.
        let found = unsafe { Tensor::import(&raw mut raw, &device)? };
        assert_eq!(found.as_slice(), expected);
    }
    Ok(())
}

fn shapes_of_other_sizes_are_refused() -> Result<(), Failed> {
    let device = device()?;
    for shape in [&[3, 4][..], &[u64::MAX, 2], &[]] {
        let refused = export(DeviceBuffer::new(&device, 44)?, DataType::F32, shape);
        assert!(matches!(refused, Err(Error::Tensor { .. })), "{shape:?}: {refused:?}");
    }
    Ok(())
}
