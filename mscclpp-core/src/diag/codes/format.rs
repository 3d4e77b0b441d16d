//! Codes of the area `format`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    NotJson = "M0301" "not-json": "a plan file is one JSON object",
        "The file could not be read as JSON at all.";
}
