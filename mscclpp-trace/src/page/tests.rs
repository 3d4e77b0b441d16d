use serde_json::json;

use super::lanes::Drawing;
use crate::{Arrow, Cell, Change, Class, Content, Lane, LinkUse, Memory, Slice, Trace, Unit};

/// Two ranks: a put, and the wait for its signal.
fn trace() -> Trace {
    let content = |ranks: &[u32], text: &str| Content { ranks: ranks.to_vec(), whole: true, text: text.into() };
    let mut wait = Slice::new(1, (0.0, 2.5), Class::Wait, "wait");
    wait.details.insert("source".into(), json!("a</script>.rs:3:5"));
    Trace {
        title: "two <ranks>".into(),
        unit: Unit::Microseconds,
        lanes: (0..2).map(|rank| Lane::of_rank(rank, 0, "thread block 0".into())).collect(),
        slices: vec![Slice { critical: true, ..Slice::new(0, (0.0, 2.0), Class::Copy, "put") }, wait],
        arrows: vec![Arrow { from: 0, to: 1, what: "signal", critical: true }],
        memory: Some(Memory {
            num_ranks: 2,
            cells: vec![Cell { buffer: "output", rank: 1, chunk: 0 }],
            contents: vec![Content { whole: true, ..Content::default() }, content(&[0], "input chunk 0 of rank 0")],
            initial: vec![0],
            changes: vec![Change { slice: 0, cell: 0, content: 1 }],
        }),
        links: vec![LinkUse { name: "gpu0 to gpu1".into(), samples: vec![(0.0, 0.5), (2.0, 0.0)] }],
        bound: Some(1.0),
        ..Trace::default()
    }
}

#[test]
fn page_is_self_contained_and_deterministic() {
    let page = trace().page();
    assert_eq!(page, trace().page());
    for refused in ["http:", "https:", "src=", "<link", "@import", "url("] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(refused), "{refused}");
    }
    // Text of plans ends no script, and is no element.
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("two &lt;ranks&gt;") && !page.contains("<ranks>"), "{page}");
}

#[test]
fn page_has_lanes_arrows_links_bound_and_memory() {
    let page = trace().page();
    for expected in [
        "class=\"op copy critical\"",
        "class=\"arrow critical\"",
        "class=\"bound\"",
        "gpu0 to gpu1, 40 %",
        "data-name=\"output chunk 0 of rank 1\" style=\"background-image:linear-gradient(to right,transparent 0.0%,var(--held) 0.0% 50.0%,transparent 50.0%)\">0</td>",
        "<td>put</td><td>rank 0</td><td>thread block 0</td><td class=\"n\">0.00</td><td class=\"n\">2.00</td>",
    ] {
        assert!(page.contains(expected), "{expected} in {page}");
    }
}

#[test]
fn longest_name_fits_beside_the_times() {
    let begin = |name: &str| {
        let mut trace = trace();
        trace.links[0].name = name.into();
        Drawing::of(&trace).names
    };
    let name = "nvswitch of node 12 to gpu103";
    assert!(begin("a") < begin(name));
    assert_eq!(begin(&name.repeat(3)), begin(&name.repeat(4)), "times keep most of the drawing");
}

#[test]
fn page_opens_at_what_is_wrong() {
    let mut trace = trace();
    trace.slices[1].details.insert("finding".into(), json!("no rank signals"));
    let page = trace.page();
    assert!(page.contains("data-go=\"1\">rank 1, thread block 0, wait</a>: no rank signals"), "{page}");
    assert!(page.contains("\"first\":1") && page.contains("class=\"op wait found\""), "{page}");
}

#[test]
fn empty_and_large_traces_have_pages() {
    assert!(Trace::default().page().contains("</html>"));
    let mut large = trace();
    large.slices = vec![large.slices[0].clone(); 20_001];
    assert!(large.page().contains("20000 of 20001 operations are drawn."));
}
