//! Diagnostics: what is wrong, where, the rule, and how to fix it.

mod catalogue;
mod codes;
mod kind;
mod near;

pub use catalogue::{Code, Entry};
pub use kind::{ErrorKind, RootCause};
pub use near::closest_name;

use std::collections::BTreeMap;
use std::fmt;

use crate::origin::SourceLocation;

/// The location of a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Site {
    /// No location.
    #[default]
    None,
    /// A location in the user's source.
    Source(SourceLocation),
    /// A path into a plan or a file: `rank 3 / thread block 0 / operation 5 (put)`, `gpus[0].threadblocks[1].ops[2]`.
    Path(String),
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("the whole program"),
            Self::Source(place) => place.fmt(f),
            Self::Path(path) => f.write_str(path),
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The rule.
    pub code: Code,
    /// The message: one sentence with the actual values, lower case, no final period.
    pub message: String,
    /// The location.
    pub site: Site,
    /// Other locations that are involved, each with a description: ("`ch` is created", location).
    pub notes: Vec<(String, Site)>,
    /// The edit that fixes it, if one is known.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates a finding without other locations and without help.
    pub fn new(code: Code, site: Site, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), site, notes: Vec::new(), help: None }
    }

    /// Adds another location that is involved.
    #[must_use]
    pub fn note(mut self, what: impl Into<String>, site: Site) -> Self {
        self.notes.push((what.into(), site));
        self
    }

    /// Sets the edit that fixes the finding.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns the text under the message: other locations, rule with slug and code, help. Used alone where the
    /// compiler prints the location itself.
    pub fn body(&self) -> String {
        let mut text = self.message.clone();
        if let Site::Source(place) = &self.site {
            for (i, (name, value)) in place.variables.iter().enumerate() {
                text += if i == 0 { "\n         with " } else { ", " };
                text += &format!("{name} = {value}");
            }
        }
        for (what, site) in &self.notes {
            text += &format!("\n         --> {what} at {site}");
        }
        let entry = self.code.entry();
        text += &format!("\n         rule: {} [{} {}]", entry.rule, entry.number, entry.slug);
        if let Some(help) = &self.help {
            text += &format!("\n         help: {help}");
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body())?;
        match &self.site {
            Site::None => Ok(()),
            site => write!(f, "\n     --> {site}"),
        }
    }
}

/// Findings in the order in which they were made. Never empty when it is an error value.
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use = "findings are printed only by the caller"]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl fmt::Debug for Diagnostics {
    /// Prints the findings as text, for a caller that returns them from `main` or unwraps them. What is printed before says that it is
    /// an error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl Diagnostics {
    /// Adds a finding, unless an equal one exists.
    #[doc(hidden)]
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.list.contains(&diagnostic) {
            self.list.push(diagnostic);
        }
    }

    /// Returns whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of findings.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns all findings.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Returns `Ok(value)` if there is no finding, otherwise the findings.
    #[doc(hidden)]
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Returns the findings to print: findings of one loop at the same location that differ only in numbers are printed
    /// once, and at most `max` findings of each code. Each contains the number of findings that it replaces.
    #[must_use]
    #[doc(hidden)]
    pub fn deduplicated(&self, max: usize) -> Vec<Diagnostic> {
        let mut repeats: Vec<(&Diagnostic, usize)> = Vec::new();
        let mut known = BTreeMap::new();
        for diagnostic in &self.list {
            let key = match &diagnostic.site {
                Site::Source(place) => (diagnostic.code, (&place.file, place.line, place.column, place.token)),
                Site::None | Site::Path(_) => {
                    repeats.push((diagnostic, 0));
                    continue;
                }
            };
            let index = *known.entry((key, without_numbers(&diagnostic.message))).or_insert(repeats.len());
            match repeats.get_mut(index) {
                Some((_, more)) => *more += 1,
                None => repeats.push((diagnostic, 0)),
            }
        }
        let mut seen = BTreeMap::<Code, usize>::new();
        for (diagnostic, _) in &repeats {
            *seen.entry(diagnostic.code).or_default() += 1;
        }
        let mut given = BTreeMap::<Code, usize>::new();
        let mut out = Vec::new();
        for (diagnostic, more) in repeats {
            let count = given.entry(diagnostic.code).or_default();
            *count += 1;
            if *count > max {
                continue;
            }
            let mut diagnostic = diagnostic.clone();
            if more > 0 {
                diagnostic.message += &format!(" (and {more} more here, with other values)");
            }
            let rest = seen[&diagnostic.code].saturating_sub(max);
            if *count == max && rest > 0 {
                diagnostic.message += &format!(" (and {rest} more of this kind)");
            }
            out.push(diagnostic);
        }
        out
    }
}

/// Returns a message with every number replaced by `#`, which is equal for two findings of one loop.
fn without_numbers(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<T: IntoIterator<Item = Diagnostic>>(&mut self, iter: T) {
        iter.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { list: vec![diagnostic] }
    }
}

impl Diagnostics {
    /// Writes the findings, the first of them after `before`.
    fn write(&self, f: &mut fmt::Formatter<'_>, before: &str) -> fmt::Result {
        for (i, diagnostic) in self.deduplicated(5).iter().enumerate() {
            let before = if i == 0 { before } else { "\nerror: " };
            write!(f, "{before}{diagnostic}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "error: ")
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::{Code, Diagnostic, Diagnostics, Site};
    use crate::origin::SourceLocation;

    fn at(line: u32, message: &str) -> Diagnostic {
        let place = SourceLocation { file: "a.rs".into(), line, column: 1, ..SourceLocation::default() };
        Diagnostic::new(Code::WrongRank, Site::Source(place), message)
    }

    fn condensed(list: impl IntoIterator<Item = Diagnostic>, most: usize) -> Vec<String> {
        let mut all = Diagnostics::default();
        all.extend(list);
        all.deduplicated(most).into_iter().map(|diagnostic| diagnostic.message).collect()
    }

    #[test]
    fn mistake_in_a_loop_is_shown_once() {
        let list = (0..12)
            .map(|rank| at(3, &format!("rank {rank} is wrong")))
            .chain([at(3, "rank 1 is odd"), at(4, "rank 1 is wrong")]);
        let expected = ["rank 0 is wrong (and 11 more here, with other values)", "rank 1 is odd", "rank 1 is wrong"];
        assert_eq!(condensed(list, 5), expected);
    }

    #[test]
    fn many_locations_are_shortened_with_their_number() {
        let list = (1..8).map(|line| at(line, "wrong"));
        assert_eq!(condensed(list, 3), ["wrong", "wrong", "wrong (and 4 more of this kind)"]);
    }

    #[test]
    fn findings_without_a_location_are_not_deduplicated() {
        let list = (0..3).map(|i| {
            Diagnostic::new(Code::BadSpecification, Site::Path(format!("gpus[{i}]")), format!("{i} is wrong"))
        });
        assert_eq!(condensed(list, 5), ["0 is wrong", "1 is wrong", "2 is wrong"]);
    }
}
