//! Send-receive: rank r sends its input to rank r + 1.

pub(super) mod direct;
pub(super) mod in_place;
pub(super) mod packets;
pub(super) mod ring;

pub use direct::send_recv_direct;
pub use in_place::send_recv_in_place;
pub use packets::send_recv_packets;
pub use ring::send_recv;
