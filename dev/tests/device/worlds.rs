//! Buffers belong to the executor that they were allocated for: safe functions reject those of another one.

use libtest_mimic::Failed;
use mscclpp_core::diag::Code;
use mscclpp_exec::cuda::{self, Device, Executor, time};
use mscclpp_exec::{DataType, Error, Message};

use super::bits::shipped;
use super::{Test, at};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new("worlds::buffers_of_another_world_are_refused", |rig| {
        refused(&rig.device, &rig.device).map_err(|failed| at("two worlds on one device", &failed))
    })]
}

/// A prepared plan of two ranks, and buffers for it.
pub(crate) fn prepared(world: &Executor) -> Result<(cuda::PreparedPlan, cuda::Buffers), Failed> {
    let run = world.prepare(&shipped("allreduce_all_pairs", 2)?, Message::new(DataType::F32, 100).any_size())?;
    let buffers = run.buffers()?;
    Ok((run, buffers))
}

/// Checks that an executor of one device rejects buffers of an executor of another one, and accepts its own afterwards.
pub(crate) fn refused(own: &Device, other: &Device) -> Result<(), Failed> {
    let (own, other) = (Executor::new(own, 2), Executor::new(other, 2));
    let ((mut run, mut buffers), (theirs, mut foreign)) = (prepared(&own)?, prepared(&other)?);
    let stream = own.stream()?;
    let binding = theirs.bind((0..2).map(|rank| [foreign.input(rank), cuda::DeviceSlice::EMPTY]))?;
    let calls: [(&str, Result<(), Error>); 4] = [
        ("launch_buffers", run.launch_buffers(&mut foreign, &stream)),
        // SAFETY: nothing is launched.
        ("launch_bound", unsafe { run.launch_bound(&binding, &stream) }),
        ("capture", stream.capture(|stream| run.launch_buffers(&mut foreign, stream)).map(drop)),
        ("time", time(&mut run, &mut foreign, &stream, Some(1)).map(drop)),
    ];
    for (call, result) in calls {
        match result {
            Err(error @ Error::ForeignBuffers { .. }) if error.code() == Code::WrongBuffers => {
                let text = error.to_string();
                let names = text.matches("executor ").count() == 2 && text.matches("(2 ranks, device ").count() == 2;
                let Error::ForeignBuffers { expected, found } = error else { unreachable!("just matched") };
                if !names || expected == found {
                    return Err(format!("{call}: {text}").into());
                }
            }
            other => return Err(format!("{call}: {other:?}, expected a refusal").into()),
        }
    }
    // Its own buffers, and those of an equal prepared plan of the same executor, are accepted afterwards.
    run.launch_buffers(&mut buffers, &stream)?;
    run.synchronize(&stream)?;
    let (_, mut equal) = prepared(&own)?;
    run.launch_buffers(&mut equal, &stream)?;
    Ok(run.synchronize(&stream)?)
}
