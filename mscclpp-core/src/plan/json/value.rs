//! Typed values read out of a JSON stream, with every problem noted and none fatal but bad syntax.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::context::{Context, Step, quoted};
use crate::diag::Code;

/// A type that can be read. A value of the wrong type is noted and reads as [`fallback`](Read::fallback).
pub(super) trait Read<'de>: Sized {
    /// What is expected, for messages: `a whole number from 0 to 4294967295`.
    const WANT: &'static str;

    fn fallback() -> Self;

    fn from_u64(_: u64) -> Option<Self> {
        None
    }

    fn from_i64(_: i64) -> Option<Self> {
        None
    }

    fn from_bool(_: bool) -> Option<Self> {
        None
    }

    fn from_str(_: &str, _: &mut Context) -> Option<Self> {
        None
    }

    fn from_seq<A: SeqAccess<'de>>(_: &mut A, _: &mut Context) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }

    fn from_map<A: MapAccess<'de>>(_: &mut A, _: &mut Context) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }
}

/// Reads a `T` with a context.
pub(super) struct Seed<'a, T>(&'a mut Context, PhantomData<T>);

impl<'a, T> Seed<'a, T> {
    pub(super) fn new(context: &'a mut Context) -> Self {
        Self(context, PhantomData)
    }
}

impl<'de, T: Read<'de>> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = T;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T> Seed<'_, T> {
    #[inline]
    fn or_wrong<'de>(self, value: Option<T>, found: impl FnOnce() -> String) -> T
    where
        T: Read<'de>,
    {
        value.unwrap_or_else(|| {
            self.0.wrong(T::WANT, &found());
            T::fallback()
        })
    }
}

impl<'de, T: Read<'de>> Visitor<'de> for Seed<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WANT)
    }

    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        Ok(self.or_wrong(T::from_u64(value), || value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        Ok(self.or_wrong(T::from_i64(value), || value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        Ok(self.or_wrong(None, || format!("the number {value:?}")))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        Ok(self.or_wrong(T::from_bool(value), || value.to_string()))
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(self.or_wrong(None, || "null".into()))
    }

    #[inline]
    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        let read = T::from_str(value, self.0);
        Ok(self.or_wrong(read, || quoted(value)))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<T, A::Error> {
        let read = T::from_seq(&mut seq, self.0)?;
        if read.is_none() {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(self.or_wrong(read, || "an array".into()))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let read = T::from_map(&mut map, self.0)?;
        if read.is_none() {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        }
        Ok(self.or_wrong(read, || "an object".into()))
    }
}

impl Read<'_> for u32 {
    const WANT: &'static str = "a whole number from 0 to 4294967295";

    fn fallback() -> Self {
        0
    }

    #[inline]
    fn from_u64(value: u64) -> Option<Self> {
        value.try_into().ok()
    }
}

impl Read<'_> for u64 {
    const WANT: &'static str = "a whole number from 0 to 18446744073709551615";

    fn fallback() -> Self {
        0
    }

    fn from_u64(value: u64) -> Option<Self> {
        Some(value)
    }
}

impl Read<'_> for i64 {
    const WANT: &'static str = "a whole number from -9223372036854775808 to 9223372036854775807";

    fn fallback() -> Self {
        0
    }

    fn from_u64(value: u64) -> Option<Self> {
        value.try_into().ok()
    }

    fn from_i64(value: i64) -> Option<Self> {
        Some(value)
    }
}

impl Read<'_> for bool {
    const WANT: &'static str = "true or false";

    fn fallback() -> Self {
        false
    }

    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Read<'_> for String {
    const WANT: &'static str = "a string";

    fn fallback() -> Self {
        Self::new()
    }

    fn from_str(value: &str, _: &mut Context) -> Option<Self> {
        Some(value.to_owned())
    }
}

/// Reads the elements of an array, numbered from `first`.
#[inline]
pub(super) fn elements<'de, T: Read<'de>, A: SeqAccess<'de>>(
    seq: &mut A,
    first: usize,
    context: &mut Context,
    mut take: impl FnMut(T),
) -> Result<(), A::Error> {
    for index in first.. {
        context.enter(Step::Index(index));
        let element = seq.next_element_seed(Seed::<T>::new(context))?;
        context.leave();
        match element {
            Some(element) => take(element),
            None => break,
        }
    }
    Ok(())
}

macro_rules! read_list {
    ($([$($generics:tt)*] $list:ty),*) => { $(
        impl<'de, $($generics)*> Read<'de> for $list {
            const WANT: &'static str = "an array";

            fn fallback() -> Self {
                Self::new()
            }

            #[inline]
            fn from_seq<A: SeqAccess<'de>>(seq: &mut A, context: &mut Context) -> Result<Option<Self>, A::Error> {
                let mut list = Self::new();
                elements(seq, 0, context, |element| list.push(element))?;
                Ok(Some(list))
            }
        }
    )* };
}

read_list!([T: Read<'de>] Vec<T>, [] crate::plan::Refs, [] crate::plan::Ids);

impl<'de> Read<'de> for BTreeMap<String, i64> {
    const WANT: &'static str = "an object of whole numbers";

    fn fallback() -> Self {
        Self::new()
    }

    fn from_map<A: MapAccess<'de>>(map: &mut A, context: &mut Context) -> Result<Option<Self>, A::Error> {
        let mut out = Self::new();
        while let Some(key) = map.next_key::<String>()? {
            context.enter(Step::Name(key.clone()));
            if out.contains_key(&key) {
                context.error(Code::DuplicateKey, "the key is there twice");
            }
            let value = map.next_value_seed(Seed::new(context))?;
            context.leave();
            out.insert(key, value);
        }
        Ok(Some(out))
    }
}

/// An object with named fields.
pub(super) trait Fields<'de> {
    /// The names, at most 32.
    const KEYS: &'static [&'static str];

    /// Reads the value of `KEYS[key]`.
    fn field<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A, context: &mut Context) -> Result<(), A::Error>;
}

/// Reads an object's fields; returns which keys were there, as bits.
#[inline]
pub(super) fn fields<'de, T: Fields<'de>, A: MapAccess<'de>>(
    target: &mut T,
    map: &mut A,
    context: &mut Context,
) -> Result<u32, A::Error> {
    let mut seen = 0_u32;
    // Files list their keys in the order of `KEYS`, so the next one is looked for first.
    let mut next = 0;
    while let Some(key) = map.next_key_seed(KeySeed { keys: T::KEYS, next })? {
        match key {
            Key::Known(key) if seen & 1 << key == 0 => {
                (seen, next) = (seen | 1 << key, key + 1);
                context.enter(Step::Key(T::KEYS[key]));
                target.field(key, map, context)?;
                context.leave();
            }
            Key::Known(key) => {
                context.enter(Step::Key(T::KEYS[key]));
                context.error(Code::DuplicateKey, "the key is there twice");
                context.leave();
                map.next_value::<IgnoredAny>()?;
            }
            Key::Unknown(key) => {
                let message = format!("the key {} is not part of the format and is ignored", quoted(&key));
                context.unknown_key(&key, message);
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    Ok(seen)
}

/// Notes each of the first `required` keys that is missing.
pub(super) fn require(keys: &[&'static str], required: u32, seen: u32, what: &str, context: &mut Context) {
    let missing = required & !seen;
    if missing != 0 {
        for (key, name) in keys.iter().enumerate() {
            if missing & 1 << key != 0 {
                context.error(Code::MissingKey, format!("the key \"{name}\" is missing from this {what}"));
            }
        }
    }
}

enum Key {
    Known(usize),
    Unknown(String),
}

struct KeySeed {
    keys: &'static [&'static str],
    next: usize,
}

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    #[inline]
    fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
        let (before, after) = self.keys.split_at(self.next.min(self.keys.len()));
        if let Some(at) = after.iter().position(|known| *known == key) {
            return Ok(Key::Known(before.len() + at));
        }
        Ok(match before.iter().position(|known| *known == key) {
            Some(at) => Key::Known(at),
            None => Key::Unknown(key.to_owned()),
        })
    }
}
