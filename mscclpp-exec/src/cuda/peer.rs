//! Devices that reach one another's memory.

use super::device::Device;
use crate::error::Error;

/// Lets each of these devices reach the memory of every other one.
///
/// # Errors
/// [`Error::NoPeerAccess`] with the names of two that are not connected; [`Error::Driver`].
pub(super) fn connect(devices: &[Device]) -> Result<(), Error> {
    for device in devices {
        for peer in devices.iter().filter(|peer| !peer.is_same(device)) {
            // Another driver's device.
            if peer.ordinal() == device.ordinal() {
                return Err(Error::NoPeerAccess { device: device.label(), peer: peer.label() });
            }
            connect_to(device, peer.ordinal(), &peer.label())?;
        }
    }
    Ok(())
}

/// Lets a device reach the memory of another one of the process.
///
/// # Errors
/// As [`connect`].
pub(super) fn connect_to(device: &Device, ordinal: u32, label: &str) -> Result<(), Error> {
    if !device.driver().can_access(ordinal)? {
        return Err(Error::NoPeerAccess { device: device.label(), peer: label.to_owned() });
    }
    Ok(device.driver().enable_access(ordinal)?)
}
