//! Codes of the area `check`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    UnmatchedWait = "M0201" "unmatched-wait": "on every channel pair there are as many waits as signals",
        "Channel k from a to b is paired with channel k from b to a. Each wait on one takes one signal of the other.";
}
