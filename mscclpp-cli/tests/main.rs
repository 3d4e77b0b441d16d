//! Tests that run the two commands, in one program: each program links all of the crates.

mod calls;
mod cargo;
mod check;
mod common;
mod docs;
mod exchange;
mod executors;
mod explain;
mod foreign_driver;
mod hostile;
mod launch;
mod nccl;
mod operating;
mod plan_files;
mod plan_views;
#[path = "../../mscclpp-exec/tests/common/port.rs"]
mod port;
mod predict;
mod run;
mod schema;
mod shell;
mod spellings;
mod status;
