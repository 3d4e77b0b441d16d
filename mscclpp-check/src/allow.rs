//! Findings that an author may allow.

use mscclpp_plan::diag::{Code, Entry, closest_name};

/// Findings on which the other checks depend, and those that only reject an export.
const FIXED: &[Code] = &[
    Code::IndexOutOfRange,
    Code::BadOperands,
    Code::BadLoop,
    Code::BarrierMismatch,
    Code::ChunkCountMismatch,
    Code::OverLimit,
    Code::TooFewThreads,
    Code::AcrossNodes,
    Code::ContradictingExpectations,
    Code::MixedAverage,
    Code::MissingCounts,
    Code::CountMismatch,
    Code::NotCountable,
];

/// Returns the findings that [`Checks::parse_allow`](super::Checks::allow) accepts: those of all rules except `shape`,
/// on which the other rules and the executors rely.
pub fn allowable_codes() -> impl Iterator<Item = (Code, &'static Entry)> {
    Code::all().filter(|(code, entry)| entry.number.starts_with("M02") && !FIXED.contains(code))
}

/// Returns the finding with a number or slug, with `_` or `-` between words.
///
/// # Errors
/// Fails if no finding has the name, or if it cannot be allowed; the error suggests a name.
pub fn parse_allow(name: &str) -> Result<Code, AllowError> {
    let slug = name.replace('_', "-");
    let slugs = || allowable_codes().map(|(_, entry)| entry.slug);
    match Code::find(&slug) {
        Some(code) if allowable_codes().any(|(other, _)| other == code) => Ok(code),
        Some(code) => {
            let Entry { number, slug, .. } = code.entry();
            let why = match number.starts_with("M02") {
                true => "the other checks depend on it",
                false => "only findings of the plan checks (M02xx) can be allowed",
            };
            let message = format!("`{slug}` ({number}) cannot be allowed: {why}");
            Err(AllowError { message, help: "fix the reported errors; this check cannot be disabled".to_owned() })
        }
        None => {
            let help = match closest_name(&slug, slugs()) {
                Some(slug) => format!("a similar name exists: `{slug}`"),
                None => format!("expected one of: {}", slugs().collect::<Vec<_>>().join(", ")),
            };
            Err(AllowError { message: format!("unknown finding `{name}`"), help })
        }
    }
}

/// A name that `parse_allow` rejects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct AllowError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowable_findings_are_parsed_in_any_spelling() {
        for name in ["race", "M0210", "m0210"] {
            assert_eq!(parse_allow(name), Ok(Code::Race));
        }
        for name in ["unmatched_wait", "unmatched-wait"] {
            assert_eq!(parse_allow(name), Ok(Code::UnmatchedWait));
        }
        assert!(allowable_codes().count() >= 4);
    }

    #[test]
    fn unknown_names_are_rejected_with_a_suggestion() {
        let unknown = parse_allow("unmatched_waits").unwrap_err();
        assert!(unknown.help.contains("a similar name exists: `unmatched-wait`"), "{unknown}");
        let strange = parse_allow("colour").unwrap_err();
        assert!(strange.help.contains("deadlock") && !strange.help.contains("mean"), "{strange}");
        for fixed in ["bad-operands", "reversed-slice", "M0101"] {
            assert!(parse_allow(fixed).unwrap_err().message.contains("cannot be allowed"), "{fixed}");
        }
    }
}
