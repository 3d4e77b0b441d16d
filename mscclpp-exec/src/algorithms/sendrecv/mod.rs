//! Send-receive: rank r sends its input to rank r + 1.

pub(super) mod ring;

pub use ring::send_recv;
