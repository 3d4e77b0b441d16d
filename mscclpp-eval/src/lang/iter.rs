//! Ranges and iterators.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use mscclpp_core::diag::Code;

use super::fold::{collect, extreme, extreme_by, pair, try_fold};
use super::{Call, Table, methods};
use crate::eval::arith::compute;
use crate::eval::iter::{Iter, Shared, unwrapped};
use crate::eval::place::Place;
use crate::eval::value::{Range, Value};
use crate::eval::{Eval, Interpreter};
use crate::hir::BinOp;

/// Ranges; they are iterators as well.
pub(crate) const RANGE: Table = Table {
    header: "Range<T>",
    about: "`a..b` and `a..=b`, which are iterators as well",
    methods: methods! {
        "contains(T) -> bool" Value => |vm, call| {
            let (range, value) = (range(vm, call)?, call.int(vm)?);
            let above = range.start.is_none_or(|start| start <= value);
            Ok(Value::Bool(above && range.stop().is_none_or(|stop| value < stop)))
        };
        "is_empty() -> bool" Value => |vm, call| Ok(Value::Bool(range(vm, call)?.count() == Some(0)));
        "start() -> T" Value => |vm, call| Ok(Value::Int(range(vm, call)?.start.unwrap_or(0)));
        "end() -> T" Value => |vm, call| Ok(Value::Int(range(vm, call)?.end.unwrap_or(0)));
    },
};

/// Iterators.
pub(crate) const ITER: Table = Table {
    header: "Iter<T>",
    about: "iterators",
    methods: methods! {
        "map(fn(T) -> U) -> Iter<U>" Value => |vm, call| with(vm, call, |inner, f| Iter::Map { inner, f });
        "filter(fn(T) -> bool) -> Iter<T>" Value => |vm, call| with(vm, call, |inner, f| Iter::Filter { inner, f });
        "filter_map(fn(T) -> Option<U>) -> Iter<U>" Value => |vm, call| with(vm, call, |inner, f| Iter::FilterMap { inner, f });
        "flat_map(fn(T) -> Each<U>) -> Iter<U>" Value => |vm, call| {
            with(vm, call, |inner, f| Iter::FlatMap { inner, f: Some(f), current: None })
        };
        "flatten() -> Iter<U> where T = Each<U>" Value => |vm, call| {
            with(vm, call, |inner, _| Iter::FlatMap { inner, f: None, current: None })
        };
        "take_while(fn(T) -> bool) -> Iter<T>" Value => |vm, call| {
            with(vm, call, |inner, f| Iter::TakeWhile { inner, f, done: false })
        };
        "skip_while(fn(T) -> bool) -> Iter<T>" Value => |vm, call| {
            with(vm, call, |inner, f| Iter::SkipWhile { inner, f, started: false })
        };
        "map_while(fn(T) -> Option<U>) -> Iter<U>" Value => |vm, call| with(vm, call, |inner, f| Iter::MapWhile { inner, f });
        "scan(S, fn(S, T) -> Option<U>) -> Iter<U>" Value => |vm, call| {
            let state = Place::of_value(call.arg());
            with(vm, call, |inner, f| Iter::Scan { inner, state, f })
        };
        "enumerate() -> Iter<(usize, T)>" Value => |vm, call| {
            with(vm, call, |inner, _| Iter::Enumerate { inner, count: 0, back: false })
        };
        "zip(Each<U>) -> Iter<(T, U)>" Value => |vm, call| {
            let other = call.arg();
            let b = vm.make_iter(other, call.tok)?;
            with(vm, call, |a, _| Iter::Zip { a, b })
        };
        "chain(Each<T>) -> Iter<T>" Value => |vm, call| {
            let other = call.arg();
            let b = vm.make_iter(other, call.tok)?;
            with(vm, call, |a, _| Iter::Chain { a: Some(a), b })
        };
        "rev() -> Iter<T>" Value => |vm, call| {
            let inner = iter(vm, call)?;
            let reversed = inner.try_borrow().ok().and_then(|inner| inner.deep_clone().reversed());
            match reversed {
                Some(reversed) => Ok(Value::iter(reversed)),
                None => {
                    let help = "collect into a `Vec` first, then go over that in reverse";
                    let message = "`rev` of this iterator is not evaluated at compile time";
                    Err(vm.fail_with(Code::NotInSubset, call.tok, message, Some(help)))
                }
            }
        };
        "take(usize) -> Iter<T>" Value => |vm, call| {
            let left = call.usize(vm)?;
            with(vm, call, |inner, _| Iter::Take { inner, left })
        };
        "skip(usize) -> Iter<T>" Value => |vm, call| {
            let left = call.usize(vm)?;
            with(vm, call, |inner, _| Iter::Skip { inner, left })
        };
        "step_by(usize) -> Iter<T>" Value => step_by;
        "cycle() -> Iter<T>" Value => |vm, call| {
            let inner = iter(vm, call)?;
            let original = inner.try_borrow().map_or(Iter::Empty, |inner| inner.deep_clone());
            Ok(Value::iter(Iter::Cycle { original: Box::new(original), current: inner }))
        };
        "peekable() -> Iter<T>" Value => |vm, call| with(vm, call, |inner, _| Iter::Peekable { inner, peeked: None });
        "cloned() -> Iter<T>" Value => |_, call| Ok(call.receiver.clone());
        "copied() -> Iter<T>" Value => |_, call| Ok(call.receiver.clone());
        "into_iter() -> Iter<T>" Value => |vm, call| Ok(Value::Iter(iter(vm, call)?));
        "by_ref() -> Iter<T>" Advanced => |vm, call| Ok(Value::Iter(iter(vm, call)?));
        "next() -> Option<T>" Advanced => |vm, call| {
            let iter = iter(vm, call)?;
            Ok(Value::option(vm.next(&iter, call.tok)?))
        };
        "next_back() -> Option<T>" Advanced => next_back;
        "peek() -> Option<T>" Advanced => peek;
        "nth(usize) -> Option<T>" Advanced => |vm, call| {
            let (iter, count) = (iter(vm, call)?, call.usize(vm)?);
            for _ in 0..count {
                if vm.next(&iter, call.tok)?.is_none() {
                    return Ok(Value::None);
                }
            }
            Ok(Value::option(vm.next(&iter, call.tok)?))
        };
        "any(fn(T) -> bool) -> bool" Advanced => |vm, call| {
            let found = search(vm, call, true)?;
            Ok(Value::Bool(found.is_some()))
        };
        "all(fn(T) -> bool) -> bool" Advanced => |vm, call| {
            let found = search(vm, call, false)?;
            Ok(Value::Bool(found.is_none()))
        };
        "find(fn(T) -> bool) -> Option<T>" Advanced => |vm, call| Ok(Value::option(search(vm, call, true)?.map(|(_, item)| item)));
        "position(fn(T) -> bool) -> Option<usize>" Advanced => |vm, call| {
            Ok(Value::option(search(vm, call, true)?.map(|(index, _)| Value::Int(index))))
        };
        "rposition(fn(T) -> bool) -> Option<usize>" Advanced => |vm, call| {
            let len = iter(vm, call)?.try_borrow().ok().and_then(|iter| iter.len());
            match (search_back(vm, call)?, len) {
                (Some((steps, _)), Some(len)) => Ok(Value::some(Value::Int(len as i128 - 1 - steps))),
                (None, _) => Ok(Value::None),
                (Some(_), None) => Err(vm.ill_typed(call.tok)),
            }
        };
        "rfind(fn(T) -> bool) -> Option<T>" Advanced => |vm, call| Ok(Value::option(search_back(vm, call)?.map(|(_, item)| item)));
        "next_if(fn(T) -> bool) -> Option<T>" Advanced => |vm, call| {
            let f = call.arg();
            match unwrapped(peek(vm, call)?) {
                Some(item) if vm.test(&f, vec![item.clone()], call.tok)? => {
                    let iter = iter(vm, call)?;
                    Ok(Value::option(vm.next(&iter, call.tok)?))
                }
                _ => Ok(Value::None),
            }
        };
        "find_map(fn(T) -> Option<U>) -> Option<U>" Advanced => |vm, call| {
            let (iter, f) = (iter(vm, call)?, call.arg());
            while let Some(item) = vm.next(&iter, call.tok)? {
                if let Some(value) = unwrapped(vm.call(&f, vec![item], call.tok)?) {
                    return Ok(Value::some(value));
                }
            }
            Ok(Value::None)
        };
        "collect() -> Collect<T>" Value => |vm, call| {
            let iter = iter(vm, call)?;
            collect(vm, call, &iter, call.made[0])
        };
        "partition(fn(T) -> bool) -> (Collect<T>, Collect<T>)" Value => |vm, call| {
            let (iter, f) = (iter(vm, call)?, call.arg());
            let mut sides = (Vec::new(), Vec::new());
            while let Some(item) = vm.next(&iter, call.tok)? {
                let side = if vm.test(&f, vec![item.clone()], call.tok)? { &mut sides.0 } else { &mut sides.1 };
                side.push(item);
            }
            pair(vm, call, sides)
        };
        "unzip() -> (Collect<A>, Collect<B>) where T = (A, B)" Value => |vm, call| {
            let iter = iter(vm, call)?;
            let mut sides = (Vec::new(), Vec::new());
            while let Some(item) = vm.next(&iter, call.tok)? {
                match item {
                    Value::Tuple(parts) if parts.len() == 2 => {
                        sides.0.push(parts[0].clone());
                        sides.1.push(parts[1].clone());
                    }
                    _ => return Err(vm.ill_typed(call.tok)),
                }
            }
            pair(vm, call, sides)
        };
        "count() -> usize" Value => |vm, call| {
            let iter = iter(vm, call)?;
            let mut count = 0;
            while vm.next(&iter, call.tok)?.is_some() {
                count += 1;
            }
            Ok(Value::Int(count))
        };
        "len() -> usize" Value => |vm, call| {
            let iter = iter(vm, call)?;
            let len = iter.try_borrow().ok().and_then(|iter| iter.len());
            len.map(|len| Value::Int(len as i128)).ok_or(()).map_err(|()| vm.ill_typed(call.tok))
        };
        "last() -> Option<T>" Value => |vm, call| {
            let iter = iter(vm, call)?;
            let mut last = Value::None;
            while let Some(item) = vm.next(&iter, call.tok)? {
                last = Value::some(item);
            }
            Ok(last)
        };
        "for_each(fn(T))" Value => |vm, call| {
            let (iter, f) = (iter(vm, call)?, call.arg());
            while let Some(item) = vm.next(&iter, call.tok)? {
                vm.call(&f, vec![item], call.tok)?;
            }
            Ok(Value::Unit)
        };
        "fold(A, fn(A, T) -> A) -> A" Value => |vm, call| {
            let (iter, mut acc, f) = (iter(vm, call)?, call.arg(), call.arg());
            while let Some(item) = vm.next(&iter, call.tok)? {
                acc = vm.call(&f, vec![acc, item], call.tok)?;
            }
            Ok(acc)
        };
        "try_fold(A, fn(A, T) -> Try<A>) -> Try<A>" Advanced => |vm, call| {
            let start = call.arg();
            try_fold(vm, call, start, |acc, item| vec![acc, item])
        };
        "try_for_each(fn(T) -> Try<()>) -> Try<()>" Advanced => |vm, call| try_fold(vm, call, Value::Unit, |_, item| vec![item]);
        "reduce(fn(T, T) -> T) -> Option<T>" Value => |vm, call| {
            let (iter, f) = (iter(vm, call)?, call.arg());
            let Some(mut acc) = vm.next(&iter, call.tok)? else { return Ok(Value::None) };
            while let Some(item) = vm.next(&iter, call.tok)? {
                acc = vm.call(&f, vec![acc, item], call.tok)?;
            }
            Ok(Value::some(acc))
        };
        "sum() -> T" Value => |vm, call| total(vm, call, BinOp::Add, 0);
        "product() -> T" Value => |vm, call| total(vm, call, BinOp::Mul, 1);
        "min() -> Option<T>" Value => |vm, call| extreme(vm, call, |_, _, item| Ok(item.clone()), Ordering::Less);
        "max() -> Option<T>" Value => |vm, call| extreme(vm, call, |_, _, item| Ok(item.clone()), Ordering::Greater);
        "min_by_key(fn(T) -> K) -> Option<T>" Value => |vm, call| {
            let f = call.arg();
            extreme(vm, call, |vm, call, item| vm.call(&f, vec![item.clone()], call.tok), Ordering::Less)
        };
        "max_by_key(fn(T) -> K) -> Option<T>" Value => |vm, call| {
            let f = call.arg();
            extreme(vm, call, |vm, call, item| vm.call(&f, vec![item.clone()], call.tok), Ordering::Greater)
        };
        "min_by(fn(T, T) -> Ordering) -> Option<T>" Value => |vm, call| extreme_by(vm, call, Ordering::Less);
        "max_by(fn(T, T) -> Ordering) -> Option<T>" Value => |vm, call| extreme_by(vm, call, Ordering::Greater);
        "eq(Each<T>) -> bool" Value => |vm, call| {
            let (a, other) = (iter(vm, call)?, call.arg());
            let b = vm.make_iter(other, call.tok)?;
            loop {
                match (vm.next(&a, call.tok)?, vm.next(&b, call.tok)?) {
                    (None, None) => return Ok(Value::Bool(true)),
                    (Some(a), Some(b)) if a == b => {}
                    _ => return Ok(Value::Bool(false)),
                }
            }
        };
    },
};

fn range(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Rc<Range>> {
    match &call.receiver {
        Value::Range(range) => Ok(Rc::clone(range)),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Returns the receiver as an iterator.
pub(super) fn iter(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Shared> {
    vm.make_iter(call.receiver.clone(), call.tok)
}

/// Returns an adaptor around the receiver, with the next argument.
fn with(vm: &mut Interpreter<'_>, call: &mut Call, adapt: impl FnOnce(Shared, Value) -> Iter) -> Eval {
    let inner = iter(vm, call)?;
    let f = call.arg();
    Ok(Value::iter(adapt(inner, f)))
}

fn step_by(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let (inner, step) = (iter(vm, call)?, call.usize(vm)?);
    if step == 0 {
        return Err(vm.fail(Code::Panicked, call.tok, "`step_by` goes 0 steps at a time"));
    }
    let numbers = inner.try_borrow().ok().and_then(|inner| match *inner {
        Iter::Numbers { next, end: Some(end), step: 1, top, back: false } => {
            Some(Iter::Numbers { next, end: Some(end), step: step as i128, top, back: false })
        }
        _ => None,
    });
    Ok(Value::iter(numbers.unwrap_or(Iter::StepBy { inner, step, first: true })))
}

/// Returns the last remaining item.
fn next_back(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let shared = iter(vm, call)?;
    let back = shared.try_borrow().ok().and_then(|iter| iter.clone().reversed());
    let Some(back) = back else {
        let help = "collect into a `Vec` and `pop` from that";
        let message = "this iterator is not evaluated from its end at compile time";
        return Err(vm.fail_with(Code::NotInSubset, call.tok, message, Some(help)));
    };
    let back = Rc::new(RefCell::new(back));
    let item = vm.next(&back, call.tok)?;
    let front = back.try_borrow().ok().and_then(|back| back.clone().reversed());
    match (front, shared.try_borrow_mut()) {
        (Some(front), Ok(mut iter)) => *iter = front,
        _ => return Err(vm.ill_typed(call.tok)),
    }
    Ok(Value::option(item))
}

fn peek(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let shared = iter(vm, call)?;
    let inner = match shared.try_borrow().as_deref() {
        Ok(Iter::Peekable { peeked: Some(value), .. }) => return Ok(Value::option(value.clone())),
        Ok(Iter::Peekable { inner, .. }) => Rc::clone(inner),
        _ => return Err(vm.ill_typed(call.tok)),
    };
    let value = vm.next(&inner, call.tok)?;
    if let Ok(mut iter) = shared.try_borrow_mut()
        && let Iter::Peekable { peeked, .. } = &mut *iter
    {
        *peeked = Some(value.clone());
    }
    Ok(Value::option(value))
}

/// Returns the last item for which the predicate holds, with the number of items after it.
fn search_back(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval<Option<(i128, Value)>> {
    call.receiver = Value::Iter(iter(vm, call)?);
    let f = call.arg();
    let mut steps = 0;
    while let Some(item) = unwrapped(next_back(vm, call)?) {
        if vm.test(&f, vec![item.clone()], call.tok)? {
            return Ok(Some((steps, item)));
        }
        steps += 1;
    }
    Ok(None)
}

/// Returns the first item for which the predicate returns `wanted`, with its number.
fn search(vm: &mut Interpreter<'_>, call: &mut Call, wanted: bool) -> Eval<Option<(i128, Value)>> {
    let (iter, f) = (iter(vm, call)?, call.arg());
    let mut index = 0;
    while let Some(item) = vm.next(&iter, call.tok)? {
        if vm.test(&f, vec![item.clone()], call.tok)? == wanted {
            return Ok(Some((index, item)));
        }
        index += 1;
    }
    Ok(None)
}

fn total(vm: &mut Interpreter<'_>, call: &mut Call, op: BinOp, start: i128) -> Eval {
    let iter = iter(vm, call)?;
    let (mut total, int) = (start, call.result);
    while let Some(item) = vm.next(&iter, call.tok)? {
        let Value::Int(item) = item.load() else { return Err(vm.ill_typed(call.tok)) };
        total = compute(op, total, item, int).map_err(|fault| vm.fault(fault, op, total, item, int, call.tok))?;
    }
    Ok(Value::Int(total))
}
