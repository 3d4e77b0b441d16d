//! Programs that must not compile, with their messages, and programs that must compile.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests --test repository ui::` rewrites the messages; review each of them.

/// Both kinds in one test where possible: they share their build.
#[test]
fn programs() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    if cfg!(compiler_of_messages) {
        cases.compile_fail("fail/*/*.rs");
    }
}

#[cfg(not(compiler_of_messages))]
#[test]
#[ignore = "the messages are those of rustc 1.95, which is not the compiler here"]
fn programs_that_must_not_compile() {
    trybuild::TestCases::new().compile_fail("fail/*/*.rs");
}
