//! Source locations of operations. They are stored beside plans for messages; never part of their bytes or their
//! equality.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

/// Names and values of loop variables; ranks are represented by their numbers.
pub type Variables = SmallVec<[(Arc<str>, i128); 2]>;

/// A location in the user's source, with the loop variables in scope when it was executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// The same of each argument of the call, as far as they are known.
    pub arguments: Tokens,
}

/// Numbers by which the macro finds its tokens again.
pub type Tokens = SmallVec<[u32; 4]>;

impl SourceLocation {
    /// Returns the location of an argument of the call, if its token is known, otherwise that of the call.
    #[must_use]
    pub fn argument(&self, position: usize) -> Self {
        Self { token: self.arguments.get(position).copied().unwrap_or(self.token), ..self.clone() }
    }
}

impl Default for SourceLocation {
    /// Returns the unknown location.
    fn default() -> Self {
        Self {
            file: Arc::default(),
            line: 0,
            column: 0,
            variables: Variables::new(),
            token: u32::MAX,
            arguments: Tokens::new(),
        }
    }
}

impl From<&Location<'_>> for SourceLocation {
    /// Converts the location of a native caller, which has no loop variables.
    fn from(caller: &Location<'_>) -> Self {
        Self { file: Arc::from(caller.file()), line: caller.line(), column: caller.column(), ..Self::default() }
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

/// The argument from which an operand comes. As with [`Origin`], two always compare equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgumentOrigin {
    /// The call. Of a fused operation, operands come from several.
    pub call: Origin,
    /// Position among its arguments.
    pub position: u8,
}

impl ArgumentOrigin {
    /// The origin of an operand without source.
    pub const UNKNOWN: Self = Self { call: Origin::UNKNOWN, position: 0 };
}

impl PartialEq for ArgumentOrigin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ArgumentOrigin {}

impl Hash for ArgumentOrigin {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

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

    /// Returns the location of an argument; `None` if that of its call is unknown.
    pub fn argument(&self, origin: ArgumentOrigin) -> Option<SourceLocation> {
        self.get(origin.call).map(|call| call.argument(origin.position.into()))
    }

    /// Returns all locations, the unknown one first.
    pub fn locations(&self) -> &[SourceLocation] {
        &self.locations
    }
}
