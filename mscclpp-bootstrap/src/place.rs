//! Source locations of calls that begin in another library: messages name the line of the program's call, not one in
//! the library. Calls of programs in other languages have a name instead.

use std::cell::Cell;
use std::panic::Location;

thread_local! {
    static CURRENT: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    static NAME: Cell<Option<&'static str>> = const { Cell::new(None) };
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
