//! Methods that consume all items of an iterator: collecting, folding, and finding the smallest and largest.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Call;
use super::iter::iter;
use crate::eval::iter::Shared;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter};
use crate::hir::{Collected, TyCon};

/// Collects items into the collection that inference found.
pub(crate) fn collect(vm: &mut Interpreter<'_>, call: &Call, iter: &Shared, made: Option<Collected>) -> Eval {
    let Some(made) = made else { return Err(vm.ill_typed(call.tok)) };
    if let Some(stops) = made.stops {
        let mut items = Vec::new();
        while let Some(item) = vm.next(iter, call.tok)? {
            match item.load() {
                Value::Some(item) | Value::Ok(item) => items.push((*item).clone()),
                stop => return Ok(stop),
            }
        }
        vm.allocate(items.len(), call.tok)?;
        let all = gather(vm, call, items, made.into)?;
        return Ok(if stops == TyCon::Option { Value::some(all) } else { Value::ok(all) });
    }
    let items = vm.drain(iter, call.tok)?;
    gather(vm, call, items, made.into)
}

/// Creates a collection from items.
#[allow(clippy::mutable_key_type, reason = "rustc lets no key be changed while it is in a map")]
pub(crate) fn gather(vm: &mut Interpreter<'_>, call: &Call, items: Vec<Value>, made: TyCon) -> Eval {
    match made {
        TyCon::List => Ok(Value::list(items)),
        TyCon::Set | TyCon::HashSet => Ok(Value::Set(Rc::new(items.into_iter().collect::<BTreeSet<_>>()))),
        TyCon::Map | TyCon::HashMap => {
            let mut map = BTreeMap::new();
            for item in items {
                match item {
                    Value::Tuple(pair) if pair.len() == 2 => map.insert(pair[0].clone(), pair[1].clone()),
                    _ => return Err(vm.ill_typed(call.tok)),
                };
            }
            Ok(Value::Map(Rc::new(map)))
        }
        TyCon::Unit => Ok(Value::Unit),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

pub(super) fn pair(vm: &mut Interpreter<'_>, call: &Call, sides: (Vec<Value>, Vec<Value>)) -> Eval {
    vm.allocate(sides.0.len() + sides.1.len(), call.tok)?;
    let [Some(first), Some(second)] = call.made else { return Err(vm.ill_typed(call.tok)) };
    let a = gather(vm, call, sides.0, first.into)?;
    let b = gather(vm, call, sides.1, second.into)?;
    Ok(Value::tuple(vec![a, b]))
}

/// Folds until the function returns `None` or `Err`.
pub(super) fn try_fold(
    vm: &mut Interpreter<'_>,
    call: &mut Call,
    start: Value,
    args: fn(Value, Value) -> Vec<Value>,
) -> Eval {
    let (iter, f) = (iter(vm, call)?, call.arg());
    let mut acc = start;
    while let Some(item) = vm.next(&iter, call.tok)? {
        acc = match vm.call(&f, args(acc, item), call.tok)? {
            Value::Some(value) | Value::Ok(value) => (*value).clone(),
            stop => return Ok(stop),
        };
    }
    match call.made[0] {
        Some(Collected { stops: Some(TyCon::Option), .. }) => Ok(Value::some(acc)),
        Some(Collected { stops: Some(TyCon::Result), .. }) => Ok(Value::ok(acc)),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Returns the smallest (the first of equals) or largest (the last of equals) item by a key.
pub(super) fn extreme(
    vm: &mut Interpreter<'_>,
    call: &mut Call,
    key: impl Fn(&mut Interpreter<'_>, &Call, &Value) -> Eval,
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

pub(super) fn extreme_by(vm: &mut Interpreter<'_>, call: &mut Call, wanted: Ordering) -> Eval {
    let (iter, f) = (iter(vm, call)?, call.arg());
    let Some(mut best) = vm.next(&iter, call.tok)? else { return Ok(Value::None) };
    while let Some(item) = vm.next(&iter, call.tok)? {
        let Value::Ordering(order) = vm.call(&f, vec![best.clone(), item.clone()], call.tok)? else {
            return Err(vm.ill_typed(call.tok));
        };
        // `order` compares the best item so far with this item.
        if order == wanted.reverse() || (order == Ordering::Equal && wanted == Ordering::Greater) {
            best = item;
        }
    }
    Ok(Value::some(best))
}
