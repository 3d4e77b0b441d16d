//! Variables of the environment.

/// Returns a variable of this process. One that is not UTF-8 is invalid, not absent.
pub(crate) fn variable(name: &str) -> Option<String> {
    Some(std::env::var_os(name)?.to_string_lossy().into_owned())
}
