//! Ranges and iterators.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mscclpp_core::diag::Code;

use super::{Call, Table, methods};
use crate::ast::{BinOp, Con};
use crate::eval::arith::compute;
use crate::eval::iter::{Iter, Shared, unwrapped};
use crate::eval::place::Place;
use crate::eval::value::{Range, Value};
use crate::eval::{Eval, Vm};

/// Ranges; they are iterators, too.
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
        "inspect(fn(T)) -> Iter<T>" Value => |vm, call| with(vm, call, |inner, f| Iter::Inspect { inner, f });
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
        "fuse() -> Iter<T>" Value => |_, call| Ok(call.receiver.clone());
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

fn range(vm: &mut Vm<'_>, call: &Call) -> Eval<Rc<Range>> {
    match &call.receiver {
        Value::Range(range) => Ok(Rc::clone(range)),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// The receiver as an iterator.
fn iter(vm: &mut Vm<'_>, call: &Call) -> Eval<Shared> {
    vm.make_iter(call.receiver.clone(), call.tok)
}

/// An adaptor around the receiver, with the next argument.
fn with(vm: &mut Vm<'_>, call: &mut Call, adapt: impl FnOnce(Shared, Value) -> Iter) -> Eval {
    let inner = iter(vm, call)?;
    let f = call.arg();
    Ok(Value::iter(adapt(inner, f)))
}

fn step_by(vm: &mut Vm<'_>, call: &mut Call) -> Eval {
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

/// The last item that is left.
fn next_back(vm: &mut Vm<'_>, call: &mut Call) -> Eval {
    let shared = iter(vm, call)?;
    let back = shared.try_borrow().ok().and_then(|iter| iter.clone().reversed());
    let Some(back) = back else {
        let help = "collect into a `Vec` and `pop` from that";
        let message = "`next_back` of this iterator is not evaluated at compile time";
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

fn peek(vm: &mut Vm<'_>, call: &mut Call) -> Eval {
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

/// The first item on which the predicate says `wanted`, with its number.
fn search(vm: &mut Vm<'_>, call: &mut Call, wanted: bool) -> Eval<Option<(i128, Value)>> {
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

/// Collects items into what inference has found.
pub(crate) fn collect(vm: &mut Vm<'_>, call: &Call, iter: &Shared, made: Option<Con>) -> Eval {
    if let Some(Con::Option | Con::Result) = made {
        // Stops at the first `None`. What is inside is a list: inference refuses anything else.
        let mut items = Vec::new();
        while let Some(item) = vm.next(iter, call.tok)? {
            match unwrapped(item) {
                Some(item) => items.push(item),
                None => return Ok(Value::None),
            }
        }
        vm.allocate(items.len(), call.tok)?;
        return Ok(Value::some(Value::list(items)));
    }
    let items = vm.drain(iter, call.tok)?;
    gather(vm, call, items, made)
}

/// Makes a collection from items.
#[allow(clippy::mutable_key_type, reason = "rustc lets no key be changed while it is in a map")]
pub(crate) fn gather(vm: &mut Vm<'_>, call: &Call, items: Vec<Value>, made: Option<Con>) -> Eval {
    match made {
        Some(Con::List) => Ok(Value::list(items)),
        Some(Con::Set | Con::HashSet) => Ok(Value::Set(Rc::new(items.into_iter().collect::<BTreeSet<_>>()))),
        Some(Con::Map | Con::HashMap) => {
            let mut map = BTreeMap::new();
            for item in items {
                match item {
                    Value::Tuple(pair) if pair.len() == 2 => map.insert(pair[0].clone(), pair[1].clone()),
                    _ => return Err(vm.ill_typed(call.tok)),
                };
            }
            Ok(Value::Map(Rc::new(map)))
        }
        Some(Con::Unit) => Ok(Value::Unit),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn pair(vm: &mut Vm<'_>, call: &Call, sides: (Vec<Value>, Vec<Value>)) -> Eval {
    vm.allocate(sides.0.len() + sides.1.len(), call.tok)?;
    let a = gather(vm, call, sides.0, call.made[0])?;
    let b = gather(vm, call, sides.1, call.made[1])?;
    Ok(Value::tuple(vec![a, b]))
}

fn total(vm: &mut Vm<'_>, call: &mut Call, op: BinOp, start: i128) -> Eval {
    let iter = iter(vm, call)?;
    let (mut total, int) = (start, call.result);
    while let Some(item) = vm.next(&iter, call.tok)? {
        let Value::Int(item) = item.load() else { return Err(vm.ill_typed(call.tok)) };
        total = compute(op, total, item, int).map_err(|fault| vm.fault(fault, op, total, item, int, call.tok))?;
    }
    Ok(Value::Int(total))
}

/// The smallest (the first of equals) or largest (the last of equals) item by a key.
fn extreme(
    vm: &mut Vm<'_>,
    call: &mut Call,
    key: impl Fn(&mut Vm<'_>, &Call, &Value) -> Eval,
    wanted: Ordering,
) -> Eval {
    let iter = iter(vm, call)?;
    let Some(mut best) = vm.next(&iter, call.tok)? else { return Ok(Value::None) };
    let mut best_key = key(vm, call, &best)?;
    while let Some(item) = vm.next(&iter, call.tok)? {
        let item_key = key(vm, call, &item)?;
        let order = item_key.cmp(&best_key);
        if order == wanted || (order == Ordering::Equal && wanted == Ordering::Greater) {
            (best, best_key) = (item, item_key);
        }
    }
    Ok(Value::some(best))
}

fn extreme_by(vm: &mut Vm<'_>, call: &mut Call, wanted: Ordering) -> Eval {
    let (iter, f) = (iter(vm, call)?, call.arg());
    let Some(mut best) = vm.next(&iter, call.tok)? else { return Ok(Value::None) };
    while let Some(item) = vm.next(&iter, call.tok)? {
        let Value::Ordering(order) = vm.call(&f, vec![best.clone(), item.clone()], call.tok)? else {
            return Err(vm.ill_typed(call.tok));
        };
        // `order` is that of the best so far against the item.
        if order == wanted.reverse() || (order == Ordering::Equal && wanted == Ordering::Greater) {
            best = item;
        }
    }
    Ok(Value::some(best))
}
