//! `docs/plan-format.md` and the schema beside it speak of everything that the format has.

use std::path::Path;

use mscclpp_core::plan::json::{ReadOptions, Style, read, write};
use mscclpp_core::plan::raw::{IdList, OpKind, Packets, PlanTree, Side};
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

/// Operands of a side, as the page lists them.
fn operands(side: &Side) -> String {
    let mut found = Vec::new();
    for ((min, max), place) in side.ranges().into_iter().zip(["local", "remote", "switch"]) {
        let count = |min, max| {
            if max == usize::MAX { if min > 1 { "2 or more".into() } else { "k".into() } } else { format!("{max}") }
        };
        let mut list = |min: usize, max: usize, packets: bool| {
            let place = if packets && place == "local" { "own" } else { place };
            found.push(format!("{} {place}{}", count(min, max), if packets { " packets" } else { "" }));
        };
        match side.packets {
            _ if max == 0 => {}
            // The first operand is plain.
            Packets::Rest if place == "local" => {
                list(1, 1, false);
                if max > 1 {
                    list(min - 1, if max == usize::MAX { max } else { max - 1 }, true);
                }
            }
            packets => list(min, max, packets != Packets::Nothing),
        }
    }
    found.join(", ")
}

/// The keys of an operation other than its operands, channel type, reduction and slice.
fn further_keys(kind: OpKind) -> &'static str {
    match (kind, kind.ids()) {
        (OpKind::SwitchReduce, _) => {
            "instead of operands `buffer_type`, `buffer_offset`, `size`, `dst_chunk`, one of `channel_ids`"
        }
        (OpKind::Pipeline, _) => "`iter_context`, `ops`",
        (kind, IdList::ChannelPerPortDestination) if kind.is_counted() => "`count`, `channel_ids` on ports",
        (kind, _) if kind.is_counted() && kind.is_data() => "`count`",
        (_, IdList::Nothing) => "",
        (_, IdList::Channels | IdList::ChannelPerPair) => "`channel_ids`",
        (_, IdList::ChannelPerPortDestination) => "`channel_ids` on ports",
        (_, IdList::Semaphores) => "`semaphore_ids`",
        (_, IdList::Barrier) => "`barrier_id`, `num_threadblocks`",
    }
}

#[test]
fn operations_of_the_page_have_the_declared_properties() {
    const HEAD: &str = "| name | operation | reads | writes | further keys |\n|---|---|---|---|---|\n";
    let mut table = HEAD.to_owned();
    for &kind in OpKind::ALL {
        let cells =
            [kind.description().trim().into(), operands(kind.srcs()), operands(kind.dsts()), further_keys(kind).into()];
        let cells: String = cells
            .iter()
            .map(|cell: &String| if cell.is_empty() { " |".into() } else { format!(" {cell} |") })
            .collect();
        table += &format!("| `{}` |{cells}\n", kind.name());
    }
    // Descriptions have the names of kinds in Rust, the page those of the format.
    for &kind in OpKind::ALL {
        table = table.replace(&format!("`{kind:?}`"), &format!("`{}`", kind.name()));
    }
    let text = page("plan-format.md");
    let (before, rest) = text.split_once(HEAD).expect("the table of operations");
    let (_, after) = rest.split_once("\n\n").expect("text after the table");
    let expected = format!("{before}{table}\n{after}");
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan-format.md"), &expected)
            .expect("it can be written");
    }
    assert!(
        page("plan-format.md") == expected,
        "MSCCLPP_BLESS=1 writes the table of operations in docs/plan-format.md"
    );
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
