//! Ordinary Rust as collectives: what is evaluated is what the compiled function records, and it passes the checks.

mod programs;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_eval::probe;

const SOURCE: &str = include_str!("programs.rs");

/// A program, the arguments of its attribute without `ranks`, the kind they mean, and the ranks.
struct Case {
    name: &'static str,
    run: fn(&Program),
    args: &'static str,
    kind: CollectiveKind,
    ranks: &'static [u32],
}

macro_rules! cases {
    ($($name:ident: $args:literal, $kind:expr, $ranks:expr;)*) => {
        &[$(Case { name: stringify!($name), run: programs::$name, args: $args, kind: $kind, ranks: &$ranks }),*]
    };
}

const ONE: CollectiveKind = CollectiveKind::Test { input: 1, output: 1 };
const EIGHT: CollectiveKind = CollectiveKind::Test { input: 8, output: 8 };

const CASES: &[Case] = cases! {
    phases: "AllGather", CollectiveKind::AllGather, [3, 5];
    configured: "AllGather", CollectiveKind::AllGather, [2];
    partners: "Test(input = 1, output = 1)", ONE, [2, 4];
    farthest_first: "AllGather", CollectiveKind::AllGather, [2, 5];
    offsets: "SendRecv", CollectiveKind::SendRecv, [3, 4];
    corners: "Test(input = 1, output = 1)", ONE, [4, 6];
    links: "AllGather", CollectiveKind::AllGather, [3, 4];
    tree: "Broadcast", CollectiveKind::Broadcast, [2, 6];
    roles: "Test(input = 1, output = 1)", ONE, [2, 4];
    scheduled: "Test(input = 8, output = 8)", EIGHT, [1, 2];
    handshakes: "AllGather", CollectiveKind::AllGather, [2, 3, 5];
};

#[test]
fn evaluated_programs_record_what_native_ones_do() {
    for case in CASES {
        for ranks in case.ranks {
            let spec = AlgoSpec::new(case.name, case.kind, *ranks);
            let program = Program::new(spec.clone());
            (case.run)(&program);
            let native = program.finish().unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let evaluated = probe::trace(SOURCE, case.name, spec, &[]);
            let evaluated = evaluated.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert!(native == evaluated, "{} with {ranks} ranks", case.name);
        }
    }
}

#[test]
fn programs_are_accepted_as_collectives() {
    for case in CASES {
        let attribute = format!("#[collective({}, ranks = {:?})]\npub(crate) fn {}(", case.args, case.ranks, case.name);
        let source = SOURCE.replace(&format!("pub(crate) fn {}(", case.name), &attribute);
        let module = source.lines().filter(|line| !line.starts_with("//!")).collect::<Vec<_>>().join("\n");
        let module = format!("mod programs {{ {module} }}").parse().expect("tokens");
        let expansion = mscclpp_eval::collectives(Default::default(), module).to_string();
        let error = expansion.split("compile_error ! {").nth(1).map(|text| text.split('}').next());
        assert_eq!(error, None, "{}", case.name);
        assert!(expansion.contains("from_static"), "{}", case.name);
    }
}
