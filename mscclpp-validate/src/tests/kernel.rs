//! Specialized kernels: those of the built-in algorithms execute the interpreter's operations, those with a fault do
//! not.

use super::*;
use crate::kernel::compare;
use mscclpp_base::dtype::DataType;
use mscclpp_base::message::Message;
use mscclpp_exec::cuda::{NotSpecialized, specialized_source};

#[test]
fn specialized_kernels_execute_the_operations_of_the_plan() {
    let mut validated = 0;
    for (name, plan, ranks, _) in built_in(&[(2, 2), (3, 3), (4, 4), (4, 2), (8, 8)]) {
        let message = Message::new(DataType::F32, u64::from(ranks) * 4096).any_size();
        match validate_kernel(&plan, message) {
            Ok(()) => validated += 1,
            Err(ValidationError::NotSpecialized(NotSpecialized::TooLarge { .. } | NotSpecialized::TooWide { .. })) => {}
            Err(invalid) => panic!("{name}: {invalid}"),
        }
    }
    for algorithm in algorithms::counted() {
        let plan = algorithm.compile_tree(algorithm.spec(3, 3), &[]).expect("it compiles");
        validate_kernel(&plan, Message::new(DataType::F32, 3 * 4096)).unwrap_or_else(|invalid| panic!("{invalid}"));
    }
    println!("{validated} kernels");
    assert!(validated > 200);
}

/// Every changed number in a function is detected, and every missing or repeated
/// statement. A cache that is loaded with more than the operations need is not a fault.
#[test]
fn injected_faults_in_specialized_kernels_are_detected() {
    for (name, ranks) in [
        ("allreduce_all_pairs", 3),
        ("allreduce_one_shot_packets", 3),
        ("allreduce_packets", 3),
        ("allreduce_ring", 3),
        ("allgather_ring_ports", 2),
        ("alltoallv_staged", 3),
    ] {
        let algorithm = algorithms::find(name).expect("it is in the library");
        let arguments = algorithm.arguments([]).expect("defaults");
        let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, ranks), &arguments).expect("it compiles"));
        let mut program = resolve(&plan).expect("it is a plan");
        elide_own_packets(&mut program);
        let message = Message::new(DataType::F32, 3 * 4096).any_size();
        let (source, shapes) = specialized_source(&plan, message).expect("it is small");
        let text = source.text();
        compare(&program, text, &shapes, Some("Sum")).expect("nothing is planted");
        let begin = text.find("DEV void shape_0").expect("a function");
        let end = text.find("\n}  // namespace").expect("the end of the functions");
        let mut planted = 0;
        for (at, digit) in text[begin..end].char_indices().filter(|(_, c)| c.is_ascii_digit()) {
            let line = text[..begin + at].rsplit('\n').next().expect("a line");
            if line.contains("//") || line.contains("DEV void") {
                continue;
            }
            let other = if digit == '9' { "8".to_owned() } else { (digit as u8 + 1 - b'0').to_string() };
            let mut faulty = text.to_owned();
            faulty.replace_range(begin + at..begin + at + 1, &other);
            let found = compare(&program, &faulty, &shapes, Some("Sum")).is_err();
            assert!(found || line.contains("load_cache("), "{name}: {other} after {line:?}");
            planted += u32::from(found);
        }
        let statements: Vec<&str> =
            text[begin..end].lines().filter(|line| line.starts_with("  ") && line.contains("//")).collect();
        for statement in statements {
            let line = format!("{statement}\n");
            for other in [String::new(), line.repeat(2)] {
                let faulty = text.replacen(&line, &other, 1);
                assert!(compare(&program, &faulty, &shapes, Some("Sum")).is_err(), "{name}: {other:?} for {line:?}");
                planted += 1;
            }
        }
        println!("{name}: {planted} faults found");
    }
}
