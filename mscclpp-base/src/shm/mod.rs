//! Memory that processes of one machine share.
//!
//! Nothing here has a name in a file system: a [`Segment`] is an anonymous file, identified by its descriptor, which
//! [`Mesh`] sends to the other ranks. So nothing remains when processes are killed: the kernel frees a segment with its
//! last descriptor and mapping.
//!
//! A process must not trust the values that others write, but it may have to rely on when they write. Four kinds of
//! use, each with its own rule, separate the two:
//!
//! * [`SharedCacheLines`]: words that all ranks access only as atomics.
//! * memory of a launch, lent to the interpreter through [`Views`]: accessed in atomic units
//!   only.
//! * a buffer's elements as a slice, between launches: see `SharedBuffer`.
//! * a [`Region`]: memory of a launch or a buffer at addresses of its own, for a library that accesses it as it likes.
//!
//! Memory of the first two kinds is never a slice, so ranks of one process access it at the same addresses: a [`Slab`] is
//! mapped once by a process that creates it. A buffer is mapped by each rank, those of the owner's process included.
//!
//! A process that was copied by `fork` does not inherit the segments: two processes that make one rank's calls would
//! corrupt its peers' results. Its calls are refused, by [`ProcessMark`].

mod cache_lines;
mod fork;
mod mesh;
mod region;
mod segment;
mod slab;
mod views;

pub use cache_lines::SharedCacheLines;
pub use fork::ProcessMark;
pub use mesh::own_file;
pub use mesh::{LocalListener, Mesh, Sent, SharedFile};
pub use region::{Region, SecondMapping};
pub use segment::{HUGE, Segment, system};
pub use slab::Slab;
pub use views::Views;
