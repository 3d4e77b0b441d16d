//! What must not compile, and what it must say; what must compile.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests` writes the messages anew; read each one as somebody who is tired.

#[test]
fn programs() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*/*.rs");
    cases.pass("pass/*.rs");
}
