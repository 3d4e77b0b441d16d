//! Source locations of calls that begin in another library: messages name the line of the program's call, not one in
//! the library. Calls of programs in other languages have a name instead.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;

thread_local! {
    static CURRENT: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    static NAME: Cell<Option<&'static str>> = const { Cell::new(None) };
    static CALL: RefCell<Option<(CallText, u64)>> = const { RefCell::new(None) };
    /// Whether there is a call, without a borrow.
    static IS_PART: Cell<bool> = const { Cell::new(false) };
}

/// While this exists, calls of its thread count as made at its location.
#[must_use = "the location counts until this is dropped"]
pub struct At {
    before: Option<&'static Location<'static>>,
}

impl Drop for At {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Lets the calls of this thread count as made at `place`, unless they already count as made elsewhere.
pub fn enter(place: &'static Location<'static>) -> At {
    let before = CURRENT.get();
    CURRENT.set(before.or(Some(place)));
    At { before }
}

/// Returns the location at which calls of this thread count as made, or `place`.
pub fn current(place: &'static Location<'static>) -> &'static Location<'static> {
    CURRENT.get().unwrap_or(place)
}

/// While this exists, messages state its name as the place of calls of its thread.
#[must_use = "the name is stated until this is dropped"]
pub struct Named {
    before: Option<&'static str>,
}

impl Drop for Named {
    fn drop(&mut self) {
        NAME.set(self.before);
    }
}

/// Lets messages state a name as the place of this thread's calls, such as that of a function in C, until the result is dropped.
pub fn enter_name(name: &'static str) -> Named {
    Named { before: NAME.replace(Some(name)) }
}

/// Returns the name that messages state as the place of this thread's calls, if there is one.
pub fn name() -> Option<&'static str> {
    NAME.get()
}

/// Returns the place of a call as messages state it: the name, or the location at which it counts as made.
pub fn text(place: &'static Location<'static>) -> String {
    name().map_or_else(|| current(place).to_string(), str::to_owned)
}

/// What messages name a call; formatted only for a message.
pub struct CallText {
    call: Cow<'static, str>,
    /// What is called on, such as a type of elements.
    of: Option<&'static str>,
}

impl CallText {
    /// Returns the text "`call` of `what`", without an allocation.
    pub const fn of(call: &'static str, what: &'static str) -> Self {
        Self { call: Cow::Borrowed(call), of: Some(what) }
    }
}

impl<S: Into<Cow<'static, str>>> From<S> for CallText {
    fn from(call: S) -> Self {
        Self { call: call.into(), of: None }
    }
}

impl fmt::Display for CallText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.call)?;
        self.of.map_or(Ok(()), |what| write!(f, " of {what}"))
    }
}

/// While this exists, messages name a call of the program in place of this thread's calls, which are parts of it.
#[must_use = "the call is named until this is dropped"]
pub struct Part {
    is_outermost: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_outermost {
            CALL.take();
            IS_PART.set(false);
        }
    }
}

/// Lets messages name `call`, the program's call with a number, in place of this thread's calls, unless they already name another one.
pub fn enter_call<C: Into<CallText>>(number: u64, call: impl FnOnce() -> C) -> Part {
    let is_outermost = !is_part();
    if is_outermost {
        CALL.set(Some((call().into(), number)));
        IS_PART.set(true);
    }
    Part { is_outermost }
}

/// Returns whether this thread's calls are parts of a call of the program that is named.
#[inline]
pub fn is_part() -> bool {
    IS_PART.get()
}

/// Returns the call of the program of which this thread's calls are parts, if there is one.
pub fn call() -> Option<String> {
    CALL.with_borrow(|call| call.as_ref().map(|(call, _)| call.to_string()))
}

/// Returns that call with its number.
pub fn numbered_call() -> Option<String> {
    CALL.with_borrow(|call| call.as_ref().map(|(call, number)| format!("{call} (call {number})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_call_is_named_until_it_ends() {
        assert_eq!(call(), None);
        let outer = enter_call(3, || "outer");
        let inner = enter_call(1, || -> String { unreachable!("it is not needed") });
        assert_eq!(call().as_deref(), Some("outer"));
        drop(inner);
        assert_eq!((call().as_deref(), numbered_call().as_deref()), (Some("outer"), Some("outer (call 3)")));
        drop(outer);
        assert!(call().is_none() && !is_part());
        let _outer = enter_call(4, || CallText::of("exchange", "f32"));
        assert_eq!(numbered_call().as_deref(), Some("exchange of f32 (call 4)"));
    }
}
