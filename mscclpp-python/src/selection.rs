//! What serves calls, for all process groups of the backend that are created afterwards: plans and an order of reduction; and the selector,
//! which is asked for each call.

use mscclpp_select::{Backend, Choice, OrderPolicy, Request, defaults};
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::plan::Plan;

/// Returns the order policy of a name.
pub(crate) fn order_policy(call: &str, name: &str) -> Result<OrderPolicy, Failure> {
    let expected = || OrderPolicy::ALL.map(OrderPolicy::name).join(", ");
    let unknown = || Failure::invalid(call, format!("order {name:?}: expected one of {}", expected()));
    OrderPolicy::from_name(name).ok_or_else(unknown)
}

/// Adds a plan to the groups that are created afterwards, and returns its name.
#[pyfunction]
pub(crate) fn register_default_plan(plan: &Plan, name: Option<&str>) -> PyResult<String> {
    let registered = defaults::register_plan(plan.image().clone(), name);
    Ok(registered.map_err(|error| Failure::invalid("register_plan", error.to_string()))?)
}

/// Removes a plan from the groups that are created afterwards.
#[pyfunction]
pub(crate) fn remove_default_plan(name: &str) -> bool {
    defaults::remove_plan(name)
}

/// Sets the order of reduction of the groups that are created afterwards; `None`: that of the environment.
#[pyfunction]
pub(crate) fn set_default_order(order: Option<&str>) -> PyResult<()> {
    defaults::set_order_policy(order.map(|order| order_policy("set_order", order)).transpose()?);
    Ok(())
}

/// Sets the function that is asked for each call: with what describes the call, and the names of the algorithms that serve it. It returns one
/// of them or `None`. It makes no calls of groups itself, which fail.
#[pyfunction]
pub(crate) fn set_selector(py: Python<'_>, selector: Option<Py<PyAny>>) {
    // Selectors of other threads wait for the interpreter.
    py.detach(|| match selector {
        None => defaults::clear_selector(),
        Some(function) => defaults::set_selector(move |call| {
            let Request { collective, dtype, op, order, root, num_ranks, ranks_per_node, in_place, .. } = *call.request;
            let names: Vec<&str> = call.candidates.iter().map(|algorithm| algorithm.name()).collect();
            let [input_bytes, output_bytes] = call.request.input_and_output_bytes();
            let described = (collective.name(), dtype.name(), op.map(|op| op.name()), order.name());
            let of_ranks = (input_bytes, output_bytes, root, num_ranks, ranks_per_node);
            let is_device = call.request.backend == Backend::Cuda;
            let flags = (in_place, call.request.registered, call.is_captured, is_device);
            let chosen = Python::try_attach(|py| -> Result<Option<Choice>, defaults::SelectorError> {
                let chosen: PyResult<Option<String>> =
                    function.call1(py, (described, of_ranks, flags, names)).and_then(|chosen| chosen.extract(py));
                chosen.map(|name| name.map(Choice::named)).map_err(|error| error.to_string().into())
            });
            chosen.unwrap_or_else(|| Err("the interpreter has ended".into()))
        }),
    });
}
