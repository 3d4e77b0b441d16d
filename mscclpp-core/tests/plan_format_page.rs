//! `docs/plan-format.md` and the schema beside it speak of everything that the format has.

use std::path::Path;

use mscclpp_core::plan::json::{ReadOptions, Style, read, write};
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use mscclpp_core::types::{BufferKind, ChannelKind, ReduceOp};
use serde_json::Value;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_name_is_on_the_page() {
    let page = page("plan-format.md");
    let names = OpKind::ALL.iter().map(|kind| kind.name()).chain(ReduceOp::ALL.iter().map(|op| op.name()));
    for name in names.chain(BufferKind::ALL.iter().map(|buffer| buffer.letter())) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/plan-format.md");
    }
    for kind in ChannelKind::ALL {
        assert!(page.contains(kind.name()), "{kind}");
    }
}

#[test]
fn every_key_that_is_written_is_in_the_schema() {
    let mut plan: PlanTree = read(include_str!("../../mscclpp-plan/src/pair.json"), ReadOptions::default()).unwrap().0;
    plan.collective.root = 1;
    plan.collective.chunk_factor = 9;
    plan.ranks_per_node = 1;
    plan.tags.insert("name".into(), 1);
    let file: Value = serde_json::from_str(&write(&plan, Style::Compact)).unwrap();
    let mut keys = Vec::new();
    collect(&file, &mut keys);
    assert!(keys.len() > 40, "{} keys", keys.len());
    let schema = page("plan.schema.json");
    for key in keys {
        assert!(schema.contains(&format!("\"{key}\":")), "{key}");
    }
}

fn collect(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, keys)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            keys.push(key.clone());
            collect(value, keys);
        }),
        _ => {}
    }
}
