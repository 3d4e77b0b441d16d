//! `cargo mscclpp` and `mscclpp plan list FILE…`: plans in what cargo builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::outside::swap;
use crate::common::plans::{across_nodes, stalling, text, unverified};
use crate::common::{mscclpp, outside};
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use tempfile::TempDir;

/// A crate outside of the workspace.
struct Crate {
    folder: TempDir,
}

impl Crate {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        outside::write(folder.path());
        Self { folder }
    }

    /// Runs `cargo mscclpp` in the crate.
    fn cargo(&self, words: &str) -> Output {
        outside::command(self.folder.path()).args(words.split_whitespace()).output().expect("the binary starts")
    }

    /// The standard output of a run that succeeds.
    #[track_caller]
    fn succeeds(&self, words: &str) -> String {
        let output = self.cargo(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The standard error of a run that ends with exit code 2.
    #[track_caller]
    fn refuses(&self, words: &str) -> String {
        let output = self.cargo(words);
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{words}: {error}");
        error
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }
}

fn names(list: &str) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_str(list).expect("JSON");
    list.as_array().expect("a list").iter().map(|plan| plan["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn plans_of_a_crate_are_listed_checked_and_run() {
    let outside = Crate::new();
    // A library has all plans, a program those that it uses.
    assert_eq!(names(&outside.succeeds("list --lib --json")), ["own_max", "own_swap"]);
    assert_eq!(names(&outside.succeeds("list --bin outside --json")), ["own_swap"]);
    let table = outside.succeeds("list");
    assert!(table.contains("own_swap  sendrecv        2  no"), "{table}");
    assert!(
        table.contains("library `outside`, bin `outside`") || table.contains("bin `outside`, library `outside`"),
        "{table}"
    );
    let checked = outside.succeeds("check --lib");
    assert!(checked.contains("2 plans: 2 accepted"), "{checked}");
    assert_eq!(outside.succeeds("check own_swap --bin=outside"), "plan `own_swap` is accepted\n");
    let run = outside.succeeds("run --size 1K --bin outside --iters 1");
    assert!(run.starts_with("# own_swap: sendrecv, 2 ranks"), "{run}");
    assert!(outside.succeeds("graph own_max --lib").starts_with("<svg"));
    assert!(outside.succeeds("export own_max --lib").contains("\"name\": \"own_max\""));
    let bench = outside.succeeds("bench own_max --lib -b 1K -e 4K -n 2 -c 1 --ranks 2 --json");
    assert_eq!(bench.lines().count(), 2, "{bench}");
    assert!(
        bench.lines().all(|line| line.contains("\"plan\":\"own_max\"")
            && line.contains("\"op\":\"max\"")
            && line.contains("\"wrong\":0")),
        "{bench}"
    );

    let error = outside.refuses("run --lib");
    assert!(error.contains("takes one plan, and there are 2: name one of `own_"), "{error}");
    let error = outside.refuses("run own_swpa --lib");
    assert!(error.contains("no plan is called `own_swpa`; a similar name exists: `own_swap`"), "{error}");
    let error = outside.refuses("check --example empty");
    assert!(error.contains("error: no plan in example `empty`\n"), "{error}");
    let error = outside.refuses("check --example emty");
    assert!(error.contains("`cargo build` failed"), "{error}");
    let error = outside.refuses("run own_swap --bin outside --ranks 3");
    assert!(error.contains("--ranks 3: plan `own_swap` is for 2 ranks"), "{error}");
}

#[test]
fn words_that_are_not_understood_are_refused_before_cargo_runs() {
    let outside = Crate::new();
    let error = outside.refuses("chek --lib");
    assert!(error.contains("`cargo mscclpp` has no command `chek`; a similar name exists: `check`"), "{error}");
    assert!(outside.refuses("check --fuz 3").contains("--fuzz"));
    assert!(outside.refuses("run --example").contains("--example needs a value"));
    assert!(!outside.path("target").exists());
    let help = outside.succeeds("--help");
    assert!(help.contains("Usage: cargo mscclpp <COMMAND>"), "{help}");
}

#[test]
fn every_plan_of_a_name_is_checked_and_one_is_chosen_by_ranks_or_hash() {
    let outside = Crate::new();
    let other = PlanTree { name: "own_swap".into(), ..unverified() };
    fs::write(outside.path("src/max.plan"), Plan::new(&other).image()).expect("a file");
    let checked = outside.succeeds("check own_swap --lib");
    assert!(checked.contains("2 plans: 2 accepted"), "{checked}");
    let error = outside.refuses("run own_swap --lib --count 8");
    assert!(error.contains("`own_swap` names 2 plans: `own_swap@"), "{error}");
    let address = format!("own_swap@{:032x}", Plan::new(&swap()).hash());
    let run = outside.succeeds(&format!("run {} --lib --count 8", &address[..17]));
    assert!(run.starts_with("# own_swap: sendrecv"), "{run}");
}

/// Runs `mscclpp plan list` on a file with these bytes.
fn list(bytes: &[u8]) -> crate::common::Run {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), bytes).expect("a file");
    mscclpp([Path::new("plan"), Path::new("list"), file.path()])
}

#[test]
fn files_without_a_whole_plan_are_refused_with_the_reason() {
    let image = Plan::new(&swap()).image().to_vec();
    let around = |image: &[u8]| [b"\x7fELF before ", image, b" after"].concat();
    assert!(list(&around(&image)).succeeds().stdout.contains("own_swap"));
    let error = |bytes: &[u8]| list(bytes).ends_with(2).stderr;
    assert!(error(b"").starts_with("error: no plan in `"));
    assert!(error(&[0xa5; 4096]).starts_with("error: no plan in `"));
    assert!(error(&image[..image.len() - 1]).contains("byte 0: plan image of "));
    let mut changed = image.clone();
    changed[120] ^= 1;
    assert!(error(&around(&changed)).contains("byte 12: plan image with hash "));
    let mut other = image.clone();
    other[8] = 1;
    assert!(error(&other).contains("plan image of format version 1, expected version "));
    // A whole plan beside one that is none.
    let both = list(&[&other[..], &image].concat()).succeeds();
    assert!(
        both.stdout.contains("own_swap") && both.stderr.contains("byte 0: plan image of format version 1"),
        "{}",
        both.stderr
    );
    assert!(mscclpp(["plan", "list", "no-such-file"]).ends_with(2).stderr.contains("cannot read"));
}

#[test]
fn commands_take_an_image_as_a_plan_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (image, json) = (path("swap.plan.bin"), path("swap.json"));
    fs::write(&image, Plan::new(&swap()).image()).expect("a file");
    fs::write(&json, text(&swap())).expect("a file");
    assert!(mscclpp(["check", &image]).succeeds().stdout.contains("`own_swap` is accepted"));
    assert!(mscclpp(["plan", "diff", &image, &json]).succeeds().stderr.is_empty());
    fs::write(&image, &Plan::new(&swap()).image()[..50]).expect("a file");
    assert!(mscclpp(["check", &image]).ends_with(2).stderr.contains("plan image of 50 bytes"));
}

#[test]
fn plan_file_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, plan: &PlanTree| {
        let path = folder.path().join(name);
        fs::write(&path, text(plan)).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let swap = write("swap.json", &swap());
    let rows =
        mscclpp(["bench", "--plan", &swap, "--ranks", "2", "-e", "4K", "-n", "2", "-c", "1", "--json"]).succeeds();
    assert_eq!(rows.stdout.lines().count(), 2);
    assert!(
        rows.stdout.lines().all(|line| line.contains("\"collective\":\"sendrecv\"") && line.contains("\"wrong\":0")),
        "{}",
        rows.stdout
    );
    mscclpp(["bench", "--plan", &swap, "--virtual-ranks", "2", "-e", "1K", "-n", "2"]).succeeds();
    let refused = |words: &[&str]| mscclpp(["bench", "-n", "1", "-e", "1K"].iter().chain(words)).ends_with(2).stderr;
    assert!(refused(&["--plan", &swap, "--ranks", "3"]).contains("is for 2 ranks, found 3"));
    assert!(
        refused(&["all_reduce", "--plan", &swap, "--ranks", "2"])
            .contains("is of collective sendrecv, found allreduce")
    );
    assert!(refused(&["--plan", &swap, "--ranks", "2", "--in-place"]).contains("works out of place"));
    let unverified = write("test.json", &unverified());
    assert!(refused(&["--plan", &unverified, "--ranks", "2"]).contains("no call to measure"));
    assert!(refused(&["--plan", "no-such.json", "--ranks", "2"]).contains("cannot read"));
    assert!(refused(&["all_redcue", "--ranks", "2"]).contains("expected one of all_reduce"));
    let stalling = write("stalling.json", &stalling());
    let run = mscclpp(["bench", "--plan", &stalling, "--ranks", "2"]).ends_with(1);
    assert!(run.stderr.contains("plan `swap` was not measured: 1 found"), "{}", run.stderr);
    // Memory channels do not reach other nodes, and ranks of one process are on one.
    let across = write("across.json", &across_nodes());
    mscclpp(["bench", "--plan", &across, "--ranks", "2"]).ends_with(1);
}

#[test]
fn plan_without_given_ranks_is_measured_on_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.json").to_str().expect("UTF-8").to_owned();
    for (words, ranks) in [("allreduce_ring --ranks 3", 3), ("allgather_hierarchical --ranks 4 --ranks-per-node 2", 4)]
    {
        let export = ["plan", "export", "-o", &path].into_iter().chain(words.split(' '));
        mscclpp(export).succeeds();
        let run = mscclpp(["bench", "--plan", &path, "--end", "1K", "-n", "1", "--json"]).succeeds();
        let row: serde_json::Value = serde_json::from_str(run.stdout.trim()).expect("one size");
        assert_eq!(row["ranks"], ranks, "{words}");
    }
}

#[test]
fn placement_that_a_plan_does_not_have_is_refused() {
    let refused = |words: &str| mscclpp(words.split(' ')).ends_with(2).stderr;
    assert!(
        refused("run allgather_pairwise --ranks 2 --out-of-place")
            .contains("--out-of-place: `allgather_pairwise` works in place only")
    );
    assert!(refused("run allreduce_ring --in-place --out-of-place").contains("cannot be used with"));
    let run = mscclpp("run allgather_ring --ranks 2 --count 8 --iters 1 --out-of-place".split(' ')).succeeds();
    assert!(run.stdout.contains("out of place"), "{}", run.stdout);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.json").to_str().expect("UTF-8").to_owned();
    mscclpp(["plan", "export", "allgather_ring", "--ranks", "2", "--in-place", "-o", &path]).succeeds();
    let error = mscclpp(["run", &path, "--out-of-place"]).ends_with(2).stderr;
    assert!(error.contains("--out-of-place: plan `allgather_ring` works in place"), "{error}");
}

#[test]
fn run_in_a_job_is_refused_also_where_the_address_of_rank_0_is_missing() {
    for with_address in [false, true] {
        let mut command = Command::new(crate::common::BINARY);
        command
            .args(["run", "allreduce_ring", "--size", "1K"])
            .env("RANK", "1")
            .env("WORLD_SIZE", "2")
            .env("LOCAL_RANK", "1");
        if with_address {
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", "29500");
        }
        let output = command.output().expect("the binary starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("rank 1 of 2") && error.contains("mscclpp bench"), "{error}");
    }
}

#[test]
#[ignore = "builds an example of the workspace and all that it depends on"]
fn plan_that_the_macro_embeds_in_a_program_is_found() {
    let run = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-mscclpp"));
        let words = words.split_whitespace().chain(["-p", "examples", "--example", "quickstart", "--quiet"]);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = command.arg("mscclpp").args(words).current_dir(folder).output().expect("the binary starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(names(&run("list --json")), ["simple_allgather"]);
    assert_eq!(run("check"), "plan `simple_allgather` is accepted\n");
    assert!(run("run --size 1K").contains("# Wrong elements    : 0 OK"));
}
