//! All-to-all-v: rank r ends with what every rank has for it, in parts whose lengths are counts known at run time.

pub(super) mod direct;
pub(super) mod ports;
pub(super) mod pull;
pub(super) mod staged;

pub use direct::alltoallv_direct;
pub use ports::alltoallv_ports;
pub use pull::alltoallv_pull;
pub use staged::alltoallv_staged;
