//! Retired words appear in no message, comment, identifier or page of the documentation.
//!
//! `ui-tests/retired-words.txt` lists them with their replacements. A word matches whole words, in any case; in an identifier, the
//! words are the parts between underscores and capital letters.

use std::fs;
use std::path::{Path, PathBuf};

/// Pages, and folders of pages.
const PAGES: &[&str] = &["docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Folders of sources. Tests are skipped: their words are not shown, and they quote outside input.
const SOURCES: &[&str] = &[
    "mscclpp/src",
    "mscclpp-algorithms/src",
    "mscclpp-base/src",
    "mscclpp-bootstrap/src",
    "mscclpp-check/src",
    "mscclpp-cli/src",
    "mscclpp-communicator/src",
    "mscclpp-core/src",
    "mscclpp-eval/src",
    "mscclpp-exec/src",
    "mscclpp-fuzz/src",
    "mscclpp-macros/src",
    "mscclpp-plan/src",
    "mscclpp-predict/src",
    "mscclpp-trace/src",
    "mscclpp-select/src",
    "mscclpp-transport/src",
    "mscclpp-cuda/src",
    "mscclpp-validate/src",
    "kernels/src",
    "images/src",
];

/// A retired word or phrase, and what to write instead.
struct Retired {
    words: Vec<String>,
    replacement: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Comment,
    Identifier,
}

/// A part of a source: its kind, its first line, its text.
type Part = (Kind, usize, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn retired() -> Vec<Retired> {
    let text = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("retired-words.txt"));
    let entries = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (words, replacement) = line.split_once(" = ").unwrap_or_else(|| panic!("no replacement: {line}"));
        Retired { words: words_of(words).map(|(_, word)| word).collect(), replacement: replacement.to_owned() }
    };
    entries.map(entry).collect()
}

/// The words of a text in lower case, each with the number of line breaks before it.
fn words_of(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut breaks = 0;
    let words = text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter_map(move |piece| {
        let word = piece.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let line = breaks;
        breaks += piece.matches('\n').count();
        (!word.is_empty()).then_some((line, word))
    })
}

/// Files below a path with an extension, in order.
fn files(path: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.extend(path.extension().is_some_and(|end| end == extension).then(|| path.to_owned()));
        return;
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    entries.iter().for_each(|entry| files(entry, extension, found));
}

/// Whether a file has nothing but tests.
fn is_test(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tests.rs" || name == "testing.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
}

/// The string literals, comments and identifiers of a source, up to its inline test module.
fn parts(source: &str) -> Vec<Part> {
    let source = source.find("#[cfg(test)]\nmod tests {").map_or(source, |tests| &source[..tests]);
    let (mut found, mut rest, mut line) = (Vec::new(), source, 1);
    while let Some(first) = rest.chars().next() {
        let (kind, len) = token(rest, first);
        let (text, after) = rest.split_at(len);
        found.extend(kind.map(|kind| (kind, line, text.to_owned())));
        line += text.matches('\n').count();
        rest = after;
    }
    found
}

/// The kind and length of the token that starts a text.
fn token(text: &str, first: char) -> (Option<Kind>, usize) {
    let until = |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        return (Some(Kind::Comment), text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Some(Kind::Comment), until("*/", 2));
    }
    let prefix = text.len() - text.trim_start_matches(['b', 'c']).len();
    let raw = text[prefix.min(1)..].strip_prefix('r').map(|after| after.len() - after.trim_start_matches('#').len());
    if let Some(hashes) = raw.filter(|hashes| text[prefix.min(1) + 1 + hashes..].starts_with('"')) {
        let start = prefix.min(1) + 1 + hashes + 1;
        return (Some(Kind::Text), until(&format!("\"{}", "#".repeat(hashes)), start));
    }
    match first {
        '"' => {
            let mut escaped = false;
            let end = text[1..].find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            (Some(Kind::Text), end.map_or(text.len(), |end| end + 2))
        }
        // A character; a lifetime is its quote and an identifier.
        '\'' if text.starts_with("'\\") => (None, until("'", 3)),
        '\'' => {
            let mut chars = text[1..].char_indices();
            let closed = chars.next().and_then(|_| chars.next()).filter(|(_, c)| *c == '\'');
            (None, closed.map_or(1, |(at, _)| at + 2))
        }
        c if c.is_alphabetic() || c == '_' => {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
            (Some(Kind::Identifier), end)
        }
        c => (None, c.len_utf8()),
    }
}

/// The text with its words separated by spaces. Escapes and placeholders of strings count as spaces, and identifiers are split.
fn separated(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Text => {
            let text = text.replace("\\n", "  ").replace("\\\"", "  ");
            let mut is_placeholder = false;
            let blank = |c: char| {
                is_placeholder = c == '{' || is_placeholder && c != '}';
                if is_placeholder && c != '\n' { ' ' } else { c }
            };
            text.chars().map(blank).collect()
        }
        Kind::Comment => text.to_owned(),
        Kind::Identifier => {
            let mut words = String::new();
            for c in text.chars() {
                if c.is_uppercase() {
                    words.push(' ');
                }
                words.push(if c == '_' { ' ' } else { c });
            }
            words
        }
    }
}

/// The retired words of a text as `line: words, write replacement`.
fn complaints(retired: &[Retired], first_line: usize, text: &str) -> Vec<String> {
    let words: Vec<_> = words_of(text).collect();
    let mut found = Vec::new();
    for (start, (breaks, first)) in words.iter().enumerate() {
        for Retired { words: wanted, replacement } in retired.iter().filter(|entry| entry.words[0] == *first) {
            let rest = words[start..].iter().map(|(_, word)| word).take(wanted.len());
            if rest.eq(wanted) {
                found.push(format!("{}: `{}`: write {replacement}", first_line + breaks, wanted.join(" ")));
            }
        }
    }
    found
}

fn in_source(retired: &[Retired], source: &str) -> Vec<String> {
    let parts = parts(source).into_iter();
    parts.flat_map(|(kind, line, text)| complaints(retired, line, &separated(kind, &text))).collect()
}

#[test]
fn retired_words_are_not_used() {
    let (root, retired) = (root(), retired());
    let mut sources = Vec::new();
    SOURCES.iter().for_each(|folder| files(&root.join(folder), "rs", &mut sources));
    let mut pages = Vec::new();
    PAGES.iter().for_each(|page| files(&root.join(page), "md", &mut pages));
    assert!(sources.len() > 500 && pages.len() >= 3, "{} sources, {} pages", sources.len(), pages.len());
    let mut found = Vec::new();
    let mut add = |path: &Path, complaints: Vec<String>| {
        let path = path.strip_prefix(&root).unwrap_or(path);
        found.extend(complaints.into_iter().map(|complaint| format!("{}:{complaint}", path.display())));
    };
    for path in sources.iter().filter(|path| !is_test(path)) {
        add(path, in_source(&retired, &read(path)));
    }
    for path in &pages {
        add(path, complaints(&retired, 1, &read(path)));
    }
    assert!(found.is_empty(), "{} retired words:\n{}", found.len(), found.join("\n"));
}

#[test]
fn retired_words_are_found_in_strings_comments_and_identifiers() {
    let retired = [Retired { words: vec!["for".into(), "ever".into()], replacement: "forever".into() }];
    let source = "let a = 'x'; // for ever\nlet b = \"waits for \\\n   ever\";\nfn for_ever<'a>() { r#\"for\never\"# }";
    let lines: Vec<_> = in_source(&retired, source).iter().map(|found| found[..1].to_owned()).collect();
    assert_eq!(lines, ["1", "2", "4", "4"]);
    assert!(complaints(&retired, 1, "therefore everything, forever").is_empty());
    let kinds: Vec<_> =
        parts(source).into_iter().filter(|(_, _, text)| text.contains("for")).map(|part| part.0).collect();
    assert_eq!(kinds, [Kind::Comment, Kind::Text, Kind::Identifier, Kind::Text]);
    assert_eq!(complaints(&retired, 7, &separated(Kind::Identifier, "ForEver")).len(), 1);
}
