//! Row norms whose results were computed without this program.

use libtest_mimic::Failed;
use mscclpp_exec::__half::bf16;
use mscclpp_exec::cuda::{DeviceVec, Executor, RowOperands};
use mscclpp_exec::{AccumType, E4m3, Message};

use super::row_norms::plan_of;
use super::{Rig, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("computed_norms::ranks_are_added_in_order", ranks_are_added_in_order),
        Test::new("computed_norms::products_are_rounded_once", products_are_rounded_once),
        Test::new("computed_norms::zeros_and_quantized_values", zeros_and_quantized_values),
    ]
}

fn list(values: &[f32]) -> Vec<bf16> {
    let mut list: Vec<bf16> = values.iter().map(|value| bf16::from_f32(*value)).collect();
    list.resize(8, bf16::ZERO);
    list
}

/// What a rank has after a launch on one row of 8 elements.
struct Found {
    output: Vec<bf16>,
    sums: Vec<bf16>,
    quantized: Vec<u8>,
    scale: f32,
}

/// Launches a norm with a residual and gamma: without a scale, with one of the row.
fn launch(
    rig: &Rig,
    inputs: &[Vec<bf16>],
    [residual, gamma]: [&[bf16]; 2],
    norm: RowOperands,
    accumulate: AccumType,
) -> Result<Vec<Found>, Failed> {
    let (device, ranks) = (&rig.device, inputs.len() as u32);
    let message = Message { accumulate, ..Message::rows::<bf16>(1, 8) };
    let world = Executor::new(device, ranks);
    let mut run = world.prepare(&plan_of("allreduce_norm_one_shot", ranks, 1)?, message)?;
    let all = |values: &[bf16]| {
        (0..ranks).map(|_| DeviceVec::from_slice(device, values)).collect::<Result<Vec<DeviceVec<bf16>>, _>>()
    };
    let inputs = inputs.iter().map(|input| DeviceVec::from_slice(device, input)).collect::<Result<Vec<_>, _>>()?;
    let (outputs, sums, residual, gamma) = (all(&list(&[]))?, all(&list(&[]))?, all(residual)?, all(gamma)?);
    let quantized: Vec<DeviceVec<E4m3>> = (0..ranks).map(|_| DeviceVec::new(device, 8)).collect::<Result<_, _>>()?;
    let scales: Vec<DeviceVec<f32>> = (0..ranks).map(|_| DeviceVec::new(device, 1)).collect::<Result<_, _>>()?;
    let operands = (0..ranks as usize).map(|rank| RowOperands {
        residual: Some(residual[rank].as_slice()),
        gamma: Some(gamma[rank].as_slice()),
        residual_out: Some(sums[rank].as_slice()),
        quantized: Some(quantized[rank].as_slice()),
        scales: (norm.scale == 0.0).then(|| scales[rank].as_slice()),
        ..norm
    });
    let operands: Vec<RowOperands> = operands.collect();
    let binding = run.bind(inputs.iter().zip(&outputs).map(|(input, output)| [input.as_slice(), output.as_slice()]))?;
    let stream = world.stream()?;
    // SAFETY: memory of the device, which lives until the launch is complete.
    unsafe { run.launch_rows(&binding, &operands, &stream)? };
    run.synchronize(&stream)?;
    let found = |rank: usize| -> Result<Found, Failed> {
        Ok(Found {
            output: outputs[rank].to_vec()?,
            sums: sums[rank].to_vec()?,
            quantized: quantized[rank].to_vec()?.into_iter().map(|value| value.0).collect(),
            scale: scales[rank].to_vec()?[0],
        })
    };
    (0..ranks as usize).map(found).collect()
}

fn ranks_are_added_in_order(rig: &Rig) -> Result<(), Failed> {
    let inputs = [256.0, 1.0, 1.0].map(|value| list(&[value]));
    let zeros = list(&[]);
    for (accumulate, expected) in [(AccumType::Native, 256.0), (AccumType::F32, 258.0)] {
        let add_only = RowOperands { scale: 1.0, ..RowOperands::default() };
        for found in launch(rig, &inputs, [&zeros, &zeros], add_only, accumulate)? {
            assert_eq!((found.output, found.sums), (list(&[expected]), list(&[expected])), "{accumulate}");
        }
    }
    Ok(())
}

/// The squares are those of rounded sums, and a row is rounded once.
fn products_are_rounded_once(rig: &Rig) -> Result<(), Failed> {
    let inputs = [list(&[256.0, 0.0]), list(&[0.0, 128.0])];
    let ones = [1.0_f32; 8];
    let norm = RowOperands { eps: Some(0.0), scale: 1.0, ..RowOperands::default() };
    for (second, expected) in [(1.0, 1.265_625), (1.015_625, 1.281_25)] {
        let mut gamma = list(&ones);
        gamma[1] = bf16::from_f32(second);
        for found in launch(rig, &inputs, [&list(&[1.0]), &gamma], norm, AccumType::Native)? {
            assert_eq!(found.sums[0], bf16::from_f32(256.0));
            assert_eq!(found.output, list(&[2.531_25, expected]));
        }
    }
    Ok(())
}

fn zeros_and_quantized_values(rig: &Rig) -> Result<(), Failed> {
    let (zeros, ones) = (list(&[-0.0; 8]), list(&[1.0; 8]));
    let norm = RowOperands { eps: Some(1e-6), ..RowOperands::default() };
    for found in launch(rig, &[zeros.clone(), zeros.clone()], [&zeros, &ones], norm, AccumType::Native)? {
        assert!(found.output.iter().chain(&found.sums).all(|value| value.to_bits() == 0x8000), "{:?}", found.output);
        assert_eq!((found.scale, found.quantized), (1.0 / (512.0 * 448.0), vec![0x80; 8]));
    }
    // 460, 17 and 19 as e4m3: 448, 16 and 20.
    let add_only = RowOperands { scale: 1.0, ..RowOperands::default() };
    let inputs = [list(&[460.0, 17.0, 19.0]), list(&[])];
    for found in launch(rig, &inputs, [&list(&[]), &ones], add_only, AccumType::Native)? {
        assert_eq!(&found.quantized[..4], &[0x7e, 0x58, 0x5a, 0]);
    }
    Ok(())
}
