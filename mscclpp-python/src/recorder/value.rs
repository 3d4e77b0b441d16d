//! Arguments from Python.

use std::rc::Rc;

use mscclpp_core::dsl::registry::{self, RangeValue, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString, PyTuple};

use super::Handle;

/// Converts an argument: a handle, an integer, a range as `slice`, a list or tuple, or a constant such as
/// `"BlockSync.Before"`.
pub(super) fn argument(program: u64, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(handle) = given.cast::<Handle>() {
        return handle.get().value(program);
    }
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if let Ok(name) = given.cast::<PyString>() {
        let name = name.to_str()?;
        let constant = name.split_once('.').and_then(|(ty, variant)| registry::constant(ty, variant));
        return constant.ok_or_else(|| PyTypeError::new_err(format!("there is no constant `{name}`")));
    }
    if let Ok(list) = given.cast::<PyList>() {
        return list_of(program, list.iter());
    }
    if let Ok(tuple) = given.cast::<PyTuple>() {
        return match tuple.extract::<(i128, i128)>() {
            // A pair is a range; lists of numbers are lists.
            Ok((start, end)) => Ok(Value::Range(RangeValue { start: Some(start), end: Some(end) })),
            Err(_) => list_of(program, tuple.iter()),
        };
    }
    given.extract::<i128>().map(Value::Int)
}

fn list_of<'py>(program: u64, items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Value> {
    let values = items.map(|item| argument(program, &item)).collect::<PyResult<Vec<_>>>()?;
    Ok(Value::List(Rc::new(values)))
}
