//! A port for a job on this machine.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A port of the loopback address without a listener. As long as this exists the system assigns it to no socket that
/// requests any port or connects; a socket that requests it by its number gets it, and may listen on it.
pub(crate) struct Port {
    pub(crate) number: u16,
    _held: OwnedFd,
}

impl Port {
    pub(crate) fn new() -> Self {
        let held = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        // Listeners set this option too, so they may share the port with a socket that does not listen.
        sockopt::set_socket_reuseaddr(&held, true).expect("a setting of every socket");
        bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = getsockname(&held).ok().and_then(|address| SocketAddrV4::try_from(address).ok());
        Self { number: address.expect("it was bound").port(), _held: held }
    }
}
