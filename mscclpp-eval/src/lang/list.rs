//! Vectors, arrays and slices, which have one representation here.

use std::rc::Rc;

use mscclpp_core::diag::Code;

use super::sort::{dedup_by_key, sort, sort_by, sort_by_key};
use super::{Call, Table, methods};
use crate::eval::iter::Iter;
use crate::eval::place::{Projection, unshared};
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter, Stop, fmt};

/// Lists.
pub(crate) const LIST: Table = Table {
    header: "List<T>",
    about: "`Vec`, `VecDeque`, arrays and slices",
    methods: methods! {
        "len() -> usize" Value => |vm, call| Ok(Value::Int(items(vm, call)?.len() as i128));
        "is_empty() -> bool" Value => |vm, call| Ok(Value::Bool(items(vm, call)?.is_empty()));
        "iter() -> Iter<T>" Value => |vm, call| Ok(Value::iter(Iter::over(items(vm, call)?)));
        "into_iter() -> Iter<T>" Value => |vm, call| Ok(Value::iter(Iter::over(items(vm, call)?)));
        "first() -> Option<T>" Value => |vm, call| Ok(Value::option(items(vm, call)?.first().cloned()));
        "last() -> Option<T>" Value => |vm, call| Ok(Value::option(items(vm, call)?.last().cloned()));
        "front() -> Option<T>" Value => |vm, call| Ok(Value::option(items(vm, call)?.first().cloned()));
        "back() -> Option<T>" Value => |vm, call| Ok(Value::option(items(vm, call)?.last().cloned()));
        "get(usize) -> Option<T>" Value => |vm, call| {
            let (items, index) = (items(vm, call)?, call.usize(vm)?);
            Ok(Value::option(items.get(index).cloned()))
        };
        "contains(T) -> bool" Value => |vm, call| {
            let (items, item) = (items(vm, call)?, call.arg().load());
            Ok(Value::Bool(items.contains(&item)))
        };
        "is_sorted() -> bool" Value => |vm, call| Ok(Value::Bool(items(vm, call)?.is_sorted()));
        "to_vec() -> List<T>" Value => |_, call| Ok(call.receiver.clone());
        "as_slice() -> List<T>" Value => |_, call| Ok(call.receiver.clone());
        "map(fn(T) -> U) -> Array<U>" Value => |vm, call| {
            let (items, f) = (items(vm, call)?, call.arg());
            let mut mapped = Vec::with_capacity(items.len());
            for item in items.iter() {
                mapped.push(vm.call(&f, vec![item.clone()], call.tok)?);
            }
            vm.allocate(mapped.len(), call.tok)?;
            Ok(Value::list(mapped))
        };
        "windows(usize) -> Iter<List<T>>" Value => |vm, call| parts(vm, call, |size| (1, size, true));
        "chunks(usize) -> Iter<List<T>>" Value => |vm, call| parts(vm, call, |size| (size, size, false));
        "chunks_exact(usize) -> Iter<List<T>>" Value => |vm, call| parts(vm, call, |size| (size, size, true));
        "split_at(usize) -> (List<T>, List<T>)" Value => |vm, call| {
            let (items, at) = (items(vm, call)?, call.usize(vm)?);
            if at > items.len() {
                return Err(vm.out_of_range(at as i128, items.len(), call.tok));
            }
            vm.allocate(items.len(), call.tok)?;
            let (a, b) = items.split_at(at);
            Ok(Value::tuple(vec![Value::list(a.to_vec()), Value::list(b.to_vec())]))
        };
        "split_first() -> Option<(T, List<T>)>" Value => |vm, call| {
            let items = items(vm, call)?;
            vm.allocate(items.len(), call.tok)?;
            Ok(Value::option(items.split_first().map(|(item, rest)| Value::tuple(vec![item.clone(), Value::list(rest.to_vec())]))))
        };
        "split_last() -> Option<(T, List<T>)>" Value => |vm, call| {
            let items = items(vm, call)?;
            vm.allocate(items.len(), call.tok)?;
            Ok(Value::option(items.split_last().map(|(item, rest)| Value::tuple(vec![item.clone(), Value::list(rest.to_vec())]))))
        };
        "join(str) -> str where T = str" Value => |vm, call| {
            let (items, between) = (items(vm, call)?, fmt::display(&call.arg()));
            let parts: Vec<String> = items.iter().map(fmt::display).collect();
            Ok(Value::Str(parts.join(&between).into()))
        };
        "concat() -> List<U> where T = List<U>" Value => |vm, call| {
            let items = items(vm, call)?;
            let mut all = Vec::new();
            for item in items.iter() {
                match item.clone().load() {
                    Value::List(part) => all.extend(part.iter().cloned()),
                    _ => return Err(vm.ill_typed(call.tok)),
                }
            }
            vm.allocate(all.len(), call.tok)?;
            Ok(Value::list(all))
        };
        "repeat(usize) -> List<T>" Value => |vm, call| {
            let (items, count) = (items(vm, call)?, call.usize(vm)?);
            vm.allocate(items.len().saturating_mul(count), call.tok)?;
            let all = items.iter().cycle().take(items.len().saturating_mul(count)).cloned();
            Ok(Value::list(all.collect()))
        };
        "binary_search(T) -> Result<usize, usize>" Value => |vm, call| {
            let (items, item) = (items(vm, call)?, call.arg().load());
            Ok(found(items.binary_search(&item)))
        };
        "binary_search_by_key(K, fn(T) -> K) -> Result<usize, usize>" Value => |vm, call| {
            let (items, key, f) = (items(vm, call)?, call.arg().load(), call.arg());
            let mut keys = Vec::with_capacity(items.len());
            for item in items.iter() {
                keys.push(vm.call(&f, vec![item.clone()], call.tok)?.load());
            }
            Ok(found(keys.binary_search(&key)))
        };
        "partition_point(fn(T) -> bool) -> usize" Value => |vm, call| {
            let (items, f) = (items(vm, call)?, call.arg());
            let (mut low, mut high) = (0, items.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if vm.test(&f, vec![items[middle].clone()], call.tok)? { low = middle + 1 } else { high = middle }
            }
            Ok(Value::Int(low as i128))
        };
        "iter_mut() -> Iter<T>" Place => |vm, call| {
            let value = call.place.get();
            Ok(Value::iter(vm.places_of(&call.place, &value, call.tok)?))
        };
        "split_at_mut(usize) -> (List<T>, List<T>)" Place => |vm, call| {
            let (at, len) = (call.usize(vm)?, match call.place.get() { Value::List(items) => items.len(), _ => 0 });
            if at > len {
                return Err(vm.out_of_range(at as i128, len, call.tok));
            }
            let part = |start, len| Value::Place(Rc::new(call.place.part(Projection::Slice(start, len))));
            Ok(Value::tuple(vec![part(0, at), part(at, len - at)]))
        };
        "first_mut() -> Option<T>" Place => |vm, call| element(vm, call, |_| Some(0));
        "last_mut() -> Option<T>" Place => |vm, call| element(vm, call, |len| len.checked_sub(1));
        "get_mut(usize) -> Option<T>" Place => |vm, call| {
            let index = call.usize(vm)?;
            element(vm, call, |_| Some(index))
        };
        "push(T)" Place => |vm, call| {
            let item = call.arg();
            vm.allocate(1, call.tok)?;
            change(vm, call, |items| items.push(item))?;
            Ok(Value::Unit)
        };
        "push_back(T)" Place => |vm, call| {
            let item = call.arg();
            vm.allocate(1, call.tok)?;
            change(vm, call, |items| items.push(item))?;
            Ok(Value::Unit)
        };
        "push_front(T)" Place => |vm, call| {
            let item = call.arg();
            vm.allocate(1, call.tok)?;
            change(vm, call, |items| items.insert(0, item))?;
            Ok(Value::Unit)
        };
        "pop() -> Option<T>" Place => |vm, call| Ok(Value::option(change(vm, call, Vec::pop)?));
        "pop_back() -> Option<T>" Place => |vm, call| Ok(Value::option(change(vm, call, Vec::pop)?));
        "pop_front() -> Option<T>" Place => |vm, call| {
            Ok(Value::option(change(vm, call, |items| if items.is_empty() { None } else { Some(items.remove(0)) })?))
        };
        "insert(usize, T)" Place => |vm, call| {
            let (index, item) = (call.usize(vm)?, call.arg());
            vm.allocate(1, call.tok)?;
            let done = change(vm, call, |items| if index <= items.len() { items.insert(index, item); Ok(()) } else { Err(items.len()) })?;
            checked(vm, call, index, done)?;
            Ok(Value::Unit)
        };
        "remove(usize) -> T" Place => |vm, call| {
            let index = call.usize(vm)?;
            let done = change(vm, call, |items| if index < items.len() { Ok(items.remove(index)) } else { Err(items.len()) })?;
            checked(vm, call, index, done)
        };
        "swap_remove(usize) -> T" Place => |vm, call| {
            let index = call.usize(vm)?;
            let done = change(vm, call, |items| if index < items.len() { Ok(items.swap_remove(index)) } else { Err(items.len()) })?;
            checked(vm, call, index, done)
        };
        "swap(usize, usize)" Place => |vm, call| {
            let (a, b) = (call.usize(vm)?, call.usize(vm)?);
            let done = change(vm, call, |items| if a.max(b) < items.len() { items.swap(a, b); Ok(()) } else { Err(items.len()) })?;
            checked(vm, call, a.max(b), done)?;
            Ok(Value::Unit)
        };
        "split_off(usize) -> List<T>" Place => |vm, call| {
            let index = call.usize(vm)?;
            let done = change(vm, call, |items| if index <= items.len() { Ok(items.split_off(index)) } else { Err(items.len()) })?;
            Ok(Value::list(checked(vm, call, index, done)?))
        };
        "drain(Bounds) -> Iter<T>" Place => |vm, call| {
            let Value::Range(range) = call.arg().load() else { return Err(vm.ill_typed(call.tok)) };
            let len = match call.place.get() { Value::List(items) => items.len(), _ => 0 };
            let (start, count) = vm.slice_bounds(&range, len, call.tok)?;
            let drained: Vec<Value> = change(vm, call, |items| items.drain(start..start + count).collect())?;
            Ok(Value::iter(Iter::over(Rc::new(drained))))
        };
        "truncate(usize)" Place => |vm, call| {
            let len = call.usize(vm)?;
            change(vm, call, |items| items.truncate(len))?;
            Ok(Value::Unit)
        };
        "resize(usize, T)" Place => |vm, call| {
            let (len, item) = (call.usize(vm)?, call.arg());
            vm.allocate(len, call.tok)?;
            change(vm, call, |items| items.resize(len, item))?;
            Ok(Value::Unit)
        };
        "resize_with(usize, fn() -> T)" Place => |vm, call| {
            let (len, f) = (call.usize(vm)?, call.arg());
            let old = match call.place.get() { Value::List(items) => items.len(), _ => 0 };
            let mut more = Vec::new();
            for _ in old..len {
                vm.allocate(1, call.tok)?;
                more.push(vm.call(&f, Vec::new(), call.tok)?);
            }
            change(vm, call, |items| { items.truncate(len); items.extend(more); })?;
            Ok(Value::Unit)
        };
        "reserve(usize)" Place => |_, _| Ok(Value::Unit);
        "clear()" Place => |vm, call| {
            change(vm, call, Vec::clear)?;
            Ok(Value::Unit)
        };
        "fill(T)" Place => |vm, call| {
            let item = call.arg();
            change(vm, call, |items| items.fill(item))?;
            Ok(Value::Unit)
        };
        "reverse()" Place => |vm, call| {
            change(vm, call, |items| items.reverse())?;
            Ok(Value::Unit)
        };
        "rotate_left(usize)" Place => |vm, call| rotate(vm, call, <[Value]>::rotate_left);
        "rotate_right(usize)" Place => |vm, call| rotate(vm, call, <[Value]>::rotate_right);
        "extend(Each<T>)" Place => |vm, call| {
            let more = call.arg();
            let more = vm.make_iter(more, call.tok)?;
            let more = vm.drain(&more, call.tok)?;
            change(vm, call, |items| items.extend(more.into_iter().map(Value::load)))?;
            Ok(Value::Unit)
        };
        "extend_from_slice(List<T>)" Place => |vm, call| {
            let more = list(vm, call)?;
            vm.allocate(more.len(), call.tok)?;
            change(vm, call, |items| items.extend(more.iter().cloned()))?;
            Ok(Value::Unit)
        };
        "append(List<T>)" Place => |vm, call| {
            let Value::Place(other) = call.arg() else { return Err(vm.ill_typed(call.tok)) };
            let taken = vm.change(&(*other).clone().follow(), call.tok, |value| std::mem::replace(value, Value::list(Vec::new())))?;
            let Value::List(taken) = taken else { return Err(vm.ill_typed(call.tok)) };
            vm.allocate(taken.len(), call.tok)?;
            change(vm, call, |items| items.extend(taken.iter().cloned()))?;
            Ok(Value::Unit)
        };
        "dedup()" Place => |vm, call| {
            change(vm, call, |items| items.dedup())?;
            Ok(Value::Unit)
        };
        "retain(fn(T) -> bool)" Place => |vm, call| {
            let f = call.arg();
            let Value::List(items) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
            let mut kept = Vec::new();
            for item in items.iter() {
                if vm.test(&f, vec![item.clone()], call.tok)? {
                    kept.push(item.clone());
                }
            }
            change(vm, call, |items| *items = kept)?;
            Ok(Value::Unit)
        };
        "dedup_by_key(fn(T) -> K)" Place => dedup_by_key;
        "sort()" Place => sort;
        "sort_unstable()" Place => sort;
        "sort_by(fn(T, T) -> Ordering)" Place => sort_by;
        "sort_unstable_by(fn(T, T) -> Ordering)" Place => sort_by;
        "sort_by_key(fn(T) -> K)" Place => sort_by_key;
        "sort_unstable_by_key(fn(T) -> K)" Place => sort_by_key;
    },
};

/// Returns the receiver's elements.
fn items(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Rc<Vec<Value>>> {
    match &call.receiver {
        Value::List(items) => Ok(Rc::clone(items)),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Returns the position of an element, or the position at which it would be inserted.
fn found(result: Result<usize, usize>) -> Value {
    let index = |index: usize| Value::Int(index as i128);
    result.map_or_else(|at| Value::err(index(at)), |at| Value::ok(index(at)))
}

/// Returns the next argument's elements.
fn list(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval<Rc<Vec<Value>>> {
    match call.arg().load() {
        Value::List(items) => Ok(items),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Changes the elements at the receiver's place.
pub(super) fn change<R>(vm: &mut Interpreter<'_>, call: &Call, f: impl FnOnce(&mut Vec<Value>) -> R) -> Eval<R> {
    let mut copied = 0;
    let result = vm.change(&call.place, call.tok, |value| match value {
        Value::List(items) => Some(f(unshared(items, &mut copied))),
        _ => None,
    })?;
    if copied > 0 {
        vm.allocate(copied, call.tok)?;
    }
    result.ok_or(()).map_err(|()| vm.ill_typed(call.tok))
}

/// Returns the result of an operation with an index, or the error that the index is out of range.
fn checked<R>(vm: &mut Interpreter<'_>, call: &Call, index: usize, result: Result<R, usize>) -> Result<R, Stop> {
    result.map_err(|len| vm.out_of_range(index as i128, len, call.tok))
}

/// Returns an element as a place.
fn element(vm: &mut Interpreter<'_>, call: &Call, index: impl FnOnce(usize) -> Option<usize>) -> Eval {
    match call.place.get() {
        Value::List(items) => Ok(match index(items.len()).filter(|index| *index < items.len()) {
            Some(index) => Value::some(Value::Place(Rc::new(call.place.part(Projection::Index(index))))),
            None => Value::None,
        }),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn parts(vm: &mut Interpreter<'_>, call: &mut Call, shape: fn(usize) -> (usize, usize, bool)) -> Eval {
    let (items, size) = (items(vm, call)?, call.usize(vm)?);
    if size == 0 {
        return Err(vm.fail(Code::Panicked, call.tok, "a list is cut into parts of 0 elements"));
    }
    let (step, size, exact) = shape(size);
    Ok(Value::iter(Iter::Parts { items, at: 0, size, step, exact }))
}

fn rotate(vm: &mut Interpreter<'_>, call: &mut Call, f: fn(&mut [Value], usize)) -> Eval {
    let by = call.usize(vm)?;
    let done = change(vm, call, |items| {
        if by <= items.len() {
            f(items, by);
            Ok(())
        } else {
            Err(items.len())
        }
    })?;
    checked(vm, call, by, done)?;
    Ok(Value::Unit)
}
