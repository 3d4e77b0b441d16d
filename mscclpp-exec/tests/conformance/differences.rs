//! Where our plans differ from the reference's on purpose. The identifiers are those of `docs/differences.md`.

/// The differences of a plan; the name of a variant has its overrides behind it.
pub(crate) fn of(name: &str) -> &'static [&'static str] {
    KNOWN.iter().find(|(known, _)| *known == name).map_or(&[], |(_, ids)| ids)
}

const KNOWN: &[(&str, &[&str])] = &[];
