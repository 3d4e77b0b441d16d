//! NCCL's interface, whose calls are plans of mscclpp: a `libnccl.so.2` for programs that are built for NCCL.
//!
//! | module | contents |
//! |---|---|
//! | `table` | the functions of NCCL, each with the version that introduced it and how it is served |
//! | `abi` | types and constants of NCCL's header; `config` reads its versioned structs |
//! | `entry`, `failure` | the boundary to C: results, last errors, panics |
//! | `comm` | communicators: creation, division, end, failures, memory, operators of reductions, transfers, one-sided calls |
//! | `device_api` | structures that the kernels of programs read |
//! | `call`, `kind`, `element`, `group`, `open_group` | collective calls and transfers, and those that are made together |
//! | `forward` | calls that a real NCCL serves |
//! | `selection`, `decision` | the functions of `mscclpp.h`; lines that say how calls are made |
//! | `profiler` | plugins that record calls |
//! | `debug`, `params` | messages, and the variables that the library reads |
//! | `report` | what a process would get, for `mscclpp doctor --nccl` |
//!
//! Pointers are the caller's, as NCCL documents them; handles of communicators are numbers that are looked up, so that an
//! invalid one is an error. No function returns success without having done what it is for.

mod abi;
mod call;
mod call_info;
mod comm;
mod config;
mod debug;
mod decision;
mod device_api;
mod entry;
mod failure;
mod forward;
mod group;
mod kernels;
mod kind;
mod open_group;
mod params;
mod profiler;
mod report;
mod selection;
mod table;
mod workers;

pub use report::Report;
pub use table::{Class, FUNCTIONS, Function};
