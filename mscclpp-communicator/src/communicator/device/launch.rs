//! Serves a call on device memory: selects an algorithm, prepares its plan and binds memory once, and launches.

use std::panic::Location;
use std::sync::Arc;

use mscclpp_bootstrap::place;
use mscclpp_core::collective::CollectiveKind;

use super::KernelPolicy;
use super::LaunchedCall;
use super::connection::Connection;
use super::counted;
use super::posted::{Kind, Position};
use super::row_norms;
use super::timeline::Timelines;
use crate::communicator::Communicator;
use crate::communicator::decide::{decide, select};
use crate::communicator::forced::Forced;
use crate::communicator::row_norms::call_of;
use crate::metrics::CallCounters;
use mscclpp_base::error::Error;
use mscclpp_base::message::Message;
use mscclpp_exec::cuda::{
    Access, Binding, DeviceBuffer, Entered, Executor, KernelTier, Lent, LentCounts, LentParams, PreparedPlan, SetUp,
    Staged, StagedPart, Stream, lent_slices,
};
use mscclpp_select::kernels::NativeRun;
use mscclpp_select::{Algorithm, Backend, CallError, DecidedBy, Decision, Request};

/// Maximum number of registered memories to which a prepared plan stays bound.
const MAX_BINDINGS: usize = 64;

/// Minimum size of an internal buffer, in bytes.
const MIN_STAGING: u64 = 1 << 16;

/// A call on a stream.
pub(super) struct DeviceCall<'a> {
    pub(super) communicator: &'a Communicator,
    pub(super) stream: &'a Stream,
    pub(super) place: &'static Location<'static>,
    pub(super) is_captured: bool,
    /// The algorithms that were chosen for calls.
    pub(super) forced: &'a mut Forced,
    /// Bytes above which calls through internal buffers are made in pieces.
    pub(super) staging_limit: u64,
    pub(super) kernels: KernelPolicy,
    /// The device's context is current meanwhile.
    pub(super) _current: Entered,
}

impl DeviceCall<'_> {
    /// Returns the error of a call that kernels of the program did not serve.
    fn native_failure(&self, request: &Request, error: &CallError) -> Error {
        let (rank, request) = (self.communicator.rank(), self.communicator.describe(request));
        Error::NativeAlgorithm { rank, request, message: error.to_string() }
    }

    /// Begins set-up by this thread, which is allowed in a capture.
    pub(super) fn set_up(&self) -> Result<SetUp, Error> {
        self.stream.set_up(self.is_captured)
    }
}

/// Memory that is lent to a call; in place, the output alone.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a> {
    pub(super) input: Option<&'a Lent<'a>>,
    pub(super) output: &'a Lent<'a>,
}

/// How a call was made.
pub(super) struct Launched {
    request: Request,
    algorithm: Option<Arc<Algorithm>>,
    decided_by: Option<DecidedBy>,
    counters: Option<Arc<CallCounters>>,
    bytes_copied: u64,
    num_launches: u32,
    num_blocks: u32,
    threads_per_block: u32,
    kernel: KernelTier,
}

impl Launched {
    fn new(request: Request) -> Self {
        let (bytes_copied, num_launches, num_blocks, threads_per_block) = (0, 0, 0, 0);
        Self {
            request,
            algorithm: None,
            decided_by: None,
            counters: None,
            bytes_copied,
            num_launches,
            num_blocks,
            threads_per_block,
            kernel: KernelTier::default(),
        }
    }

    pub(super) fn report(&self) -> LaunchedCall {
        let Self { request, decided_by, bytes_copied, num_launches, num_blocks, threads_per_block, .. } = *self;
        let algorithm = self.algorithm.as_ref().map(|algorithm| algorithm.name().to_owned());
        LaunchedCall {
            request,
            algorithm,
            decided_by,
            bytes_copied,
            num_launches,
            num_blocks,
            threads_per_block,
            kernel: self.kernel,
        }
    }
}

/// A prepared request.
pub(super) struct Entry {
    prepared: Prepared,
    algorithm: Arc<Algorithm>,
    decided_by: DecidedBy,
    counters: Arc<CallCounters>,
    /// Whether a launch was captured, so that a graph may use all of it at any time.
    pub(super) is_captured: bool,
}

/// What launches a request.
enum Prepared {
    Plan(Box<BoundPlan>),
    /// Kernels of the program, which need no memory of other ranks but what they connect themselves.
    Kernels(NativeRun),
}

/// A prepared plan, and the memory that it is bound to.
struct BoundPlan {
    // Dropped first: their destructors wait for pending launches.
    bindings: Vec<([Option<Position>; 2], Binding)>,
    /// Bindings that were replaced, but that graphs may contain.
    retired: Vec<Binding>,
    staged: Option<Staged>,
    plan: PreparedPlan,
}

impl BoundPlan {
    /// Makes the binding to registered memory the last one. The first call for a position creates it, which is a call of all
    /// ranks.
    fn bind(
        &mut self,
        positions: [Option<Position>; 2],
        memory: Memory<'_>,
        call: &DeviceCall<'_>,
        is_captured: bool,
    ) -> Result<(), Error> {
        if let Some(at) = self.bindings.iter().position(|(bound, _)| *bound == positions) {
            // The least recently used one is first.
            self.bindings[at..].rotate_left(1);
            return Ok(());
        }
        // To bind is a call of all ranks, so what stays bound does not depend on what this rank captures.
        if self.bindings.len() >= MAX_BINDINGS {
            let (_, oldest) = self.bindings.remove(0);
            if is_captured || call.is_captured {
                self.retired.push(oldest);
            }
        }
        let _set_up = call.set_up()?;
        let binding = self.plan.bind([lent_slices(memory.input, memory.output)])?;
        self.bindings.push((positions, binding));
        Ok(())
    }
}

impl Entry {
    /// Returns its plan, unless kernels serve it.
    pub(super) fn plan(&self) -> Option<&PreparedPlan> {
        match &self.prepared {
            Prepared::Plan(bound) => Some(&bound.plan),
            Prepared::Kernels(_) => None,
        }
    }

    /// Returns whether kernels of the program serve it.
    pub(super) fn is_of_kernels(&self) -> bool {
        matches!(self.prepared, Prepared::Kernels(_))
    }

    /// Returns whether a launch on memory that is not registered needs nothing of the other ranks.
    pub(super) fn is_ready(&self) -> bool {
        match &self.prepared {
            Prepared::Plan(bound) => bound.plan.access() == Access::Own || bound.staged.is_some(),
            Prepared::Kernels(_) => true,
        }
    }

    /// Drops the bindings to some allocations; those that a graph may contain are kept.
    pub(super) fn unbind(&mut self, allocations: &[u64]) {
        let Prepared::Plan(bound) = &mut self.prepared else { return };
        let is_of = |position: &Option<Position>| position.is_some_and(|(number, _)| allocations.contains(&number));
        let unbound = bound.bindings.extract_if(.., |(positions, _)| positions.iter().any(is_of));
        let is_captured = self.is_captured;
        bound.retired.extend(unbound.map(|(_, binding)| binding).filter(|_| is_captured));
    }
}

impl Connection {
    /// Serves a request on lent memory; the caller has checked its lengths. A failure of the driver fails the communicator:
    /// the other ranks wait for the launch.
    pub(super) fn serve(
        &mut self,
        call: &mut DeviceCall<'_>,
        request: Request,
        memory: Memory<'_>,
    ) -> Result<(), Error> {
        self.serve_once(call, request, memory).map_err(|error| match error {
            Error::Driver(_) | Error::Capturing { .. } | Error::NativeAlgorithm { .. } if !call.is_captured => {
                self.fail(error)
            }
            other => other,
        })
    }

    fn serve_once(&mut self, call: &mut DeviceCall<'_>, request: Request, memory: Memory<'_>) -> Result<(), Error> {
        self.last = None;
        self.check(call.stream)?;
        if !call.is_captured {
            self.write_timelines();
        }
        let positions = [memory.input, Some(memory.output)].map(|lent| lent.and_then(|lent| self.position(lent)));
        let registered = positions[1].is_some() && (request.in_place || positions[0].is_some());
        let positions = if registered { positions } else { [None; 2] };
        let request = self.on_device(Request { registered, ..request });
        // Registered memory is accessed as a whole.
        let pieces = pieces(call.staging_limit, &request).filter(|_| !registered);
        let is_asked = match call.communicator.ask_selector(call.forced, &request, pieces, call.is_captured) {
            // The other ranks wait for this one.
            Err(error @ Error::Selector { .. }) => return Err(self.fail(error)),
            asked => asked?,
        };
        let call = &*call;
        let kind = match call.communicator.inner.is_pair {
            true => Kind::Transfer(request.message().count, request.element_type(), request.root),
            false => Kind::Collective(request, positions, call.forced.variant(&request)),
        };
        self.post(kind, call)?;
        // Nodes compare what ranks prepare, and not what they launch: selectors may differ in a later call of the same kind.
        if request.bytes == 0 || is_asked {
            self.tell_other_nodes()?;
        }
        let mut launched = Launched::new(request);
        if request.bytes == 0 || request.num_ranks == 1 {
            // The result of a single rank is its input.
            if let Some(input) = memory.input.filter(|_| request.bytes > 0) {
                call.stream.copy_lent(&self.device, memory.output, input)?;
                launched.bytes_copied = request.bytes;
            }
        } else {
            let is_served = registered && self.serve_bound(call, positions, memory, &mut launched)?;
            if !is_served && !self.serve_by_kernels(call, memory, &mut launched)? {
                self.serve_pieces(call, memory, &mut launched)?;
            }
        }
        if launched.num_blocks > 0 {
            call.communicator.inner.observed.recorder.note_kernel(launched.kernel);
        }
        if let Some(counters) = &launched.counters {
            // The device runs it later, so it is counted and not timed.
            counters.record(request.bytes, None, 0);
        }
        self.last = Some(launched);
        Ok(())
    }

    /// Returns a request with what depends on the devices.
    pub(super) fn on_device(&self, request: Request) -> Request {
        let &Self { multicast, max_blocks, ranks_per_node, machine, .. } = self;
        Request { backend: Backend::Cuda, multicast, max_blocks, ranks_per_node, machine, ..request }
    }

    /// Returns the position of memory that is registered with this communicator.
    pub(super) fn position(&self, lent: &Lent<'_>) -> Option<Position> {
        let registration = lent.registration().filter(|found| found.executor == self.executor.number())?;
        Some((registration.allocation, registration.offset))
    }

    /// Serves a request on registered memory, if its plan lets other ranks access it. Returns whether it does.
    fn serve_bound(
        &mut self,
        call: &DeviceCall<'_>,
        positions: [Option<Position>; 2],
        memory: Memory<'_>,
        launched: &mut Launched,
    ) -> Result<bool, Error> {
        let entry = self.entry(call, launched.request)?;
        let is_captured = entry.is_captured;
        let Prepared::Plan(bound) = &mut entry.prepared else { return Ok(false) };
        if bound.plan.access() != Access::Peers {
            return Ok(false);
        }
        bound.bind(positions, memory, call, is_captured)?;
        let BoundPlan { plan, bindings, .. } = &mut **bound;
        let (_, binding) = bindings.last().ok_or_else(|| Error::Internal("a plan without binding".into()))?;
        plan.launch_lent(binding, memory.input, memory.output, call.stream)?;
        entry.launched(call, launched);
        Ok(true)
    }

    /// Serves a request by kernels of the program, if the registry selects them. Returns whether it does.
    fn serve_by_kernels(
        &mut self,
        call: &DeviceCall<'_>,
        memory: Memory<'_>,
        launched: &mut Launched,
    ) -> Result<bool, Error> {
        let request = launched.request;
        // What would be made in pieces is selected whole before, and prepared for kernels alone.
        if piece_bytes(call.staging_limit, &request) < request.bytes {
            let (registry, rank) = (call.communicator.registry()?, call.communicator.rank());
            if select(&registry, call.forced, &request, rank)?.algorithm.has_plans() {
                return Ok(false);
            }
        }
        let entry = self.entry(call, request)?;
        let whole = |lent| -> StagedPart<'_> {
            let lent: &Lent<'_> = lent;
            StagedPart { lent, offset: 0, bytes: lent.as_slice().bytes }
        };
        entry.launch_kernels(call, &request, (memory.input.map(whole), whole(memory.output)), launched)
    }

    /// Serves a request on memory that other ranks cannot or need not access, in pieces if it is long and each element of the
    /// result depends on one element of each rank.
    fn serve_pieces(
        &mut self,
        call: &DeviceCall<'_>,
        memory: Memory<'_>,
        launched: &mut Launched,
    ) -> Result<(), Error> {
        let request = launched.request;
        let each = piece_bytes(call.staging_limit, &request);
        let mut offset = 0;
        while offset < request.bytes {
            let bytes = each.min(request.bytes - offset);
            let piece = Request { bytes, ..request };
            self.launch_piece(call, piece, memory, offset, launched)?;
            offset += bytes;
        }
        Ok(())
    }

    /// Launches a piece of a request: on the memory itself, if no other rank accesses it, or else through internal buffers.
    fn launch_piece(
        &mut self,
        call: &DeviceCall<'_>,
        piece: Request,
        Memory { input, output }: Memory<'_>,
        offset: u64,
        launched: &mut Launched,
    ) -> Result<(), Error> {
        let whole = piece.bytes == launched.request.bytes;
        let part = |lent| -> StagedPart<'_> {
            let lent: &Lent<'_> = lent;
            StagedPart { lent, offset, bytes: if whole { lent.as_slice().bytes } else { piece.bytes } }
        };
        let entry = self.entry(call, piece)?;
        if entry.launch_kernels(call, &piece, (input.map(part), part(output)), launched)? {
            return Ok(());
        }
        let BoundPlan { plan, .. } = entry.bound_plan()?;
        if plan.access() == Access::Own {
            plan.launch_own(input.map(part), part(output), LentParams::None, call.stream)?;
            entry.launched(call, launched);
            return Ok(());
        }
        let is_root = piece.root == call.communicator.rank();
        // What a rank does not contribute, and what it does not receive, is not copied.
        let copied_in =
            (piece.collective != CollectiveKind::Broadcast || is_root).then(|| part(input.unwrap_or(output)));
        let is_received = match piece.collective {
            CollectiveKind::Reduce => is_root,
            CollectiveKind::Broadcast => !(is_root && piece.in_place),
            _ => true,
        };
        let copied_out = is_received.then(|| part(output));
        let staging = self.staging(call, &piece, part(input.unwrap_or(output)).bytes.max(part(output).bytes))?;
        let number = self.posted.ring.number();
        let entry = self.entry(call, piece)?;
        let BoundPlan { plan, staged, .. } = entry.bound_plan()?;
        if staged.is_none() {
            let _set_up = call.set_up()?;
            let _part = place::enter_call(number, || call.communicator.describe(&piece));
            *staged = Some(plan.stage(&staging)?);
        }
        let staged = staged.as_ref().ok_or_else(|| Error::Internal("a plan without buffers".into()))?;
        plan.launch_staged(staged, copied_in, copied_out, call.stream)?;
        launched.bytes_copied += [copied_in, copied_out].iter().flatten().map(|part| part.bytes).sum::<u64>();
        entry.launched(call, launched);
        Ok(())
    }

    /// Launches a request with counts on registered memory, which other ranks access.
    pub(super) fn launch_counted_bound(
        &mut self,
        call: &DeviceCall<'_>,
        request: Request,
        positions: [Option<Position>; 2],
        (input, output): (&Lent<'_>, &Lent<'_>),
        counts: LentCounts<'_>,
    ) -> Result<(), Error> {
        let mut launched = Launched::new(request);
        let entry = self.entry(call, request)?;
        let is_captured = entry.is_captured;
        let bound = entry.bound_plan()?;
        bound.bind(positions, Memory { input: Some(input), output }, call, is_captured)?;
        let BoundPlan { plan, bindings, .. } = bound;
        let (_, binding) = bindings.last().ok_or_else(|| Error::Internal("a plan without binding".into()))?;
        plan.launch_lent_counted(binding, (input, output), counts, call.stream)?;
        entry.launched(call, &mut launched);
        self.record_launch(call, launched);
        Ok(())
    }

    /// Records a launch in reports and metrics, as the last one.
    fn record_launch(&mut self, call: &DeviceCall<'_>, launched: Launched) {
        call.communicator.inner.observed.recorder.note_kernel(launched.kernel);
        if let Some(counters) = &launched.counters {
            counters.record(launched.request.bytes, None, 0);
        }
        self.last = Some(launched);
    }

    /// Launches a request that passes more than buffers, on the memory itself; `hidden`: elements of the rows that it normalizes.
    pub(super) fn launch_with(
        &mut self,
        call: &DeviceCall<'_>,
        request: Request,
        hidden: Option<u32>,
        Memory { input, output }: Memory<'_>,
        passed: LentParams<'_>,
    ) -> Result<(), Error> {
        let mut launched = Launched::new(request);
        let whole = |lent| -> StagedPart<'_> {
            let lent: &Lent<'_> = lent;
            StagedPart { lent, offset: 0, bytes: lent.as_slice().bytes }
        };
        let entry = self.entry_of(call, request, hidden)?;
        entry.bound_plan()?.plan.launch_own(input.map(whole), whole(output), passed, call.stream)?;
        entry.launched(call, &mut launched);
        self.record_launch(call, launched);
        Ok(())
    }

    /// Returns internal buffers of at least this number of bytes each. Requests that were prepared before keep theirs. A
    /// call that allocates is one of all ranks.
    fn staging(&mut self, call: &DeviceCall<'_>, piece: &Request, bytes: u64) -> Result<Arc<[DeviceBuffer; 2]>, Error> {
        if let Some(staging) = self.staging.as_ref().filter(|staging| staging[0].bytes() >= bytes) {
            return Ok(Arc::clone(staging));
        }
        let _set_up = call.set_up()?;
        let _part = place::enter_call(self.posted.ring.number(), || call.communicator.describe(piece));
        let bytes = bytes.max(MIN_STAGING).checked_next_power_of_two().unwrap_or(bytes);
        let text = format!("internal buffers of {bytes} bytes on devices");
        let buffer = || self.executor.alloc_on_all(&text, bytes);
        Ok(Arc::clone(self.staging.insert(Arc::new([buffer()?, buffer()?]))))
    }

    /// Returns a prepared request. The first call prepares it, which is a call of all ranks.
    fn entry(&mut self, call: &DeviceCall<'_>, request: Request) -> Result<&mut Entry, Error> {
        self.entry_of(call, request, None)
    }

    /// Returns a prepared request; `hidden`: elements of the rows that it normalizes.
    fn entry_of(&mut self, call: &DeviceCall<'_>, request: Request, hidden: Option<u32>) -> Result<&mut Entry, Error> {
        if !call.is_captured {
            self.drop_unused();
        }
        let Self { cache, retired, executor, posted, timelines, .. } = self;
        let retire = |entry: Entry| {
            retired.push(entry);
            // The others are dropped, which waits for launches: not in a capture.
            if !call.is_captured {
                retired.retain(|entry| entry.is_captured);
            }
        };
        let variant = hidden.map_or_else(|| call.forced.variant(&request), |hidden| row_norms::variant(call, hidden));
        let key = (variant, request);
        let prepare = || prepare(executor, call, &request, hidden, posted.ring.number(), timelines.as_ref());
        let entry = cache.get(&key, prepare, retire)?;
        if let Prepared::Plan(bound) = &mut entry.prepared {
            bound.plan.set_timeout(call.communicator.timeout());
            bound.plan.set_captured(call.is_captured);
        }
        Ok(entry)
    }
}

/// Returns the bytes of the pieces in which a call on memory that is not registered is made: of all of the request, unless each
/// element of the result depends on one element of each rank.
fn piece_bytes(staging_limit: u64, request: &Request) -> u64 {
    use CollectiveKind::{AllReduce, Broadcast, Reduce, SendRecv};
    match request.collective {
        AllReduce | Broadcast | Reduce | SendRecv => staging_limit,
        _ => request.bytes,
    }
}

/// Returns a request for each length of the pieces in which a request on memory that is not registered is made: all have one length, except
/// the last one.
pub(super) fn pieces(staging_limit: u64, request: &Request) -> impl Iterator<Item = Request> {
    let (each, request) = (piece_bytes(staging_limit, request), *request);
    let lengths = [each.min(request.bytes), request.bytes.checked_rem(each).unwrap_or(0)];
    lengths.into_iter().filter(|bytes| *bytes > 0).map(move |bytes| Request { bytes, ..request })
}

/// Selects the algorithm of a request and prepares its plan, in the rank's call with a number; `hidden`: elements of the rows that it
/// normalizes. A call of all ranks.
fn prepare(
    executor: &Executor,
    call: &DeviceCall<'_>,
    request: &Request,
    hidden: Option<u32>,
    number: u64,
    timelines: Option<&Timelines>,
) -> Result<Entry, Error> {
    let _set_up = call.set_up()?;
    let _part = place::enter_call(number, || call.communicator.describe(request) + &call.forced.describe(request));
    let rank = call.communicator.rank();
    let (algorithm, decided_by, plan) = match (hidden, request.collective) {
        (Some(hidden), _) => {
            let (algorithm, decided_by, plan) = row_norms::decide(rank, request, hidden)?;
            (algorithm, decided_by, Some(plan))
        }
        (None, CollectiveKind::AllToAllV) => {
            let (algorithm, decided_by, plan) = counted::decide(rank, request)?;
            (algorithm, decided_by, Some(plan))
        }
        _ => {
            let (decision, plan) = decide(&*call.communicator.registry()?, call.forced, request, rank)?;
            let Decision { algorithm, decided_by, .. } = decision;
            (algorithm, decided_by, plan)
        }
    };
    let prepared = match plan {
        Some(plan) => {
            let options = call.kernels.options(request.prepare_options());
            let message = match hidden {
                Some(hidden) => {
                    let accumulate = call.communicator.row_accumulator;
                    Message { row: hidden.into(), accumulate, ..request.message() }
                }
                None => request.message(),
            };
            let mut plan = executor.prepare_with_options(&plan, message, options)?;
            if let Some(timelines) = timelines {
                timelines.record(&mut plan);
            }
            Prepared::Plan(Box::new(BoundPlan { bindings: Vec::new(), retired: Vec::new(), staged: None, plan }))
        }
        None => {
            let kernels = algorithm.prepare_on(executor, request);
            Prepared::Kernels(kernels.map_err(|error| call.native_failure(request, &error))?)
        }
    };
    let counters = &call.communicator.inner.observed.counters;
    let name = hidden.map_or(request.collective.name(), |_| call_of(request.collective));
    let counters = counters.of_calls(name, algorithm.name());
    Ok(Entry { prepared, algorithm, decided_by, counters, is_captured: false })
}

impl Entry {
    /// Launches kernels on parts of input and output, if kernels serve the request. Returns whether they do.
    fn launch_kernels(
        &mut self,
        call: &DeviceCall<'_>,
        request: &Request,
        (input, output): (Option<StagedPart<'_>>, StagedPart<'_>),
        launched: &mut Launched,
    ) -> Result<bool, Error> {
        let Prepared::Kernels(kernels) = &mut self.prepared else { return Ok(false) };
        let launch = kernels.launch_lent(input, output, call.stream);
        launch.map_err(|error| call.native_failure(request, &error))?;
        self.launched(call, launched);
        Ok(true)
    }

    fn bound_plan(&mut self) -> Result<&mut BoundPlan, Error> {
        match &mut self.prepared {
            Prepared::Plan(bound) => Ok(bound),
            Prepared::Kernels(_) => Err(Error::Internal("kernels for a part of a call".into())),
        }
    }

    /// Records a launch.
    fn launched(&mut self, call: &DeviceCall<'_>, launched: &mut Launched) {
        self.is_captured |= call.is_captured;
        if let Some(plan) = self.plan() {
            if call.is_captured {
                plan.keep_for_graphs();
            }
            launched.num_blocks = plan.num_blocks();
            launched.threads_per_block = plan.threads_per_block();
            launched.kernel = plan.last_kernel();
        }
        self.algorithm.record_call();
        launched.num_launches += 1;
        launched.counters = Some(Arc::clone(&self.counters));
        launched.algorithm = Some(Arc::clone(&self.algorithm));
        launched.decided_by = Some(self.decided_by);
    }
}
