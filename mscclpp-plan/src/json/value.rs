//! Reads typed values from a JSON text. Every problem is recorded; only bad syntax ends the reading.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::context::{PathSegment, ReadState, quoted};
use super::lexer::{Number, Stop};
use crate::diag::Code;
use crate::{Ids, Operand, Operands};

/// A type that can be read. A value of the wrong type is reported and reads as [`fallback`](Read::fallback).
pub(super) trait Read: Sized {
    /// What is expected, for messages: `an integer from 0 to 4294967295`.
    const WANT: &'static str;

    fn fallback() -> Self;

    fn from_number(_: Number) -> Option<Self> {
        None
    }

    fn from_bool(_: bool) -> Option<Self> {
        None
    }

    fn from_str(_: &str, _: &mut ReadState<'_>) -> Option<Self> {
        None
    }

    /// Reads the next value as an array, if the type is one.
    fn read_array(&mut self, _: &mut ReadState<'_>) -> Result<bool, Stop> {
        Ok(false)
    }

    /// Reads the next value as an object, if the type is one.
    fn read_object(&mut self, _: &mut ReadState<'_>) -> Result<bool, Stop> {
        Ok(false)
    }
}

impl<'t> ReadState<'t> {
    /// Reads the next value into `place`, which holds the type's fallback.
    #[inline]
    pub(super) fn read<T: Read>(&mut self, place: &mut T) -> Result<(), Stop> {
        match self.json.peek()? {
            b'"' => {
                let string = self.json.string()?;
                match T::from_str(&string, self) {
                    Some(value) => *place = value,
                    None => self.wrong::<T>(&quoted(&string)),
                }
            }
            b'0'..=b'9' | b'-' => {
                let number = self.json.number()?;
                match T::from_number(number) {
                    Some(value) => *place = value,
                    None => self.wrong::<T>(&shown(number)),
                }
            }
            b'[' => {
                if !place.read_array(self)? {
                    self.json.skip()?;
                    self.wrong::<T>("an array");
                }
            }
            b'{' => {
                if !place.read_object(self)? {
                    self.json.skip()?;
                    self.wrong::<T>("an object");
                }
            }
            b't' | b'f' | b'n' => {
                let word = self.json.word()?;
                match word.and_then(T::from_bool) {
                    Some(value) => *place = value,
                    None => self.wrong::<T>(word.map_or("null", |word| if word { "true" } else { "false" })),
                }
            }
            _ => return Err(self.json.no_value()),
        }
        Ok(())
    }

    /// Reports a value of the wrong type or out of its range.
    #[cold]
    fn wrong<T: Read>(&mut self, found: &str) {
        self.error(Code::WrongType, format!("expected {}, found {found}", T::WANT));
    }

    /// Reads the next array into a list.
    #[inline]
    pub(super) fn elements<T: Read>(&mut self, list: &mut impl List<T>) -> Result<(), Stop> {
        let mut left = self.json.open(b'[', b']')?;
        let mut index = 0;
        while left {
            if self.is_hopeless() {
                list.clear();
            }
            self.enter(PathSegment::Index(index));
            self.read(list.add(T::fallback()))?;
            self.leave();
            index += 1;
            left = self.json.more(b']')?;
        }
        Ok(())
    }

    /// Reads the next object into `target`; returns which of its keys were present, as bits.
    #[inline]
    pub(super) fn fields<T: Fields>(&mut self, target: &mut T) -> Result<u32, Stop> {
        let mut seen = 0_u32;
        // Files list their keys in the order of `KEYS`, so the search starts after the last one found.
        let mut next = 0;
        let mut left = self.json.open(b'{', b'}')?;
        while left {
            match self.key::<T>(next)? {
                Ok(at) => {
                    self.enter(PathSegment::Key(T::KEYS[at]));
                    if seen & 1 << at == 0 {
                        (seen, next) = (seen | 1 << at, at + 1);
                        target.field(at, self)?;
                    } else {
                        self.error(Code::DuplicateKey, "duplicate key");
                        self.json.skip()?;
                    }
                    self.leave();
                }
                Err(key) => {
                    let message = format!("the key {} is not part of the format and is ignored", quoted(&key));
                    self.unknown_key(shown_key(&key), message);
                    self.json.skip()?;
                }
            }
            left = self.json.more(b'}')?;
        }
        Ok(seen)
    }

    /// Reads the next key and its colon; returns its position, or the key itself if it is not one of the fields.
    #[inline]
    fn key<T: Fields>(&mut self, next: usize) -> Result<Result<usize, Cow<'t, str>>, Stop> {
        let found = match T::KEYS.get(next) {
            Some(key) if self.json.take_string(key) => Ok(next),
            _ => {
                let key = self.json.string()?;
                T::KEYS.iter().position(|known| *known == key).ok_or(key)
            }
        };
        self.json.expect(b':')?;
        Ok(found)
    }

    /// Reports each key of a set that is missing.
    #[inline]
    pub(super) fn require(&mut self, keys: &[&'static str], needed: u32, seen: u32, what: &str) {
        if needed & !seen != 0 {
            self.missing(keys, needed & !seen, what);
        }
    }

    #[cold]
    fn missing(&mut self, keys: &[&'static str], missing: u32, what: &str) {
        for (key, name) in keys.iter().enumerate() {
            if missing & 1 << key != 0 {
                self.error(Code::MissingKey, format!("this {what} has no key \"{name}\""));
            }
        }
    }
}

/// Returns a key for a path.
fn shown_key<'t>(key: &Cow<'t, str>) -> &'t str {
    match key {
        Cow::Borrowed(key) => key,
        Cow::Owned(_) => "<key with escapes>",
    }
}

fn shown(number: Number) -> String {
    match number {
        Number::Unsigned(value) => value.to_string(),
        Number::Signed(value) => value.to_string(),
        Number::Float(value) => format!("the number {value:?}"),
    }
}

/// An object with named fields.
pub(super) trait Fields {
    /// The names, at most 32.
    const KEYS: &'static [&'static str];

    /// Reads the value of `KEYS[key]`.
    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop>;
}

impl Read for u32 {
    const WANT: &'static str = "an integer from 0 to 4294967295";

    fn fallback() -> Self {
        0
    }

    #[inline]
    fn from_number(number: Number) -> Option<Self> {
        u64::from_number(number)?.try_into().ok()
    }
}

impl Read for u64 {
    const WANT: &'static str = "an integer from 0 to 18446744073709551615";

    fn fallback() -> Self {
        0
    }

    #[inline]
    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Unsigned(value) => Some(value),
            _ => None,
        }
    }
}

impl Read for i64 {
    const WANT: &'static str = "an integer from -9223372036854775808 to 9223372036854775807";

    fn fallback() -> Self {
        0
    }

    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Unsigned(value) => value.try_into().ok(),
            Number::Signed(value) => Some(value),
            Number::Float(_) => None,
        }
    }
}

impl Read for bool {
    const WANT: &'static str = "true or false";

    fn fallback() -> Self {
        false
    }

    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Read for String {
    const WANT: &'static str = "a string";

    fn fallback() -> Self {
        Self::new()
    }

    fn from_str(value: &str, _: &mut ReadState<'_>) -> Option<Self> {
        Some(value.to_owned())
    }
}

impl<T: Read> Read for Option<T> {
    const WANT: &'static str = T::WANT;

    fn fallback() -> Self {
        None
    }

    fn from_number(number: Number) -> Option<Self> {
        T::from_number(number).map(Some)
    }

    fn from_bool(value: bool) -> Option<Self> {
        T::from_bool(value).map(Some)
    }

    #[inline]
    fn from_str(value: &str, cx: &mut ReadState<'_>) -> Option<Self> {
        T::from_str(value, cx).map(Some)
    }

    fn read_array(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        self.insert(T::fallback()).read_array(cx)
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        self.insert(T::fallback()).read_object(cx)
    }
}

/// A list that elements can be added to.
pub(super) trait List<T> {
    /// Adds an element and returns a reference to it.
    fn add(&mut self, element: T) -> &mut T;

    /// Drops all elements.
    fn clear(&mut self);
}

macro_rules! lists {
    ($([$($generics:tt)*] $list:ty, $element:ty;)*) => { $(
        impl<$($generics)*> List<$element> for $list {
            #[inline]
            fn add(&mut self, element: $element) -> &mut $element {
                let at = self.len();
                self.push(element);
                &mut self[at]
            }

            fn clear(&mut self) {
                self.clear();
            }
        }

        impl<$($generics)*> Read for $list {
            const WANT: &'static str = "an array";

            fn fallback() -> Self {
                Self::new()
            }

            #[inline]
            fn read_array(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
                cx.elements(self).map(|()| true)
            }
        }
    )* };
}

lists! {
    [T: Read] Vec<T>, T;
    [] Operands, Operand;
    [] Ids, u32;
}

impl Read for BTreeMap<String, i64> {
    const WANT: &'static str = "an object whose values are integers";

    fn fallback() -> Self {
        Self::new()
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let mut left = cx.json.open(b'{', b'}')?;
        while left {
            let key = cx.json.string()?;
            cx.json.expect(b':')?;
            cx.enter(PathSegment::Key(shown_key(&key)));
            if self.contains_key(&*key) {
                cx.error(Code::DuplicateKey, "duplicate key");
            }
            cx.read(self.entry(key.into_owned()).or_default())?;
            cx.leave();
            left = cx.json.more(b'}')?;
        }
        Ok(true)
    }
}
