//! Every collective call on device memory, compared with the call of the same communicator on slices.

use std::fmt::Debug;

use half::{bf16, f16};
use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, OnStream};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::collective::CollectiveKind::{
    AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter, SendRecv,
};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::{Device, DeviceMut, DeviceRef, DeviceVec, DeviceView, DeviceViewMut};
use mscclpp_exec::{E4m3, E4m3B15, E5m2, Element, Error};

/// Where the memory of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In one registered allocation.
    Registered,
    /// In allocations of the caller's.
    Own,
    /// At addresses.
    Raw,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) kind: CollectiveKind,
    pub(super) op: ReduceOp,
    pub(super) root: u32,
}

/// Elements with small integer values, so that results do not depend on the order of a reduction.
pub(super) trait Small: Element + PartialEq + Debug {
    /// The largest of the values, which sums and products of eight ranks round to no other ones.
    const LARGEST: u8 = 5;

    fn of(value: u8) -> Self;
}

macro_rules! small {
    ($($element:ty)*) => { $(impl Small for $element {
        fn of(value: u8) -> Self {
            value as $element
        }
    })* };
}
small!(i8 u8 i32 u32 i64 u64 f32 f64);

macro_rules! small_floats {
    ($($element:ty, $largest:literal, $from:expr;)*) => { $(impl Small for $element {
        const LARGEST: u8 = $largest;

        fn of(value: u8) -> Self {
            $from(value.into())
        }
    })* };
}
small_floats! {
    f16, 5, f16::from_f32;
    bf16, 5, bf16::from_f32;
    E4m3, 1, E4m3::from_f64;
    E5m2, 1, E5m2::from_f64;
    // 16ths: the sums of eight ranks are at most 1.
    E4m3B15, 2, |value: f64| E4m3B15::from_f64(value / 16.0);
}

fn on_slices<T: Small>(comm: &Communicator, case: Case, input: &[T], output: &mut [T]) -> Result<(), Error> {
    let Case { kind, op, root } = case;
    match kind {
        AllReduce => comm.all_reduce(input, output, op),
        AllGather => comm.all_gather(input, output),
        ReduceScatter => comm.reduce_scatter(input, output, op),
        AllToAll => comm.all_to_all(input, output),
        Broadcast => comm.broadcast(input, output, root),
        Reduce => comm.reduce(input, output, op, root),
        _ => comm.send_recv(input, output),
    }
}

fn on_slice<T: Small>(comm: &Communicator, case: Case, buffer: &mut [T]) -> Result<(), Error> {
    let Case { kind, op, root } = case;
    match kind {
        AllReduce => comm.all_reduce_in_place(buffer, op),
        AllGather => comm.all_gather_in_place(buffer),
        ReduceScatter => comm.reduce_scatter_in_place(buffer, op),
        AllToAll => comm.all_to_all_in_place(buffer),
        Broadcast => comm.broadcast_in_place(buffer, root),
        Reduce => comm.reduce_in_place(buffer, op, root),
        _ => comm.send_recv_in_place(buffer),
    }
}

fn separate<T: Small>(
    on: &OnStream<'_>,
    case: Case,
    input: &impl DeviceRef<T>,
    output: &mut impl DeviceMut<T>,
) -> Result<(), Error> {
    let Case { kind, op, root } = case;
    match kind {
        AllReduce => on.all_reduce(input, output, op),
        AllGather => on.all_gather(input, output),
        ReduceScatter => on.reduce_scatter(input, output, op),
        AllToAll => on.all_to_all(input, output),
        Broadcast => on.broadcast(input, output, root),
        Reduce => on.reduce(input, output, op, root),
        _ => on.send_recv(input, output),
    }
}

fn same<T: Small>(on: &OnStream<'_>, case: Case, buffer: &mut impl DeviceMut<T>) -> Result<(), Error> {
    let Case { kind, op, root } = case;
    match kind {
        AllReduce => on.all_reduce_in_place(buffer, op),
        AllGather => on.all_gather_in_place(buffer),
        ReduceScatter => on.reduce_scatter_in_place(buffer, op),
        AllToAll => on.all_to_all_in_place(buffer),
        Broadcast => on.broadcast_in_place(buffer, root),
        Reduce => on.reduce_in_place(buffer, op, root),
        _ => on.send_recv_in_place(buffer),
    }
}

/// Makes every call, out of place and in place, with parts of these lengths.
pub(super) fn every_case<T: Small>(
    comm: &Communicator,
    device: &Device,
    home: Home,
    lengths: &[usize],
    ops: &[ReduceOp],
) -> Result<(), Failed> {
    let stream = device.stream()?;
    let on = comm.on(&stream);
    let ranks = comm.num_ranks() as usize;
    let longest = lengths.iter().max().copied().unwrap_or(0) * ranks;
    // Parts begin at any element.
    let mut memory: DeviceVec<T> = match home {
        Home::Registered => on.alloc(2 * longest + 8)?,
        _ => DeviceVec::new(device, 2 * longest + 8)?,
    };
    for (number, &each) in lengths.iter().enumerate() {
        for kind in [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv] {
            let reduces = matches!(kind, AllReduce | ReduceScatter | Reduce);
            for &op in if reduces { ops } else { &ops[..1] } {
                let case = Case { kind, op, root: number as u32 % comm.num_ranks() };
                let named =
                    |failed: Error| -> Failed { format!("{case:?}, {each} × {ranks}, {home:?}: {failed}").into() };
                out_of_place(comm, &on, case, each, home, &mut memory).map_err(named)?;
                in_place(comm, &on, case, each, home, &mut memory).map_err(named)?;
            }
        }
    }
    Ok(())
}

fn values<T: Small>(comm: &Communicator, case: Case, len: usize) -> Vec<T> {
    let [least, most] = if case.op == ReduceOp::Prod { [1, 2.min(T::LARGEST)] } else { [0, T::LARGEST] };
    let value = |at: usize| least + ((at * 7 + at / 11) as u8).wrapping_add(comm.rank() as u8 * 3) % (most + 1 - least);
    (0..len).map(|at| T::of(value(at))).collect()
}

/// Makes a call, out of place or in place, on memory of its own.
pub(super) fn call<T: Small>(
    comm: &Communicator,
    device: &Device,
    case: Case,
    each: usize,
    home: Home,
    is_in_place: bool,
) -> Result<(), Error> {
    let stream = device.stream()?;
    let on = comm.on(&stream);
    let len = 2 * each * comm.num_ranks() as usize + 8;
    let mut memory: DeviceVec<T> = match home {
        Home::Registered => on.alloc(len)?,
        _ => DeviceVec::new(device, len)?,
    };
    let call = if is_in_place { in_place } else { out_of_place };
    call(comm, &on, case, each, home, &mut memory)
}

/// Returns whether a call was made as expected.
fn check(on: &OnStream<'_>, home: Home, bytes: u64, ranks: usize) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Internal(what));
    let Some(last) = on.last_call()? else { return wrong("no call".into()) };
    if last.request.registered != (home == Home::Registered) {
        return wrong(format!("{last:?}"));
    }
    if last.request.registered && ranks > 1 && last.bytes_copied != 0 || last.bytes_copied > bytes {
        return wrong(format!("{last:?}, expected at most {bytes} copied bytes"));
    }
    // Peers write packets to scratch, whatever memory a call is made on.
    let by_packets = last.algorithm.as_ref().is_some_and(|algorithm| algorithm.ends_with("packets"));
    if by_packets && last.request.num_nodes() == 1 && last.bytes_copied != 0 {
        return wrong(format!("{last:?}, expected no copy"));
    }
    if (last.algorithm.is_some(), last.num_launches) != (bytes > 0 && ranks > 1, u32::from(bytes > 0 && ranks > 1)) {
        return wrong(format!("{last:?}"));
    }
    Ok(())
}

fn out_of_place<T: Small>(
    comm: &Communicator,
    on: &OnStream<'_>,
    case: Case,
    each: usize,
    home: Home,
    memory: &mut DeviceVec<T>,
) -> Result<(), Error> {
    let all = each * comm.num_ranks() as usize;
    let [i, o] = match case.kind {
        AllGather => [each, all],
        ReduceScatter => [all, each],
        AllToAll => [all, all],
        _ => [each, each],
    };
    let input = values::<T>(comm, case, i);
    let mut expected = vec![T::of(99); o];
    on_slices(comm, case, &input, &mut expected)?;
    let inside = || Error::Internal("a range outside".into());
    let mut found = vec![T::of(99); memory.len()];
    found[3..3 + i].copy_from_slice(&input);
    memory.write(&found)?;
    let address = memory.as_slice().address;
    match home {
        Home::Raw => {
            let size = size_of::<T>() as u64;
            // SAFETY: parts of `memory`, which exists until its drop, which waits.
            let input = unsafe { DeviceView::<T>::from_raw(address + 3 * size, i) };
            // SAFETY: as above.
            let mut output = unsafe { DeviceViewMut::<T>::from_raw(address + (5 + i as u64) * size, o) };
            separate(on, case, &input, &mut output)?;
        }
        _ => {
            let (first, mut second) = memory.split_at_mut(4 + i).ok_or_else(inside)?;
            let input = first.slice(3..3 + i).ok_or_else(inside)?;
            let mut output = second.slice_mut(1..1 + o).ok_or_else(inside)?;
            separate(on, case, &input, &mut output)?;
        }
    }
    check(on, home, ((i + o) * size_of::<T>()) as u64, comm.num_ranks() as usize)?;
    on.synchronize()?;
    memory.read(&mut found)?;
    let ends_equal = found[..3].iter().chain(&found[5 + i + o..]).all(|found| *found == T::of(99));
    match found[5 + i..5 + i + o] == expected && found[3..3 + i] == input && ends_equal {
        true => Ok(()),
        false => Err(Error::Internal(format!("{found:?}, expected {input:?} and {expected:?}"))),
    }
}

fn in_place<T: Small>(
    comm: &Communicator,
    on: &OnStream<'_>,
    case: Case,
    each: usize,
    home: Home,
    memory: &mut DeviceVec<T>,
) -> Result<(), Error> {
    let len = match case.kind {
        AllGather | ReduceScatter | AllToAll => each * comm.num_ranks() as usize,
        _ => each,
    };
    let mut expected = values::<T>(comm, case, len);
    let mut found = vec![T::of(99); memory.len()];
    found[1..1 + len].copy_from_slice(&expected);
    memory.write(&found)?;
    on_slice(comm, case, &mut expected)?;
    let address = memory.as_slice().address + size_of::<T>() as u64;
    match home {
        // SAFETY: as above.
        Home::Raw => same(on, case, &mut unsafe { DeviceViewMut::<T>::from_raw(address, len) })?,
        _ => {
            let mut buffer = memory.slice_mut(1..1 + len).ok_or_else(|| Error::Internal("a range outside".into()))?;
            same(on, case, &mut buffer)?;
        }
    }
    check(on, home, (2 * len * size_of::<T>()) as u64, comm.num_ranks() as usize)?;
    on.synchronize()?;
    memory.read(&mut found)?;
    // Of a reduce-scatter the other parts may hold anything.
    let own = each * comm.rank() as usize;
    let part = if case.kind == ReduceScatter { own..own + each } else { 0..len };
    let ends_equal = found[..1].iter().chain(&found[1 + len..]).all(|found| *found == T::of(99));
    match found[1 + part.start..1 + part.end] == expected[part] && ends_equal {
        true => Ok(()),
        false => Err(Error::Internal(format!("in place: {found:?}, expected {expected:?}"))),
    }
}
