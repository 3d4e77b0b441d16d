//! Options, orderings, and methods of every value.

use std::cmp::Ordering;
use std::rc::Rc;

use mscclpp_core::diag::Code;

use super::{Call, Table, methods};
use crate::eval::iter::Iter;
use crate::eval::place::Projection;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter, fmt};

/// Options.
pub(crate) const OPTION: Table = Table {
    header: "Option<T>",
    about: "`Option`",
    methods: methods! {
        "is_some() -> bool" Value => |_, call| Ok(Value::Bool(matches!(call.receiver, Value::Some(_))));
        "is_none() -> bool" Value => |_, call| Ok(Value::Bool(matches!(call.receiver, Value::None)));
        "is_some_and(fn(T) -> bool) -> bool" Value => |vm, call| match inner(call) {
            Some(value) => apply(vm, call, vec![value]),
            None => Ok(Value::Bool(false)),
        };
        "is_none_or(fn(T) -> bool) -> bool" Value => |vm, call| match inner(call) {
            Some(value) => apply(vm, call, vec![value]),
            None => Ok(Value::Bool(true)),
        };
        "unwrap() -> T" Value => unwrap;
        "expect(str) -> T" Value => expect;
        "unwrap_or(T) -> T" Value => |_, call| Ok(inner(call).unwrap_or_else(|| call.arg()));
        "unwrap_or_else(fn() -> T) -> T" Value => |vm, call| match inner(call) {
            Some(value) => Ok(value),
            None => apply(vm, call, Vec::new()),
        };
        "unwrap_or_default() -> Default<T>" Value => |vm, call| match inner(call) {
            Some(value) => Ok(value),
            None => vm.default_at(call.node, call.tok),
        };
        "ok_or(E) -> Result<T, E>" Value => |_, call| Ok(inner(call).map_or_else(|| Value::err(call.arg()), Value::ok));
        "ok_or_else(fn() -> E) -> Result<T, E>" Value => |vm, call| match inner(call) {
            Some(value) => Ok(Value::ok(value)),
            None => Ok(Value::err(apply(vm, call, Vec::new())?)),
        };
        "transpose() -> Result<Option<U>, E> where T = Result<U, E>" Value => |vm, call| match inner(call) {
            Some(Value::Ok(value)) => Ok(Value::ok(Value::Some(value))),
            Some(error @ Value::Err(_)) => Ok(error),
            Some(_) => Err(vm.ill_typed(call.tok)),
            None => Ok(Value::ok(Value::None)),
        };
        "map(fn(T) -> U) -> Option<U>" Value => |vm, call| match inner(call) {
            Some(value) => Ok(Value::some(apply(vm, call, vec![value])?)),
            None => Ok(Value::None),
        };
        "map_or(U, fn(T) -> U) -> U" Value => |vm, call| {
            let default = call.arg();
            match inner(call) {
                Some(value) => apply(vm, call, vec![value]),
                None => Ok(default),
            }
        };
        "map_or_else(fn() -> U, fn(T) -> U) -> U" Value => |vm, call| {
            let default = call.arg();
            match inner(call) {
                Some(value) => apply(vm, call, vec![value]),
                None => vm.call(&default, Vec::new(), call.tok),
            }
        };
        "and_then(fn(T) -> Option<U>) -> Option<U>" Value => |vm, call| match inner(call) {
            Some(value) => apply(vm, call, vec![value]),
            None => Ok(Value::None),
        };
        "or(Option<T>) -> Option<T>" Value => |_, call| Ok(if inner(call).is_some() { call.receiver.clone() } else { call.arg() });
        "or_else(fn() -> Option<T>) -> Option<T>" Value => |vm, call| match inner(call) {
            Some(_) => Ok(call.receiver.clone()),
            None => apply(vm, call, Vec::new()),
        };
        "xor(Option<T>) -> Option<T>" Value => |_, call| {
            let (a, b) = (call.receiver.clone(), call.arg().load());
            Ok(match (&a, &b) {
                (Value::Some(_), Value::None) => a,
                (Value::None, Value::Some(_)) => b,
                _ => Value::None,
            })
        };
        "filter(fn(T) -> bool) -> Option<T>" Value => |vm, call| match inner(call) {
            Some(value) => {
                let f = call.arg();
                Ok(if vm.test(&f, vec![value.clone()], call.tok)? { Value::some(value) } else { Value::None })
            }
            None => Ok(Value::None),
        };
        "zip(Option<U>) -> Option<(T, U)>" Value => |_, call| {
            let other = call.arg().load();
            Ok(match (inner(call), other) {
                (Some(a), Value::Some(b)) => Value::some(Value::tuple(vec![a, (*b).clone()])),
                _ => Value::None,
            })
        };
        "flatten() -> Option<U> where T = Option<U>" Value => |_, call| Ok(inner(call).unwrap_or(Value::None));
        "copied() -> Option<T>" Value => |_, call| Ok(loaded(call));
        "cloned() -> Option<T>" Value => |_, call| Ok(loaded(call));
        "as_ref() -> Option<T>" Value => |_, call| Ok(call.receiver.clone());
        "iter() -> Iter<T>" Value => |_, call| Ok(Value::iter(Iter::over(Rc::new(inner(call).into_iter().collect()))));
        "into_iter() -> Iter<T>" Value => |_, call| Ok(Value::iter(Iter::over(Rc::new(inner(call).into_iter().collect()))));
        "as_mut() -> Option<T>" Place => |_, call| Ok(match call.place.get() {
            Value::Some(_) => Value::some(Value::Place(Rc::new(call.place.part(Projection::Payload)))),
            value => value,
        });
        "take() -> Option<T>" Place => |vm, call| vm.change(&call.place, call.tok, |value| std::mem::replace(value, Value::None));
        "replace(T) -> Option<T>" Place => |vm, call| {
            let new = Value::some(call.arg());
            vm.change(&call.place, call.tok, |value| std::mem::replace(value, new))
        };
        "insert(T) -> T" Place => |vm, call| {
            let new = Value::some(call.arg());
            vm.change(&call.place, call.tok, |value| *value = new)?;
            Ok(Value::Place(Rc::new(call.place.part(Projection::Payload))))
        };
        "get_or_insert(T) -> T" Place => |vm, call| {
            let new = Value::some(call.arg());
            if matches!(call.place.get(), Value::None) {
                vm.change(&call.place, call.tok, |value| *value = new)?;
            }
            Ok(Value::Place(Rc::new(call.place.part(Projection::Payload))))
        };
        "get_or_insert_with(fn() -> T) -> T" Place => |vm, call| {
            if matches!(call.place.get(), Value::None) {
                let new = Value::some(apply(vm, call, Vec::new())?);
                vm.change(&call.place, call.tok, |value| *value = new)?;
            }
            Ok(Value::Place(Rc::new(call.place.part(Projection::Payload))))
        };
    },
};

/// Orderings.
pub(crate) const ORDERING: Table = Table {
    header: "Ordering",
    about: "`std::cmp::Ordering`",
    methods: methods! {
        "reverse() -> Ordering" Value => |vm, call| Ok(Value::Ordering(order(vm, call)?.reverse()));
        "then(Ordering) -> Ordering" Value => |vm, call| Ok(match order(vm, call)? {
            Ordering::Equal => call.arg(),
            order => Value::Ordering(order),
        });
        "then_with(fn() -> Ordering) -> Ordering" Value => |vm, call| match order(vm, call)? {
            Ordering::Equal => apply(vm, call, Vec::new()),
            order => Ok(Value::Ordering(order)),
        };
        "is_eq() -> bool" Value => |vm, call| Ok(Value::Bool(order(vm, call)?.is_eq()));
        "is_ne() -> bool" Value => |vm, call| Ok(Value::Bool(order(vm, call)?.is_ne()));
        "is_lt() -> bool" Value => |vm, call| Ok(Value::Bool(order(vm, call)?.is_lt()));
        "is_gt() -> bool" Value => |vm, call| Ok(Value::Bool(order(vm, call)?.is_gt()));
        "is_le() -> bool" Value => |vm, call| Ok(Value::Bool(order(vm, call)?.is_le()));
        "is_ge() -> bool" Value => |vm, call| Ok(Value::Bool(order(vm, call)?.is_ge()));
    },
};

/// Methods that values without an order have as well.
pub(crate) const CLONE: Table = Table {
    header: "Self",
    about: "every value that is `Clone`",
    methods: methods! {
        "clone() -> Self" Value => |_, call| Ok(call.receiver.deep_clone());
    },
};

/// Methods of every value.
pub(crate) const ANY: Table = Table {
    header: "Self",
    about: "integers, booleans, tuples, lists, options, maps, sets and structs",
    methods: methods! {
        "clone() -> Self" Value => |_, call| Ok(call.receiver.deep_clone());
        "to_owned() -> Self" Value => |_, call| Ok(call.receiver.deep_clone());
        "to_string() -> str" Value => super::int::to_string;
        "min(Self) -> Self" Value => |_, call| {
            let (a, b) = (call.receiver.clone(), call.arg());
            Ok(if b < a { b } else { a })
        };
        "max(Self) -> Self" Value => |_, call| {
            let (a, b) = (call.receiver.clone(), call.arg());
            Ok(if b < a { a } else { b })
        };
        "clamp(Self, Self) -> Self" Value => |vm, call| {
            let (value, low, high) = (call.receiver.clone(), call.arg(), call.arg());
            if low > high {
                let message = format!("clamp between {} and {}, which is smaller", fmt::debug(&low), fmt::debug(&high));
                return Err(vm.fail(Code::Panicked, call.tok, message));
            }
            Ok(if value < low { low } else if value > high { high } else { value })
        };
        "cmp(Self) -> Ordering" Value => |_, call| Ok(Value::Ordering(call.receiver.clone().cmp(&call.arg())));
        "partial_cmp(Self) -> Option<Ordering>" Value => |_, call| {
            Ok(Value::some(Value::Ordering(call.receiver.clone().cmp(&call.arg()))))
        };
        "eq(Self) -> bool" Value => |_, call| Ok(Value::Bool(call.receiver.clone() == call.arg()));
    },
};

/// Returns the content of the receiver, an option.
fn inner(call: &Call) -> Option<Value> {
    match &call.receiver {
        Value::Some(value) => Some((**value).clone()),
        _ => None,
    }
}

/// Returns the receiver with its content instead of a `&mut`.
fn loaded(call: &Call) -> Value {
    Value::option(inner(call).map(Value::load))
}

/// Calls the next argument.
fn apply(vm: &mut Interpreter<'_>, call: &mut Call, args: Vec<Value>) -> Eval {
    let f = call.arg();
    vm.call(&f, args, call.tok)
}

fn order(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Ordering> {
    match call.receiver {
        Value::Ordering(order) => Ok(order),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn unwrap(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    match inner(call) {
        Some(value) => Ok(value),
        None => Err(vm.fail(Code::Panicked, call.tok, "called `Option::unwrap()` on a `None` value")),
    }
}

fn expect(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    match inner(call) {
        Some(value) => Ok(value),
        None => {
            let message = fmt::display(&call.arg());
            Err(vm.fail(Code::Panicked, call.tok, message))
        }
    }
}
