//! Functions of plain Rust: rustc compiles them, with overflow checks, and what they return must be what evaluation gives.

mod compiled;
mod expressions;
mod statements;
mod types;
mod write;

use mscclpp_core::diag::Code;
use mscclpp_eval::probe;

use self::compiled::{helpers, native};
use self::write::function;
use super::setting;

/// Functions in one file for rustc.
const BATCH: u64 = 100;

#[test]
fn evaluated_functions_return_what_compiled_ones_do() {
    let (first, count) = (setting("MSCCLPP_SEED", 1), setting("MSCCLPP_RANDOM", 200));
    let (mut equal, mut panics) = (0, 0);
    for start in (first..first + count).step_by(BATCH as usize) {
        let functions: Vec<_> = (start..(start + BATCH).min(first + count)).map(function).collect();
        let expected = native(&functions, start);
        assert_eq!(expected.len(), functions.len());
        for ((name, text), expected) in functions.iter().zip(expected) {
            match probe::value(&format!("{}{text}", helpers()), name) {
                Ok(found) => {
                    assert_eq!(found, expected, "{text}");
                    equal += 1;
                }
                Err(error) => {
                    let code = error.iter().next().expect("an error is not empty").code;
                    let fault =
                        matches!(code, Code::Overflow | Code::DivisionByZero | Code::NoSuchElement | Code::Panicked);
                    assert!(fault && expected == "panic", "natively {expected}\n{error}\n{text}");
                    panics += 1;
                }
            }
        }
    }
    println!("{count} functions from seed {first}: {equal} equal, {panics} panic both ways");
    assert!(equal > count / 5, "too few of the functions end well: {equal}");
}
