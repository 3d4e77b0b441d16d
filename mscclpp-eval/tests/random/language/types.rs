//! Types of variables.

/// An integer, a list of one, an option of one, or a boolean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ty {
    Int(&'static str),
    List(&'static str),
    Option(&'static str),
    Bool,
}

impl Ty {
    pub(super) fn text(self) -> String {
        match self {
            Self::Int(int) => int.to_owned(),
            Self::List(int) => format!("Vec<{int}>"),
            Self::Option(int) => format!("Option<{int}>"),
            Self::Bool => "bool".to_owned(),
        }
    }
}

pub(super) const INTS: [&str; 6] = ["usize", "i32", "u8", "i64", "u32", "i8"];
