//! Results.

use std::rc::Rc;

use mscclpp_core::diag::Code;

use super::{Call, Table, methods};
use crate::eval::place::Projection;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter, fmt};

/// Results.
pub(crate) const RESULT: Table = Table {
    header: "Result<T, E>",
    about: "`Result`",
    methods: methods! {
        "is_ok() -> bool" Value => |_, call| Ok(Value::Bool(matches!(call.receiver, Value::Ok(_))));
        "is_err() -> bool" Value => |_, call| Ok(Value::Bool(matches!(call.receiver, Value::Err(_))));
        "is_ok_and(fn(T) -> bool) -> bool" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => apply(vm, call, value),
            Err(_) => Ok(Value::Bool(false)),
        };
        "is_err_and(fn(E) -> bool) -> bool" Value => |vm, call| match inner(vm, call)? {
            Ok(_) => Ok(Value::Bool(false)),
            Err(error) => apply(vm, call, error),
        };
        "ok() -> Option<T>" Value => |vm, call| Ok(Value::option(inner(vm, call)?.ok()));
        "err() -> Option<E>" Value => |vm, call| Ok(Value::option(inner(vm, call)?.err()));
        "unwrap() -> T" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => Ok(value),
            Err(error) => {
                let message = format!("called `Result::unwrap()` on an `Err` value: {}", fmt::debug(&error));
                Err(vm.fail(Code::Panicked, call.tok, message))
            }
        };
        "expect(str) -> T" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => Ok(value),
            Err(error) => {
                let message = format!("{}: {}", fmt::display(&call.arg()), fmt::debug(&error));
                Err(vm.fail(Code::Panicked, call.tok, message))
            }
        };
        "unwrap_err() -> E" Value => |vm, call| match inner(vm, call)? {
            Err(error) => Ok(error),
            Ok(value) => {
                let message = format!("called `Result::unwrap_err()` on an `Ok` value: {}", fmt::debug(&value));
                Err(vm.fail(Code::Panicked, call.tok, message))
            }
        };
        "unwrap_or(T) -> T" Value => |vm, call| Ok(inner(vm, call)?.unwrap_or_else(|_| call.arg()));
        "unwrap_or_else(fn(E) -> T) -> T" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => Ok(value),
            Err(error) => apply(vm, call, error),
        };
        "unwrap_or_default() -> Default<T>" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => Ok(value),
            Err(_) => vm.default_at(call.node, call.tok),
        };
        "map(fn(T) -> U) -> Result<U, E>" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => Ok(Value::ok(apply(vm, call, value)?)),
            Err(_) => Ok(call.receiver.clone()),
        };
        "map_err(fn(E) -> F) -> Result<T, F>" Value => |vm, call| match inner(vm, call)? {
            Ok(_) => Ok(call.receiver.clone()),
            Err(error) => Ok(Value::err(apply(vm, call, error)?)),
        };
        "map_or(U, fn(T) -> U) -> U" Value => |vm, call| {
            let default = call.arg();
            match inner(vm, call)? {
                Ok(value) => apply(vm, call, value),
                Err(_) => Ok(default),
            }
        };
        "map_or_else(fn(E) -> U, fn(T) -> U) -> U" Value => |vm, call| {
            let default = call.arg();
            match inner(vm, call)? {
                Ok(value) => apply(vm, call, value),
                Err(error) => vm.call(&default, vec![error], call.tok),
            }
        };
        "and_then(fn(T) -> Result<U, E>) -> Result<U, E>" Value => |vm, call| match inner(vm, call)? {
            Ok(value) => apply(vm, call, value),
            Err(_) => Ok(call.receiver.clone()),
        };
        "or_else(fn(E) -> Result<T, F>) -> Result<T, F>" Value => |vm, call| match inner(vm, call)? {
            Ok(_) => Ok(call.receiver.clone()),
            Err(error) => apply(vm, call, error),
        };
        "transpose() -> Option<Result<U, E>> where T = Option<U>" Value => |vm, call| match inner(vm, call)? {
            Ok(Value::Some(value)) => Ok(Value::some(Value::Ok(value))),
            Ok(_) => Ok(Value::None),
            Err(_) => Ok(Value::some(call.receiver.clone())),
        };
        "copied() -> Result<T, E>" Value => loaded;
        "cloned() -> Result<T, E>" Value => loaded;
        "as_ref() -> Result<T, E>" Value => |_, call| Ok(call.receiver.clone());
        "as_mut() -> Result<T, E>" Place => |vm, call| {
            let place = Value::Place(Rc::new(call.place.part(Projection::Payload)));
            match call.place.get() {
                Value::Ok(_) => Ok(Value::ok(place)),
                Value::Err(_) => Ok(Value::err(place)),
                _ => Err(vm.ill_typed(call.tok)),
            }
        };
    },
};

/// Returns the content of the receiver.
fn inner(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Result<Value, Value>> {
    match &call.receiver {
        Value::Ok(value) => Ok(Ok((**value).clone())),
        Value::Err(error) => Ok(Err((**error).clone())),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Returns the receiver with its value instead of a `&mut`.
fn loaded(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    Ok(match inner(vm, call)? {
        Ok(value) => Value::ok(value.load()),
        Err(_) => call.receiver.clone(),
    })
}

/// Calls the next argument.
fn apply(vm: &mut Interpreter<'_>, call: &mut Call, arg: Value) -> Eval {
    let f = call.arg();
    vm.call(&f, vec![arg], call.tok)
}
