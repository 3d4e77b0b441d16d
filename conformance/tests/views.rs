//! Every reference plan, right or wrong, can be printed as text and parsed, drawn and traced.

use std::collections::BTreeMap;

use mscclpp_core::check::{check, execution_trace};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::graph::Graph;
use mscclpp_core::plan::json::{ReadOptions, Style, read, write};
use mscclpp_core::plan::{Plan, text};

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn plans_are_shown_drawn_and_traced() {
    let (mut stuck, mut summed) = (0, 0);
    for entry in conformance::index() {
        let slug = entry["slug"].as_str().expect("a name");
        let (plan, _) = read(&conformance::text(&format!("{slug}.json")), ReadOptions::default()).expect(slug);
        let text = text::print(&plan);
        let parsed = text::parse(&text).unwrap_or_else(|error| panic!("{slug}: {error}"));
        assert_eq!(parsed, plan, "{slug}");
        assert_eq!(text::print(&parsed), text, "{slug}");
        assert_eq!(write(&parsed, Style::Pretty), write(&plan, Style::Pretty), "{slug}");
        assert_eq!(Plan::new(&parsed), Plan::new(&plan), "{slug}");
        assert_eq!(text::parse(&Plan::new(&plan).to_text()), Ok(plan.clone()), "{slug}");
        let drawn = Graph::plan(&plan).to_string();
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"), "{slug}");

        let found = check(&plan);
        let traced = execution_trace(&plan).unwrap_or_else(|findings| panic!("{slug}: {findings}"));
        let deadlock = found.iter().any(|finding| finding.code == Code::Deadlock);
        // Earlier rules may have found the reason for which an operation is blocked.
        assert!(traced.blocked() > 0 || !deadlock, "{slug}: {found}");
        assert!(traced.blocked() == 0 || !found.is_empty(), "{slug}: {} stuck", traced.blocked());
        stuck += usize::from(traced.blocked() > 0);

        // An accepted all-reduce leaves the inputs of all ranks in every chunk of its output.
        if let Some(memory) =
            traced.memory.as_ref().filter(|_| found.is_empty() && plan.collective.kind == CollectiveKind::AllReduce)
        {
            let mut state = memory.initial.clone();
            memory.changes.iter().for_each(|change| state[change.cell as usize] = change.content);
            let outputs = memory.cells.iter().zip(state).filter(|(cell, _)| cell.buffer.ends_with("output"));
            for (cell, content) in outputs {
                let content = &memory.contents[content as usize];
                assert!(content.whole && content.ranks.len() == plan.ranks.len(), "{slug}: {cell:?} holds {content:?}");
            }
            summed += 1;
        }

        let value = serde_json::to_value(&traced).expect("it is written");
        let mut ends: BTreeMap<u64, [bool; 2]> = BTreeMap::new();
        for event in value["traceEvents"].as_array().expect("events") {
            let end = match event["ph"].as_str() {
                Some("s") => 0,
                Some("f") => 1,
                _ => continue,
            };
            ends.entry(event["id"].as_u64().expect("a number")).or_default()[end] = true;
        }
        assert!(ends.values().all(|ends| *ends == [true, true]), "{slug}");
        let slices = value["traceEvents"].as_array().into_iter().flatten().filter(|event| event["ph"] == "X").count();
        assert!(
            slices > 0 || plan.ranks.iter().flat_map(|rank| &rank.blocks).all(|block| block.ops.is_empty()),
            "{slug}"
        );
        assert!(value["otherData"]["plan"] == plan.name.as_str(), "{slug}");
    }
    assert!(summed > 0, "no accepted all-reduce");
    assert!(stuck > 0, "fragments wait for what nobody sends");
}
