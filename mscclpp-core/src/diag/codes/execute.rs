//! Codes of the area `execute`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    Stalled = "M0401" "stalled": "every wait of a plan is answered in the same launch",
        "No thread block could make progress.";
}
