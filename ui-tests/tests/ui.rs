//! Programs that must not compile, with their messages.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests --test repository ui::` rewrites the messages; review each of them.

// Programs that must compile are in `programs`: they would make trybuild build the facade and all that it depends on once more, while
// messages need them checked only.
#[test]
#[cfg_attr(not(compiler_of_messages), ignore = "the messages are those of rustc 1.95, which is not the compiler here")]
fn programs_that_must_not_compile() {
    trybuild::TestCases::new().compile_fail("fail/*/*.rs");
}
