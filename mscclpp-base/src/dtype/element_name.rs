//! Types of elements that programs have and messages lack.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use super::DataType;

/// Name of a type of elements in a program: of another one than that in which they are moved, such as booleans as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct ElementName([u8; 24]);

impl ElementName {
    /// Creates the name with a text, of which the first 24 bytes count.
    pub fn new(text: &str) -> Self {
        let mut name = [0; 24];
        let len = text.len().min(name.len());
        name[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self(name)
    }
}

impl From<DataType> for ElementName {
    fn from(dtype: DataType) -> Self {
        Self::new(dtype.name())
    }
}

impl fmt::Display for ElementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.write_str(&String::from_utf8_lossy(&self.0[..len]))
    }
}

impl fmt::Debug for ElementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of a call's elements, as ranks compare it: that in which they are moved, and its name in the program if it has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementType {
    /// The type in which the elements are moved.
    pub dtype: DataType,
    /// The name of the program's type, if it is another one.
    pub name: Option<ElementName>,
}

impl From<DataType> for ElementType {
    fn from(dtype: DataType) -> Self {
        Self { dtype, name: None }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            None => self.dtype.fmt(f),
            Some(name) => write!(f, "{} ({name})", self.dtype),
        }
    }
}
