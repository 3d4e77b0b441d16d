//! Ranks of this process on CUDA devices.

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, Executor, Options};

/// Creates ranks on the first `gpus` devices, equally many on each, in the order of the devices.
///
/// # Errors
/// As [`Device::new`] and [`Executor::with_devices`].
pub(crate) fn ranks_on_devices(ranks: u32, gpus: u32, options: Options) -> Result<Executor, Error> {
    let devices = (0..gpus).map(Device::new).collect::<Result<Vec<_>, _>>()?;
    let of_rank = |rank: u32| devices[(u64::from(rank) * u64::from(gpus) / u64::from(ranks)) as usize].clone();
    Executor::with_devices(&(0..ranks).map(of_rank).collect::<Vec<_>>(), options)
}

/// Describes the devices of an executor, and how many ranks they have.
pub(crate) fn describe(executor: &Executor) -> String {
    let (ranks, devices) = (executor.num_ranks(), executor.devices());
    match devices {
        [device] => format!("{ranks} virtual ranks on {}", device.properties()),
        [first, ..] => format!("{ranks} ranks on {} devices, the first one {}", devices.len(), first.properties()),
        [] => format!("{ranks} ranks"),
    }
}
