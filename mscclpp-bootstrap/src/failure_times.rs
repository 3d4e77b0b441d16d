//! How long ranks wait for each other after a failure, so that all of them name its cause, and none names a rank that only ended because
//! of it.
//!
//! A rank reports a cause to rank 0, which sends the first one to all ranks. A rank returns from its call, and its process may end, when the
//! decision of rank 0 has arrived. So whatever a rank notices of another rank's end was preceded by a frame with the cause, on another
//! connection. That frame may be late for one reason: TCP sends a lost segment again after 200 ms at the earliest, and after twice the time if
//! that one is lost as well. From this follow the times, each longer than the one before:
//!
//! | time | who waits | for what |
//! |---|---|---|
//! | [`RETRANSMISSION_TIME`] | TCP | a segment that was lost twice |
//! | [`ACKNOWLEDGEMENT_TIME`] | rank 0, before it returns the cause itself | the other ranks' acknowledgements: what its sockets have not sent is dropped when its process ends |
//! | [`CAUSE_GRACE_PERIOD`] | a rank that notices a closed connection, or that another rank has stopped | the cause, which was sent before |
//! | [`ANSWER_TIME`] | a rank that asks the other ranks what they do, or rank 0 for its decision | answers; a rank that does not answer is suspended |
//!
//! Rank 0's own calls receive its decision only after the acknowledgements, so that answers may take longer than these. Reports and decisions
//! may take equally long: rank 0 forwards both, and a rank that regarded rank 0 as suspended earlier than the others would decide alone.

use std::time::Duration;

/// After which TCP has sent a segment again that was lost twice: 200 ms and 400 ms.
const RETRANSMISSION_TIME: Duration = Duration::from_millis(600);

/// How long rank 0 waits, before it notices a failure, until the other ranks have acknowledged it.
pub(crate) const ACKNOWLEDGEMENT_TIME: Duration = Duration::from_secs(1);

/// How long the cause of another rank's failure may take to arrive, from when its consequence was noticed.
pub const CAUSE_GRACE_PERIOD: Duration = Duration::from_millis(1200);

/// How long a rank may take to answer: to report what it is doing, or, as rank 0, to decide why a communicator has failed.
pub const ANSWER_TIME: Duration = Duration::from_secs(2);

/// How long after a failure the end of a rank that has learned it, and made no call since, counts as its consequence: exceptions pass through
/// destructors, which may take a while.
pub(crate) const ENDING_TIME: Duration = Duration::from_secs(30);

const _: () = assert!(
    RETRANSMISSION_TIME.as_millis() < ACKNOWLEDGEMENT_TIME.as_millis()
        && ACKNOWLEDGEMENT_TIME.as_millis() < CAUSE_GRACE_PERIOD.as_millis()
        && CAUSE_GRACE_PERIOD.as_millis() < ANSWER_TIME.as_millis()
);
