//! Source locations of operations. They are stored beside plans for messages; never part of their bytes or their
//! equality.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

/// Names and values of loop variables; ranks are represented by their numbers.
pub type Variables = SmallVec<[(Arc<str>, i128); 2]>;

/// A location in the user's source, with the loop variables in scope when it was executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SourceLocation {
    /// Path of the file as the compiler names it; empty when unknown.
    pub file: Arc<str>,
    /// Line, counted from 1; 0 when unknown.
    pub line: u32,
    /// Column, counted from 1; 0 when unknown.
    pub column: u32,
    /// Names and values of the loop variables in scope, outermost first.
    pub variables: Variables,
    /// A number by which the macro finds its token again; `u32::MAX` if there is none.
    pub token: u32,
}

impl From<&Location<'_>> for SourceLocation {
    /// Converts the location of a native caller, which has no loop variables.
    fn from(caller: &Location<'_>) -> Self {
        Self {
            file: Arc::from(caller.file()),
            line: caller.line(),
            column: caller.column(),
            variables: Variables::new(),
            token: u32::MAX,
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str("an unknown location");
        }
        write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        for (i, (name, value)) in self.variables.iter().enumerate() {
            write!(f, "{}{name} = {value}", if i == 0 { " with " } else { ", " })?;
        }
        Ok(())
    }
}

/// Index of an operation's source location in [`Origins`].
///
/// Two origins always compare equal: the source location is not part of an operation's effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin(pub u32);

impl Origin {
    /// The location of an operation without source, for example one read from a file.
    pub const UNKNOWN: Self = Self(0);
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

/// The source locations of a program's operations. Entry 0 is the unknown location. Tables always compare equal.
#[derive(Clone, Debug)]
pub struct Origins {
    // Shared, because trace and plan both have the table.
    locations: Arc<Vec<SourceLocation>>,
}

impl Default for Origins {
    fn default() -> Self {
        Self { locations: Arc::new(vec![SourceLocation::default()]) }
    }
}

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origins {}

impl Origins {
    /// Adds a location and returns its index. A location equal to the last one added is not added again.
    pub fn add(&mut self, location: SourceLocation) -> Origin {
        if self.locations.last() != Some(&location) {
            Arc::make_mut(&mut self.locations).push(location);
        }
        Origin((self.locations.len() - 1) as u32)
    }

    /// Returns the location of an index; `None` for the unknown location and for an index out of range.
    pub fn get(&self, origin: Origin) -> Option<&SourceLocation> {
        self.locations.get(origin.0 as usize).filter(|location| location.line != 0)
    }

    /// Returns all locations, the unknown one first.
    pub fn locations(&self) -> &[SourceLocation] {
        &self.locations
    }
}
