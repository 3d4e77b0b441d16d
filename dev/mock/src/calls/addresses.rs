//! Addresses for physical memory and for multicast objects.

use std::ffi::c_int;
use std::slice;

use super::{UNIT, calls, ordinal, valid};
use crate::code::{self, Code};
use crate::multicast;
use crate::physical::{self, Stage};
use crate::ranges;
use crate::state::{self, called_here};

/// Moves addresses to the next stage.
fn go(address: u64, bytes: usize, from: &[Stage], to: Stage) -> Result<(), Code> {
    let gone = multicast::go(address, bytes, from, to).or_else(|| physical::go(address, bytes, from, to));
    gone.unwrap_or(Err(code::INVALID_VALUE))
}

calls! {
    fn cuMemAddressReserve(address: *mut u64, bytes: usize, align: usize, wish: u64, flags: u64) -> address {
        called_here("cuMemAddressReserve")?;
        valid(bytes.is_multiple_of(UNIT) && align.is_power_of_two() && (wish, flags) == (0, 0))?;
        if (bytes as u64).is_multiple_of(ranges::UNIT) {
            return ranges::reserve(bytes as u64);
        }
        physical::reserve(bytes as u64).or_else(|_| multicast::reserve(bytes as u64))
    }

    fn cuMemAddressFree(address: u64, bytes: usize) {
        called_here("cuMemAddressFree")?;
        let freed = ranges::free(address, bytes as u64);
        freed.unwrap_or_else(|| go(address, bytes, &[Stage::Reserved], Stage::Free))
    }

    fn cuMemMap(address: u64, bytes: usize, offset: usize, memory: u64, flags: u64) {
        called_here("cuMemMap")?;
        if (offset, flags) == (0, 0)
            && physical::is_handle(memory)
            && let Some(mapped) = ranges::map(address, bytes as u64, memory)
        {
            return mapped;
        }
        let is_one = if multicast::is_one(memory) { multicast::is_of(address, memory) } else { address == memory };
        valid(is_one && (offset, flags) == (0, 0) && (multicast::is_one(memory) || physical::is_handle(memory)))?;
        go(address, bytes, &[Stage::Reserved], Stage::Mapped)
    }

    fn cuMemSetAccess(address: u64, bytes: usize, access: *const [u32; 3], count: usize) {
        called_here("cuMemSetAccess")?;
        // SAFETY: the array has this number of descriptions: kind of location, its number, read and write.
        let all = unsafe { slice::from_raw_parts(access, count) };
        let is_device = |number: u32| c_int::try_from(number).is_ok_and(|number| ordinal(number).is_ok());
        valid(count > 0 && all.iter().all(|&[place, number, access]| (place, access) == (1, 3) && is_device(number)))?;
        // All devices of a call are of the host of the first one.
        let with_access = state::devices_with_access(all[0][1] as usize);
        let number = |device: u32| state::number_in_machine(all[0][1] as usize, device as usize);
        if !all.iter().all(|&[_, device, _]| number(device).is_some_and(|number| with_access.contains(&number))) {
            return Err(code::INVALID_DEVICE);
        }
        let opened = ranges::open(address, bytes as u64);
        opened.unwrap_or_else(|| go(address, bytes, &[Stage::Mapped, Stage::Open], Stage::Open))
    }

    fn cuMemUnmap(address: u64, bytes: usize) {
        called_here("cuMemUnmap")?;
        let unmapped = ranges::unmap(address, bytes as u64);
        unmapped.unwrap_or_else(|| go(address, bytes, &[Stage::Mapped, Stage::Open], Stage::Reserved))
    }
}
