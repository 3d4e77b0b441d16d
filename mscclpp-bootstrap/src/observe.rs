//! Asks what the ranks of a running job are doing, as a process that is not one of them.
//!
//! Such a process authenticates as ranks do. The connection thread of rank 0 asks those of the other ranks, which answer also
//! while their ranks compute, and passes on what has arrived in time. Nothing in the job waits for this.

use std::time::Duration;

use super::address::Address;
use super::connect;
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::protocol::Purpose;
use super::secret::Secret;
use super::status::{JobReport, Topic};
use crate::timeout::ActiveTimeout;

/// Asks rank 0 of the job at `address` what all ranks report about a topic.
///
/// # Errors
/// [`Error::NotObserved`] if no job answers there within `time`; [`Error::AuthenticationFailed`] if it has another secret;
/// the errors of another version and of another protocol.
pub fn observe(address: &Address, secret: &Secret, topic: Topic, time: Duration) -> Result<JobReport, Error> {
    let mut timeout = ActiveTimeout::new(time);
    let mut reason = "the name has no address".into();
    for at in address.resolve(time)? {
        let mut conn = match connect::attempt(at, Purpose::Observe, secret, &mut timeout, &|| Ok(()))? {
            Ok(conn) => conn,
            Err(_) if timeout.is_expired() => {
                reason = unanswered(time);
                continue;
            }
            Err(why) => {
                reason = why;
                continue;
            }
        };
        conn.raise_limit();
        conn.push(&Frame::Observe(topic));
        match connect::wait_frame(&mut conn, &mut timeout, &|| Ok(()))? {
            Some(Frame::Observed(report)) => return Ok(report),
            Some(Frame::Rejected(error)) => return Err(error),
            Some(_) => return Err(Malformed::Unexpected("a report").of(at)),
            None => reason = unanswered(time),
        }
    }
    Err(Error::NotObserved { address: address.to_string(), reason })
}

fn unanswered(time: Duration) -> String {
    format!(
        "rank 0 did not answer within {} s: its process is suspended or its host is unreachable",
        time.as_secs_f64()
    )
}
