//! The executor between processes, mostly with threads as ranks: its results are bitwise equal to those of the executor
//! within one process, and its failures have typed errors.

#![allow(unreachable_pub, reason = "files of one program")]

#[path = "../../../mscclpp-fuzz/tests/corpus/mod.rs"]
mod corpus;
mod counts;
mod failures;
mod group;
mod ports;
mod processes;
mod reference;
mod resources;
mod results;
mod rows;
mod spawn;
