//! `mscclpp explain`: explains a diagnostic.

use std::process::ExitCode;

use mscclpp_core::diag::{Code, Entry};
use serde_json::{Value, json};

use crate::args::ExplainArgs;
use crate::error::{Error, Result, similar};
use crate::exit;
use crate::output::{print, print_json};

/// Explains one code, lists all of them by area, or prints what `#[collective]` evaluates.
///
/// # Errors
/// [`Error::UnknownCode`] with the codes similar to the requested one; failures of standard output.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    match (&args.code, args.json) {
        _ if args.subset => print(mscclpp_eval::subset_page())?,
        (None, false) => print(list())?,
        (None, true) => print_json(&Value::from_iter(Code::all().map(|(_, entry)| value(entry))))?,
        (Some(name), as_json) => {
            let entry = find(name)?.entry();
            if as_json { print_json(&value(entry))? } else { print(text(entry))? }
        }
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Finds the code of a number or slug, also in the form of messages (`[M0004 chunk-out-of-range]`) and without the
/// zeros (`m4`).
fn find(name: &str) -> Result<Code> {
    let words = || name.split(|c: char| c.is_whitespace() || "[],".contains(c)).filter(|word| !word.is_empty());
    words().find_map(|word| Code::find(&word.to_ascii_lowercase()).or_else(|| short(word))).ok_or_else(|| {
        let known = Code::all().flat_map(|(_, entry)| [entry.number, entry.slug]);
        Error::UnknownCode { code: name.to_owned(), suggestions: similar(name, known) }
    })
}

/// Parses `m4` and `4` as `M0004`.
fn short(word: &str) -> Option<Code> {
    let number: u32 = word.trim_start_matches(['m', 'M']).parse().ok()?;
    Code::find(&format!("M{number:04}"))
}

fn value(entry: &Entry) -> Value {
    json!({
        "code": entry.number,
        "slug": entry.slug,
        "rule": entry.rule,
        "explanation": entry.explanation,
    })
}

fn text(entry: &Entry) -> String {
    format!(
        "{} {}\n\nRule: {}.\n\n{}\n",
        entry.number,
        entry.slug,
        entry.rule,
        wrapped(entry.explanation, 100).trim_end()
    )
}

fn list() -> String {
    let mut text = String::new();
    for (area, entries) in Code::areas() {
        if entries.is_empty() {
            continue;
        }
        text += &format!("{area}\n");
        for (_, entry) in entries {
            text += &format!("  {}  {:<28}  {}\n", entry.number, entry.slug, entry.rule);
        }
        text.push('\n');
    }
    text += "`mscclpp explain CODE` explains a diagnostic, with a wrong program and its fix.\n";
    text
}

/// Wraps long lines at blanks. Code is unchanged: indented lines, and fenced blocks, which are indented instead.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let mut column = 0;
        if fenced {
            out += if line.is_empty() { "" } else { "    " };
            out += line;
        } else if line.starts_with(' ') {
            out += line;
        } else {
            for word in line.split(' ') {
                let length = word.chars().count();
                if column > 0 {
                    let breaks = column + 1 + length > width;
                    out.push(if breaks { '\n' } else { ' ' });
                    column = if breaks { 0 } else { column + 1 };
                }
                out += word;
                column += length;
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_every_spelling() {
        for (code, entry) in Code::all() {
            let bracketed = format!("[{} {}]", entry.number, entry.slug);
            for spelling in [entry.number, &entry.number.to_lowercase(), entry.slug, &bracketed] {
                assert_eq!(find(spelling).unwrap(), code, "{spelling}");
            }
        }
        assert_eq!(find("m4").unwrap().entry().number, "M0004");
    }

    #[test]
    fn unknown_code_suggests_similar_ones() {
        match find("chunk-out-of-rang") {
            Err(Error::UnknownCode { suggestions, .. }) => assert_eq!(suggestions[0], "chunk-out-of-range"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(find(""), Err(Error::UnknownCode { .. })));
        assert!(matches!(find("m99999999999"), Err(Error::UnknownCode { .. })));
    }

    #[test]
    fn long_lines_break_and_code_does_not() {
        assert_eq!(wrapped("aa bb cc\n    dd ee ff gg hh\n", 6), "aa bb\ncc\n    dd ee ff gg hh\n");
        assert_eq!(wrapped("aa bb cc\n```\ndd ee ff\n```", 6), "aa bb\ncc\n    dd ee ff\n");
    }
}
