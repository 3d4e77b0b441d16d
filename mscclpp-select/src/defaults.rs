//! What the communicators that this process creates have from the start: plans, an order of reduction, and a selector that is
//! asked for each call. The environment states what is not set here.
//!
//! All ranks must set the same.
//!
//! ```
//! use mscclpp_core::collective::CollectiveKind;
//! use mscclpp_select::{Choice, defaults};
//!
//! // Short all-reduces by packets, all other calls as usual.
//! defaults::set_selector(|call| {
//!     let is_short = call.request.collective == CollectiveKind::AllReduce && call.request.bytes <= 1 << 16;
//!     let packets = call.candidates.iter().find(|algorithm| algorithm.name() == "allreduce_packets");
//!     Ok(packets.filter(|_| is_short).map(|algorithm| Choice::from(*algorithm)))
//! });
//! # defaults::clear_selector();
//! ```

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;

use super::algorithm::{Algorithm, message};
use super::choice::Choice;
use super::error::RegistryError;
use super::order::OrderPolicy;
use super::registry::Registry;
use super::request::{CALLS, Request};

/// Maximum number of bytes of a plan's name.
const MAX_NAME: usize = 100;

/// A call for which the selector of the process is asked.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SelectorCall<'a> {
    /// What all ranks share of the call.
    pub request: &'a Request,
    /// Whether this rank captures the call's stream.
    pub is_captured: bool,
    /// The algorithms that serve the call.
    pub candidates: &'a [&'a Algorithm],
}

/// Why a selector fails a call.
pub type SelectorError = Box<dyn std::error::Error + Send + Sync>;

type Selector = dyn Fn(&SelectorCall<'_>) -> Result<Option<Choice>, SelectorError> + Send + Sync;

/// What was set when a communicator was created.
#[derive(Clone, Default)]
#[doc(hidden)]
pub struct Defaults {
    /// Plans by name, in the order in which they were registered.
    plans: Arc<Vec<(String, Plan)>>,
    order: Option<OrderPolicy>,
}

struct State {
    defaults: Option<Defaults>,
    selector: Option<Arc<Selector>>,
}

static STATE: Mutex<State> = Mutex::new(State { defaults: None, selector: None });

/// Whether there is a selector: each call asks.
static HAS_SELECTOR: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is in a call of the selector.
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a checked plan, under its own name or another one, to the communicators that are created afterwards. It serves the calls that it
/// is for in preference to the built-in plans; [`Registry`] has the order among several plans. Returns the name.
///
/// # Errors
/// [`RegistryError::Duplicate`] for the name of a built-in or registered plan, [`RegistryError::Name`] for one that cannot be shown,
/// [`RegistryError::Collective`] for a plan of a collective that no call makes.
pub fn register_plan(plan: Plan, name: Option<&str>) -> Result<String, RegistryError> {
    let name = name.unwrap_or_else(|| plan.name()).to_owned();
    check_plan(&plan, &name)?;
    let is_known = |of: &Defaults| of.plans.iter().any(|(known, _)| *known == name);
    let mut state = lock();
    let defaults = state.defaults.get_or_insert_default();
    if is_known(defaults) || Registry::builtin().find(&name).is_some() {
        return Err(RegistryError::Duplicate { name });
    }
    Arc::make_mut(&mut defaults.plans).push((name.clone(), plan));
    Ok(name)
}

/// Checks that messages can show a name.
///
/// # Errors
/// [`RegistryError::Name`].
#[doc(hidden)]
pub fn check_name(name: &str) -> Result<(), RegistryError> {
    if name.trim().is_empty() || name.len() > MAX_NAME || name.contains(|c: char| c.is_control() || c == '`') {
        return Err(RegistryError::Name { name: name.to_owned() });
    }
    Ok(())
}

/// Checks that a plan of a name may serve calls.
///
/// # Errors
/// [`RegistryError::Name`], [`RegistryError::Collective`].
#[doc(hidden)]
pub fn check_plan(plan: &Plan, name: &str) -> Result<(), RegistryError> {
    check_name(name)?;
    let collective = plan.collective().kind;
    if CALLS.iter().any(|(_, kind)| *kind == collective) {
        return Ok(());
    }
    Err(RegistryError::Collective { name: name.to_owned(), collective: collective.name() })
}

/// Removes a registered plan for communicators that are created afterwards, and returns whether there was one.
pub fn remove_plan(name: &str) -> bool {
    let mut state = lock();
    let plans = Arc::make_mut(&mut state.defaults.get_or_insert_default().plans);
    let before = plans.len();
    plans.retain(|(known, _)| known != name);
    plans.len() < before
}

/// Sets what calls of communicators that are created afterwards demand of the order of reduction; `None`: what `MSCCLPP_ORDER` states.
pub fn set_order_policy(policy: Option<OrderPolicy>) {
    lock().defaults.get_or_insert_default().order = policy;
}

/// Sets the function that is asked for each collective call of more than one rank, of all communicators, from the next call on. It
/// returns one of the candidates, `None` for the usual selection, or why the call fails. It makes no calls of communicators itself.
///
/// Started calls are asked for when they are made, so none may be pending when the selector changes.
///
/// All ranks must return the same: ranks that differ get an error that names the algorithms, and an error of one rank is one of all ranks.
/// Both fail the communicator. A name that is none of the candidates is an error of the call.
pub fn set_selector(
    selector: impl Fn(&SelectorCall<'_>) -> Result<Option<Choice>, SelectorError> + Send + Sync + 'static,
) {
    replace_selector(Some(Arc::new(selector)));
}

/// Removes the selector.
pub fn clear_selector() {
    replace_selector(None);
}

fn replace_selector(selector: Option<Arc<Selector>>) {
    let mut state = lock();
    HAS_SELECTOR.store(selector.is_some(), Ordering::Release);
    let before = std::mem::replace(&mut state.selector, selector);
    drop(state);
    // Its destructor is code of the program.
    drop(before);
}

/// Returns whether a selector is set.
#[doc(hidden)]
pub fn has_selector() -> bool {
    HAS_SELECTOR.load(Ordering::Acquire)
}

/// Returns whether this thread is in a call of the selector, which would wait for itself if it made calls.
#[doc(hidden)]
pub fn is_in_selector() -> bool {
    IS_ASKING.get()
}

/// Asks the selector about a call. `pieces`: the requests that plans serve in its place, if it is too long for one.
///
/// # Errors
/// That of the selector.
#[doc(hidden)]
pub fn ask(
    registry: &Registry,
    request: &Request,
    pieces: impl Iterator<Item = Request>,
    is_captured: bool,
) -> Result<Option<Choice>, SelectorError> {
    let Some(selector) = lock().selector.clone() else { return Ok(None) };
    let pieces: Vec<Request> = pieces.collect();
    let serves = |algorithm: &Algorithm| {
        let pieces = if algorithm.has_plans() { &*pieces } else { &[] };
        [request].into_iter().chain(pieces).all(|request| algorithm.check_request(request).is_ok())
    };
    let eligible = registry.iter().map(|algorithm| &**algorithm);
    let candidates: Vec<&Algorithm> =
        eligible.filter(|algorithm| algorithm.collective() == request.collective && serves(algorithm)).collect();
    let call = SelectorCall { request, is_captured, candidates: &candidates };
    let was_asking = IS_ASKING.replace(true);
    let chosen = catch_unwind(AssertUnwindSafe(|| selector(&call)))
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", message(&*panic)).into()));
    IS_ASKING.set(was_asking);
    chosen
}

impl Defaults {
    /// Returns what is set now.
    pub fn current() -> Self {
        lock().defaults.clone().unwrap_or_default()
    }

    /// Returns the order policy; that of the environment if none is set, or the usual one if that is invalid, which is an error of
    /// [`Registry::from_env`].
    pub fn order_policy(&self) -> OrderPolicy {
        self.order.unwrap_or_else(|| OrderPolicy::from_env().unwrap_or_default())
    }

    /// Returns new algorithms of the plans: each registry counts its calls.
    pub(super) fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.plans.iter().map(|(name, plan)| Algorithm::plan(plan.clone()).with_name(name))
    }

    /// Returns the plans: name and collective.
    pub fn plans(&self) -> impl Iterator<Item = (&str, CollectiveKind)> {
        self.plans.iter().map(|(name, plan)| (&**name, plan.collective().kind))
    }
}

impl fmt::Debug for Defaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.plans().map(|(name, _)| name).collect();
        f.debug_struct("Defaults").field("plans", &names).field("order", &self.order).finish()
    }
}
