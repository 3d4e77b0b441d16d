//! Facade: `use mscclpp::prelude::*`.
#![forbid(unsafe_code)]
