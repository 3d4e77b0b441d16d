//! Programs of the authoring API. A tree is written out as Rust text, which is evaluated, and interpreted here, calling the
//! API directly. Traces must be equal, or else what went wrong.

mod make;
mod native;
mod text;
mod tree;

use std::collections::BTreeSet;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::dsl::Program;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_eval::probe;

use self::make::Maker;
use self::native::{Native, Stop};
use self::text::block_text;
use super::setting;

/// What came of a program: its trace, or what was wrong with it. Places differ: here all calls are in one file, and the
/// same mistake in the same place is filed once.
fn outcome(result: Result<Trace, Diagnostics>) -> Result<Trace, Vec<String>> {
    result.map_err(|errors| {
        let mut messages: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
        let mut seen = BTreeSet::new();
        messages.retain(|message| seen.insert(message.clone()));
        messages
    })
}

#[test]
fn evaluated_programs_record_what_native_ones_do() {
    let (first, count) = (setting("MSCCLPP_SEED", 1), setting("MSCCLPP_RANDOM", 200));
    let (mut recorded, mut wrong, mut stopped, mut operations) = (0, 0, 0, 0);
    for seed in first..first + count {
        let stmts = Maker::new(seed).block(3, false);
        let mut text = String::from(
            "fn helper(a: usize, b: usize) -> usize { if a < b { b - a } else { a.min(9) } }\nfn program(p: &Program) ",
        );
        block_text(&stmts, &mut text);

        let mut spec = AlgoSpec::new("random", CollectiveKind::AllReduce, 2 + (seed % 4) as u32);
        spec.collective.chunk_factor = 4;
        let program = Program::new(spec.clone());
        let run = Native::new(&program).block(&stmts);
        let expected = outcome(program.finish());
        let found = probe::trace(&text, "program", spec, &[]);
        match run {
            Err(Stop::Failed(code)) => {
                let Err(error) = found else { panic!("seed {seed}: {code:?} natively\n{text}") };
                let last = error.iter().last().expect("an error is not empty");
                assert_eq!(last.code, code, "seed {seed}\n{text}\n{error}");
                stopped += 1;
            }
            other => {
                assert_eq!(other, Ok(()), "seed {seed}");
                let found = outcome(found);
                match (&found, &expected) {
                    (Ok(found), Ok(expected)) => {
                        assert!(found == expected, "seed {seed}\n{text}");
                        recorded += 1;
                        operations += found.ops.len();
                    }
                    _ => {
                        assert_eq!(found.err(), expected.err(), "seed {seed}\n{text}");
                        wrong += 1;
                    }
                }
            }
        }
    }
    println!(
        "{count} programs from seed {first}: {recorded} recorded ({operations} operations), {wrong} wrong, {stopped} stopped"
    );
    assert!(recorded > count / 10 && wrong > count / 20 && stopped > count / 20, "{recorded}, {wrong}, {stopped}");
}
