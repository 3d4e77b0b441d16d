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

#[test]
fn mistake_in_a_file_is_an_error_that_names_the_field() {
    assert!(Machine::parse(VALID).is_ok());
    for (valid, wrong, expected) in [
        ("ranks = 4", "ranks = 0", "ranks: expected 1 to 4096, found 0"),
        ("ranks_per_node = 2", "ranks_per_node = 3", "ranks_per_node: expected a divisor of ranks, found 3"),
        ("gb_per_s = 1", "gb_per_s = 0", "link.gb_per_s: expected a positive number, found 0"),
        ("gb_per_s = 1", "gb_per_s = nan", "link.gb_per_s: expected a positive number, found NaN"),
        (
            "to = \"switch\"",
            "to = \"gpu\"",
            "link: expected one GPU or a switch at one end, found several GPUs at both",
        ),
        ("\"gpu\"", "\"gpu7\"", "link: expected `gpu`, `gpu3` or `gpu0-3` with numbers below 2, found `gpu7`"),
        ("\"gpu\"", "\"gpu1-0\"", "link: expected `gpu`, `gpu3` or `gpu0-3` with numbers below 2, found `gpu1-0`"),
        ("op_us", "ops_us", "constant.ops_us: unknown constant"),
        ("value = 1", "value = -1", "constant.op_us: expected a number of at least 0, found -1"),
        ("\"s\" }", "\" \" }", "constant.op_us: expected a source, found nothing"),
    ] {
        let error = Machine::parse(&VALID.replacen(valid, wrong, 1)).expect_err(wrong).to_string();
        assert_eq!(error, format!("invalid machine description: {expected}"));
    }
    assert!(matches!(Machine::parse("name"), Err(MachineError::Syntax(_))));
    assert!(matches!(Machine::parse(&format!("base = \"9xh100\"\n{VALID}")), Err(MachineError::Unknown { .. })));
    assert!(matches!(Machine::load("./no/such/file.toml"), Err(MachineError::Read { .. })));
    assert!(matches!(Machine::load("9xh100"), Err(MachineError::Unknown { .. })));
}

#[test]
fn file_replaces_constants_of_its_base() {
    let text = VALID.replacen("ranks = 4", "base = \"8xh100\"\nranks = 4", 1);
    let machine = Machine::parse(&text).expect("it is valid");
    assert_eq!(machine.constants.get("op_us"), Some(1.0));
    assert!(machine.constants.get("signal_us").is_some() && machine.multicast);
    assert!(Constants::meaning("op_us").is_some());
}
