//! The catalogue of codes: one number, one slug, one rule and one explanation each.

/// The catalogue entry of a code.
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// `M0001`.
    pub number: &'static str,
    /// `rank-out-of-range`: names the ui test and the page of `mscclpp explain`.
    pub slug: &'static str,
    /// The rule in one sentence: lower case, no final stop.
    pub rule: &'static str,
    /// Text that `mscclpp explain` prints below the rule: the reason for the rule, a wrong program, and its fix.
    pub explanation: &'static str,
}

/// Declares the codes of one area as a function over all of them.
macro_rules! codes {
    ($($code:ident = $number:literal $slug:literal: $rule:literal, $explanation:literal;)*) => {
        pub(super) const ENTRIES: &[(Code, Entry)] = &[
            $((Code::$code, Entry { number: $number, slug: $slug, rule: $rule, explanation: $explanation }),)*
        ];
    };
}
pub(super) use codes;

pub use super::codes::Code;

impl Code {
    /// Returns the entry of this code.
    ///
    /// # Panics
    /// Never: every code has an entry.
    pub fn entry(self) -> &'static Entry {
        Self::all()
            .find_map(|(code, entry)| (code == self).then_some(entry))
            .expect("a unit test proves that every code has its entry")
    }

    /// Returns the code with a number (`M0001`, any case) or a slug.
    pub fn find(name: &str) -> Option<Self> {
        Self::all()
            .find(|(_, entry)| entry.number.eq_ignore_ascii_case(name) || entry.slug == name)
            .map(|(code, _)| code)
    }

    /// Returns all codes with their entries, in order of their numbers.
    pub fn all() -> impl Iterator<Item = (Self, &'static Entry)> {
        super::codes::AREAS.iter().flat_map(|(_, entries)| entries.iter().map(|(code, entry)| (*code, entry)))
    }

    /// Returns the areas with their titles, in order of their numbers.
    pub fn areas() -> impl Iterator<Item = (&'static str, &'static [(Self, Entry)])> {
        super::codes::AREAS.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn numbers_and_slugs_are_unique_and_ordered() {
        let entries: Vec<_> = Code::all().map(|(_, entry)| entry).collect();
        for pair in entries.windows(2) {
            assert!(pair[0].number < pair[1].number, "{} before {}", pair[0].number, pair[1].number);
        }
        for entry in &entries {
            assert_eq!(entries.iter().filter(|other| other.slug == entry.slug).count(), 1, "{}", entry.slug);
            assert!(!entry.rule.ends_with('.') && !entry.explanation.is_empty(), "{}", entry.number);
        }
    }

    #[test]
    fn slug_is_the_name_of_the_code() {
        for (code, entry) in Code::all() {
            let words = format!("{code:?}").chars().fold(String::new(), |mut slug, c| {
                if c.is_uppercase() && !slug.is_empty() {
                    slug.push('-');
                }
                slug.extend(c.to_lowercase());
                slug
            });
            assert_eq!(entry.slug, words, "{}", entry.number);
        }
    }

    #[test]
    fn every_code_has_an_entry() {
        for code in Code::VARIANTS {
            assert!(Code::all().any(|(other, _)| other == *code), "{code:?}");
        }
    }
}
