//! Source locations of calls that begin in another library: messages name the line of the program's call, not one in
//! the library. Calls of programs in other languages have a name instead.

use std::cell::{Cell, RefCell};
use std::panic::Location;

thread_local! {
    static CURRENT: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    static NAME: Cell<Option<&'static str>> = const { Cell::new(None) };
    static CALL: RefCell<Option<(String, u64)>> = const { RefCell::new(None) };
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
pub fn enter_call(number: u64, call: impl FnOnce() -> String) -> Part {
    let is_outermost = !is_part();
    if is_outermost {
        CALL.set(Some((call(), number)));
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
    CALL.with_borrow(|call| call.as_ref().map(|(call, _)| call.clone()))
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
        let outer = enter_call(3, || "outer".into());
        let inner = enter_call(1, || unreachable!("it is not needed"));
        assert_eq!(call().as_deref(), Some("outer"));
        drop(inner);
        assert_eq!((call().as_deref(), numbered_call().as_deref()), (Some("outer"), Some("outer (call 3)")));
        drop(outer);
        assert!(call().is_none() && !is_part());
    }
}
