//! All-to-all: rank r ends with part r of every rank's input.

pub(super) mod direct;
pub(super) mod in_place;
pub(super) mod packets;
pub(super) mod ports;
pub(super) mod ports_in_place;
pub(super) mod pull;
pub(super) mod rotated;

pub use direct::alltoall_direct;
pub use in_place::alltoall_in_place;
pub use packets::alltoall_packets;
pub use ports::alltoall_ports;
pub use ports_in_place::alltoall_ports_in_place;
pub use pull::alltoall_pull;
pub use rotated::{alltoall_rotated, alltoall_rotated_in_place};
