//! The values of constants, looked up by name once: operations use them by the million.

use crate::machine::{BYTES_PER_US, Constants};

/// Bandwidths in bytes per microsecond.
pub(super) struct Rates {
    pub(super) put: f64,
    pub(super) get: f64,
    pub(super) local: f64,
    pub(super) packet: f64,
    pub(super) reduce: f64,
    pub(super) multicast: f64,
    pub(super) sum: f64,
    pub(super) transfer: f64,
}

/// Parts of a link's bandwidth.
pub(super) struct Efficiencies {
    pub(super) put: f64,
    pub(super) get: f64,
    pub(super) packet: f64,
    pub(super) switch: f64,
    pub(super) port: f64,
}

/// The values of constants, with 0 for latencies, infinity for bandwidths and 1 for efficiencies that a machine does not have. Latencies are
/// in microseconds.
pub(super) struct Values {
    pub(super) launch_us: f64,
    pub(super) op_us: f64,
    pub(super) sync_us: f64,
    pub(super) signal_us: f64,
    pub(super) packet_us: f64,
    pub(super) semaphore_us: f64,
    pub(super) load_us: f64,
    pub(super) local_us: f64,
    pub(super) multicast_us: f64,
    pub(super) proxy_us: f64,
    pub(super) port_us: f64,
    pub(super) network_us: f64,
    pub(super) spread: f64,
    pub(super) block: Rates,
    pub(super) efficiency: Efficiencies,
}

impl Values {
    pub(super) fn of(constants: &Constants) -> Self {
        let us = |name: &str| constants.get(name).unwrap_or(0.0);
        let rate = |name: &str| constants.get(name).map_or(f64::INFINITY, |gb_per_s| gb_per_s * BYTES_PER_US);
        let part = |name: &str| constants.get(name).unwrap_or(1.0);
        Self {
            launch_us: us("launch_us"),
            op_us: us("op_us"),
            sync_us: us("sync_us"),
            signal_us: us("signal_us"),
            packet_us: us("packet_us"),
            semaphore_us: us("semaphore_us"),
            load_us: us("load_us"),
            local_us: us("local_us"),
            multicast_us: us("multicast_us"),
            proxy_us: us("proxy_us"),
            port_us: us("port_us"),
            network_us: us("network_us"),
            spread: us("spread"),
            block: Rates {
                put: rate("block_put_gb_per_s"),
                get: rate("block_get_gb_per_s"),
                local: rate("block_local_gb_per_s"),
                packet: rate("block_packet_gb_per_s"),
                reduce: rate("block_reduce_gb_per_s"),
                multicast: rate("block_multicast_gb_per_s"),
                sum: rate("block_sum_gb_per_s"),
                transfer: rate("transfer_gb_per_s"),
            },
            efficiency: Efficiencies {
                put: part("put_efficiency"),
                get: part("get_efficiency"),
                packet: part("packet_efficiency"),
                switch: part("switch_efficiency"),
                port: part("port_efficiency"),
            },
        }
    }
}
