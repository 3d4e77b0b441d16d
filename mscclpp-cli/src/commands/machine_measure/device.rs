//! Describes CUDA devices: small plans measure the constants one by one, and the error is that of the built-in algorithms.

use std::process::ExitCode;

use mscclpp_exec::DataType;
use mscclpp_exec::cuda::{Device, Options};

use super::points::Points;
use super::probes::{LINK, Measured, Probes};
use super::{BLOCKS_HEAD, Described, VALUES, constant, printable, sizes};
use crate::args::MachineMeasureArgs;
use crate::commands::devices::ranks_on_devices;
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Number of ranks on one device, and the first and last size, unless they are given.
const RANKS: u32 = 8;
const SIZES: (u64, u64) = (1 << 10, 64 << 20);

/// Number of thread blocks that share a transfer of the built-in algorithms.
const BLOCKS: u32 = 8;

const F32_BYTES: u64 = 4;

/// Measures constants and algorithms on the first devices.
///
/// # Errors
/// [`Error::Usage`] for ranks that the devices cannot have; those of the devices and of the output.
pub(super) fn measure(args: &MachineMeasureArgs) -> Result<ExitCode> {
    let gpus = args.gpus.unwrap_or(1);
    let ranks = args.ranks.unwrap_or(if gpus == 1 { RANKS } else { gpus });
    if gpus > 1 && ranks != gpus {
        let reason = format!("expected one rank on each of {gpus} devices, found --ranks {ranks}; omit --ranks");
        return Err(Error::Usage(reason));
    }
    let executor = ranks_on_devices(ranks, gpus, Options::default())?;
    check_access(executor.devices())?;
    let (first, last) = args.sizes.unwrap_or(SIZES);
    let blocks = executor.max_blocks();
    let probes = Probes { executor: &executor, launches: args.iters, bytes: last, blocks };
    let constants = {
        let _working = Progress::spinner("measuring the constants of the devices");
        probes.measure()?
    };
    let device = executor.devices().first().map(|device| printable(&device.properties().name)).unwrap_or_default();
    let blocks = BLOCKS.min(blocks);
    let text = text(args, ranks, gpus, &device, &constants, blocks);
    let mut points = Points::measure(ranks, &sizes((first, last), 16), blocks, |tree, bytes| {
        probes.time(tree, (bytes / F32_BYTES).next_multiple_of(ranks.into()), DataType::F32)
    })?;
    // The constants were fitted to none of them.
    points.all.iter_mut().for_each(|point| point.is_held_out = true);
    Described { text, points, devices: Some(gpus) }.report(args)
}

/// Checks that devices access each other's memory: the description has one link from each device to a switch.
fn check_access(devices: &[Device]) -> Result<()> {
    for device in devices {
        let peers = device.peers()?;
        let is_reached = |other: &&Device| {
            let uuid = other.properties().uuid;
            device.is_same(other) || peers.iter().any(|peer| peer.uuid == uuid && peer.can_access)
        };
        if let Some(other) = devices.iter().find(|other| !is_reached(other)) {
            return Err(Error::Usage(format!(
                "expected devices that access each other's memory, found that {} does not access that of {}; measure one of them, and write the \
                 links into the description",
                device.label(),
                other.label()
            )));
        }
    }
    Ok(())
}

/// Returns the text of a description without its error.
fn text(args: &MachineMeasureArgs, ranks: u32, gpus: u32, device: &str, constants: &[Measured], blocks: u32) -> String {
    let what = if gpus == 1 { format!("{ranks} ranks that share one {device}") } else { format!("{gpus} {device}") };
    let caution = if device.contains("simulated") { "; its times say nothing about devices" } else { "" };
    let mut text = format!(
        "name = \"{}\"\ndescription = \"{what}, plans interpreted{caution}\"\nranks = {ranks}\nranks_per_node = {ranks}\n\
         multicast = false\none_device = {}\n",
        args.name,
        gpus == 1
    );
    let source = |how: &str| format!("measured on {device}: {how}");
    if let Some(link) = constants.iter().find(|constant| constant.name == LINK) {
        text += &format!(
            "\n[[link]]\nfrom = \"gpu\"\nto = \"switch\"\ngb_per_s = {:.6}\nsource = \"{}\"\n",
            link.value.clamp(VALUES.0, VALUES.1),
            source(&link.how)
        );
    }
    text += "\n[constant]\n";
    for Measured { name, value, how } in constants.iter().filter(|constant| constant.name != LINK) {
        text += &constant(name, *value, &source(how), false);
    }
    text + &format!("{BLOCKS_HEAD}default = {blocks}\n")
}
