//! Source locations of calls that begin in another library: messages name the line of the program's call, not one in
//! the library. Calls of programs in other languages have a name instead.

use std::cell::{Cell, RefCell};
use std::panic::Location;

thread_local! {
    static CURRENT: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    static NAME: Cell<Option<&'static str>> = const { Cell::new(None) };
    static CALL: RefCell<Option<String>> = const { RefCell::new(None) };
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
        }
    }
}

/// Lets messages name `call` in place of this thread's calls, unless they already name another one.
pub fn enter_call(call: impl FnOnce() -> String) -> Part {
    let is_outermost = CALL.with_borrow(Option::is_none);
    if is_outermost {
        CALL.set(Some(call()));
    }
    Part { is_outermost }
}

/// Returns the call of the program of which this thread's calls are parts, if there is one.
pub fn call() -> Option<String> {
    CALL.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_call_is_named_until_it_ends() {
        assert_eq!(call(), None);
        let outer = enter_call(|| "outer".into());
        let inner = enter_call(|| unreachable!("it is not needed"));
        assert_eq!(call().as_deref(), Some("outer"));
        drop(inner);
        assert_eq!(call().as_deref(), Some("outer"));
        drop(outer);
        assert_eq!(call(), None);
    }
}
