//! `mscclpp plan list` and `mscclpp plan export`, and how all commands find their plan.

use std::fs;

use crate::common::plans::{good, pooled, text};
use crate::common::{mscclpp, mscclpp_reading};

#[test]
fn a_plan_that_outgrows_the_pool_of_the_reference_is_exported_with_a_warning() {
    let plan = text(&pooled());
    let run = mscclpp_reading(["plan", "export", "-", "--target", "mscclpp"], &plan).succeeds();
    assert!(run.stderr.starts_with("warning: messages of more than 67108864 bytes do not fit"), "{}", run.stderr);
    assert!(run.stderr.contains("set `message_size` to at most 67108864 bytes"), "{}", run.stderr);
    let exported = run.stdout;
    assert!(exported.contains("\"reuse_resources\": true"), "{exported}");
    assert_eq!(mscclpp_reading(["plan", "export", "-"], &plan).succeeds().stderr, "");
    let bounded = plan.replace("\"max_message_size\": 18446744073709551615", "\"max_message_size\": 67108864");
    assert_ne!(bounded, plan);
    assert_eq!(mscclpp_reading(["plan", "export", "-", "--target", "mscclpp"], &bounded).succeeds().stderr, "");
}

#[test]
fn restriction_to_dividing_counts_is_exported_with_a_warning() {
    let plan = "plan staged\ncollective broadcast\nranks 2\nchunk_factor 1\ndividing\n\
        rank 0 (input 2, output 2, scratch 0) {\n  block 0:\n    rlxwait memory rank 1\n    nop\n    put memory rank 1 output[0] <- input[0]\n    \
        put memory rank 1 output[1] <- input[1]\n    copy output[0..2] <- input[0..2]\n    nop\n    signal memory rank 1\n}\n\
        rank 1 (input 2, output 2, scratch 0) {\n  block 0:\n    rlxsignal memory rank 0\n    wait memory rank 0\n    nop\n}\n";
    let run = mscclpp_reading(["plan", "export", "-", "--target", "mscclpp"], plan).succeeds();
    let warning = "warning: the plan takes counts that divide by 2, in chunks of whole 16 bytes only, which the MSCCL++ format cannot state";
    assert!(run.stderr.starts_with(warning), "{}", run.stderr);
    assert!(!run.stdout.contains("dividing"), "{}", run.stdout);
    let own = mscclpp_reading(["plan", "export", "-"], plan).succeeds();
    assert!(own.stderr.is_empty() && own.stdout.contains("dividing"), "{}", own.stdout);
    // A file that does not state it: chunk 0 is staged in chunk 1, which may be shorter.
    let staged = "plan staged\ncollective broadcast\nranks 1\nchunk_factor 2\nrank 0 (input 2, output 2, scratch 0) {\n  block 0:\n    \
        copy output[1] <- input[0]\n    nop\n    copy output[0] <- output[1]\n    nop\n    copy output[1] <- input[1]\n}\n";
    let run = mscclpp_reading(["plan", "export", "-", "--target", "mscclpp"], staged).succeeds();
    assert!(run.stderr.starts_with(warning), "{}", run.stderr);
}

#[test]
fn the_list_has_all_algorithms_as_text_and_json() {
    let table = mscclpp(["plan", "list"]).succeeds();
    let costs = mscclpp(["plan", "list", "--cost"]).succeeds();
    let json = mscclpp(["plan", "list", "--json"]).succeeds().json();
    let all = json.as_array().unwrap();
    assert!(all.len() >= 20);
    for algorithm in all {
        let name = algorithm["name"].as_str().unwrap();
        assert!(table.stdout.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}");
        let cost = algorithm["cost"].as_str().unwrap();
        assert!(!cost.is_empty());
        assert!(
            costs.stdout.lines().any(|line| line.starts_with(&format!("{name} ")) && line.ends_with(cost)),
            "{name}"
        );
        assert!(algorithm["in_place"] == true || algorithm["out_of_place"] == true);
    }
}

#[test]
fn every_listed_algorithm_can_be_exported_and_read_again() {
    for algorithm in mscclpp(["plan", "list", "--json"]).succeeds().json().as_array().unwrap() {
        let name = algorithm["name"].as_str().unwrap();
        let file = mscclpp(["plan", "export", name]).succeeds();
        assert_eq!(file.json()["gpus"].as_array().unwrap().len(), 8, "{name}");
        assert_eq!(file.json()["name"], name);
        let again = mscclpp_reading(["plan", "export", "-"], &file.stdout).succeeds();
        assert_eq!(file.stdout, again.stdout, "{name}");
    }
}

#[test]
fn export_writes_a_file_whole_and_compact() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.json");
    let path = path.to_str().unwrap();
    let run = mscclpp(["plan", "export", "allreduce_ring", "--ranks", "4", "--compact", "-o", path]).succeeds();
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
    let written = fs::read_to_string(path).unwrap();
    assert_eq!(written.lines().count(), 1);
    let shown = mscclpp(["plan", "export", "allreduce_ring", "--ranks", "4", "--compact"]).succeeds();
    assert_eq!(shown.stdout.trim_end(), written.trim_end());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn export_writes_every_format_and_all_commands_read_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let json = mscclpp(["plan", "export", "allreduce_ring", "--ranks", "4"]).succeeds().stdout;
    for (name, format) in [
        ("by_name.plan", None),
        ("by_name.mscclpp", None),
        ("by_name.json", None),
        ("text", Some("text")),
        ("image", Some("image")),
    ] {
        let path = path(name);
        let options = format.map_or(vec![], |format| vec!["--format", format]);
        mscclpp(["plan", "export", "allreduce_ring", "--ranks", "4", "-o", &path].iter().chain(&options)).succeeds();
        let read = mscclpp(["plan", "export", &path]).succeeds();
        assert_eq!((read.stdout, read.stderr.as_str()), (json.clone(), ""), "{name}");
        mscclpp(["check", &path]).succeeds();
        mscclpp(["plan", "diff", &path, "allreduce_ring", "--ranks", "4"]).succeeds();
        mscclpp(["run", &path, "--size", "4K", "--iters", "1"]).succeeds();
    }
    let shown = mscclpp(["plan", "show", "allreduce_ring", "--ranks", "4"]).succeeds().stdout;
    assert_eq!(fs::read_to_string(path("by_name.plan")).unwrap(), shown);
    assert!(mscclpp(["check", directory.path().to_str().unwrap()]).succeeds().stdout.contains("by_name.plan"));
    let run = mscclpp(["plan", "export", "allreduce_ring", "--format", "text", "--compact"]).ends_with(2);
    assert!(run.stderr.contains("--compact is for the format json"), "{}", run.stderr);
}

#[test]
fn mistake_in_text_is_named_with_line_and_column() {
    let shown = mscclpp(["plan", "show", "allgather_ring", "--ranks", "2"]).succeeds().stdout;
    let run = mscclpp_reading(["check", "-"], &shown.replacen(" wait memory", " weit memory", 1)).ends_with(2);
    assert!(run.stderr.contains("expected an operation, `block` or `}`, found `weit memory rank 1`"), "{}", run.stderr);
    assert!(run.stderr.contains("--> <stdin>:19:5") && run.stderr.contains("M0313"), "{}", run.stderr);
    let run = mscclpp_reading(["check", "-"], &shown.replacen("    signal memory rank 1\n", "", 1)).ends_with(1);
    assert!(run.stdout.contains("--> <stdin>:27:5"), "{}", run.stdout);
}

#[test]
fn an_output_that_cannot_be_written_ends_with_3() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("no/such/plan.json");
    for path in [directory.path(), &inside] {
        let run = mscclpp(["plan", "export", "allreduce_ring", "-o", path.to_str().unwrap()]).ends_with(3);
        assert!(run.stderr.contains("cannot write"), "{}", run.stderr);
    }
}

#[test]
fn arguments_that_do_not_fit_end_with_2_and_say_why() {
    for (words, why) in [
        (&["allreduce_rnig"][..], "similar names exist: `allreduce_ring`, "),
        (&["missing.json"], "cannot read `missing.json`"),
        (&["/"], "cannot read `/`"),
        (&["allreduce_ring", "--ranks", "1"], "found 1, 1 per node"),
        (&["allreduce_ring", "--ranks", "4294967295"], "found 4294967295, "),
        (&["allreduce_ring", "--ranks", "0"], "0 is not in 1.."),
        (&["allreduce_ring", "--ranks", "x"], "invalid value 'x'"),
        (&["allreduce_ring", "--param", "tbg=2"], "no parameter `tbg`"),
        (&["allreduce_one_shot_packets", "--param", "group=0"], "found [0]"),
        (&["allgather_two_nodes", "--ranks", "6", "--ranks-per-node", "2"], "2 nodes"),
        (&["send_recv", "--in-place"], "only out-of-place"),
        (&["broadcast_scatter", "--root", "8"], "found 8"),
    ] {
        let run = mscclpp(["plan", "export"].iter().chain(words)).ends_with(2);
        assert!(run.stderr.contains(why), "{words:?}: {}", run.stderr);
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn plans_no_memory_holds_end_with_3() {
    for words in [
        &["allreduce_one_shot_packets", "--param", "group=1024", "--ranks", "1024"][..],
        &["send_recv", "--instances", "4294967295"],
    ] {
        let run = mscclpp(["plan", "export", "-o", "/dev/null"].iter().chain(words)).ends_with(3);
        assert!(run.stderr.contains("of memory"), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn a_file_takes_only_arguments_that_agree_with_it() {
    let plan = text(&good());
    mscclpp_reading(["plan", "export", "-", "--ranks", "2", "--ranks-per-node", "2", "--root", "0"], &plan).succeeds();
    for (words, why) in [
        (["--ranks", "3"], "is for 2 ranks"),
        (["--ranks-per-node", "1"], "is for 2 ranks per node"),
        (["--root", "1"], "is rank 0"),
        (["--instances", "2"], "the instances of a plan file are fixed"),
        (["--param", "tbg=2"], "the parameters of a plan file are fixed"),
        (["--in-place", "--compact"], "works out of place"),
    ] {
        let run = mscclpp_reading(["plan", "export", "-"].iter().chain(&words), &plan).ends_with(2);
        assert!(run.stderr.contains(why), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn pipes_and_devices_are_refused_and_opened_descriptors_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (plan, dump, table) = (at("pipe.json"), at("pipe.jsonl"), at("pipe.toml"));
    for pipe in [&plan, &dump, &table] {
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    // No process opens the other end of the pipes.
    let runs: [&[&str]; 4] = [
        &["check", &plan],
        &["analyze", &dump],
        &["select", "all_reduce", "--table", &table],
        &["plan", "stats", "/dev/zero"],
    ];
    for words in runs {
        let run = mscclpp(words).ends_with(2);
        assert!(run.stderr.contains("expected a regular file, found a "), "{}", run.stderr);
    }
    let expected = mscclpp_reading(["plan", "stats", "-"], &text(&good())).succeeds().stdout;
    for path in ["/dev/stdin", "/dev/fd/0"] {
        assert_eq!(mscclpp_reading(["plan", "stats", path], &text(&good())).succeeds().stdout, expected);
    }
}

#[test]
fn a_bad_file_ends_with_2_and_names_every_mistake() {
    let plan = text(&good()).replace("\"signal\"", "\"singal\"").replace("\"Simple\"", "7");
    let run = mscclpp_reading(["plan", "export", "-"], &plan).ends_with(2);
    assert!(run.stderr.contains("singal") && run.stderr.contains("protocol"), "{}", run.stderr);
    assert!(run.stderr.contains("M03") && run.stderr.contains("gpus[0].threadblocks[0]"), "{}", run.stderr);
    assert!(run.stderr.ends_with("error: standard input is not a valid plan\n"), "{}", run.stderr);
}

#[test]
fn an_unknown_key_is_a_warning() {
    let plan = text(&good()).replacen('{', "{\"colour\": 1,", 1);
    let run = mscclpp_reading(["plan", "export", "-"], &plan).succeeds();
    assert!(run.stderr.starts_with("warning: ") && run.stderr.contains("colour"), "{}", run.stderr);
}
