//! Diagnostics as JSON.

use mscclpp_core::diag::{Diagnostic, Site};
use serde_json::{Value, json};

/// Converts all of them, in order.
pub(crate) fn values<'a>(list: impl IntoIterator<Item = &'a Diagnostic>) -> Value {
    list.into_iter().map(value).collect()
}

/// Converts one diagnostic: code, slug, message, rule, place, the other places, help.
fn value(diagnostic: &Diagnostic) -> Value {
    let entry = diagnostic.code.entry();
    let also: Vec<_> =
        diagnostic.notes.iter().map(|(what, site)| json!({ "what": what, "place": place(site) })).collect();
    json!({
        "code": entry.number,
        "slug": entry.slug,
        "message": diagnostic.message,
        "rule": entry.rule,
        "place": place(&diagnostic.site),
        "also": also,
        "help": diagnostic.help,
    })
}

/// Converts a place: `null`, `{"path": …}` into a plan, or `{"file": …, "line": …, "column": …, "variables": {…}}`.
fn place(site: &Site) -> Value {
    match site {
        Site::None => Value::Null,
        Site::Path(path) => json!({ "path": path }),
        Site::Source(place) => {
            // Values beyond 64 bits are written as text: JSON readers round them.
            let number = |n: i128| i64::try_from(n).map_or_else(|_| json!(n.to_string()), |n| json!(n));
            let variables: serde_json::Map<_, _> =
                place.variables.iter().map(|(name, value)| (name.to_string(), number(*value))).collect();
            json!({
                "file": place.file.as_ref(),
                "line": place.line,
                "column": place.column,
                "variables": variables,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mscclpp_core::diag::Code;
    use mscclpp_core::origin::SourceLocation;

    use super::*;

    #[test]
    fn json_has_every_part() {
        let mut place = SourceLocation { file: Arc::from("ring.rs"), line: 3, column: 5, ..Default::default() };
        place.variables.push((Arc::from("i"), 2));
        place.variables.push((Arc::from("huge"), i128::MAX));
        let finding = Diagnostic::new(Code::ChunkOutOfRange, Site::Source(place), "chunk 4 of 4")
            .note("the buffer", Site::Path("gpus[0]".into()))
            .help("use chunk 3");
        assert_eq!(
            values([&finding]),
            json!([{
                "code": "M0004",
                "slug": "chunk-out-of-range",
                "message": "chunk 4 of 4",
                "rule": "a chunk range lies within its buffer",
                "place": {
                    "file": "ring.rs", "line": 3, "column": 5,
                    "variables": { "i": 2, "huge": "170141183460469231731687303715884105727" },
                },
                "also": [{ "what": "the buffer", "place": { "path": "gpus[0]" } }],
                "help": "use chunk 3",
            }])
        );
    }
}
