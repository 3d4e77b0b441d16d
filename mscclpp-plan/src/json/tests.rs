use proptest::prelude::*;
use proptest::sample::Index;

use super::{ReadOptions, Style, read, read_bytes, write};
use crate::arbitrary::tree;
use crate::collective::CollectiveKind;
use crate::diag::{Code, Diagnostics, Site};
use crate::origin::Origin;
use crate::types::{BlockSync, BufferKind, ChannelKind};
use crate::{BufferRef, Count, Expectation, Op, OpKind, Operand, Operands, PlanTree, RankPlan};

/// Leaves of a tree only what a file can say.
fn writable(mut tree: PlanTree) -> PlanTree {
    if tree.ranks.is_empty() {
        tree.ranks.push(RankPlan::default());
    }
    let (input, output) = (tree.ranks[0].input_chunks, tree.ranks[0].output_chunks);
    tree.collective.kind = match tree.collective.kind {
        CollectiveKind::Custom { .. } => CollectiveKind::Custom { input, output },
        CollectiveKind::Test { .. } => CollectiveKind::Test { input, output },
        kind => kind,
    };
    for rank in &mut tree.ranks {
        let (mut memory, mut port) = (false, false);
        rank.channels.retain(|table| match table {
            crate::ChannelTable::Memory(_) => !std::mem::replace(&mut memory, true),
            crate::ChannelTable::Port(_) => !std::mem::replace(&mut port, true),
            crate::ChannelTable::Switch { .. } => true,
        });
        for block in &mut rank.blocks {
            for tables in [&mut block.channels, &mut block.remote_buffers] {
                let mut seen = Vec::new();
                tables.retain(|(kind, _)| !seen.contains(kind) && (seen.push(*kind), true).1);
            }
            block.remote_buffers.retain(|(kind, _)| *kind != ChannelKind::Switch);
            block.ops.iter_mut().for_each(|op| writable_op(op, true));
        }
    }
    tree
}

fn writable_op(op: &mut Op, outside: bool) {
    use OpKind::*;
    op.sync = BlockSync::None;
    op.num_blocks = if op.kind == Barrier { op.num_blocks } else { 0 };
    op.slice = op.slice.filter(|_| op.kind.is_data());
    let has_count = op.kind.is_counted() && op.kind.is_data();
    op.count = has_count.then(|| op.count.unwrap_or(Count { sender: 1, receiver: 0 }));
    op.reduce = op.kind.is_reduce().then(|| op.reduce.unwrap_or_default());
    let has_channel = !op.kind.channels().is_empty();
    op.channel = has_channel.then(|| op.channel.unwrap_or(ChannelKind::Memory));
    if op.kind == SwitchReduce {
        op.srcs = Operands::from_elem(Operand::new(BufferRef::Switch(7), 1, 2), 1);
        op.dsts = Operands::from_elem(Operand::local(BufferKind::Output, 3, 2), 1);
    }
    if !op.kind.is_data() {
        op.srcs.clear();
        op.dsts.clear();
    }
    match op.kind {
        Barrier => {
            op.ids.truncate(1);
            op.ids.resize(1, 0);
        }
        SemaphoreAcquire | SemaphoreRelease => {}
        kind if kind.lists_channels(op.channel) => {}
        _ => op.ids.clear(),
    }
    if op.kind == Pipeline && !outside {
        *op = Op::new(Nop, op.origin);
    }
    if op.kind == Pipeline {
        let mut body = op.body.take().unwrap_or_else(|| {
            Box::new(crate::LoopBody { unit: 16, num_chunks: 1, ops: vec![Op::new(Nop, op.origin)] })
        });
        body.ops.iter_mut().for_each(|op| writable_op(op, false));
        op.body = Some(body);
    }
    if op.kind != Pipeline {
        op.body = None;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_tree_comes_back_from_its_file(tree in tree().prop_map(writable)) {
        for style in [Style::Pretty, Style::Compact] {
            let text = write(&tree, style);
            let (read, warnings) = read(&text, ReadOptions { strict: true }).unwrap();
            prop_assert_eq!(&read, &tree);
            prop_assert_eq!(warnings, vec![]);
        }
    }

    /// Damaged files are errors or other plans, never a panic.
    #[test]
    fn damaged_files_do_no_harm(
        tree in tree().prop_map(writable),
        changes in prop::collection::vec((any::<Index>(), prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:0-\\".to_vec())]), 0..4),
        moved in prop::option::of((any::<Index>(), any::<Index>(), any::<Index>())),
        cut in prop::option::weighted(0.2, any::<Index>()),
        strict in any::<bool>(),
    ) {
        let mut bytes = write(&tree, Style::Compact).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some((from, to, at)) = moved {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            let piece = bytes[from.min(to)..from.max(to)].to_vec();
            let at = at.index(bytes.len());
            bytes.splice(at..at, piece);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let whole = read_bytes(&bytes, ReadOptions { strict });
        if let Err(errors) = &whole {
            prop_assert!(!errors.is_empty() && errors.len() <= 65);
            prop_assert!(!errors.to_string().is_empty());
        }
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            let ours = whole.as_ref().err().and_then(|errors| errors.iter().find(|error| error.code == Code::NotJson));
            // The library steps over numbers and escapes that it could not read.
            let unread = |error: &crate::diag::Diagnostic| {
                error.message.contains("expected a number") || error.message.contains("expected a string")
            };
            prop_assert!(is_json == ours.is_none() || is_json && ours.is_some_and(unread), "{:?}", ours);
        }
    }
}

const PLAN: &str = r#"{
  "name": "pair", "collective": "allreduce", "protocol": "Simple", "inplace": true, "gpus": [
    {"id": 0, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 1,
     "threadblocks": [{"id": 0, "ops": [
       {"name": "put", "src_buff": [{"type": "i", "index": 1, "size": 1}],
        "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}], "channel_type": "memory"},
       {"name": "signal", "channel_ids": [0], "channel_type": "memory"},
       {"name": "pipeline", "iter_context": {"unit_size": 1024, "num_chunks": 1}, "ops": [{"name": "nop"}]},
       {"name": "glre", "buffer_type": "o", "buffer_offset": 0, "size": 1,
        "dst_chunk": {"rank": 0, "type": "s", "index": 0, "size": 1}, "channel_ids": [0], "channel_type": "switch"}],
      "channels": [{"channel_type": "memory", "channel_ids": [0]}, {"channel_type": "switch", "channel_ids": [0]}],
      "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]}],
     "channels": [{"channel_type": "memory", "connected_to": [1]},
       {"channel_type": "switch", "buffer_type": "o", "rank_groups": [{"size": 2, "ranks": [0, 1]}]}],
     "remote_buffers": [{"rank": 1, "type": "s", "access_channel_types": ["memory"]}],
     "semaphores": [{"init_value": -1}]},
    {"id": 1, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 1,
     "threadblocks": [], "channels": [], "remote_buffers": []}]}"#;

/// Code and path of each finding.
fn found(errors: &Diagnostics) -> Vec<(Code, String)> {
    errors
        .iter()
        .map(|error| match &error.site {
            Site::Path(path) => (error.code, path.clone()),
            site => (error.code, site.to_string()),
        })
        .collect()
}

/// Reads [`PLAN`] with one piece of text replaced.
fn errors(from: &str, to: &str) -> Diagnostics {
    assert!(PLAN.contains(from), "{from}");
    read(&PLAN.replacen(from, to, 1), ReadOptions { strict: true }).expect_err(&format!("{from} -> {to}"))
}

#[test]
fn defaults_are_those_of_the_reference() {
    let (tree, warnings) = read(PLAN, ReadOptions { strict: true }).unwrap();
    assert_eq!(warnings, []);
    assert_eq!((tree.threads_per_block, tree.buffer_alignment), (1024, 16));
    assert_eq!((tree.min_message_size, tree.max_message_size), (0, u64::MAX));
    assert_eq!((tree.double_scratch, tree.reuse_resources), (false, false));
    assert_eq!((tree.collective.chunk_factor, tree.ranks_per_node), (1, 2));
    assert_eq!(tree.ranks[0].semaphores, [-1]);
    assert_eq!(tree.ranks[0].blocks[0].ops[3].reduce, Some(Default::default()));
    let with_version = PLAN.replacen("\"inplace\"", "\"version\": 1, \"inplace\"", 1);
    assert_eq!(read(&with_version, ReadOptions { strict: true }).unwrap().0, tree);
    let marked = format!("\u{feff}{PLAN}");
    assert_eq!(read_bytes(marked.as_bytes(), ReadOptions::default()).unwrap().0, tree);
}

#[test]
fn every_mistake_has_its_code_and_path() {
    let op = "gpus[0].threadblocks[0].ops[0]";
    for (from, to, code, path) in [
        (r#""name": "pair", "#, "", Code::MissingKey, "the top level".to_owned()),
        (r#""index": 1, "#, "", Code::MissingKey, format!("{op}.src_buff[0]")),
        (r#""type": "i", "index""#, r#""index""#, Code::BadReference, format!("{op}.src_buff[0]")),
        (r#""buffer_id": 0"#, r#""buffer_id": 0, "type": "s""#, Code::BadReference, format!("{op}.dst_buff[0]")),
        (r#""index": 1"#, r#""index": -1"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": 1.5"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": 1e9"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": 4294967296"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": 1180591620717411303424"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": 1e400"#, Code::NotJson, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": "1""#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": null"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": [1]"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""index": 1"#, r#""index": {"a": 1}"#, Code::WrongType, format!("{op}.src_buff[0].index")),
        (r#""type": "i""#, r#""type": "x""#, Code::UnknownName, format!("{op}.src_buff[0].type")),
        (r#""type": "i""#, r#""type": "i", "rank": 1"#, Code::InconsistentValue, format!("{op}.src_buff[0]")),
        (r#""name": "put""#, r#""name": "rrc""#, Code::UnknownName, format!("{op}.name")),
        (r#""name": "put", "#, "", Code::MissingKey, op.to_owned()),
        (r#""name": "put""#, r#""name": "copy""#, Code::UnknownKey, format!("{op}.channel_type")),
        (r#", "channel_type": "memory"},"#, "},", Code::MissingKey, op.to_owned()),
        (
            r#""channel_ids": [0]"#,
            r#""channel_ids": [0, -1]"#,
            Code::WrongType,
            "gpus[0].threadblocks[0].ops[1].channel_ids[1]".into(),
        ),
        (
            r#""num_chunks": 1"#,
            r#""num": 1"#,
            Code::UnknownKey,
            "gpus[0].threadblocks[0].ops[2].iter_context.num".into(),
        ),
        (
            r#"[{"name": "nop"}]"#,
            r#"[{"name": "pipeline", "iter_context": {"unit_size": 1, "num_chunks": 1}, "ops": []}]"#,
            Code::NestedLoop,
            "gpus[0].threadblocks[0].ops[2].ops[0].ops".into(),
        ),
        (
            r#""buffer_type": "o""#,
            r#""buffer_type": "i""#,
            Code::InconsistentValue,
            "gpus[0].threadblocks[0].ops[3]".into(),
        ),
        (r#""collective": "allreduce""#, r#""collective": "gather""#, Code::UnknownName, "collective".into()),
        (r#""protocol": "Simple""#, r#""protocol": "simple""#, Code::UnknownName, "protocol".into()),
        (r#""inplace": true"#, r#""inplace": 1"#, Code::WrongType, "inplace".into()),
        (r#""inplace": true"#, r#""inplace": true, "inplace": true"#, Code::DuplicateKey, "inplace".into()),
        (r#""inplace": true"#, r#""inplace": true, "version": 2"#, Code::WrongType, "version".into()),
        (r#""inplace": true"#, r#""inplace": true, "version": 0"#, Code::WrongType, "version".into()),
        (r#""inplace": true"#, r#""inplace": true, "in_place": true"#, Code::UnknownKey, "in_place".into()),
        (r#"{"id": 0, "input"#, r#"{"id": 1, "input"#, Code::InconsistentValue, "gpus[0]".into()),
        (r#"[{"id": 0, "ops""#, r#"[{"id": 3, "ops""#, Code::InconsistentValue, "gpus[0].threadblocks[0]".into()),
        (
            r#""size": 2, "ranks""#,
            r#""size": 3, "ranks""#,
            Code::InconsistentValue,
            "gpus[0].channels[1].rank_groups[0]".into(),
        ),
        (
            r#"_types": ["memory"]"#,
            r#"_types": ["memory", "switch"]"#,
            Code::UnknownName,
            "gpus[0].remote_buffers[0].access_channel_types[1]".into(),
        ),
        (r#", "connected_to": [1]"#, "", Code::MissingKey, "gpus[0].channels[0]".into()),
    ] {
        let errors = errors(from, to);
        assert!(
            found(&errors).contains(&(code, path.clone())),
            "{from} -> {to}: expected {code:?} {path}, found\n{errors}"
        );
    }
}

#[test]
fn several_mistakes_are_reported_at_once() {
    let text = PLAN.replace("\"size\"", "\"sise\"").replace("\"memory\"", "\"mem\"");
    let errors = read(&text, ReadOptions::default()).unwrap_err();
    assert!(errors.len() > 8, "{errors}");
    let (_, warnings) =
        read(&PLAN.replace("\"inplace\"", "\"extra\": {}, \"inplace\""), ReadOptions::default()).unwrap();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].site, Site::Path("extra".into()));
    // A file that is wrong everywhere is not explained line by line.
    let ops = vec!["{}"; 1000].join(",");
    let errors =
        read(&PLAN.replace("\"ops\": [{\"name\": \"nop\"}]", &format!("\"ops\": [{ops}]")), ReadOptions::default());
    assert_eq!(errors.unwrap_err().len(), 64);
}

#[test]
fn text_that_is_not_json_is_located() {
    for cut in 0..PLAN.len() {
        let errors = read(&PLAN[..cut], ReadOptions::default()).unwrap_err();
        assert!(found(&errors).iter().any(|(code, _)| *code == Code::NotJson), "{cut}");
    }
    let message =
        |text: &[u8]| read_bytes(text, ReadOptions::default()).unwrap_err().iter().next().unwrap().message.clone();
    assert_eq!(message(b""), "the text ends at line 1 column 1, expected more text");
    assert_eq!(message(b"{\"name\": \xff}"), "byte 9 is 0xff, expected UTF-8");
    assert_eq!(message(b"[]"), "expected a plan: an object with \"name\", \"collective\" and \"gpus\", found an array");
    assert_eq!(message(format!("{PLAN} x").as_bytes()), "expected the end of the text at line 18 column 66, found 'x'");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(read(&deep, ReadOptions::default()).is_err());
    for (from, to) in [
        ("\"gpus\": [", &*format!("\"gpus\": [{deep}, ")),
        ("\"inplace\": ", &format!("\"deep\": {deep}, \"inplace\": ")),
    ] {
        assert!(PLAN.contains(from));
        _ = read(&PLAN.replacen(from, to, 1), ReadOptions { strict: true }).unwrap_err();
    }
    let pipelines = format!("{}{}", r#"{"name":"pipeline","ops":["#.repeat(20_000), "]}".repeat(20_000));
    let text = PLAN.replacen(r#"{"name": "nop"}"#, &pipelines, 1);
    let errors = read(&text, ReadOptions::default()).unwrap_err();
    assert!(errors.iter().any(|error| error.code == Code::NestedLoop), "{errors}");
}

#[test]
fn a_million_wrong_values_are_not_kept() {
    let empty = vec!["{}"; 1_000_000].join(",");
    let start = PLAN.find("\"gpus\": [").unwrap() + "\"gpus\": [".len();
    let text = format!("{}{empty}]}}", &PLAN[..start]);
    assert_eq!(read(&text, ReadOptions::default()).unwrap_err().len(), 64);
    let text = PLAN.replacen(r#"{"name": "nop"}"#, &empty, 1);
    assert_eq!(read(&text, ReadOptions::default()).unwrap_err().len(), 64);
}

#[test]
fn messages_name_value_place_and_remedy() {
    let errors = errors(r#""name": "put""#, r#""name": "rrc""#);
    let text = errors.to_string();
    assert!(text.starts_with("error: \"rrc\" is not a valid name of an operation\n"), "{text}");
    assert!(text.contains("help: use one of: nop, barrier, copy, "), "{text}");
    assert!(text.ends_with("--> gpus[0].threadblocks[0].ops[0].name"), "{text}");
}

#[test]
fn repeated_tables_count_on() {
    let text = PLAN
        .replacen(
            r#""connected_to": [1]}"#,
            r#""connected_to": [1]}, {"channel_type": "memory", "connected_to": [1, 1]}"#,
            1,
        )
        .replacen(
            r#""channel_ids": [0]}, "#,
            r#""channel_ids": [0]}, {"channel_type": "memory", "channel_ids": [2]}, "#,
            1,
        );
    let (tree, _) = read(&text, ReadOptions::default()).unwrap();
    assert_eq!(tree.ranks[0].peers(ChannelKind::Memory), [1, 1, 1]);
    assert_eq!(tree.ranks[0].blocks[0].channels(ChannelKind::Memory), [0, 2]);
}

#[test]
fn our_own_keys_come_back() {
    let (mut tree, _) = read(PLAN, ReadOptions::default()).unwrap();
    let plain = write(&tree, Style::Compact);
    for key in ["root", "chunk_factor", "ranks_per_node", "tags", "expectations"] {
        assert!(!plain.contains(&format!("\"{key}\"")), "{key}");
    }
    tree.collective.kind = CollectiveKind::Broadcast;
    tree.collective.root = 1;
    tree.collective.chunk_factor = 7;
    tree.ranks_per_node = 1;
    tree.tags.insert("nvls".into(), -2);
    let inputs = vec![(1, 2), (0, 2)];
    tree.expectations = vec![Expectation { rank: 0, chunk: 3, len: 1, inputs, origin: Origin::UNKNOWN }];
    let text = write(&tree, Style::Compact);
    let own = [
        r#""root":1,"chunk_factor":7,"ranks_per_node":1,"tags":{"nvls":-2},"#,
        r#""expectations":[{"rank":0,"index":3,"size":1,"inputs":[{"rank":1,"index":2},{"rank":0,"index":2}]}]}"#,
    ];
    assert!(text.ends_with(&own.concat()), "{text}");
    assert_eq!(read(&text, ReadOptions { strict: true }).unwrap().0, tree);
}
