//! Memory that processes of one machine share.
//!
//! Nothing here has a name in a file system: a [`Segment`] is an anonymous file, known by its descriptor, which [`Mesh`] hands
//! to the other ranks over Unix sockets. So nothing stays behind when processes are killed: the kernel frees a segment with
//! its last descriptor and mapping.
//!
//! A process must not believe what others write, but it may have to rely on when they write. Three kinds of use, each with its
//! own rule, keep that apart:
//!
//! * [`SharedCacheLines`]: words that are only ever accessed as atomics, whoever writes them.
//! * memory of a launch, lent to the interpreter through [`Views`](crate::memory::Views): accessed in atomic units only.
//! * a buffer's elements as a slice, between launches: see [`SharedBuffer`](crate::process::SharedBuffer).

mod cache_lines;
mod mesh;
mod segment;

pub(crate) use cache_lines::SharedCacheLines;
pub(crate) use mesh::{LocalListener, Mesh, Sent};
pub(crate) use segment::Segment;
