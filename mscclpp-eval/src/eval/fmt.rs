//! Formats values as text, as `{}` and `{:?}` do.

use mscclpp_core::dsl::registry as dsl;

use super::value::{AdtValue, Range, Value};
use crate::hir::Fields;

/// Formats a value as `{}` does.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::TryFromIntError => "out of range integral type conversion attempted".to_owned(),
        Value::Place(place) => display(&place.get()),
        value => debug(value),
    }
}

/// Formats a value as `{:?}` does.
pub(crate) fn debug(value: &Value) -> String {
    match value {
        Value::Unit => "()".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Str(text) => format!("{text:?}"),
        Value::Ordering(order) => format!("{order:?}"),
        Value::Tuple(items) if items.len() == 1 => format!("({},)", debug(&items[0])),
        Value::Tuple(items) => format!("({})", list(items.iter())),
        Value::Adt(value) => show_adt(value),
        Value::List(items) => format!("[{}]", list(items.iter())),
        Value::Map(map) => {
            let entries: Vec<_> = map.iter().map(|(key, value)| format!("{}: {}", debug(key), debug(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Set(set) => format!("{{{}}}", list(set.iter())),
        Value::None => "None".to_owned(),
        Value::Some(value) => format!("Some({})", debug(value)),
        Value::Ok(value) => format!("Ok({})", debug(value)),
        Value::Err(value) => format!("Err({})", debug(value)),
        Value::Reverse(value) => format!("Reverse({})", debug(value)),
        Value::TryFromIntError => "TryFromIntError(())".to_owned(),
        Value::Range(range) => show_range(range),
        Value::Place(place) => debug(&place.get()),
        Value::Handle(handle) => show_handle(handle),
        Value::Iter(_) => "an iterator".to_owned(),
        Value::Entry(_) => "an entry".to_owned(),
        Value::Closure(_) | Value::Function(_) | Value::PathFn(..) | Value::Constructor(..) => "a function".to_owned(),
        Value::Cell(cell) => cell.try_borrow().map_or_else(|_| "a variable".to_owned(), |value| debug(&value)),
        Value::Program => "the program".to_owned(),
    }
}

fn list<'a>(items: impl Iterator<Item = &'a Value>) -> String {
    items.map(debug).collect::<Vec<_>>().join(", ")
}

/// Formats a struct or variant as a derived `Debug` does.
fn show_adt(value: &AdtValue) -> String {
    let name = &value.shape.name;
    match &value.shape.fields {
        Fields::Unit => name.to_string(),
        Fields::Tuple(0) => name.to_string(),
        Fields::Tuple(_) => format!("{name}({})", list(value.fields.iter())),
        Fields::Named(names) if names.is_empty() => name.to_string(),
        Fields::Named(names) => {
            let fields = names.iter().zip(&value.fields).map(|(name, value)| format!("{name}: {}", debug(value)));
            format!("{name} {{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn show_range(range: &Range) -> String {
    let bound = |bound: Option<i128>| bound.map_or_else(String::new, |bound| bound.to_string());
    let dots = if range.inclusive { "..=" } else { ".." };
    format!("{}{dots}{}", bound(range.start), bound(range.end))
}

fn show_handle(handle: &dsl::Value) -> String {
    match handle {
        dsl::Value::Rank(rank) => format!("Rank({rank})"),
        dsl::Value::BufferKind(kind) => format!("{kind:?}"),
        dsl::Value::BlockSync(sync) => format!("{sync:?}"),
        dsl::Value::ReduceOp(op) => format!("{op:?}"),
        dsl::Value::Chunk(chunk) => {
            format!("{} chunks {}..{} of rank {}", chunk.buffer, chunk.index, chunk.index + chunk.size, chunk.rank)
        }
        other => other.kind_name().to_owned(),
    }
}
