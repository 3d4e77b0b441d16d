//! The top-level modules of each crate import each other without cycles.
//!
//! Paths that begin with `crate` or `super` count, in `use` items, in code and in arguments of macros; tests do not. A name that the
//! root of the crate imports from a module stands for that module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, UseTree};

/// Imports without which there are no cycles: the folder of the crate, the importing module, the imported ones, why.
const KNOWN: &[(&str, &str, &[&str], &str)] =
    &[("mscclpp-eval", "lang", &["eval"], "a line has the signature of a function and the code that evaluates it")];

/// Modules by the modules that they import.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The imports of one file, or of a module inside of one.
struct Imports {
    /// The path of the module, without `crate`.
    module: Vec<String>,
    /// Paths below the root of the crate, of one segment or more.
    found: Vec<Vec<String>>,
    /// Modules in other files: their names, and `path` where the attribute says so.
    files: Vec<(Vec<String>, Option<String>)>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test"),
        syn::Meta::NameValue(_) => false,
    })
}

impl Imports {
    fn of(source: &File, module: Vec<String>) -> Self {
        let mut imports = Self { module, found: Vec::new(), files: Vec::new() };
        imports.visit_file(source);
        imports
    }

    /// Records a path if it begins at the root, or above this module.
    fn record(&mut self, path: &[String]) {
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        let base = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super") if supers <= self.module.len() => self.module[..self.module.len() - supers].to_vec(),
            _ => return,
        };
        self.found.push(base.into_iter().chain(path[supers.max(1)..].iter().cloned()).collect());
    }

    fn record_use(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.record_use(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.record_use(prefix, tree)),
            UseTree::Name(name) => self.record(&[&prefix[..], &[name.ident.to_string()]].concat()),
            UseTree::Rename(rename) => self.record(&[&prefix[..], &[rename.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.record(prefix),
        }
    }

    /// Records the paths among tokens that were not parsed.
    fn record_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut is_continued = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if !is_continued {
                        self.record(&path);
                        path.clear();
                    }
                    path.push(ident.to_string());
                    is_continued = false;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => is_continued = true,
                other => {
                    self.record(&path);
                    path.clear();
                    is_continued = false;
                    if let TokenTree::Group(group) = other {
                        self.record_tokens(group.stream());
                    }
                }
            }
        }
        self.record(&path);
    }
}

impl<'a> Visit<'a> for Imports {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        self.module.push(item.ident.to_string());
        if item.content.is_none() {
            let path = item.attrs.iter().find(|attribute| attribute.path().is_ident("path"));
            let path = path.and_then(|attribute| match &attribute.meta.require_name_value().ok()?.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
                _ => None,
            });
            self.files.push((self.module.clone(), path));
        }
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.record_use(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.record(&segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.record_tokens(call.tokens.clone());
    }
}

fn parse(path: &Path) -> File {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names that the root of a crate imports from its modules, each with its module.
fn root_names(root: &File) -> BTreeMap<String, String> {
    fn collect(module: Option<&str>, tree: &UseTree, names: &mut BTreeMap<String, String>) {
        let mut insert = |name: String| _ = module.map(|module| names.insert(name, module.to_owned()));
        match tree {
            UseTree::Path(path) if module.is_none() && path.ident == "self" => collect(None, &path.tree, names),
            UseTree::Path(path) => collect(Some(module.unwrap_or(&path.ident.to_string())), &path.tree, names),
            UseTree::Group(group) => group.items.iter().for_each(|tree| collect(module, tree, names)),
            UseTree::Name(name) => insert(name.ident.to_string()),
            UseTree::Rename(rename) => insert(rename.rename.to_string()),
            UseTree::Glob(_) => {}
        }
    }
    let mut names = BTreeMap::new();
    for item in &root.items {
        if let Item::Use(item) = item {
            collect(None, &item.tree, &mut names);
        }
    }
    names
}

/// Returns which top-level modules import which, and one place for each import.
fn graph(source: &Path) -> (Graph, BTreeMap<(String, String), PathBuf>) {
    let root_path =
        [source.join("lib.rs"), source.join("main.rs")].into_iter().find(|path| path.exists()).expect("a root");
    let root = parse(&root_path);
    let names = root_names(&root);
    let mut graph = Graph::new();
    let mut places = BTreeMap::new();
    let mut files = vec![(root_path, root, Vec::new())];
    while let Some((path, file, module)) = files.pop() {
        let imports = Imports::of(&file, module.clone());
        // Modules lie beside `mod.rs` and the root, else in a folder of the file's name.
        let is_folder = ["mod", "lib", "main"].iter().any(|stem| path.file_stem().is_some_and(|found| found == *stem));
        let folder = if is_folder { path.parent().expect("a folder").to_owned() } else { path.with_extension("") };
        for (child, given) in imports.files {
            let below: PathBuf = child[module.len()..].iter().collect();
            let candidates = match given {
                Some(given) => vec![path.parent().expect("a folder").join(given)],
                None => vec![folder.join(&below).with_extension("rs"), folder.join(&below).join("mod.rs")],
            };
            let found = candidates.into_iter().find(|path| path.exists());
            let found = found.unwrap_or_else(|| panic!("{}: no file of module {child:?}", path.display()));
            let parsed = parse(&found);
            files.push((found, parsed, child));
        }
        let Some(importer) = module.first() else { continue };
        let modules = graph.entry(importer.clone()).or_default();
        for import in imports.found.iter().filter_map(|path| path.first()) {
            let import = names.get(import).unwrap_or(import);
            if import != importer {
                modules.insert(import.clone());
                places.entry((importer.clone(), import.clone())).or_insert_with(|| path.clone());
            }
        }
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    graph.values_mut().for_each(|imports| imports.retain(|import| modules.contains(import)));
    (graph, places)
}

/// Returns modules of which each imports the next, and the last the first.
fn find_cycle(graph: &Graph) -> Option<Vec<String>> {
    let mut left = graph.clone();
    // Modules that import none of those that are left are in no cycle.
    while let Some(module) = left.iter().find(|(_, imports)| imports.is_empty()).map(|(module, _)| module.clone()) {
        left.remove(&module);
        left.values_mut().for_each(|imports| _ = imports.remove(&module));
    }
    let mut path = vec![left.keys().next()?.clone()];
    loop {
        let next = left[path.last()?].first()?.clone();
        if let Some(start) = path.iter().position(|module| *module == next) {
            return Some(path.split_off(start));
        }
        path.push(next);
    }
}

#[test]
fn top_level_modules_import_each_other_without_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut report = String::new();
    for entry in fs::read_dir(&root).expect("the workspace") {
        let folder = entry.expect("an entry").path();
        let source = folder.join("src");
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        if !folder.join("Cargo.toml").exists() || !source.exists() {
            continue;
        }
        let (mut graph, places) = graph(&source);
        let known: Vec<(&str, &str)> = KNOWN
            .iter()
            .filter(|(of, ..)| *of == name)
            .flat_map(|(_, from, to, _)| to.iter().map(|to| (*from, *to)))
            .collect();
        for (from, to) in &known {
            if !graph.get_mut(*from).is_some_and(|imports| imports.remove(*to)) {
                report += &format!("{name}: {from} imports {to} no more; remove the line\n");
            }
        }
        while let Some(cycle) = find_cycle(&graph) {
            report += &format!("{name}: a cycle\n");
            for (from, to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                let path = &places[&(from.clone(), to.clone())];
                report += &format!("    {from} imports {to}: {}\n", path.strip_prefix(&root).unwrap_or(path).display());
            }
            // To find the next one.
            graph.values_mut().for_each(|imports| _ = imports.remove(&cycle[0]));
        }
        for (from, to) in known {
            // A listed import is in a cycle: without it there is a path back.
            graph.get_mut(from).map(|imports| imports.insert(to.to_owned()));
            if report.is_empty() && find_cycle(&graph).is_none() {
                report += &format!("{name}: that {from} imports {to} makes no cycle; remove the line\n");
            }
            graph.get_mut(from).map(|imports| imports.remove(to));
        }
    }
    assert!(report.is_empty(), "\n{report}");
}
