//! Ranks on CUDA devices: of this process, or of a job with a process for each rank.

use std::collections::BTreeSet;

use mscclpp_communicator::Communicator;
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

/// The ranks of a job on their devices.
pub(crate) struct JobDevices {
    pub(crate) executor: Executor,
    /// Number of different devices.
    pub(crate) num_devices: usize,
    /// Whether all ranks are on separate devices with multicast objects.
    pub(crate) multicast: bool,
}

impl JobDevices {
    /// Connects the ranks of a job, each with the device of its number on its host. A call of all ranks.
    ///
    /// # Errors
    /// Those of [`Communicator::device`] and [`Executor::connect`].
    pub(crate) fn connect(comm: &Communicator, options: Options) -> Result<Self, Error> {
        let device = comm.device();
        // A rank without a device takes part as well, or the others would wait for it.
        let own = match &device {
            Ok(device) => {
                let properties = device.properties();
                [&[u8::from(properties.multicast)], &properties.uuid[..]].concat()
            }
            Err(_) => Vec::new(),
        };
        let of_all = comm.bootstrap().all_gather(&own)?;
        let device = device?;
        let separate: BTreeSet<&Vec<u8>> = of_all.iter().collect();
        let multicast = separate.len() == of_all.len() && of_all.iter().all(|device| device.first() == Some(&1));
        let executor = Executor::connect(comm.bootstrap(), &device, options)?;
        Ok(Self { executor, num_devices: separate.len(), multicast })
    }
}

/// Describes the devices of an executor, and how many ranks they have.
pub(crate) fn describe(executor: &Executor) -> String {
    let (ranks, devices) = (executor.num_ranks(), executor.devices());
    if let ([device, ..], false) = (devices, executor.is_local()) {
        return format!("{ranks} processes, that of rank 0 on {}", device.properties());
    }
    match devices {
        [device] => format!("{ranks} virtual ranks on {}", device.properties()),
        [first, ..] => format!("{ranks} ranks on {} devices, the first one {}", devices.len(), first.properties()),
        [] => format!("{ranks} ranks"),
    }
}
