//! The functions of `include/mscclpp.h`: what serves the calls of this process.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::plan::{LoadPlan, Plan};
use mscclpp_exec::file;
use mscclpp_select::defaults::{self, SelectorCall, SelectorError};
use mscclpp_select::{Choice, OrderPolicy, RegistryError};

use crate::abi::Handle;
use crate::call_info::{CallInfo, CallTexts};
use crate::comm::{self, Comm};
use crate::debug;
use crate::entry::{self, Failure, check_not_in_callback, check_pointer, keep_name, panicked, write};
use crate::kernels;

/// The version of the header.
const INTERFACE: c_int = 1;

/// The collectives that plans and kernels serve in calls of NCCL.
const COLLECTIVES: [CollectiveKind; 6] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
];

/// Maximum length of a plan.
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// The codes of the header.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Code {
    InvalidArgument = 1,
    InvalidPlan = 2,
    DuplicateName = 3,
    NoEffect = 4,
    SystemError = 5,
    CallFailed = 6,
    InternalError = 7,
}

/// Why a function fails.
struct Refusal(Code, String);

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure.code {
            crate::abi::Code::InvalidArgument => Self(Code::InvalidArgument, failure.text),
            crate::abi::Code::InternalError => Self(Code::InternalError, failure.text),
            _ => Self(Code::CallFailed, failure.text),
        }
    }
}

impl From<RegistryError> for Refusal {
    fn from(error: RegistryError) -> Self {
        let code = match error {
            RegistryError::Duplicate { .. } => Code::DuplicateName,
            RegistryError::Collective { .. } => Code::NoEffect,
            _ => Code::InvalidArgument,
        };
        Self(code, error.to_string())
    }
}

type Result<T> = std::result::Result<T, Refusal>;

/// Makes a call of C.
fn call(function: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic).into()));
    match result {
        Ok(()) => 0,
        Err(Refusal(code, text)) => {
            entry::record(function, &text);
            code as c_int
        }
    }
}

/// Reads a text; none for null.
///
/// # Safety
/// The pointer must be null or a text that ends with a null byte.
unsafe fn text<'a>(name: &str, at: *const c_char) -> Result<Option<&'a str>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map(Some).map_err(|error| Refusal(Code::InvalidArgument, format!("{name}: expected UTF-8: {error}")))
}

fn null(name: &str) -> Refusal {
    Refusal(Code::InvalidArgument, format!("{name} is null"))
}

/// # Safety
/// Pointers must be null or valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppGetVersion(interface: *mut c_int, library: *mut *const c_char) -> c_int {
    call("mscclppGetVersion", || {
        if !interface.is_null() {
            // SAFETY: guaranteed by the caller.
            unsafe { write("interface", interface, INTERFACE) }?;
        }
        if !library.is_null() {
            // SAFETY: guaranteed by the caller.
            unsafe { write("library", library, keep_name(env!("CARGO_PKG_VERSION")).as_ptr()) }?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn mscclppGetLastError() -> *const c_char {
    entry::last_error().as_ptr()
}

/// # Safety
/// `data` must be null or valid for reads of `bytes` bytes, `name` null or a text.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppRegisterPlan(data: *const c_void, bytes: usize, name: *const c_char) -> c_int {
    call("mscclppRegisterPlan", || {
        if data.is_null() {
            return Err(null("data"));
        }
        if bytes as u64 > MAX_PLAN_BYTES {
            return Err(Refusal(
                Code::InvalidPlan,
                format!("a plan of {bytes} bytes: expected at most {MAX_PLAN_BYTES}"),
            ));
        }
        // SAFETY: guaranteed by the caller.
        let (data, name) = unsafe { (std::slice::from_raw_parts(data.cast(), bytes), text("name", name)?) };
        register(data, name, "memory")
    })
}

/// # Safety
/// `path` and `name` must be null or texts.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppRegisterPlanFile(path: *const c_char, name: *const c_char) -> c_int {
    call("mscclppRegisterPlanFile", || {
        // SAFETY: guaranteed by the caller.
        let (path, name) = unsafe { (text("path", path)?.ok_or_else(|| null("path"))?, text("name", name)?) };
        let unreadable =
            |error: io::Error| Refusal(Code::SystemError, format!("cannot read plan file `{path}`: {error}"));
        let data = file::read(Path::new(path), MAX_PLAN_BYTES).map_err(unreadable)?;
        register(&data, name, &format!("`{path}`"))
    })
}

/// Registers a plan, if a call of NCCL can run it.
fn register(data: &[u8], name: Option<&str>, source: &str) -> Result<()> {
    let plan =
        Plan::load(data).map_err(|findings| Refusal(Code::InvalidPlan, format!("the plan of {source}: {findings}")))?;
    let collective = plan.collective();
    check_mode(&collective)?;
    let known = name.unwrap_or(plan.name()).to_owned();
    let name = kernels::unless_known(&known, || defaults::register_plan(plan, name))?;
    debug::info(|| format!("plan `{name}` for {} of {source}, registered", collective.kind.name()));
    Ok(())
}

/// Checks that calls of NCCL have the mode of a plan.
fn check_mode(collective: &Collective) -> Result<()> {
    use CollectiveKind::{Broadcast, Reduce, ReduceScatter, SendRecv};
    let why = match (collective.kind, collective.in_place) {
        (Reduce | Broadcast, false) => {
            "NCCL's calls of this collective are made in place, and the plan is out of place"
        }
        (ReduceScatter, true) => "NCCL's calls of this collective are made out of place, and the plan is in place",
        (SendRecv, _) => "no function of NCCL makes it",
        _ => return Ok(()),
    };
    Err(Refusal(Code::NoEffect, format!("a plan of {}: {why}", collective.kind.name())))
}

/// # Safety
/// `name` must be null or a text.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppRemovePlan(name: *const c_char) -> c_int {
    call("mscclppRemovePlan", || {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text("name", name) }?.ok_or_else(|| null("name"))?;
        let unknown =
            || Refusal(Code::InvalidArgument, format!("no plan `{name}`, and no kernels of this name, are registered"));
        (defaults::remove_plan(name) || kernels::remove(name)).then_some(()).ok_or_else(unknown)
    })
}

/// # Safety
/// `name` and `collective` must be null or texts, and `launch` null or a function that any thread may call with `user` until the process
/// ends, and that returns to its caller: it does not throw, and does not jump.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppRegisterKernels(
    name: *const c_char,
    collective: *const c_char,
    launch: Option<kernels::Callback>,
    user: *mut c_void,
) -> c_int {
    call("mscclppRegisterKernels", || {
        // SAFETY: guaranteed by the caller.
        let (name, collective) = unsafe { (text("name", name)?, text("collective", collective)?) };
        let (name, collective) = (name.ok_or_else(|| null("name"))?, collective.ok_or_else(|| null("collective"))?);
        let callback = launch.ok_or_else(|| null("launch"))?;
        let collective =
            CollectiveKind::from_name(collective).filter(|kind| COLLECTIVES.contains(kind)).ok_or_else(|| {
                let expected = COLLECTIVES.map(CollectiveKind::name).join(", ");
                Refusal(Code::InvalidArgument, format!("collective `{collective}`: expected one of {expected}"))
            })?;
        kernels::register(name, kernels::Registered { collective, callback, user })?;
        debug::info(|| format!("kernels `{name}` for {}, registered", collective.name()));
        Ok(())
    })
}

type Callback = unsafe extern "C" fn(
    *const CallInfo,
    *const *const c_char,
    usize,
    *mut c_void,
    *mut *const c_char,
) -> *const c_char;

/// A selector of the program.
struct Selector {
    callback: Callback,
    user: *mut c_void,
}

// SAFETY: the program states that its function may be called by any thread.
unsafe impl Send for Selector {}
// SAFETY: as above.
unsafe impl Sync for Selector {}

impl Selector {
    fn select(&self, call: &SelectorCall<'_>) -> std::result::Result<Option<Choice>, SelectorError> {
        let texts = CallTexts::new(call.request)?;
        let info = texts.info(call.request, call.is_captured);
        let names: Vec<CString> = call
            .candidates
            .iter()
            .map(|algorithm| CString::new(algorithm.name()))
            .collect::<std::result::Result<_, _>>()?;
        let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut error = std::ptr::null();
        // SAFETY: the program passed a function of this type; what it gets is valid during the call.
        let chosen = unsafe { (self.callback)(&info, pointers.as_ptr(), pointers.len(), self.user, &mut error) };
        // SAFETY: the function returns null or texts that are valid until the thread's next call of it.
        let read =
            |at: *const c_char| (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned());
        match read(error) {
            Some(error) => Err(error.into()),
            None => Ok(read(chosen).map(Choice::named)),
        }
    }
}

/// # Safety
/// `selector` must be null or a function that any thread may call with `user` until the process ends, also after another one is set, and
/// that returns to its caller: it does not throw, and does not jump.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppSetSelector(selector: Option<Callback>, user: *mut c_void) -> c_int {
    call("mscclppSetSelector", || {
        match selector {
            Some(callback) => {
                let selector = Selector { callback, user };
                defaults::set_selector(move |call| selector.select(call));
            }
            None => defaults::clear_selector(),
        }
        Ok(())
    })
}

/// Returns the order policy of a name.
fn order_policy(name: &str) -> Result<OrderPolicy> {
    let expected = || OrderPolicy::ALL.map(OrderPolicy::name).join(", ");
    let unknown = || Refusal(Code::InvalidArgument, format!("order `{name}`: expected one of {}", expected()));
    OrderPolicy::from_name(name).ok_or_else(unknown)
}

/// # Safety
/// `order` must be null or a text.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppSetOrder(order: *const c_char) -> c_int {
    call("mscclppSetOrder", || {
        // SAFETY: guaranteed by the caller.
        let policy = unsafe { text("order", order) }?.map(order_policy).transpose()?;
        defaults::set_order_policy(policy);
        Ok(())
    })
}

/// Returns the communicator of a handle, once it is created.
fn ready(comm: &Comm) -> Result<Communicator> {
    comm.ready().map_err(|failure| Refusal(Code::CallFailed, failure.text))
}

/// Returns a communicator, or all that are created if the handle is null.
fn communicators(handle: Handle) -> Result<Vec<(std::sync::Arc<Comm>, Communicator)>> {
    if !handle.is_null() {
        let comm = comm::find(handle)?;
        let communicator = ready(&comm)?;
        return Ok(vec![(comm, communicator)]);
    }
    Ok(comm::all().into_iter().filter_map(|comm| comm.ready().ok().map(|ready| (comm, ready))).collect())
}

/// # Safety
/// `order` must be null or a text.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppCommSetOrder(comm: Handle, order: *const c_char) -> c_int {
    call("mscclppCommSetOrder", || {
        // SAFETY: guaranteed by the caller.
        let policy = match unsafe { text("order", order) }? {
            Some(name) => order_policy(name)?,
            None => defaults::Defaults::default().order_policy(),
        };
        communicators(comm)?.iter().for_each(|(_, communicator)| communicator.set_order_policy(policy));
        Ok(())
    })
}

/// # Safety
/// `name` must be null or valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppGetLastAlgorithm(comm: Handle, name: *mut *const c_char) -> c_int {
    call("mscclppGetLastAlgorithm", || {
        check_not_in_callback()?;
        let comm = comm::find(comm)?;
        let communicator = ready(&comm)?;
        let _calling = comm.calling();
        let last = communicator.on(&comm.stream(0)).last_call().map_err(Failure::from)?;
        let last = last.and_then(|call| call.algorithm).map_or(std::ptr::null(), |name| keep_name(&name).as_ptr());
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { write("name", name, last) }?)
    })
}

/// The header's `mscclppCallCount_t`.
#[repr(C)]
struct CallCount {
    name: *const c_char,
    calls: u64,
}

/// # Safety
/// `counts` must be null or valid for writes of `room` counts, `num` null or valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn mscclppGetCallCounts(comm: Handle, counts: *mut CallCount, room: usize, num: *mut usize) -> c_int {
    call("mscclppGetCallCounts", || {
        check_pointer("num", num)?;
        if room > 0 {
            check_pointer("counts", counts)?;
        }
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for (name, calls) in communicators(comm)?.iter().flat_map(|(_, communicator)| communicator.call_counts()) {
            *all.entry(name).or_default() += calls;
        }
        for (at, (name, calls)) in all.iter().take(room).enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { counts.add(at).write(CallCount { name: keep_name(name).as_ptr(), calls: *calls }) };
        }
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { write("num", num, all.len()) }?)
    })
}
