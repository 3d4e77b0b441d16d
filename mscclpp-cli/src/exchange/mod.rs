//! Plans as messages between ranks, for simulators of other projects.
//!
//! Their formats have sends, receives and local work of a rank, with dependencies within the rank. An operation of a plan that writes memory of
//! another rank becomes a message to it, one that reads such memory a request and the answer, and a signal a message that is received
//! after the data before it. Operations in switches become one message for each rank. Local work has its time on the machine.

pub(crate) mod chakra;
pub(crate) mod goal;
mod messages;

pub(crate) use messages::Messages;

#[cfg(test)]
mod tests;
