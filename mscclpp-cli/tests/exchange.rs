//! Algorithms of MSCCL as plan files, and messages for other simulators.

use std::fs;
use std::path::Path;

use crate::common::mscclpp;

/// An all-gather of three ranks: each sends its chunk to the two others.
fn all_gather() -> String {
    let gpu = |rank: i32| {
        let peers = [(rank + 1) % 3, (rank + 2) % 3];
        let step = |number: i32, kind: &str, chunk: i32| {
            format!(
                "      <step s=\"{number}\" type=\"{kind}\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"{chunk}\" cnt=\"1\" depid=\"-1\" \
                 deps=\"-1\" hasdep=\"0\"/>\n"
            )
        };
        let block = |number: i32, peer: i32| {
            let copy = if number == 0 { step(2, "cpy", rank) } else { String::new() };
            let steps = [step(0, "s", rank), step(1, "r", peer), copy].concat();
            format!("    <tb id=\"{number}\" send=\"{peer}\" recv=\"{peer}\" chan=\"0\">\n{steps}    </tb>\n")
        };
        let blocks = [block(0, peers[0]), block(1, peers[1])].concat();
        format!("  <gpu id=\"{rank}\" i_chunks=\"1\" o_chunks=\"3\" s_chunks=\"0\">\n{blocks}  </gpu>\n")
    };
    let gpus = [gpu(0), gpu(1), gpu(2)].concat();
    format!("<algo name=\"three\" ngpus=\"3\" coll=\"allgather\" proto=\"Simple\" inplace=\"0\">\n{gpus}</algo>\n")
}

#[test]
fn algorithm_of_msccl_is_checked_run_and_simulated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("three.xml"), all_gather()).expect("it is written");
    mscclpp(["check", &path("three.xml")]).succeeds();
    let run = mscclpp(["run", &path("three.xml"), "--count", "1037", "--iters", "1"]).succeeds();
    assert!(run.stdout.contains("three"), "{}", run.stdout);
    let run =
        mscclpp(["simulate", &path("three.xml"), "--machine", "4xa100", "--size", "3M", "--json"]).succeeds().json();
    assert!(run["time_us"].as_f64() > run["bound_us"].as_f64(), "{run}");
    // The copy of a rank's own chunk is missing.
    let missing: String =
        all_gather().lines().filter(|line| !line.contains("cpy")).map(|line| format!("{line}\n")).collect();
    fs::write(path("three.xml"), missing).expect("it is written");
    mscclpp(["check", &path("three.xml")]).ends_with(1);
    fs::write(path("three.xml"), all_gather().replacen("cnt=\"1\"", "cnt=\"x\"", 1)).expect("it is written");
    let run = mscclpp(["check", &path("three.xml")]).ends_with(2);
    let expected = "three.xml:4: <step s=\"0\"> of <tb id=\"0\"> of <gpu id=\"0\"> of <algo name=\"three\">: cnt: expected -1 to 2147483647, found `x`";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
}

#[test]
fn messages_are_written_for_other_simulators() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (goal, chakra) = (path("ring.goal"), path("ring"));
    let words =
        ["simulate", "allreduce_ring", "--machine", "4xa100", "--size", "1M", "--goal", &goal, "--chakra", &chakra];
    mscclpp(words).succeeds();
    let text = fs::read_to_string(&goal).expect("a schedule");
    assert!(text.starts_with("num_ranks 4\n") && text.matches("\nrank ").count() == 4, "{text}");
    for rank in 0..4 {
        let bytes = fs::read(path(&format!("ring.{rank}.et"))).expect("a trace");
        assert!(bytes.starts_with(b"\x07\x0a\x050.0.4"), "{rank}");
    }
    let words = ["simulate", "allreduce_staged_pipeline", "--machine", "4xa100", "--size", "4G", "--goal", &goal];
    let run = mscclpp(words).ends_with(2);
    assert!(run.stderr.contains("use a smaller size"), "{}", run.stderr);
    let both = path("both");
    let words = ["simulate", "allreduce_ring", "--machine", "4xa100", "--size", "1M", "--goal", &both, "--html", &both];
    let run = mscclpp(words).ends_with(2);
    assert!(run.stderr.contains("expected different files") && !Path::new(&both).exists(), "{}", run.stderr);
}
