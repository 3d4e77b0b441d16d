//! Callbacks of running kernels.

use std::ffi::{CStr, c_char, c_void};

use super::grids::{Block, Grids, Stop};
use super::{Fault, GRIDS};
use crate::accesses::{Access, AccessKind};
use crate::native::{self, NUM_SHARED, SimPoll};
use crate::trace::Step;

/// Returns the kernels whose coroutine calls.
fn current<'a>() -> &'a mut Grids {
    // SAFETY: callbacks come from coroutines of the kernels that `run` stored there, and have exclusive use of them
    // until they return or suspend.
    unsafe { &mut *GRIDS.get() }
}

/// Returns the block whose coroutine calls, and its number of threads.
fn current_block<'a>() -> (&'a mut Block, u32) {
    let grids = current();
    let thread = grids.threads[grids.current as usize].as_ref().expect("it runs");
    let grid = grids.grids[thread.grid as usize].as_mut().expect("it has threads");
    (&mut grid.blocks[thread.facts.block as usize], grid.kernel.threads)
}

fn suspend(stop: Stop) {
    let grids = current();
    let (number, yielder) = (grids.current, grids.yielder);
    // SAFETY: the yielder of the current coroutine, which lives as long as the coroutine.
    unsafe { (*yielder).suspend(stop) };
    debug_assert_eq!(current().current, number);
}

#[unsafe(no_mangle)]
extern "C" fn sim_stop() {
    suspend(Stop::Elsewhere);
}

/// Suspends the current thread at a wait.
///
/// # Safety
/// There are `count` loads.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_wait(polls: *const SimPoll, count: u32) {
    let grids = current();
    // Threads that wait for the host or another process poll, since they read the host's abort flags only after many polls.
    if count == 0 || grids.blocked || grids.idle.is_some() {
        return suspend(Stop::Waiting);
    }
    // SAFETY: given.
    grids.sleep(unsafe { std::slice::from_raw_parts(polls, count as usize) });
    suspend(Stop::Asleep);
}

/// Records an access of the current thread, if accesses are recorded.
fn record(kind: AccessKind, address: u64, bytes: u32, value: u64) {
    let grids = current();
    let Some(log) = grids.options.accesses else { return };
    let Some(Some(thread)) = grids.threads.get(grids.current as usize) else { return };
    let (block, number, grid) = (thread.facts.block, thread.facts.thread, thread.grid);
    let Some(Some(grid)) = grids.grids.get(grid as usize) else { return };
    let (kernel, device) = (grid.kernel.kernel as usize, grid.kernel.device);
    log.push(Access { kernel, device, block, thread: number, kind, address, bytes, value });
}

/// Prepares an access of the current thread; `kind`: its index in [`AccessKind::BY_NUMBER`].
#[unsafe(no_mangle)]
extern "C" fn sim_record(at: *const c_void, bytes: u32, kind: u32, value: u64) {
    if let Some(&kind) = AccessKind::BY_NUMBER.get(kind as usize) {
        record(kind, at as u64, bytes, value);
    }
}

#[unsafe(no_mangle)]
extern "C" fn sim_meet(predicate: bool) -> u32 {
    record(AccessKind::BlockSync, 0, 0, 0);
    // SAFETY: called from a coroutine.
    unsafe { native::sim_share_stores() };
    let number = current().current;
    let (block, threads) = current_block();
    block.arrived += 1;
    block.holds += u32::from(predicate);
    if block.arrived < threads {
        block.parked.push(number);
        suspend(Stop::Parked);
    } else {
        block.result = std::mem::take(&mut block.holds);
        block.arrived = 0;
        let parked = std::mem::take(&mut block.parked);
        parked.into_iter().for_each(|thread| current().add_ready(thread));
        current().make_progress();
    }
    current_block().0.result
}

#[unsafe(no_mangle)]
extern "C" fn sim_now() -> u64 {
    let grids = current();
    if !grids.blocked {
        return grids.clock;
    }
    grids.asked += 1;
    (1 << 62) + (grids.asked << 40)
}

#[unsafe(no_mangle)]
extern "C" fn sim_shared(name: *const c_void, bytes: usize) -> *mut c_void {
    let (block, _) = current_block();
    if let Some((_, memory)) = block.shared.iter_mut().find(|(of, _)| *of == name as usize) {
        return memory.as_mut_ptr().cast();
    }
    // Shared memory is uninitialized at first.
    let mut memory: Box<[u128]> = vec![u128::MAX / 3; bytes.div_ceil(16)].into();
    let place: *mut c_void = memory.as_mut_ptr().cast();
    let number = block.shared.len();
    block.shared.push((name as usize, memory));
    if number < NUM_SHARED {
        block.first_shared.names[number].set(name as usize);
        block.first_shared.places[number].set(place as usize);
    }
    place
}

/// Finds the allocation with some bytes.
///
/// # Safety
/// `first` and `len` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_allocation(
    at: *const c_void,
    bytes: u32,
    write: bool,
    first: *mut u64,
    len: *mut u64,
) -> bool {
    let grids = current();
    let (address, number) = (at as u64, grids.current);
    let inside = |(first, len): (u64, u64)| {
        address >= first && address - first <= len && u64::from(bytes) <= len - (address - first)
    };
    let facts =
        grids.threads[number as usize].as_ref().map_or((0, 0), |thread| (thread.facts.block, thread.facts.thread));
    let Some(of) = grids.grid_of(number) else { return false };
    let pieces = &of.kernel.reach.pieces;
    let behind = pieces.partition_point(|&(first, _)| first <= address);
    let piece = behind.checked_sub(1).map(|at| pieces[at]).filter(|&piece| inside(piece));
    match piece {
        // SAFETY: given.
        Some(piece) => unsafe { (*first, *len) = piece },
        None => {
            let (block, thread) = facts;
            of.fault.get_or_insert(Fault::Access { address, bytes, write, block, thread });
        }
    }
    piece.is_some()
}

/// Lets the kernel of the current thread fail.
///
/// # Safety
/// `condition` is a text that ends with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_fail(condition: *const c_char) {
    let grids = current();
    let number = grids.current;
    let facts = grids.threads[number as usize].as_ref().map(|thread| (thread.facts.block, thread.facts.thread));
    let (block, thread) = facts.unwrap_or_default();
    let Some(of) = grids.grid_of(number) else { return };
    // SAFETY: given.
    let condition = unsafe { CStr::from_ptr(condition) }.to_string_lossy().into_owned();
    of.fault.get_or_insert(Fault::Assertion { condition, block, thread });
}

/// The bug of a switch that omits one member from its loads.
pub(crate) const OMITTED_MEMBER: &str = "a_member_left_out";

/// Stores the members' addresses of a multicast address.
///
/// # Safety
/// There must be space for `most` addresses.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_members(at: *const c_void, bytes: u32, write: bool, addresses: *mut u64, most: u32) -> u32 {
    let grids = current();
    let (address, number, options) = (at as u64, grids.current, grids.options);
    let (block, thread) =
        grids.threads[number as usize].as_ref().map_or((0, 0), |thread| (thread.facts.block, thread.facts.thread));
    let Some(of) = grids.grid_of(number) else { return 0 };
    let mut count = 0;
    if let Some(members) = of.kernel.reach.windows.iter().find_map(|window| window.members(address, bytes)) {
        for member in members.take(most as usize) {
            // SAFETY: there is space for this number of addresses.
            unsafe { addresses.add(count as usize).write(member) };
            count += 1;
        }
    }
    if count == 0 {
        of.fault.get_or_insert(Fault::Access { address, bytes, write, block, thread });
    }
    if let Some(counts) = options.counts {
        let counter = if write { &counts.stores } else { &counts.loads };
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    let left_out = !write && options.bug == Some(OMITTED_MEMBER);
    count - u32::from(left_out && count > 1)
}

/// Records a basic block that the current thread enters, if the launch is traced. Objects that are loaded call it.
pub(crate) extern "C" fn sim_step(address: u64) {
    let grids = current();
    let Some(trace) = grids.options.trace else { return };
    let Some(Some(thread)) = grids.threads.get(grids.current as usize) else { return };
    trace.push(Step { block: thread.facts.block, thread: thread.facts.thread, address }, thread.facts.blocks);
}
