//! Collective calls and transfers: arguments are checked when the call is made, and the call is made at once or by its group.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mscclpp_bootstrap::place;
use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::Stream;
use mscclpp_exec::{DataType, Element, Error, with_type};
use mscclpp_select::{Choice, Config as Launch, Request};

use crate::abi::{self, Handle, StreamHandle};
use crate::comm::transfer::{self, Transfer};
use crate::comm::{Comm, Identity, Memory, Operator, Scalar, scale};
use crate::config::CallConfig;
use crate::decision;
use crate::entry::{Failure, Result};
use crate::forward::{self, Forwarded, RULES_VARIABLE};
use crate::kind::Kind;
use crate::open_group;
use crate::profiler::{self, Subject, Trace};

/// Maximum number of bytes of a buffer: all that a processor addresses.
const MAX_BYTES: u64 = 1 << 57;

/// The arguments of a call, as its caller passes them.
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    pub(crate) send: *const c_void,
    pub(crate) recv: *mut c_void,
    /// Elements; of a part where there is one for each rank.
    pub(crate) count: usize,
    pub(crate) dtype: c_int,
    pub(crate) comm: Handle,
    pub(crate) stream: StreamHandle,
}

/// A call whose arguments are valid.
pub(crate) struct Call {
    pub(crate) comm: Arc<Comm>,
    communicator: Communicator,
    stream: Arc<Stream>,
    kind: Kind,
    operator: Operator,
    dtype: DataType,
    /// Memory that this rank reads, and memory that it writes; none where NCCL ignores it.
    send: Option<Memory>,
    recv: Option<Memory>,
    config: CallConfig,
    stream_handle: usize,
    arguments: Arguments,
    /// Whether the rules forward it to the real NCCL.
    is_forwarded: bool,
    /// Its events, if a plugin profiles it.
    trace: Option<Trace>,
}

// SAFETY: the pointers of the arguments are numbers here, which only the functions of the real NCCL use.
unsafe impl Send for Call {}

impl Call {
    /// Checks the arguments. A call of no elements is one like any other: the ranks compare it, and nothing is launched.
    pub(crate) fn new(comm: Arc<Comm>, kind: Kind, arguments: &Arguments, config: &CallConfig) -> Result<Self> {
        let Arguments { send, recv, count, dtype, stream, .. } = *arguments;
        let communicator = comm.for_call()?;
        let dtype = abi::data_type(dtype)
            .ok_or_else(|| Failure::argument(format!("datatype: {dtype} is no type of NCCL 2.32")))?;
        let operator = match kind.operator() {
            Some(op) => comm.operators.find(op, dtype)?,
            None => Operator::Plain(ReduceOp::Sum),
        };
        let (rank, ranks) = (communicator.rank() as c_int, communicator.num_ranks());
        if let Some((name, found)) = kind.rank()
            && !(0..ranks as c_int).contains(&found)
        {
            return Err(Failure::argument(format!("{name}: expected a rank below {ranks}, found {found}")));
        }
        let size = dtype.size();
        let memory = |name, at: *const c_void, parts: u64| -> Result<Option<Memory>> {
            let elements = (count as u64).checked_mul(parts);
            let bytes =
                elements.and_then(|elements| elements.checked_mul(size as u64)).filter(|bytes| *bytes <= MAX_BYTES);
            let exceeds =
                || format!("count: {count} elements of {size} bytes, {parts} times, exceed the address space");
            let bytes = bytes.ok_or_else(|| Failure::argument(exceeds()))?;
            match (parts, bytes) {
                (0, _) => Ok(None),
                // Its address is ignored, and may be null.
                (_, 0) => Ok(Some(Memory::internal(0, 0))),
                _ => comm.memory(name, at, bytes, size).map(Some),
            }
        };
        let [sent, received] = kind.parts(rank, u64::from(ranks));
        let (send, recv) = (memory("sendbuff", send, sent)?, memory("recvbuff", recv, received)?);
        let (stream_handle, config) = (stream as usize, config.clone());
        let bytes = (count as u64).saturating_mul(size as u64).saturating_mul(kind.max_parts(u64::from(ranks)));
        let is_forwarded = comm.nested().is_some() && forward::rules().covers(kind.operation(), bytes);
        let (stream, arguments) = (comm.stream(stream_handle), *arguments);
        Ok(Self {
            comm,
            communicator,
            stream,
            kind,
            operator,
            dtype,
            send,
            recv,
            config,
            stream_handle,
            arguments,
            is_forwarded,
            trace: None,
        })
    }

    /// Starts the call's events, if a plugin profiles the communicator. The real NCCL sends those of forwarded calls; a call of no elements,
    /// which launches nothing, has none.
    pub(crate) fn profile(&mut self) {
        let is_recorded = !self.is_forwarded && self.arguments.count > 0;
        let profiler = if is_recorded { self.comm.profiler() } else { None };
        self.trace = profiler.map(|profiler| {
            let Arguments { send, recv, count, dtype, .. } = self.arguments;
            let (send, recv, stream) = (send as usize, recv as usize, self.stream_handle);
            let subject = Subject { kind: self.kind, send, recv, count, dtype, stream, tag: self.config.tag };
            profiler::begin(profiler, subject, open_group::depth())
        });
    }

    /// Takes the call's events.
    pub(crate) fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take()
    }

    /// Returns what distinguishes the communicator from all others, the same on all ranks.
    pub(crate) fn identity(&self) -> Identity {
        self.communicator.bootstrap().identity()
    }

    /// Returns whether the rules forward the call.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// Returns whether the call moves data from one rank to another one.
    pub(crate) fn is_transfer(&self) -> bool {
        self.kind.is_transfer()
    }

    /// Makes a call alone.
    pub(crate) fn run(mut self) -> Result<()> {
        let comm = Arc::clone(&self.comm);
        let _calling = comm.calling();
        if self.is_forwarded {
            return self.forward().and_then(|()| self.record_event());
        }
        match self.transfer() {
            Some(transfer) => {
                profiler::record_transfers(self.take_trace().as_slice(), || transfer::make(transfer))?;
                self.record_event()
            }
            None => self.run_collective(),
        }
    }

    /// Returns the transfer that the call is, if it is one.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        let (peer, is_sent, memory) = match (self.kind, &self.send, &self.recv) {
            (Kind::Send(peer), Some(memory), _) => (peer, true, memory),
            (Kind::Recv(peer), _, Some(memory)) => (peer, false, memory),
            _ => return None,
        };
        self.comm.count_call(self.kind);
        let (comm, communicator) = (Arc::clone(&self.comm), self.communicator.clone());
        let (stream, memory) = (Arc::clone(&self.stream), memory.clone());
        Some(Transfer { comm, communicator, stream, memory, dtype: self.dtype, peer: peer as u32, is_sent })
    }

    /// Makes a call of all ranks: by an algorithm, or by the real NCCL if there is none.
    pub(crate) fn run_collective(&self) -> Result<()> {
        let (comm, _name) = (&self.comm, place::enter_name(self.kind.function()));
        comm.count_call(self.kind);
        let choice = match self.choice() {
            Ok(choice) => choice,
            Err(error) => return comm.result(Err(error)),
        };
        comm.result(comm.force(&self.communicator, choice))?;
        let mut request = self.request();
        if self.has_forms() {
            request.in_place = match self.communicator.on(&self.stream).agree_in_place(&request, request.in_place) {
                Ok(form) => form,
                Err(error) => return comm.result(Err(error)),
            };
        }
        if comm.nested().is_some() && self.kind.collective().is_some() {
            match comm.check_served(&self.communicator, &self.stream, &request) {
                Ok(()) => {}
                Err(error @ (Error::Select { .. } | Error::NoPlan { .. })) => {
                    decision::forwarded(self.kind, self.dtype, self.bytes(), || {
                        format!("no algorithm serves it: {error}")
                    });
                    return self.make_forwarded().and_then(|()| self.record_event());
                }
                Err(error) => return comm.result(Err(error)),
            }
        }
        let launch = profiler::launch(self.trace.as_slice());
        let made = with_type!(self.dtype, T => self.collective::<T>(request.in_place));
        drop(launch);
        comm.result(made.and(comm.end_temporary(&self.stream)))?;
        if self.trace.is_some() {
            profiler::enqueued(self.trace.as_slice(), &self.algorithm());
        }
        decision::made(&self.communicator, &self.stream, self.config.algorithm.as_deref());
        self.record_event()
    }

    /// Makes a call that the rules forward.
    pub(crate) fn forward(&self) -> Result<()> {
        self.comm.count_call(self.kind);
        decision::forwarded(self.kind, self.dtype, self.bytes(), || format!("listed by {RULES_VARIABLE}"));
        self.make_forwarded()
    }

    fn make_forwarded(&self) -> Result<()> {
        self.comm.check()?;
        let Arguments { send, recv, count, dtype, .. } = self.arguments;
        let scalar = match self.operator {
            Operator::Plain(_) => None,
            Operator::Scaled(scalar) => Some(scalar.for_library()),
        };
        let (send, recv, stream) = (send as usize, recv as usize, self.stream_handle);
        let call = Forwarded { kind: self.kind, send, recv, count, dtype, stream, scalar };
        self.comm.forward(|nested| nested.make(&call))
    }

    /// Records the event that the caller wants after the call.
    pub(crate) fn record_event(&self) -> Result<()> {
        match self.config.event {
            Some(event) => self.comm.result(self.comm.record(event, self.stream_handle)),
            None => Ok(()),
        }
    }

    /// Returns the bytes of the larger of a rank's input and output.
    fn bytes(&self) -> u64 {
        let parts = self.kind.max_parts(u64::from(self.communicator.num_ranks()));
        (self.arguments.count as u64).saturating_mul(self.dtype.size() as u64).saturating_mul(parts)
    }

    /// Returns the name of the algorithm that has made the call.
    fn algorithm(&self) -> String {
        let of_last = || self.communicator.on(&self.stream).last_call().ok().flatten()?.algorithm;
        match self.kind {
            Kind::Gather(_) | Kind::Scatter(_) => "transfers".to_owned(),
            // A single rank has its result.
            _ => of_last().unwrap_or_else(|| "copy".to_owned()),
        }
    }

    /// Returns the request for an algorithm.
    fn request(&self) -> Request {
        let collective = self.kind.collective().unwrap_or(CollectiveKind::AllReduce);
        let addresses = [&self.send, &self.recv].map(|memory| memory.as_ref().map(Memory::address));
        let own = match self.kind {
            Kind::AllGather => self.send.as_ref().map_or(0, Memory::bytes) * u64::from(self.communicator.rank()),
            _ => 0,
        };
        let in_place = match self.kind {
            Kind::Reduce(..) | Kind::Broadcast(_) => true,
            Kind::ReduceScatter(_) => false,
            Kind::AllReduce(_) if matches!(self.operator, Operator::Scaled(_)) => true,
            // Without elements ranks need not agree on the form.
            _ => self.arguments.count == 0 || addresses[0] == addresses[1].map(|address| address + own),
        };
        let root = match self.kind {
            Kind::Reduce(_, root) | Kind::Broadcast(root) => root as u32,
            _ => 0,
        };
        let op = self.kind.operator().map(|_| self.plain());
        Request { op, root, in_place, ..self.communicator.request_of(collective, self.dtype, self.bytes()) }
    }

    /// Returns whether some ranks may make the call in place and others not, which the memory of windows excludes: its plan has one
    /// form on all ranks.
    fn has_forms(&self) -> bool {
        let is_registered = [&self.send, &self.recv].into_iter().flatten().all(Memory::is_registered);
        matches!(self.kind, Kind::AllReduce(_) | Kind::AllGather | Kind::AllToAll)
            && !is_registered
            && self.communicator.num_ranks() > 1
    }

    /// Returns the algorithm that the caller names.
    ///
    /// # Errors
    /// [`Error::NoPlan`] if the caller demands one that does not exist.
    fn choice(&self) -> std::result::Result<Option<(CollectiveKind, Choice)>, Error> {
        let (Some(name), Some(collective)) = (&self.config.algorithm, self.kind.collective()) else { return Ok(None) };
        let registry = self.communicator.registry()?;
        let is_known = registry.find(name).is_some_and(|algorithm| algorithm.collective() == collective);
        if !is_known && !self.config.is_forced {
            return Ok(None);
        }
        let config = Launch { blocks: self.config.max_blocks, ..Launch::default() };
        Ok(Some((collective, Choice { name: name.clone(), config })))
    }

    /// Returns the input of a call of either form: `own` is where the input is in the output of a call in place. Copies it if this
    /// rank's call has the other form.
    fn input<T: Element>(&self, send: Memory, mut own: Memory, in_place: bool) -> std::result::Result<Memory, Error> {
        match (in_place, send.address() == own.address()) {
            (true, true) | (false, false) => Ok(send),
            (true, false) => {
                self.stream.copy::<T>(&send, &mut own)?;
                Ok(own)
            }
            (false, true) => {
                let mut copy = self.temporary(&send)?;
                self.stream.copy::<T>(&send, &mut copy)?;
                Ok(copy)
            }
        }
    }

    /// Makes the call; `in_place`: its form, if it has two.
    fn collective<T: Element>(&self, in_place: bool) -> std::result::Result<(), Error> {
        let on = self.communicator.on(&self.stream);
        let none = || Error::Internal(format!("{:?} without its memory", self.kind));
        let send = || self.send.clone().ok_or_else(none);
        let recv = || self.recv.clone().ok_or_else(none);
        let rank = u64::from(self.communicator.rank());
        let copy = |from: &Memory, to: &mut Memory| -> std::result::Result<(), Error> {
            if from.address() == to.address() { Ok(()) } else { self.stream.copy::<T>(from, to) }
        };
        match self.kind {
            Kind::AllReduce(_) => {
                let (send, mut recv, op) = (send()?, recv()?, self.plain());
                let input = match self.operator {
                    Operator::Scaled(scalar) => {
                        let scaled = if in_place { recv.clone() } else { self.temporary(&recv)? };
                        self.scale::<T>(&scalar, &send, &scaled)?;
                        scaled
                    }
                    Operator::Plain(_) => self.input::<T>(send, recv.clone(), in_place)?,
                };
                match in_place {
                    true => on.all_reduce_in_place::<T>(&mut recv, op),
                    false => on.all_reduce::<T>(&input, &mut recv, op),
                }
            }
            Kind::Reduce(_, root) => {
                // Other ranks' memory for the result may be none, so that all of them call in place.
                let (send, op) = (send()?, self.plain());
                let mut result = match (&self.recv, self.operator) {
                    (Some(recv), _) => recv.clone(),
                    (None, Operator::Plain(_)) => send.clone(),
                    (None, Operator::Scaled(_)) => self.temporary(&send)?,
                };
                match self.operator {
                    Operator::Scaled(scalar) => self.scale::<T>(&scalar, &send, &result)?,
                    Operator::Plain(_) => copy(&send, &mut result)?,
                }
                on.reduce_in_place::<T>(&mut result, op, root as u32)
            }
            Kind::ReduceScatter(_) => {
                let (send, mut recv, op) = (send()?, recv()?, self.plain());
                let own = send.part(rank * recv.bytes(), recv.bytes());
                match self.operator {
                    Operator::Scaled(scalar) => {
                        let scaled = self.temporary(&send)?;
                        self.scale::<T>(&scalar, &send, &scaled)?;
                        on.reduce_scatter::<T>(&scaled, &mut recv, op)
                    }
                    // The other parts of the caller's memory stay as they are.
                    Operator::Plain(_) if own.address() == recv.address() => {
                        let mut result = self.temporary(&recv)?;
                        on.reduce_scatter::<T>(&send, &mut result, op)?;
                        self.stream.copy::<T>(&result, &mut recv)
                    }
                    Operator::Plain(_) => on.reduce_scatter::<T>(&send, &mut recv, op),
                }
            }
            Kind::Broadcast(root) => {
                // Other ranks' memory for the input may be none, so that all of them call in place.
                let mut recv = recv()?;
                if let Some(send) = &self.send {
                    copy(send, &mut recv)?;
                }
                on.broadcast_in_place::<T>(&mut recv, root as u32)
            }
            Kind::AllGather => {
                let (send, mut recv) = (send()?, recv()?);
                let own = recv.part(rank * send.bytes(), send.bytes());
                let input = self.input::<T>(send, own, in_place)?;
                match in_place {
                    true => on.all_gather_in_place::<T>(&mut recv),
                    false => on.all_gather::<T>(&input, &mut recv),
                }
            }
            Kind::AllToAll => {
                let (send, mut recv) = (send()?, recv()?);
                let input = self.input::<T>(send, recv.clone(), in_place)?;
                match in_place {
                    true => on.all_to_all_in_place::<T>(&mut recv),
                    false => on.all_to_all::<T>(&input, &mut recv),
                }
            }
            Kind::Gather(root) => {
                let send = send()?;
                let mut recv = self.recv.clone().unwrap_or_else(|| send.part(0, 0));
                on.gather::<T>(&send, &mut recv, root as u32)
            }
            Kind::Scatter(root) => {
                let mut recv = recv()?;
                let send = self.send.clone().unwrap_or_else(|| recv.part(0, 0));
                on.scatter::<T>(&send, &mut recv, root as u32)
            }
            Kind::Send(_) | Kind::Recv(_) => Err(Error::Internal("a transfer outside of a group".into())),
        }
    }

    /// Returns the reduction that follows the multiplication, if there is one.
    fn plain(&self) -> ReduceOp {
        match self.operator {
            Operator::Plain(op) => op,
            Operator::Scaled(_) => ReduceOp::Sum,
        }
    }

    fn scale<T: Element>(&self, scalar: &Scalar, from: &Memory, to: &Memory) -> std::result::Result<(), Error> {
        let count = from.bytes() / size_of::<T>() as u64;
        scale(&self.comm, &self.stream, scalar, [from.address(), to.address()], count)
    }

    /// Returns memory as long as other memory, for this call.
    fn temporary(&self, like: &Memory) -> std::result::Result<Memory, Error> {
        self.comm.temporary(&self.stream, like.bytes())
    }
}
