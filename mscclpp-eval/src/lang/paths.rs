//! Functions that are called by a path.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::fold::gather;
use super::{Call, Run};
use crate::eval::iter::Iter;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter};
use crate::hir::{PathFnId, TyCon};

/// A function that is called by a path.
pub(crate) struct PathFn {
    /// The segment before its name; empty for names that need none.
    pub(crate) qualifier: &'static str,
    /// Name and signature, in the terms of [`types::sig`](crate::types::sig).
    pub(crate) sig: &'static str,
    /// The function that evaluates it.
    pub(crate) run: Run,
}

impl PathFn {
    /// Returns the number of its parameters.
    pub(crate) fn num_params(&self) -> usize {
        super::num_params(self.sig)
    }

    /// Returns its result, as its signature has it.
    pub(crate) fn result(&self) -> Option<&'static str> {
        self.sig.rsplit_once(" -> ").map(|(_, result)| result)
    }
}

/// Returns the number of the function of a path, by its last two segments.
pub(crate) fn path_fn(qualifier: &str, name: &str) -> Option<PathFnId> {
    let found = PATHS.iter().position(|function| {
        function.qualifier == qualifier && function.sig.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
    });
    found.map(|number| number as PathFnId)
}

macro_rules! paths {
    ($($qualifier:literal $sig:literal => $run:expr;)*) => {
        &[$(PathFn { qualifier: $qualifier, sig: $sig, run: $run }),*]
    };
}

/// All functions that are called by a path.
pub(crate) static PATHS: &[PathFn] = paths! {
    "" "Some(T) -> Option<T>" => |_, call| Ok(Value::some(call.arg()));
    "Option" "Some(T) -> Option<T>" => |_, call| Ok(Value::some(call.arg()));
    "" "Ok(T) -> Result<T, E>" => |_, call| Ok(Value::ok(call.arg()));
    "Result" "Ok(T) -> Result<T, E>" => |_, call| Ok(Value::ok(call.arg()));
    "" "Err(E) -> Result<T, E>" => |_, call| Ok(Value::err(call.arg()));
    "Result" "Err(E) -> Result<T, E>" => |_, call| Ok(Value::err(call.arg()));
    "" "drop(T)" => |_, _| Ok(Value::Unit);
    "Vec" "new() -> List<T>" => empty_list;
    "Vec" "with_capacity(usize) -> List<T>" => empty_list;
    "Vec" "from_iter(Each<T>) -> List<T>" => |vm, call| from(vm, call, TyCon::List);
    "Vec" "from(Each<T>) -> List<T>" => |vm, call| from(vm, call, TyCon::List);
    "VecDeque" "new() -> List<T>" => empty_list;
    "VecDeque" "with_capacity(usize) -> List<T>" => empty_list;
    "VecDeque" "from(Each<T>) -> List<T>" => |vm, call| from(vm, call, TyCon::List);
    "BTreeMap" "new() -> Map<K, V>" => empty_map;
    "BTreeMap" "from_iter(Each<(K, V)>) -> Map<K, V>" => |vm, call| from(vm, call, TyCon::Map);
    "BTreeMap" "from(Each<(K, V)>) -> Map<K, V>" => |vm, call| from(vm, call, TyCon::Map);
    "HashMap" "new() -> HashMap<K, V>" => empty_map;
    "HashMap" "with_capacity(usize) -> HashMap<K, V>" => empty_map;
    "HashMap" "from(Each<(K, V)>) -> HashMap<K, V>" => |vm, call| from(vm, call, TyCon::HashMap);
    "BTreeSet" "new() -> Set<T>" => empty_set;
    "BTreeSet" "from_iter(Each<T>) -> Set<T>" => |vm, call| from(vm, call, TyCon::Set);
    "BTreeSet" "from(Each<T>) -> Set<T>" => |vm, call| from(vm, call, TyCon::Set);
    "HashSet" "new() -> HashSet<T>" => empty_set;
    "HashSet" "from(Each<T>) -> HashSet<T>" => |vm, call| from(vm, call, TyCon::HashSet);
    "String" "new() -> str" => |_, _| Ok(Value::Str(Rc::from("")));
    "String" "from(str) -> str" => |_, call| Ok(call.arg());
    "convert" "identity(T) -> T" => |_, call| Ok(call.arg());
    "cmp" "min(T, T) -> T" => |_, call| {
        let (a, b) = (call.arg(), call.arg());
        Ok(if b < a { b } else { a })
    };
    "cmp" "max(T, T) -> T" => |_, call| {
        let (a, b) = (call.arg(), call.arg());
        Ok(if b < a { a } else { b })
    };
    "iter" "once(T) -> Iter<T>" => |_, call| Ok(Value::iter(Iter::over(Rc::new(vec![call.arg()]))));
    "iter" "empty() -> Iter<T>" => |_, _| Ok(Value::iter(Iter::Empty));
    "iter" "repeat(T) -> Iter<T>" => |_, call| Ok(Value::iter(Iter::Repeat { value: call.arg(), left: None }));
    "iter" "repeat_n(T, usize) -> Iter<T>" => |vm, call| {
        let (value, left) = (call.arg(), call.usize(vm)?);
        Ok(Value::iter(Iter::Repeat { value, left: Some(left) }))
    };
    "iter" "repeat_with(fn() -> T) -> Iter<T>" => |_, call| Ok(Value::iter(Iter::Calls { f: call.arg(), forever: true }));
    "iter" "from_fn(fn() -> Option<T>) -> Iter<T>" => |_, call| Ok(Value::iter(Iter::Calls { f: call.arg(), forever: false }));
    "iter" "successors(Option<T>, fn(T) -> Option<T>) -> Iter<T>" => |_, call| {
        let first = call.arg();
        let next = crate::eval::iter::unwrapped(first.load());
        Ok(Value::iter(Iter::Successors { next, f: call.arg() }))
    };
    "iter" "zip(Each<T>, Each<U>) -> Iter<(T, U)>" => |vm, call| {
        let (a, b) = (call.arg(), call.arg());
        let (a, b) = (vm.make_iter(a, call.tok)?, vm.make_iter(b, call.tok)?);
        Ok(Value::iter(Iter::Zip { a, b }))
    };
    "mem" "swap(T, T)" => |vm, call| {
        let (Value::Place(a), Value::Place(b)) = (call.arg(), call.arg()) else { return Err(vm.ill_typed(call.tok)) };
        let (old_a, old_b) = (a.get(), b.get());
        vm.change(&a, call.tok, |value| *value = old_b)?;
        vm.change(&b, call.tok, |value| *value = old_a)?;
        Ok(Value::Unit)
    };
    "mem" "replace(T, T) -> T" => |vm, call| {
        let (Value::Place(place), value) = (call.arg(), call.arg()) else { return Err(vm.ill_typed(call.tok)) };
        vm.change(&place, call.tok, |old| std::mem::replace(old, value))
    };
    "mem" "take(T) -> Default<T>" => |vm, call| {
        let Value::Place(place) = call.arg() else { return Err(vm.ill_typed(call.tok)) };
        let default = vm.default_at(call.node, call.tok)?;
        vm.change(&place, call.tok, |old| std::mem::replace(old, default))
    };
    "Default" "default() -> Default<T>" => |vm, call| vm.default_at(call.node, call.tok);
    "cmp" "Reverse(T) -> Reverse<T>" => reverse;
    "" "Reverse(T) -> Reverse<T>" => reverse;
    "Box" "new(T) -> T" => |_, call| Ok(call.arg());
    "Rc" "new(T) -> T" => |_, call| Ok(call.arg());
    "Arc" "new(T) -> T" => |_, call| Ok(call.arg());
};

fn reverse(_: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    Ok(Value::Reverse(Rc::new(call.arg())))
}

fn empty_list(_: &mut Interpreter<'_>, _: &mut Call) -> Eval {
    Ok(Value::list(Vec::new()))
}

fn empty_map(_: &mut Interpreter<'_>, _: &mut Call) -> Eval {
    Ok(Value::Map(Rc::new(BTreeMap::new())))
}

fn empty_set(_: &mut Interpreter<'_>, _: &mut Call) -> Eval {
    Ok(Value::Set(Rc::default()))
}

fn from(vm: &mut Interpreter<'_>, call: &mut Call, made: TyCon) -> Eval {
    let items = call.arg();
    let items = vm.make_iter(items, call.tok)?;
    let items = vm.drain(&items, call.tok)?;
    gather(vm, call, items, made)
}
