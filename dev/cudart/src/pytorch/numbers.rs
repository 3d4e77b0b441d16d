//! The types of elements of PyTorch's kernels, and numbers of these types.

use half::{bf16, f16};

/// A type of elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    /// How names of kernels have it.
    name: &'static str,
    pub(super) bytes: usize,
    /// Bytes of the type in which elements are combined, that of a kernel's scalars.
    pub(super) scalar_bytes: usize,
    read: fn(&[u8]) -> Number,
    write: fn(Number, &mut Vec<u8>),
}

/// An element, or a result that is rounded or cut to an element's type when it is written. Each sum, product and quotient of floats of 4
/// bytes is computed in 8 bytes, which does not change it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

macro_rules! types {
    ($($name:literal $type:ty, $scalar:ty, $kind:ident $wide:ty, $narrow:expr;)*) => {
        /// The types that are executed.
        pub(super) const TYPES: &[Type] = &[$(Type {
            name: $name,
            bytes: size_of::<$type>(),
            scalar_bytes: size_of::<$scalar>(),
            read: |bytes| match bytes.try_into() {
                Ok(bytes) => Number::$kind(<$wide>::from(<$type>::from_ne_bytes(bytes))),
                Err(_) => Number::$kind(Default::default()),
            },
            write: |number, bytes| {
                let narrow: fn(Number) -> $type = $narrow;
                bytes.extend(narrow(number).to_ne_bytes());
            },
        }),*];
    };
}

types! {
    "b" u8, u8, Integer i64, |number| u8::from(number.integer() != 0);
    "h" u8, u8, Integer i64, |number| number.integer() as u8;
    "a" i8, i8, Integer i64, |number| number.integer() as i8;
    "i" i32, i32, Integer i64, |number| number.integer() as i32;
    "l" i64, i64, Integer i64, Number::integer;
    "s" i16, i16, Integer i64, |number| number.integer() as i16;
    "d" f64, f64, Float f64, Number::float;
    "f" f32, f32, Float f64, |number| number.float() as f32;
    "N3c104HalfE" f16, f32, Float f64, |number| f16::from_f32(number.float() as f32);
    "N3c108BFloat16E" bf16, f32, Float f64, |number| bf16::from_f32(number.float() as f32);
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    pub(super) fn integer(self) -> i64 {
        match self {
            Self::Integer(number) => number,
            Self::Float(number) => number as i64,
        }
    }

    /// Combines two numbers of a type.
    pub(super) fn with(self, other: Self, integers: fn(i64, i64) -> i64, floats: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Integer(first), Self::Integer(second)) => Self::Integer(integers(first, second)),
            (first, second) => Self::Float(floats(first.float(), second.float())),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, i64::wrapping_add, |first, second| first + second)
    }

    pub(super) fn times(self, other: Self) -> Self {
        self.with(other, i64::wrapping_mul, |first, second| first * second)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Integer(first), Self::Integer(second)) => first.partial_cmp(second),
            (first, second) => first.float().partial_cmp(&second.float()),
        }
    }
}

impl Type {
    /// Returns the type with which a text begins, and the rest.
    pub(super) fn parse(text: &str) -> Option<(Self, &str)> {
        TYPES.iter().find_map(|of_type| Some((*of_type, text.strip_prefix(of_type.name)?)))
    }

    /// Returns the type of that number among the types of a dispatch over all of them, in PyTorch's order.
    pub(super) fn dispatched(number: usize) -> Option<Self> {
        const ORDER: [&str; 9] = ["h", "a", "i", "l", "s", "d", "f", "N3c104HalfE", "N3c108BFloat16E"];
        Some(Self::parse(ORDER.get(number)?)?.0)
    }

    /// Returns the type of that number in PyTorch's list of types (`ScalarType`).
    pub(super) fn numbered(number: u8) -> Option<Self> {
        const ORDER: [&str; 16] =
            ["h", "a", "s", "i", "l", "N3c104HalfE", "f", "d", "", "", "", "b", "", "", "", "N3c108BFloat16E"];
        let name = ORDER.get(usize::from(number)).filter(|name| !name.is_empty())?;
        Some(Self::parse(name)?.0)
    }

    pub(super) fn read(&self, bytes: &[u8]) -> Vec<Number> {
        bytes.chunks_exact(self.bytes).map(self.read).collect()
    }

    pub(super) fn write(&self, numbers: impl IntoIterator<Item = Number>) -> Vec<u8> {
        let mut bytes = Vec::new();
        numbers.into_iter().for_each(|number| (self.write)(number, &mut bytes));
        bytes
    }

    pub(super) fn is_integer(&self) -> bool {
        matches!((self.read)(&[0; 8][..self.bytes]), Number::Integer(_))
    }

    /// Returns the type of scalars.
    pub(super) fn scalar(&self) -> Self {
        // Floats of 2 bytes are combined as floats of 4.
        if self.scalar_bytes == self.bytes { *self } else { Self::dispatched(6).unwrap_or(*self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read_in_every_type() {
        for of_type in TYPES {
            let numbers = [0, 1].map(|number| of_type.read(&of_type.write([Number::Integer(number)]))[0].integer());
            assert_eq!(numbers, [0, 1], "{}", of_type.name);
            assert_eq!(
                Type::parse(&format!("{}EE", of_type.name)).map(|(found, rest)| (found.name, rest)),
                Some((of_type.name, "EE"))
            );
        }
        let half = Type::dispatched(7).expect("a type");
        assert_eq!((half.bytes, half.scalar().bytes), (2, 4));
        assert_eq!(half.read(&half.write([Number::Float(1.0 / 3.0)])), [Number::Float(0.333_251_953_125)]);
    }

    #[test]
    fn integers_are_cut_to_their_type() {
        let byte = Type::dispatched(0).expect("a type");
        assert_eq!(byte.read(&byte.write([Number::Integer(200).plus(Number::Integer(100))])), [Number::Integer(44)]);
    }
}
