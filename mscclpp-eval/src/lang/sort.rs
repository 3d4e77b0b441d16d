//! Sorting of lists, and methods that compare their elements by keys.

use std::cmp::Ordering;

use super::Call;
use super::list::change;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter};

/// Sorts in the order of the elements.
pub(super) fn sort(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    vm.sorting(call)?;
    change(vm, call, |items| items.sort())?;
    Ok(Value::Unit)
}

/// Drops elements whose key equals that of the previous element.
pub(super) fn dedup_by_key(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let f = call.arg();
    let Value::List(items) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
    let mut kept: Vec<(Value, Value)> = Vec::new();
    for item in items.iter() {
        let key = vm.call(&f, vec![item.clone()], call.tok)?.load();
        if kept.last().is_none_or(|(last, _)| *last != key) {
            kept.push((key, item.clone()));
        }
    }
    change(vm, call, |items| *items = kept.into_iter().map(|(_, item)| item).collect())?;
    Ok(Value::Unit)
}

/// Sorts by comparisons that run code, with a merge sort that can stop in the middle.
pub(super) fn sort_by(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    vm.sorting(call)?;
    let f = call.arg();
    let Value::List(items) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
    let sorted = merge_sort(vm, call, &f, items.to_vec())?;
    change(vm, call, |items| *items = sorted)?;
    Ok(Value::Unit)
}

fn merge_sort(vm: &mut Interpreter<'_>, call: &Call, f: &Value, mut items: Vec<Value>) -> Eval<Vec<Value>> {
    if items.len() < 2 {
        return Ok(items);
    }
    let right = items.split_off(items.len() / 2);
    let left = merge_sort(vm, call, f, items)?;
    let right = merge_sort(vm, call, f, right)?;
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let order = vm.call(f, vec![b.clone(), a.clone()], call.tok)?;
        let first = if matches!(order, Value::Ordering(Ordering::Less)) { right.next() } else { left.next() };
        merged.extend(first);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

pub(super) fn sort_by_key(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    vm.sorting(call)?;
    let f = call.arg();
    let Value::List(items) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
    let mut keyed = Vec::with_capacity(items.len());
    for item in items.iter() {
        keyed.push((vm.call(&f, vec![item.clone()], call.tok)?, item.clone()));
    }
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    change(vm, call, |items| *items = keyed.into_iter().map(|(_, item)| item).collect())?;
    Ok(Value::Unit)
}

impl Interpreter<'_> {
    /// Counts the work of a sort.
    fn sorting(&mut self, call: &Call) -> Eval<()> {
        match call.place.get() {
            Value::List(items) => {
                let work = items.len() * (items.len().max(2).ilog2() as usize);
                self.allocate(work, call.tok)
            }
            _ => Err(self.ill_typed(call.tok)),
        }
    }
}
