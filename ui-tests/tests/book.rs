//! The book in `docs/`: every page is in its table of contents, links between pages resolve, and examples are compiled.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages of the book, relative to `docs/`.
fn pages() -> BTreeSet<PathBuf> {
    fn collect(folder: &Path, docs: &Path, pages: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of docs") {
            let path = entry.expect("an entry of docs").path();
            if path.is_dir() {
                collect(&path, docs, pages);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.insert(path.strip_prefix(docs).expect("below docs").to_owned());
            }
        }
    }
    let docs = root().join("docs");
    let mut pages = BTreeSet::new();
    collect(&docs, &docs, &mut pages);
    pages.remove(Path::new("SUMMARY.md"));
    pages
}

/// The lines of a page outside of fenced code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((number + 1, line))
    })
}

/// The destinations of the links in a line; code spans have none.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    text.split("](").skip(1).filter_map(|rest| Some(rest.split(')').next()?.to_owned())).collect()
}

/// The anchors of a page: headings, as GitHub and mdBook name them, and explicit ones.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        for id in line.split("<a id=\"").skip(1) {
            anchors.extend(id.split('"').next().map(str::to_owned));
        }
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    anchors
}

/// A path without `.` and `..`; `None` if it leaves the root.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => normal.push(part),
            Component::ParentDir => normal.pop().then_some(())?,
            _ => {}
        }
    }
    Some(normal)
}

/// What is wrong with the links of a file, which is relative to `base`. All must stay below `base`.
fn broken_links(base: &Path, file: &Path) -> Vec<String> {
    let text = read(&base.join(file));
    let mut broken = Vec::new();
    for (number, line) in prose(&text) {
        for link in links(line) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').map_or((&*link, None), |(path, anchor)| (path, Some(anchor)));
            let folder = file.parent().unwrap_or(Path::new(""));
            let target = if path.is_empty() { Some(file.to_owned()) } else { normalize(&folder.join(path)) };
            let at = format!("{}:{number}: `{link}`", file.display());
            match target.map(|target| base.join(target)).filter(|target| target.exists()) {
                None => broken.push(format!("{at} leads nowhere below {}", base.display())),
                Some(target) => {
                    if let Some(anchor) = anchor
                        && !anchors(&read(&target)).contains(anchor)
                    {
                        broken.push(format!("{at} names no heading"));
                    }
                }
            }
        }
    }
    broken
}

#[test]
fn summary_lists_every_page_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed: Vec<PathBuf> = prose(&summary)
        .filter_map(|(_, line)| Some(PathBuf::from(line.rsplit_once("](")?.1.strip_suffix(')')?)))
        .collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), once.len(), "a page is listed twice");
    assert_eq!(once, pages());
}

#[test]
fn links_of_pages_resolve_within_the_book() {
    let docs = root().join("docs");
    let broken: Vec<String> = pages().iter().flat_map(|page| broken_links(&docs, page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn links_of_top_level_files_resolve() {
    let files = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"];
    let broken: Vec<String> = files.iter().flat_map(|file| broken_links(&root(), Path::new(file))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn chapters_with_rust_are_compiled_as_doctests() {
    let facade = read(&root().join("mscclpp/src/lib.rs"));
    for page in pages() {
        let name = page.display().to_string();
        if name.starts_with("learn/") && read(&root().join("docs").join(&page)).contains("```rust") {
            assert!(facade.contains(&format!("docs/{name}\"")), "`mod pages` of mscclpp/src/lib.rs leaves out {name}");
        }
    }
}
