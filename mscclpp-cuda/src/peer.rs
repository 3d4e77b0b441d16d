//! Peer access between devices.

use crate::device::Device;
use mscclpp_base::error::Error;

/// Enables access of each of these devices to the memory of every other one.
///
/// # Errors
/// [`Error::NoPeerAccess`] with the names of two that are not connected; [`Error::Driver`].
pub fn connect(devices: &[Device]) -> Result<(), Error> {
    for device in devices {
        for peer in devices.iter().filter(|peer| !peer.is_same(device)) {
            // The same number means a device of another driver.
            if peer.ordinal() == device.ordinal() {
                return Err(Error::NoPeerAccess { device: device.label(), peer: peer.label() });
            }
            connect_to(device, peer.ordinal(), &peer.label())?;
        }
    }
    Ok(())
}

/// Enables access of a device to the memory of another one of the process.
///
/// # Errors
/// Those of [`connect`].
pub fn connect_to(device: &Device, ordinal: u32, label: &str) -> Result<(), Error> {
    if !device.driver().can_access(ordinal)? {
        return Err(Error::NoPeerAccess { device: device.label(), peer: label.to_owned() });
    }
    Ok(device.driver().enable_access(ordinal)?)
}
