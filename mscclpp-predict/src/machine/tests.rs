use super::{Constants, Machine, MachineError};

#[test]
fn every_built_in_machine_is_valid_under_its_name() {
    for name in Machine::names() {
        let machine = Machine::builtin(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(machine.name, name);
        assert!(machine.one_device || !machine.links.is_empty(), "{name} has no links");
        assert!(machine.constants.get("launch_us").is_some(), "{name} has no time of a launch");
    }
    assert!(Machine::names().is_sorted());
}

const VALID: &str = "name = \"m\"\ndescription = \"d\"\nranks = 4\nranks_per_node = 2\n[[link]]\nfrom = \"gpu\"\nto = \"switch\"\n\
    gb_per_s = 1\nsource = \"s\"\n[constant]\nop_us = { value = 1, source = \"s\" }\n";

fn accuracy(mean: &str, worst: &str, held_out: u32) -> String {
    format!(
        "[accuracy]\nmean_percent = {mean}\nworst_percent = {worst}\nheld_out = {held_out}\nusable = 2\ndate = \"d\"\n[constant]"
    )
}

#[test]
fn mistake_in_a_file_is_an_error_that_names_the_field() {
    assert!(Machine::parse(VALID).is_ok());
    for (valid, wrong, expected) in [
        (
            "\"m\"",
            "\"m\\nfn f() {}\"",
            "name: expected a text without control characters, found '\\n'; remove it or write a space",
        ),
        (
            "source = \"s\"\n[",
            "source = \"\\u001b[31m\"\n[",
            "link[0].source: expected a text without control characters, found '\\u{1b}'; remove it or write a space",
        ),
        ("ranks = 4", "ranks = 0", "ranks: expected 1 to 4096, found 0"),
        ("ranks_per_node = 2", "ranks_per_node = 3", "ranks_per_node: expected a divisor of ranks, found 3"),
        ("gb_per_s = 1", "gb_per_s = 0", "link[0].gb_per_s: expected 0.000001 to 1000000, found 0"),
        ("gb_per_s = 1", "gb_per_s = nan", "link[0].gb_per_s: expected 0.000001 to 1000000, found NaN"),
        (
            "gb_per_s = 1",
            "gb_per_s = 1e308",
            &format!("link[0].gb_per_s: expected 0.000001 to 1000000, found {}", 1e308),
        ),
        (
            "to = \"switch\"",
            "to = \"gpu\"",
            "link[0]: expected one GPU or a switch at one end, found several GPUs at both",
        ),
        ("\"gpu\"", "\"gpu7\"", "link[0].from: expected GPUs below 2 of a node, found `gpu7`"),
        ("op_us", "ops_us", "constant.ops_us: expected a constant of the timing model, found `ops_us`; use `op_us`"),
        ("value = 1", "value = -1", "constant.op_us: expected 0 to 1000000000, found -1"),
        ("\"s\" }", "\" \" }", "constant.op_us: expected where the value comes from, found nothing"),
        ("[constant]", "[blocks]\ndefault = 0\n[constant]", "blocks.default: expected 1 to 256, found 0"),
        ("[constant]", &accuracy("nan", "1", 1), "accuracy.mean_percent: expected 0 to worst_percent, found NaN"),
        ("[constant]", &accuracy("1", "-1", 1), "accuracy.worst_percent: expected 0 to 1000000, found -1"),
        ("[constant]", &accuracy("1", "1", 3), "accuracy.held_out: expected at most the usable points, 2, found 3"),
    ] {
        let error = Machine::parse(&VALID.replacen(valid, wrong, 1)).expect_err(wrong).to_string();
        assert_eq!(error, format!("invalid machine description: {expected}"));
    }
    assert!(matches!(Machine::parse("name"), Err(MachineError::Syntax(_))));
    for (end, expected) in [
        ("gpu1-0", "expected `gpu`, `gpu3` or `gpu0-3`, found `gpu1-0`"),
        ("gpux", "expected `gpu`, `gpu3` or `gpu0-3`, found `gpux`"),
        ("", "expected a name of 1 to 32 characters, found 0"),
    ] {
        let text = VALID.replacen("\"gpu\"", &format!("\"{end}\""), 1);
        let error = Machine::parse(&text).expect_err(end).to_string();
        assert!(error.contains(expected) && error.contains("line 6"), "{error}");
    }
    assert!(Machine::parse(&VALID.replacen("switch", &"\u{e9}".repeat(32), 1)).is_ok());
    assert!(matches!(Machine::parse(&format!("base = \"9xh100\"\n{VALID}")), Err(MachineError::Unknown { .. })));
    assert!(matches!(Machine::builtin("9xh100"), Err(MachineError::Unknown { .. })));
}

#[test]
fn machine_is_recognized_by_all_its_devices() {
    let label = "device 0 (NVIDIA GeForce RTX 4090)";
    assert_eq!(Machine::recognize([label; 4].into_iter(), 1), Some("4xrtx4090-pcie"));
    // Other numbers of ranks, peer access, and another device among them.
    assert_eq!(Machine::recognize([label; 2].into_iter(), 1), None);
    assert_eq!(Machine::recognize([label; 4].into_iter(), 4), None);
    assert_eq!(Machine::recognize([label, label, label, "device 3 (NVIDIA L40S)"].into_iter(), 1), None);
    let is_cpu = |name: &str| Machine::builtin(name).expect("it is built in").cpu;
    assert!(is_cpu("cpu-2core") && !is_cpu("4xrtx4090-pcie"));
}

#[test]
fn links_that_are_too_many_are_an_error() {
    let link = "[[link]]\nfrom = \"gpu\"\nto = \"switch\"\ngb_per_s = 1\nsource = \"s\"\n";
    let text =
        VALID.replacen("ranks = 4", "ranks = 4096", 1).replacen("[[link]]", &format!("{}[[link]]", link.repeat(16)), 1);
    let error = Machine::parse(&text).expect_err("139 264 edges").to_string();
    assert!(error.contains("expected links that connect at most 131072 pairs of elements, found 139264"), "{error}");
}

#[test]
fn file_replaces_what_it_states_of_its_base() {
    let text = VALID.replacen("ranks = 4", "base = \"8xh100\"\nranks = 4", 1);
    let machine = Machine::parse(&text).expect("it is valid");
    assert_eq!(machine.constants.get("op_us"), Some(1.0));
    assert!(machine.constants.get("signal_us").is_some() && machine.multicast);
    assert!(Constants::meaning("op_us").is_some());
    // Its own link and that of the base.
    assert_eq!(machine.links.iter().map(|link| link.gb_per_s).collect::<Vec<_>>(), [1.0, 450.0]);
    // The constants of a tier that it does not state, and an entry for all ranks on one device.
    let tier = "base = \"h200-virtual\"\none_device = false\nranks = 4";
    let text = VALID.replacen("ranks = 4", tier, 1) + "[tier.interpreted]\nop_us = { value = 2, source = \"s\" }\n";
    let machine = Machine::parse(&text).expect("it is valid");
    let base = Machine::builtin("h200-virtual").expect("it is built in");
    let constants = machine.constants_of(Some("interpreted"));
    assert_eq!(constants.get("op_us"), Some(2.0));
    assert_eq!(constants.get("launch_us"), base.constants_of(Some("interpreted")).get("launch_us"));
    assert!(base.one_device && !machine.one_device);
}

#[test]
fn link_of_a_base_between_gpus_that_the_file_lacks_is_an_error() {
    let text = "name = \"m\"\ndescription = \"d\"\nbase = \"4xa100\"\nranks = 2\nranks_per_node = 2\n";
    let error = Machine::parse(text).expect_err("gpu2 and gpu3 do not exist").to_string();
    let expected = "link[1].to of base `4xa100`: expected GPUs below 2 of a node, found `gpu2`";
    assert!(error.ends_with(expected), "{error}");
}
