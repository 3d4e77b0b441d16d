//! What `mscclpp explain` shows of the catalogue is true.

use mscclpp_core::check::check;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::json::{ReadOptions, read};
use mscclpp_core::plan::raw::PlanTree;
use serde_json::{Value, json};

#[test]
fn every_explanation_shows_a_wrong_program_and_its_repair() {
    // A fault of ours has no program that would be wrong.
    for (_, entry) in Code::all().filter(|(code, _)| !matches!(code, Code::Internal | Code::ExecutorFault)) {
        let shows = entry.explanation.contains("Wrong") && entry.explanation.contains("Right");
        assert!(shows, "{} {} has no `Wrong: … Right: …`", entry.number, entry.slug);
    }
}

/// A plan of an all-gather over two ranks with two thread blocks each, which hold an operation; or, if the fragment is none,
/// whose ranks have what it says.
fn plan_with(fragment: &Value) -> PlanTree {
    let operation = fragment.get("name").is_some();
    let block = |id: usize| {
        let ops = if operation { json!([fragment]) } else { json!([]) };
        json!({"id": id, "ops": ops, "channels": [{"channel_type": "memory", "channel_ids": [0]}]})
    };
    let rank = |id: usize| {
        let mut rank = json!({
            "id": id, "input_chunks": 2, "output_chunks": 4, "scratch_chunks": 0, "threadblocks": [block(0), block(1)],
            "channels": [{"channel_type": "memory", "connected_to": [1 - id]}], "remote_buffers": []
        });
        if let (false, Value::Object(own), Value::Object(rank)) = (operation, fragment, &mut rank) {
            rank.extend(own.clone());
        }
        rank
    };
    let plan = json!({
        "name": "p", "collective": "allgather", "protocol": "Simple", "inplace": false, "gpus": [rank(0), rank(1)]
    });
    read(&plan.to_string(), ReadOptions::default()).expect("the fragment fits the plan").0
}

/// What `mscclpp explain` shows of plan files is true.
#[test]
fn parts_of_plans_are_wrong_and_right_as_explained() {
    let mut shown = 0;
    for (code, entry) in Code::all() {
        let blocks = entry.explanation.split("```json\n").skip(1).filter_map(|text| text.split("```").next());
        let found: Vec<bool> = blocks
            .map(|text| {
                let fragment = serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", entry.number));
                check(&plan_with(&fragment)).iter().any(|finding| finding.code == code)
            })
            .collect();
        assert!(found.is_empty() || found == [true, false], "{}: {found:?}", entry.number);
        shown += found.len() / 2;
    }
    assert!(shown >= 5, "{shown} explanations have parts of plans");
}
