//! Devices of two hosts in one process, which have the same number: safe functions distinguish them.

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{self, Device, Executor};

use super::worlds::{prepared, refused};

pub(crate) fn tests() -> Vec<Trial> {
    let devices = || -> Result<[Device; 2], Failed> {
        let device = || Ok::<_, Failed>(Device::with_driver(simulator(Options::default())?));
        Ok([device()?, device()?])
    };
    vec![
        Trial::test("machines::buffers_of_another_device_are_refused", move || {
            let [own, other] = devices()?;
            refused(&own, &other)
        }),
        Trial::test("machines::streams_and_events_of_another_device_are_refused", move || {
            let [own, other] = devices()?;
            streams(&own, &other)
        }),
    ]
}

fn streams(own: &Device, other: &Device) -> Result<(), Failed> {
    let (mut run, mut buffers) = prepared(&Executor::new(own, 2))?;
    let (stream, foreign) = (own.stream()?, other.stream()?);
    match run.launch_buffers(&mut buffers, &foreign) {
        Err(Error::StreamDeviceMismatch { .. }) => {}
        other => return Err(format!("a stream of another device: {other:?}").into()),
    }
    match stream.event()?.microseconds_since(&foreign.event()?) {
        Err(Error::StreamDeviceMismatch { .. }) => {}
        other => return Err(format!("an event of another device: {other:?}").into()),
    }
    match Executor::with_devices(&[own.clone(), other.clone()], cuda::Options::default()) {
        Err(Error::NoPeerAccess { .. }) => Ok(()),
        other => Err(format!("a world of devices of two machines: {other:?}").into()),
    }
}
