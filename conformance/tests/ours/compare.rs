//! Comparison of plans as JSON values.

use serde_json::Value;

/// Operations whose channel list is a set.
const SETS: [&str; 5] = ["signal", "wait", "rlxsignal", "rlxwait", "flush"];

/// Additional keys of this project's plan files (DIFF-21 of `docs/differences.md`): the reference has no key for them.
const OWN: [&str; 4] = ["chunk_factor", "ranks_per_node", "root", "tags"];

/// Removes the additional keys from a plan.
pub(crate) fn drop_own_keys(plan: &mut Value) {
    if let Value::Object(map) = plan {
        map.retain(|key, _| !OWN.contains(&key.as_str()));
    }
}

/// Sorts the two lists that the reference emits in the order of a hash set.
pub(crate) fn normalise(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(map) => {
            if map.get("name").and_then(Value::as_str).is_some_and(|name| SETS.contains(&name)) {
                map.get_mut("channel_ids").map(sort);
            }
            map.get_mut("access_channel_types").map(sort);
            map.values_mut().for_each(normalise);
        }
        _ => {}
    }
}

fn sort(list: &mut Value) {
    if let Value::Array(items) = list {
        items.sort_by_key(|item| (item.as_u64(), item.to_string()));
    }
}

/// Returns the paths at which two values differ, with both values; for lists of unequal length the first such path.
pub(crate) fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect("$", ours, theirs, &mut found);
    found
}

fn collect(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        _ if ours == theirs => {}
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let (x, y) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                collect(&format!("{path}.{key}"), x, y, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (x, y)) in a.iter().zip(b).enumerate() {
                collect(&format!("{path}[{index}]"), x, y, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let index = a.iter().zip(b).take_while(|(x, y)| x == y).count();
            let at = |list: &[Value]| list.get(index).map_or("nothing".into(), short);
            found.push(format!("{path}[{index}]: ours {} of {}, theirs {} of {}", at(a), a.len(), at(b), b.len()));
        }
        _ => found.push(format!("{path}: ours {}, theirs {}", short(ours), short(theirs))),
    }
}

/// Formats a value in at most 250 characters.
fn short(value: &Value) -> String {
    value.to_string().chars().take(250).collect()
}
