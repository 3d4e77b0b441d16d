//! Names: variables by frame and block, items by block and module.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::hir::{AdtId, ConstId, FnId, LabelId, Slot, Var};

use super::HirBuilder;
use super::adt::AdtItem;

/// The variables and labels of a function or closure body that is being lowered.
#[derive(Default)]
pub(super) struct Frame {
    /// Visible variables, innermost last.
    pub(crate) vars: Vec<(String, Slot)>,
    /// Number of allocated slots.
    pub(crate) slots: u32,
    /// Open labels, innermost last; loops without a name have none.
    pub(crate) labels: Vec<Label>,
    /// Number of allocated labels.
    pub(crate) next_label: LabelId,
    /// Whether this is the body of a closure, which captures variables; functions do not.
    pub(crate) closure: bool,
    /// The captures of the closure, by name and relative to the outside.
    pub(crate) captures: Vec<(String, Var)>,
}

/// A loop or labeled block around the code that is being lowered.
pub(super) struct Label {
    pub(crate) name: Option<String>,
    pub(crate) id: LabelId,
    pub(crate) is_loop: bool,
    pub(crate) used: bool,
}

/// The items of a module or block.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The scope around it.
    pub(crate) parent: Option<usize>,
    /// The functions and constants that names refer to here.
    pub(crate) values: BTreeMap<String, Item>,
    /// The types that names refer to here.
    pub(crate) types: BTreeMap<String, TypeItem>,
    /// Imports of variants that are not resolved yet.
    pub(crate) imports: Vec<Import>,
}

/// An import: the names before the last one, and that one; `None` for `*`.
#[derive(Clone)]
pub(super) struct Import {
    pub(crate) path: Vec<String>,
    pub(crate) name: Option<String>,
}

/// A function or constant, and its number once something has named it, or an imported variant.
#[derive(Clone)]
pub(super) enum Item {
    Fn(Rc<syn::ItemFn>, Option<FnId>),
    Const(Rc<syn::ItemConst>, Option<ConstId>),
    /// Scope and name of the enum, and the number of the variant.
    Variant(usize, String, u32),
    Other(&'static str),
}

/// A type.
#[derive(Clone)]
pub(super) enum TypeItem {
    Adt(Rc<AdtItem>, Option<AdtId>),
    Alias(Rc<syn::ItemType>),
    Other(&'static str),
}

impl HirBuilder<'_> {
    /// Returns the function or closure that is being lowered.
    pub(super) fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Declares a new variable, visible from here to the end of its block.
    pub(super) fn declare(&mut self, name: String) -> Slot {
        let slot = self.fresh_slot();
        self.frame().vars.push((name, slot));
        slot
    }

    /// Declares a variable without a name.
    pub(super) fn fresh_slot(&mut self) -> Slot {
        let frame = self.frame();
        frame.slots += 1;
        frame.slots - 1
    }

    /// Runs `inner` in a new block.
    pub(super) fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.frame().vars.len();
        let result = inner(self);
        self.frame().vars.truncate(depth);
        result
    }

    /// Returns the variable with a name, captured through all closures between.
    pub(super) fn variable(&mut self, name: &str) -> Option<Var> {
        let top = self.frames.len().checked_sub(1)?;
        self.variable_in(top, name)
    }

    fn variable_in(&mut self, index: usize, name: &str) -> Option<Var> {
        let frame = &self.frames[index];
        if let Some((_, slot)) = frame.vars.iter().rev().find(|(other, _)| other == name) {
            return Some(Var::Local(*slot));
        }
        if !frame.closure {
            return None;
        }
        let outer = self.variable_in(index.checked_sub(1)?, name)?;
        let captures = &mut self.frames[index].captures;
        let known = captures.iter().position(|(_, var)| *var == outer);
        Some(Var::Captured(known.unwrap_or_else(|| {
            captures.push((name.to_owned(), outer));
            captures.len() - 1
        }) as u32))
    }

    /// Returns the scope that declares a function or constant of this name.
    pub(super) fn find_item(&self, name: &str) -> Option<usize> {
        self.find_scope(|scope| scope.values.contains_key(name))
    }

    /// Returns the scope that declares a type of this name.
    pub(super) fn find_type(&self, name: &str) -> Option<usize> {
        self.find_scope(|scope| scope.types.contains_key(name))
    }

    fn find_scope(&self, has: impl Fn(&Scope) -> bool) -> Option<usize> {
        let mut at = Some(self.scope);
        while let Some(index) = at {
            if has(&self.scopes[index]) {
                return Some(index);
            }
            at = self.scopes[index].parent;
        }
        None
    }

    /// Opens a label for a loop or block.
    pub(super) fn open_label(&mut self, label: Option<&syn::Label>, is_loop: bool) -> LabelId {
        let frame = self.frame();
        let id = frame.next_label;
        frame.next_label += 1;
        let name = label.map(|label| label.name.ident.to_string());
        frame.labels.push(Label { name, id, is_loop, used: false });
        id
    }

    /// Ends the label opened last; returns whether a `break` refers to it.
    pub(super) fn close_label(&mut self) -> bool {
        self.frame().labels.pop().is_some_and(|label| label.used)
    }

    /// Returns the loop or block that a `break` or `continue` refers to.
    pub(super) fn find_label(&mut self, name: Option<&syn::Lifetime>) -> Option<LabelId> {
        let name = name.map(|lifetime| lifetime.ident.to_string());
        let label = self.frame().labels.iter_mut().rev().find(|label| match &name {
            Some(name) => label.name.as_ref() == Some(name),
            None => label.is_loop,
        })?;
        label.used = true;
        Some(label.id)
    }
}
