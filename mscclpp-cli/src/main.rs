//! The `mscclpp` command.
fn main() {}
