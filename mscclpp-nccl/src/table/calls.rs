//! Collective calls, transfers, one-sided calls, their groups and operators.

use std::ffi::{c_int, c_uint, c_void};

use super::{Class, Function, functions};
use crate::abi::{Handle, StreamHandle};
use crate::call::Arguments;
use crate::comm::{self, OneSided, Put};
use crate::config::{Answer, CallConfig};
use crate::entry::{self, Result, check_pointer, write};
use crate::forward::PutSignal;
use crate::kind::Kind;
use crate::{group, open_group};

/// Makes a call with the configuration of a caller.
///
/// # Safety
/// As for [`CallConfig::read`].
unsafe fn configured(kind: Kind, arguments: Arguments, config: *const c_void) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    group::call(kind, arguments, &unsafe { CallConfig::read(config) }?)
}

/// Makes a call.
fn plain(kind: Kind, arguments: Arguments) -> Result<()> {
    group::call(kind, arguments, &CallConfig::default())
}

functions! {
    211 Ours ncclRedOpCreatePreMulSum pncclRedOpCreatePreMulSum(op: *mut c_int, scalar: *mut c_void, dtype: c_int, residence: c_int, comm: Handle) => {
        check_pointer("op", op)?;
        // SAFETY: guaranteed by the caller.
        let new = unsafe { comm::reduction::create(&*comm::find(comm)?, scalar, dtype, residence) }?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("op", op, new) }
    }
    211 Ours ncclRedOpDestroy pncclRedOpDestroy(op: c_int, comm: Handle) => { comm::reduction::destroy(&*comm::find(comm)?, op) }
    200 Ours ncclReduce pncclReduce(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Reduce(op, root), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclBcast pncclBcast(buffer: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Broadcast(root), Arguments { send: buffer, recv: buffer, count, dtype, comm, stream })
    }
    202 Ours ncclBroadcast pncclBroadcast(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Broadcast(root), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclAllReduce pncclAllReduce(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::AllReduce(op), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclReduceScatter pncclReduceScatter(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::ReduceScatter(op), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclAllGather pncclAllGather(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::AllGather, Arguments { send, recv, count, dtype, comm, stream })
    }
    228 Ours ncclAlltoAll pncclAlltoAll(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::AllToAll, Arguments { send, recv, count, dtype, comm, stream })
    }
    228 Ours ncclGather pncclGather(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Gather(root), Arguments { send, recv, count, dtype, comm, stream })
    }
    228 Ours ncclScatter pncclScatter(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Scatter(root), Arguments { send, recv, count, dtype, comm, stream })
    }
    231 Ours ncclAllReduceConfig pncclAllReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::AllReduce(op), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclBroadcastConfig pncclBroadcastConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Broadcast(root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclReduceConfig pncclReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Reduce(op, root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclAllGatherConfig pncclAllGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::AllGather, Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclReduceScatterConfig pncclReduceScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::ReduceScatter(op), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclAlltoAllConfig pncclAlltoAllConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::AllToAll, Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclGatherConfig pncclGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Gather(root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclScatterConfig pncclScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Scatter(root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    207 Ours ncclSend pncclSend(send: *const c_void, count: usize, dtype: c_int, peer: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Send(peer), Arguments { send, recv: std::ptr::null_mut(), count, dtype, comm, stream })
    }
    207 Ours ncclRecv pncclRecv(recv: *mut c_void, count: usize, dtype: c_int, peer: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Recv(peer), Arguments { send: std::ptr::null(), recv, count, dtype, comm, stream })
    }
    229 Ours ncclPutSignal pncclPutSignal(local: *const c_void, count: usize, dtype: c_int, peer: c_int, window: *mut c_void, offset: usize, signal: c_int, context: c_int, flags: c_uint, of: Handle, stream: StreamHandle) => {
        let (comm, stream) = (comm::find(of)?, stream as usize);
        if comm.nested().is_none() {
            let put = Put { local, count, dtype, peer, window, offset, signal, context, flags };
            return group::one_sided(OneSided::put(&comm, &put, stream)?);
        }
        let window = comm::nested_window(window)?;
        let put = PutSignal { local: local as usize, count, dtype, peer, window, offset, signal, context, flags, stream };
        group::pass(comm, move |nested| nested.put_signal(&put))
    }
    229 Ours ncclSignal pncclSignal(peer: c_int, signal: c_int, context: c_int, flags: c_uint, of: Handle, stream: StreamHandle) => {
        let (comm, stream) = (comm::find(of)?, stream as usize);
        match comm.nested() {
            None => group::one_sided(OneSided::signal(&comm, peer, [signal, context], flags, stream)?),
            Some(_) => group::pass(comm, move |nested| nested.signal(peer, signal, context, flags, stream)),
        }
    }
    229 Ours ncclWaitSignal pncclWaitSignal(count: c_int, signals: *mut c_void, of: Handle, stream: StreamHandle) => {
        let (comm, stream) = (comm::find(of)?, stream as usize);
        // SAFETY: guaranteed by the caller.
        let mut signals = unsafe { comm::descriptions(count, signals) }?;
        match comm.nested() {
            None => group::one_sided(OneSided::wait(&comm, &signals, stream)?),
            Some(_) => group::pass(comm, move |nested| nested.wait_signal(&mut signals, stream)),
        }
    }
    200 Ours ncclGroupStart pncclGroupStart() => {
        open_group::begin();
        Ok(())
    }
    200 Ours ncclGroupEnd pncclGroupEnd() => { group::end() }
    222 Ours ncclGroupSimulateEnd pncclGroupSimulateEnd(info: *mut c_void) => {
        group::discard()?;
        if !info.is_null() {
            // SAFETY: guaranteed by the caller. No time is estimated: NCCL's undefined number.
            unsafe { Answer::open("simInfo", info, 0x7468_5283) }?.set(16, &(-1.0_f32).to_ne_bytes());
        }
        Ok(())
    }
}
