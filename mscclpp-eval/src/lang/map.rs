//! Maps and sets. The order of a hash table is unspecified and plans must not depend on it, so hash tables cannot be
//! iterated over.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Call, Table, methods};
use crate::eval::iter::Iter;
use crate::eval::place::Projection;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter};

/// Ordered maps.
pub(crate) const MAP: Table = Table {
    header: "Map<K, V>",
    about: "`BTreeMap`",
    methods: methods! {
        "len() -> usize" Value => len;
        "is_empty() -> bool" Value => is_empty;
        "insert(K, V) -> Option<V>" Place => insert;
        "get(K) -> Option<V>" Value => get;
        "contains_key(K) -> bool" Value => contains_key;
        "get_mut(K) -> Option<V>" Place => get_mut;
        "remove(K) -> Option<V>" Place => remove;
        "entry(K) -> Entry<K, V>" Place => entry;
        "clear()" Place => clear;
        "extend(Each<(K, V)>)" Place => extend;
        "iter() -> Iter<(K, V)>" Value => |vm, call| vm.iterate(call.receiver.clone(), call.tok);
        "into_iter() -> Iter<(K, V)>" Value => |vm, call| vm.iterate(call.receiver.clone(), call.tok);
        "keys() -> Iter<K>" Value => |vm, call| pairs(vm, call, |key, _| key.clone());
        "values() -> Iter<V>" Value => |vm, call| pairs(vm, call, |_, value| value.clone());
        "into_keys() -> Iter<K>" Value => |vm, call| pairs(vm, call, |key, _| key.clone());
        "into_values() -> Iter<V>" Value => |vm, call| pairs(vm, call, |_, value| value.clone());
        "iter_mut() -> Iter<(K, V)>" Place => |vm, call| places(vm, call, true);
        "values_mut() -> Iter<V>" Place => |vm, call| places(vm, call, false);
        "first_key_value() -> Option<(K, V)>" Value => |vm, call| Ok(pair(map(vm, call)?.first_key_value()));
        "last_key_value() -> Option<(K, V)>" Value => |vm, call| Ok(pair(map(vm, call)?.last_key_value()));
        "pop_first() -> Option<(K, V)>" Place => |vm, call| {
            Ok(owned_pair(change(vm, call, BTreeMap::pop_first)?))
        };
        "pop_last() -> Option<(K, V)>" Place => |vm, call| {
            Ok(owned_pair(change(vm, call, BTreeMap::pop_last)?))
        };
        "retain(fn(K, V) -> bool)" Place => |vm, call| {
            let f = call.arg();
            let Value::Map(map) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
            for key in map.keys() {
                let value = Value::Place(Rc::new(call.place.part(Projection::Key(key.clone()))));
                if !vm.test(&f, vec![key.clone(), value], call.tok)? {
                    change(vm, call, |map| map.remove(key))?;
                }
            }
            Ok(Value::Unit)
        };
    },
};

/// Hash maps.
pub(crate) const HASH_MAP: Table = Table {
    header: "HashMap<K, V>",
    about: "`HashMap`, which cannot be iterated over",
    methods: methods! {
        "len() -> usize" Value => len;
        "is_empty() -> bool" Value => is_empty;
        "insert(K, V) -> Option<V>" Place => insert;
        "get(K) -> Option<V>" Value => get;
        "contains_key(K) -> bool" Value => contains_key;
        "get_mut(K) -> Option<V>" Place => get_mut;
        "remove(K) -> Option<V>" Place => remove;
        "entry(K) -> Entry<K, V>" Place => entry;
        "clear()" Place => clear;
        "extend(Each<(K, V)>)" Place => extend;
    },
};

/// Entries of maps.
pub(crate) const ENTRY: Table = Table {
    header: "Entry<K, V>",
    about: "the entry of a map",
    methods: methods! {
        "or_insert(V) -> V" Value => |vm, call| {
            let value = call.arg();
            or_insert(vm, call, |_, _| Ok(value))
        };
        "or_insert_with(fn() -> V) -> V" Value => |vm, call| {
            let f = call.arg();
            or_insert(vm, call, |vm, call| vm.call(&f, Vec::new(), call.tok))
        };
        "or_default() -> Default<V>" Value => |vm, call| or_insert(vm, call, |vm, call| vm.default_at(call.node, call.tok));
        "and_modify(fn(V)) -> Entry<K, V>" Value => |vm, call| {
            let f = call.arg();
            let Value::Entry(entry) = &call.receiver else { return Err(vm.ill_typed(call.tok)) };
            if let Value::Map(map) = entry.0.get()
                && map.contains_key(&entry.1)
            {
                let value = Value::Place(Rc::new(entry.0.part(Projection::Key(entry.1.clone()))));
                vm.call(&f, vec![value], call.tok)?;
            }
            Ok(call.receiver.clone())
        };
    },
};

/// Ordered sets.
pub(crate) const SET: Table = Table {
    header: "Set<T>",
    about: "`BTreeSet`",
    methods: methods! {
        "len() -> usize" Value => len;
        "is_empty() -> bool" Value => is_empty;
        "contains(T) -> bool" Value => set_contains;
        "insert(T) -> bool" Place => set_insert;
        "remove(T) -> bool" Place => set_remove;
        "clear()" Place => clear;
        "extend(Each<T>)" Place => set_extend;
        "iter() -> Iter<T>" Value => |vm, call| vm.iterate(call.receiver.clone(), call.tok);
        "into_iter() -> Iter<T>" Value => |vm, call| vm.iterate(call.receiver.clone(), call.tok);
        "first() -> Option<T>" Value => |vm, call| Ok(Value::option(set(vm, call)?.first().cloned()));
        "last() -> Option<T>" Value => |vm, call| Ok(Value::option(set(vm, call)?.last().cloned()));
        "pop_first() -> Option<T>" Place => |vm, call| Ok(Value::option(change_set(vm, call, BTreeSet::pop_first)?));
        "pop_last() -> Option<T>" Place => |vm, call| Ok(Value::option(change_set(vm, call, BTreeSet::pop_last)?));
        "retain(fn(T) -> bool)" Place => |vm, call| {
            let f = call.arg();
            let Value::Set(set) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
            for item in set.iter() {
                if !vm.test(&f, vec![item.clone()], call.tok)? {
                    change_set(vm, call, |set| set.remove(item))?;
                }
            }
            Ok(Value::Unit)
        };
        "union(Set<T>) -> Iter<T>" Value => |vm, call| combine(vm, call, |a, b| a.union(b).cloned().collect());
        "intersection(Set<T>) -> Iter<T>" Value => |vm, call| combine(vm, call, |a, b| a.intersection(b).cloned().collect());
        "difference(Set<T>) -> Iter<T>" Value => |vm, call| combine(vm, call, |a, b| a.difference(b).cloned().collect());
        "is_subset(Set<T>) -> bool" Value => |vm, call| relate(vm, call, BTreeSet::is_subset);
        "is_superset(Set<T>) -> bool" Value => |vm, call| relate(vm, call, BTreeSet::is_superset);
        "is_disjoint(Set<T>) -> bool" Value => |vm, call| relate(vm, call, BTreeSet::is_disjoint);
    },
};

/// Hash sets.
pub(crate) const HASH_SET: Table = Table {
    header: "HashSet<T>",
    about: "`HashSet`, which cannot be iterated over",
    methods: methods! {
        "len() -> usize" Value => len;
        "is_empty() -> bool" Value => is_empty;
        "contains(T) -> bool" Value => set_contains;
        "insert(T) -> bool" Place => set_insert;
        "remove(T) -> bool" Place => set_remove;
        "clear()" Place => clear;
        "extend(Each<T>)" Place => set_extend;
        "is_subset(HashSet<T>) -> bool" Value => |vm, call| relate(vm, call, BTreeSet::is_subset);
        "is_superset(HashSet<T>) -> bool" Value => |vm, call| relate(vm, call, BTreeSet::is_superset);
        "is_disjoint(HashSet<T>) -> bool" Value => |vm, call| relate(vm, call, BTreeSet::is_disjoint);
    },
};

fn map(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Rc<BTreeMap<Value, Value>>> {
    match &call.receiver {
        Value::Map(map) => Ok(Rc::clone(map)),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn set(vm: &mut Interpreter<'_>, call: &Call) -> Eval<Rc<BTreeSet<Value>>> {
    match &call.receiver {
        Value::Set(set) => Ok(Rc::clone(set)),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Changes the map at the receiver's place.
fn change<R>(vm: &mut Interpreter<'_>, call: &Call, f: impl FnOnce(&mut BTreeMap<Value, Value>) -> R) -> Eval<R> {
    let mut copied = 0;
    let result = vm.change(&call.place, call.tok, |value| match value {
        Value::Map(map) => {
            copied = if Rc::strong_count(map) > 1 { map.len() } else { 0 };
            Some(f(Rc::make_mut(map)))
        }
        _ => None,
    })?;
    vm.allocate(copied, call.tok)?;
    result.ok_or(()).map_err(|()| vm.ill_typed(call.tok))
}

/// Changes the set at the receiver's place.
fn change_set<R>(vm: &mut Interpreter<'_>, call: &Call, f: impl FnOnce(&mut BTreeSet<Value>) -> R) -> Eval<R> {
    let mut copied = 0;
    let result = vm.change(&call.place, call.tok, |value| match value {
        Value::Set(set) => {
            copied = if Rc::strong_count(set) > 1 { set.len() } else { 0 };
            Some(f(Rc::make_mut(set)))
        }
        _ => None,
    })?;
    vm.allocate(copied, call.tok)?;
    result.ok_or(()).map_err(|()| vm.ill_typed(call.tok))
}

fn count(vm: &mut Interpreter<'_>, call: &Call) -> Eval<usize> {
    match &call.receiver {
        Value::Map(map) => Ok(map.len()),
        Value::Set(set) => Ok(set.len()),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn len(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    Ok(Value::Int(count(vm, call)? as i128))
}

fn is_empty(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    Ok(Value::Bool(count(vm, call)? == 0))
}

fn clear(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    vm.change(&call.place, call.tok, |value| match value {
        Value::Map(map) => *map = Rc::default(),
        Value::Set(set) => *set = Rc::default(),
        _ => {}
    })?;
    Ok(Value::Unit)
}

fn insert(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let (key, value) = (call.arg().load(), call.arg());
    vm.allocate(1, call.tok)?;
    Ok(Value::option(change(vm, call, |map| map.insert(key, value))?))
}

fn get(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let (map, key) = (map(vm, call)?, call.arg().load());
    Ok(Value::option(map.get(&key).cloned()))
}

fn contains_key(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let (map, key) = (map(vm, call)?, call.arg().load());
    Ok(Value::Bool(map.contains_key(&key)))
}

fn get_mut(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let key = call.arg().load();
    match call.place.get() {
        Value::Map(map) if map.contains_key(&key) => {
            Ok(Value::some(Value::Place(Rc::new(call.place.part(Projection::Key(key))))))
        }
        Value::Map(_) => Ok(Value::None),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn remove(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let key = call.arg().load();
    Ok(Value::option(change(vm, call, |map| map.remove(&key))?))
}

fn entry(_: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let key = call.arg().load();
    Ok(Value::Entry(Rc::new((call.place.clone(), key))))
}

fn or_insert(
    vm: &mut Interpreter<'_>,
    call: &mut Call,
    value: impl FnOnce(&mut Interpreter<'_>, &mut Call) -> Eval,
) -> Eval {
    let Value::Entry(entry) = call.receiver.clone() else { return Err(vm.ill_typed(call.tok)) };
    let Value::Map(map) = entry.0.get() else { return Err(vm.ill_typed(call.tok)) };
    let known = map.contains_key(&entry.1);
    drop(map);
    if !known {
        let value = value(vm, call)?;
        vm.allocate(1, call.tok)?;
        vm.change(&entry.0, call.tok, |map| {
            if let Value::Map(map) = map {
                Rc::make_mut(map).insert(entry.1.clone(), value);
            }
        })?;
    }
    Ok(Value::Place(Rc::new(entry.0.part(Projection::Key(entry.1.clone())))))
}

/// Returns the items of an argument.
fn items(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval<Vec<Value>> {
    let items = call.arg();
    let items = vm.make_iter(items, call.tok)?;
    vm.drain(&items, call.tok)
}

fn extend(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let mut more = Vec::new();
    for item in items(vm, call)? {
        match item {
            Value::Tuple(pair) if pair.len() == 2 => more.push((pair[0].clone().load(), pair[1].clone())),
            _ => return Err(vm.ill_typed(call.tok)),
        }
    }
    change(vm, call, |map| map.extend(more))?;
    Ok(Value::Unit)
}

fn pairs(vm: &mut Interpreter<'_>, call: &mut Call, part: fn(&Value, &Value) -> Value) -> Eval {
    let map = map(vm, call)?;
    vm.allocate(map.len(), call.tok)?;
    Ok(Value::iter(Iter::over(Rc::new(map.iter().map(|(key, value)| part(key, value)).collect()))))
}

fn places(vm: &mut Interpreter<'_>, call: &mut Call, with_keys: bool) -> Eval {
    let Value::Map(map) = call.place.get() else { return Err(vm.ill_typed(call.tok)) };
    vm.allocate(map.len(), call.tok)?;
    let keys = Rc::new(map.keys().cloned().collect());
    Ok(Value::iter(Iter::MapPlaces { place: call.place.clone(), keys, at: 0, with_keys }))
}

fn pair(pair: Option<(&Value, &Value)>) -> Value {
    owned_pair(pair.map(|(key, value)| (key.clone(), value.clone())))
}

fn owned_pair(pair: Option<(Value, Value)>) -> Value {
    Value::option(pair.map(|(key, value)| Value::tuple(vec![key, value])))
}

fn set_contains(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let (set, item) = (set(vm, call)?, call.arg().load());
    Ok(Value::Bool(set.contains(&item)))
}

fn set_insert(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let item = call.arg().load();
    vm.allocate(1, call.tok)?;
    Ok(Value::Bool(change_set(vm, call, |set| set.insert(item))?))
}

fn set_remove(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let item = call.arg().load();
    Ok(Value::Bool(change_set(vm, call, |set| set.remove(&item))?))
}

fn set_extend(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    let more = items(vm, call)?;
    change_set(vm, call, |set| set.extend(more.into_iter().map(Value::load)))?;
    Ok(Value::Unit)
}

fn other_set(vm: &mut Interpreter<'_>, call: &mut Call) -> Eval<Rc<BTreeSet<Value>>> {
    match call.arg().load() {
        Value::Set(set) => Ok(set),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

fn combine(vm: &mut Interpreter<'_>, call: &mut Call, f: fn(&BTreeSet<Value>, &BTreeSet<Value>) -> Vec<Value>) -> Eval {
    let (a, b) = (set(vm, call)?, other_set(vm, call)?);
    vm.allocate(a.len() + b.len(), call.tok)?;
    Ok(Value::iter(Iter::over(Rc::new(f(&a, &b)))))
}

fn relate(vm: &mut Interpreter<'_>, call: &mut Call, f: fn(&BTreeSet<Value>, &BTreeSet<Value>) -> bool) -> Eval {
    let (a, b) = (set(vm, call)?, other_set(vm, call)?);
    Ok(Value::Bool(f(&a, &b)))
}
