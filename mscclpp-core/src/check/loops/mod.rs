//! Loops, for every size of a message.

#![allow(dead_code, reason = "used by the rules that are being written on top")]

pub(super) mod rates;
