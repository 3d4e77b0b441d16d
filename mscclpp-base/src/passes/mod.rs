//! Changes that executors make to a plan after it was proved; `mscclpp-validate` proves their output again.
//!
//! The checker accepts a plan; `interpret::resolve` resolves it, one instruction per operation, with every index
//! checked and nothing added, dropped or moved. Every change of a resolved plan is a pass, one file each, whose module
//! documentation states the change and why the result is still correct:
//!
//! | pass | executor | effect |
//! |---|---|---|
//! | `elide_own_packets` | processes, CUDA | a rank's own contribution is reduced from where it is, not from packets to itself |
//! | `elide_opening_handshakes` | processes | signals of the start of a launch between nodes of one rank each, and the waits for them, are elided |
//! | `defer_opening_waits` | processes | what is sent to a rank of another node precedes the wait for that rank's start |
//! | `place_in_caller_memory` | processes | own operands that peers do not affect use the caller's memory instead of the copy that peers access |
//! | `elide_handshakes` | processes | signals and waits at the ends of thread blocks are elided where the launch protocol orders the same |
//! | `insert_launch_barriers` | CUDA, several devices | every launch ends with a synchronization of the devices of a node, and starts with one if the plan needs it |
//! | `cuda::specialize` | CUDA, on request | a kernel in which operations, counts and slices are constants |
//!
//! All other choices of an interpreter are unobservable by a plan: how many bytes an instruction moves at a time, which
//! machine instructions move them, whether a switch operation uses multicast addresses. The checker decides where the
//! scratch of pipelines wraps ([`may_wrap_scratch`](mscclpp_core::check::may_wrap_scratch)).
//!
//! # Invariants of the process executor
//!
//! The passes rely on these, and the validator writes the first three as operations:
//!
//! 1. *Opening.* No instruction with `accesses_peer_buffers` runs before all `awaited` peers have announced the launch.
//!    An announcement follows the copies before the launch.
//! 2. *Finish.* A rank announces that it has finished only after its thread blocks have passed their `last_peer_access` and
//!    its port channels are drained.
//! 3. *End.* A launch returns only after all peers in `finishes` have announced that they finished; a launch in which
//!    they read lasting copies may return earlier, and such a copy is not reused before every rank has started a later
//!    launch.
//! 4. *Progress.* Every rank that waits, in any state of a launch or between launches, continues to do the work for
//!    which other ranks wait: it serves its connections to other nodes, in both directions. An elided wait was an
//!    operation, and thread blocks that wait in operations do not stop the connections; the wait at the end of the
//!    launch that replaces it must not either. Otherwise a peer on another node whose data is not received cannot send
//!    its next data to a third rank, for which the wait waits.
//! 5. *Messages.* What is sent to a rank of another node in a launch is received when that rank has started the launch.
//! 6. *Scratch of another layout.* A launch that lays out scratch differently from the plan's last one starts with a
//!    barrier.
//!
//! # Use
//!
//! Passes run when a plan is prepared, in time linear in its operations.

pub mod defer_opening_waits;
pub mod elide_handshakes;
pub mod elide_opening_handshakes;
pub mod elide_own_packets;
pub mod insert_launch_barriers;
mod intervals;
mod openings;
pub mod place_in_caller_memory;
mod process;

pub use process::RankSchedule;
