//! What must not compile, and what it must say; what must compile.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests --test ui` writes the messages anew; read each one as somebody who is tired.

/// Both kinds in one test where they can be: they share what they build.
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
