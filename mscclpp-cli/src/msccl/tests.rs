use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind;

use super::{ImportError, import, is_xml};

/// An all-reduce in place of two GPUs, each with a thread block that sends and one that receives, which wait for each other.
pub(super) const TWO: &str = r#"<?xml version="1.0"?>
<!-- two GPUs -->
<algo name="exchange" nchannels="1" nchunksperloop="2" proto="Simple" ngpus="2" coll="allreduce" inplace="1">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="1"/>
      <step s="1" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="1" deps="0" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="1" chan="0">
      <step s="0" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
      <step s="1" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="0" deps="0" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"#;

/// An all-reduce of three GPUs of one chunk, over a chain that reduces, and one that passes the result on.
fn chain() -> String {
    let step = |number: u32, kind: &str, src: &str, dst: &str| {
        format!(
            "<step s='{number}' type='{kind}' srcbuf='{src}' srcoff='0' dstbuf='{dst}' dstoff='0' cnt='1' depid='-1' deps='-1' hasdep='0'/>"
        )
    };
    let block = |number: u32, send: i32, receive: i32, channel: u32, steps: &[String]| {
        format!("<tb id='{number}' send='{send}' recv='{receive}' chan='{channel}'>{}</tb>", steps.concat())
    };
    let gpu = |rank: u32, blocks: &[String]| {
        format!("<gpu id='{rank}' i_chunks='1' o_chunks='1' s_chunks='1'>{}</gpu>\n", blocks.concat())
    };
    let gpus = [
        gpu(
            0,
            &[
                block(0, 1, -1, 0, &[step(0, "cpy", "i", "s"), step(1, "s", "s", "o")]),
                block(1, -1, 1, 1, &[step(0, "r", "o", "o")]),
            ],
        ),
        gpu(
            1,
            &[
                block(0, 2, 0, 0, &[step(0, "rrs", "i", "o"), step(1, "nop", "i", "i")]),
                block(1, 0, 2, 1, &[step(0, "rcs", "o", "o")]),
            ],
        ),
        gpu(
            2,
            &[
                block(0, -1, 1, 0, &[step(0, "rrc", "i", "o")]),
                block(1, 1, -1, 1, &[step(0, "s", "o", "o").replace("depid='-1' deps='-1'", "depid='0' deps='0'")]),
            ],
        ),
    ];
    format!("<algo name='chain' ngpus='3' coll='allreduce' inplace='0'>\n{}</algo>", gpus.concat())
}

fn mistake(text: &str) -> String {
    match import(text.as_bytes(), "a.xml") {
        Err(ImportError::Mistake(mistake)) => format!("{}: {}: {}", mistake.line, mistake.element, mistake.reason),
        Err(ImportError::Program(findings)) => findings.to_string(),
        Ok(_) => panic!("expected a mistake in {text}"),
    }
}

#[test]
fn algorithms_become_plans_that_the_checks_accept() {
    assert!(is_xml(TWO.as_bytes()) && is_xml(b"\xef\xbb\xbf \n<algo/>") && !is_xml(b"{}") && !is_xml(b""));
    for (text, ranks, in_place) in [(TWO.to_owned(), 2, true), (chain(), 3, false)] {
        let plan = import(text.as_bytes(), "a.xml").unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(
            (plan.collective.kind, plan.ranks.len(), plan.collective.in_place),
            (CollectiveKind::AllReduce, ranks, in_place)
        );
        let findings = check(&plan);
        assert!(findings.is_empty(), "{findings}");
    }
}

#[test]
fn finding_of_the_checks_names_the_line_of_a_step() {
    // The thread block that sends does not wait until the other one has reduced.
    let racing = TWO.replace("depid=\"1\" deps=\"0\"", "depid=\"-1\" deps=\"-1\"");
    let plan = import(racing.as_bytes(), "a.xml").unwrap_or_else(|error| panic!("{error:?}"));
    let text = check(&plan).to_string();
    assert!(text.contains("a.xml:7") && text.contains("a.xml:10"), "{text}");
}

#[test]
fn mistake_of_a_file_names_its_line_and_element() {
    let step = "<step s=\"0\"> of <tb id=\"0\"> of <gpu id=\"0\"> of <algo name=\"exchange\">";
    for (found, wrong, expected) in [
        ("coll=\"allreduce\"", "coll=\"gather\"", "3: <algo name=\"exchange\">: coll: expected one of allreduce, allgather, reducescatter, reduce_scatter, alltoall, broadcast, found `gather`".to_owned()),
        ("ngpus=\"2\"", "ngpus=\"3\"", "3: <algo name=\"exchange\">: expected 3 GPUs, found 2".to_owned()),
        ("<gpu id=\"1\"", "<gpu id=\"0\"", "14: <gpu id=\"0\"> of <algo name=\"exchange\">: id: expected one GPU of each number, found 0 twice".to_owned()),
        ("i_chunks=\"2\" ", "", "4: <gpu id=\"0\"> of <algo name=\"exchange\">: expected attribute `i_chunks`, found none".to_owned()),
        ("<tb id=\"1\"", "<tb id=\"2\"", "9: <tb id=\"2\"> of <gpu id=\"0\"> of <algo name=\"exchange\">: id: expected thread blocks in order, so 1, found 2".to_owned()),
        ("send=\"1\"", "send=\"2\"", "5: <tb id=\"0\"> of <gpu id=\"0\"> of <algo name=\"exchange\">: send: expected -1 or another GPU below 2, found 2".to_owned()),
        ("send=\"1\"", "send=\"-1\"", format!("6: {step}: expected a thread block with a peer `send`, found -1")),
        ("type=\"s\"", "type=\"x\"", format!("6: {step}: type: expected one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop, found `x`")),
        ("srcoff=\"1\"", "srcoff=\"one\"", format!("6: {step}: srcoff: expected -1 to 2147483647, found `one`")),
        ("cnt=\"1\"", "cnt=\"2\"", format!("6: {step}: cnt: expected 1, as message 0 from GPU 0 to GPU 1 over channel 0 is received, found 2")),
        ("cnt=\"1\"", "cnt=\"0\"", format!("6: {step}: cnt: expected 1 or more, found 0")),
        ("type=\"s\"", "type=\"nop\"", "18: <step s=\"2\"> of <tb id=\"0\"> of <gpu id=\"1\"> of <algo name=\"exchange\">: expected a send of message 1 from GPU 0 to GPU 1 over channel 0, found none".to_owned()),
        ("depid=\"1\" deps=\"0\"", "depid=\"1\" deps=\"7\"", format!("7: {}: depid: expected a step of this GPU, found step 7 of thread block 1", step.replacen('0', "1", 1))),
        ("<gpu id=\"0\"", "x<gpu id=\"0\"", "3: : expected an element, found the text \"x\"".to_owned()),
        ("<step", "<steps", "6: <steps s=\"0\"> of <tb id=\"0\"> of <gpu id=\"0\"> of <algo name=\"exchange\">: expected `<step>`, found `<steps>`".to_owned()),
    ] {
        assert_eq!(mistake(&TWO.replacen(found, wrong, 1)), expected, "{wrong}");
    }
    for (text, expected) in [
        ("<gpu/>", "1: <gpu>: expected `<algo>`, found `<gpu>`"),
        (
            "<a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a>",
            "1: : expected at most 8 levels of elements, found more",
        ),
    ] {
        assert_eq!(mistake(text), expected);
    }
    assert!(matches!(import(b"<algo>\n\xff", "a.xml"), Err(ImportError::Mistake(mistake)) if mistake.line == 2));
}

#[test]
fn texts_that_are_no_xml_are_mistakes_with_their_lines() {
    let unclosed = TWO.replacen("</tb>", "</gpu>", 1);
    for (text, line) in [
        (&*unclosed, 8),
        ("<algo>\n", 1),
        ("<a/>\n<b/>", 2),
        ("\n<!-- a", 2),
        ("<!DOCTYPE a><a/>", 1),
        ("<a b='1/>", 1),
    ] {
        let found = mistake(text);
        assert!(found.starts_with(&format!("{line}: : ")) && found.len() > 10, "{text}: {found}");
    }
}

#[test]
fn chunks_past_the_end_of_a_buffer_are_reported_at_their_step() {
    let text = mistake(&TWO.replacen("srcoff=\"1\"", "srcoff=\"2147483647\"", 1));
    assert!(text.contains("a.xml:6"), "{text}");
    let text = mistake(&TWO.replacen("srcbuf=\"i\"", "srcbuf=\"s\"", 1));
    assert!(text.contains("a.xml:6"), "{text}");
}
