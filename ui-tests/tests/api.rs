//! The public items of the facade are those of `docs/api.txt`, so that a change of the interface is seen in review.
//!
//! `scripts/api.sh` lets rustdoc describe the crates and runs this test; `MSCCLPP_BLESS=1 scripts/api.sh` rewrites the page. All other
//! crates are parts of the implementation: what `mscclpp` re-exports of them is listed, at its path there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// The crate whose items are listed.
const INTERFACE: &str = "mscclpp";

/// Crates that it re-exports items of.
const PARTS: [&str; 13] = [
    "mscclpp_plan",
    "mscclpp_check",
    "mscclpp_core",
    "mscclpp_macros",
    "mscclpp_algorithms",
    "mscclpp_bootstrap",
    "mscclpp_base",
    "mscclpp_transport",
    "mscclpp_cuda",
    "mscclpp_exec",
    "mscclpp_select",
    "mscclpp_communicator",
    "mscclpp_kernels",
];

/// What rustdoc says of a crate.
struct Docs {
    index: BTreeMap<String, Value>,
    root: Value,
}

/// What rustdoc says of all crates.
struct Crates(BTreeMap<String, Docs>);

/// The items that were found, and where each was found first.
#[derive(Default)]
struct Page {
    lines: BTreeSet<String>,
    first: BTreeMap<(String, String), String>,
}

impl Crates {
    fn load(folder: &Path) -> Self {
        let load = |name: &str| (name.to_owned(), Docs::load(&folder.join(format!("{name}.json"))));
        Self(PARTS.into_iter().chain([INTERFACE]).map(load).collect())
    }

    /// Returns the crate that defines what a path names, and its id there; none if the path names a crate.
    fn resolve(&self, path: &str) -> Option<(&str, &Value)> {
        let (name, rest) = path.split_once("::")?;
        let (name, docs) = self.0.get_key_value(name)?;
        let mut at = &docs.root;
        let mut segments = rest.split("::");
        while let Some(segment) = segments.next() {
            let (.., module) = docs.get(at)?;
            // What a module re-exports as a whole comes after what it names.
            let mut globs = Vec::new();
            let mut named = None;
            for child in list(&module["items"]) {
                match docs.get(child) {
                    Some((_, "use", inner)) if inner["is_glob"] == true => globs.push(inner),
                    Some((_, "use", inner)) if inner["name"] == segment => named = Some((&inner["id"], Some(inner))),
                    Some((name, kind, _)) if kind != "use" && name == segment => named = Some((child, None)),
                    _ => continue,
                }
            }
            let after: Vec<_> = segments.clone().collect();
            let follow = |source: &Value, own: Option<&str>| {
                let source = source["source"].as_str()?;
                let path =
                    own.into_iter().chain(after.iter().copied()).fold(source.to_owned(), |path, one| path + "::" + one);
                self.resolve(&path)
            };
            match named {
                Some((id, _)) if docs.get(id).is_some() => at = id,
                Some((_, Some(source))) => return follow(source, None),
                _ => return globs.into_iter().find_map(|glob| follow(glob, Some(segment))),
            }
        }
        Some((name, at))
    }

    /// Adds the items of a module of the interface.
    fn module(&self, id: &Value, path: &str, page: &mut Page) {
        let docs = &self.0[INTERFACE];
        let Some((.., inner)) = docs.get(id) else { return };
        // What is here before what is in its modules: an item is listed at its shortest path.
        let is_module = |child: &Value| matches!(docs.get(child), Some((_, "module", _)));
        let (modules, items): (Vec<_>, Vec<_>) = list(&inner["items"]).partition(|child| is_module(child));
        for child in items {
            match docs.get(child) {
                Some((_, "use", inner)) => {
                    let (source, name) = (inner["source"].as_str().unwrap_or_default(), &inner["name"]);
                    let path = format!("{path}::{}", name.as_str().unwrap_or_default());
                    match self.resolve(source) {
                        Some((name, id)) => self.item(name, id, &path, page),
                        None if docs.get(&inner["id"]).is_some() => self.item(INTERFACE, &inner["id"], &path, page),
                        None => _ = page.lines.insert(format!("use {path} = {source}")),
                    }
                }
                Some((name, ..)) => self.item(INTERFACE, child, &format!("{path}::{name}"), page),
                None => {}
            }
        }
        for child in modules {
            let name = docs.get(child).map(|(name, ..)| name).unwrap_or_default();
            self.module(child, &format!("{path}::{name}"), page);
        }
    }

    fn item(&self, name: &str, id: &Value, path: &str, page: &mut Page) {
        let key = (name.to_owned(), id.to_string());
        match page.first.get(&key) {
            Some(first) => _ = page.lines.insert(format!("use {path} = {first}")),
            None => {
                page.first.insert(key, path.to_owned());
                self.0[name].item(id, path, &mut page.lines);
            }
        }
    }
}

impl Docs {
    fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut docs: Value = serde_json::from_str(&text).expect("JSON of rustdoc");
        let Value::Object(index) = docs["index"].take() else { panic!("no index in {}", path.display()) };
        Self { index: index.into_iter().collect(), root: docs["root"].take() }
    }

    fn get(&self, id: &Value) -> Option<(&str, &str, &Value)> {
        let item = self.index.get(&id.to_string())?;
        let (kind, inner) = item["inner"].as_object()?.iter().next()?;
        Some((item["name"].as_str().unwrap_or_default(), kind, inner))
    }

    fn children<'a>(&'a self, list: &'a Value) -> impl Iterator<Item = &'a Value> {
        list.as_array().into_iter().flatten()
    }

    /// Adds an item with its fields, variants and methods.
    fn item(&self, id: &Value, path: &str, out: &mut BTreeSet<String>) {
        let Some((_, kind, inner)) = self.get(id) else { return };
        if self.index[&id.to_string()]["attrs"].to_string().contains("hidden") {
            return;
        }
        match kind {
            "function" => _ = out.insert(format!("fn {path}{}", signature(inner))),
            "constant" => _ = out.insert(format!("const {path}: {}", ty(&inner["type"]))),
            "static" => _ = out.insert(format!("static {path}: {}", ty(&inner["type"]))),
            "type_alias" => _ = out.insert(format!("type {path} = {}", ty(&inner["type"]))),
            "macro" | "proc_macro" => _ = out.insert(format!("macro {path}")),
            "struct" | "enum" | "union" | "trait" => {
                let traits = if kind == "trait" { String::new() } else { self.traits(inner) };
                let exhaustive = if self.index[&id.to_string()]["attrs"].to_string().contains("non_exhaustive") {
                    " (non-exhaustive)"
                } else {
                    ""
                };
                out.insert(format!("{kind} {path}{exhaustive}{traits}"));
                for field in self.children(&inner["kind"]["plain"]["fields"]) {
                    if let Some((name, _, inner)) = self.get(field) {
                        out.insert(format!("field {path}.{name}: {}", ty(inner)));
                    }
                }
                for variant in self.children(&inner["variants"]) {
                    if let Some((name, _, inner)) = self.get(variant) {
                        out.insert(format!("variant {path}::{name}{}", self.fields(&inner["kind"])));
                    }
                }
                self.methods(&inner["items"], path, out);
                for block in self.children(&inner["impls"]) {
                    if let Some((_, _, block)) = self.get(block)
                        && block["trait"].is_null()
                    {
                        self.methods(&block["items"], path, out);
                    }
                }
            }
            _ => {}
        }
    }

    fn methods(&self, items: &Value, path: &str, out: &mut BTreeSet<String>) {
        for item in self.children(items) {
            match self.get(item) {
                Some((name, "function", inner)) => _ = out.insert(format!("fn {path}::{name}{}", signature(inner))),
                Some((name, "assoc_const", inner)) => {
                    _ = out.insert(format!("const {path}::{name}: {}", ty(&inner["type"])));
                }
                Some((name, "assoc_type", _)) => _ = out.insert(format!("type {path}::{name}")),
                _ => {}
            }
        }
    }

    fn fields(&self, kind: &Value) -> String {
        let named = self.children(&kind["struct"]["fields"]).filter_map(|id| self.get(id));
        let named: Vec<_> = named.map(|(name, _, inner)| format!("{name}: {}", ty(inner))).collect();
        let tuple = self.children(&kind["tuple"]).filter_map(|id| self.get(id));
        let tuple: Vec<_> = tuple.map(|(_, _, inner)| ty(inner)).collect();
        match (named.is_empty(), tuple.is_empty()) {
            (false, _) => format!(" {{ {} }}", named.join(", ")),
            (_, false) => format!("({})", tuple.join(", ")),
            _ => String::new(),
        }
    }

    /// Traits that a type implements itself, and whether it can be sent and shared.
    fn traits(&self, inner: &Value) -> String {
        let mut names = BTreeSet::new();
        for id in self.children(&inner["impls"]) {
            let Some((_, _, block)) = self.get(id) else { continue };
            let Some(name) = block["trait"]["path"].as_str() else { continue };
            let name = name.rsplit("::").next().unwrap_or(name);
            let automatic = block["is_synthetic"] == true;
            let told = !automatic || ["Send", "Sync"].contains(&name);
            if block["blanket_impl"].is_null() && told && !name.starts_with("Structural") {
                let sign = if block["is_negative"] == true { "!" } else { "" };
                names.insert(format!("{sign}{name}{}", generic_arguments(&block["trait"]["args"])));
            }
        }
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() { String::new() } else { format!(": {}", names.join(" + ")) }
    }
}

/// Parameters and result of a function.
fn signature(function: &Value) -> String {
    let mut text = String::new();
    let generics: Vec<_> = list(&function["generics"]["params"])
        .filter(|one| one["kind"]["lifetime"].is_null() && one["kind"]["type"]["is_synthetic"] != true)
        .map(|one| {
            let bounds = bounds(&one["kind"]["type"]["bounds"]);
            let name = one["name"].as_str().unwrap_or_default();
            if bounds.is_empty() { name.to_owned() } else { format!("{name}: {bounds}") }
        })
        .collect();
    if !generics.is_empty() {
        _ = write!(text, "<{}>", generics.join(", "));
    }
    let inputs: Vec<_> = list(&function["sig"]["inputs"])
        .map(|input| match (input[0].as_str().unwrap_or_default(), ty(&input[1])) {
            ("self", ty) => ty.replace("Self", "self"),
            (name, ty) => format!("{name}: {ty}"),
        })
        .collect();
    _ = write!(text, "({})", inputs.join(", "));
    if !function["sig"]["output"].is_null() {
        _ = write!(text, " -> {}", ty(&function["sig"]["output"]));
    }
    text
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn bounds(value: &Value) -> String {
    let names = list(value).filter_map(|bound| {
        let bound = &bound["trait_bound"];
        let name = bound["trait"]["path"].as_str()?;
        let question = if bound["modifier"] == "maybe" { "?" } else { "" };
        Some(format!("{question}{}{}", last(name), generic_arguments(&bound["trait"]["args"])))
    });
    names.collect::<Vec<_>>().join(" + ")
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn generic_arguments(arguments: &Value) -> String {
    if let Some(parenthesized) = arguments["parenthesized"].as_object() {
        let inputs: Vec<_> = list(&parenthesized["inputs"]).map(ty).collect();
        let output = &parenthesized["output"];
        let output = if output.is_null() { String::new() } else { format!(" -> {}", ty(output)) };
        return format!("({}){output}", inputs.join(", "));
    }
    let angle = &arguments["angle_bracketed"];
    let args = list(&angle["args"]).filter_map(|one| {
        one["type"].as_object().map(|_| ty(&one["type"])).or_else(|| one["const"]["expr"].as_str().map(str::to_owned))
    });
    let constraints = list(&angle["constraints"]).map(|one| {
        let name = one["name"].as_str().unwrap_or_default();
        match one["binding"]["equality"]["type"].is_null() {
            true => format!("{name}: {}", bounds(&one["binding"]["constraint"])),
            false => format!("{name} = {}", ty(&one["binding"]["equality"]["type"])),
        }
    });
    let all: Vec<_> = args.chain(constraints).collect();
    if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
}

/// A type, without lifetimes and paths.
fn ty(value: &Value) -> String {
    let Some((kind, inner)) = value.as_object().and_then(|object| object.iter().next()) else { return "?".into() };
    match kind.as_str() {
        "resolved_path" => {
            let path = inner["path"].as_str().unwrap_or_default();
            format!("{}{}", last(path), generic_arguments(&inner["args"]))
        }
        "generic" | "primitive" => inner.as_str().unwrap_or_default().to_owned(),
        "borrowed_ref" => {
            format!("&{}{}", if inner["is_mutable"] == true { "mut " } else { "" }, ty(&inner["type"]))
        }
        "raw_pointer" => {
            format!("*{} {}", if inner["is_mutable"] == true { "mut" } else { "const" }, ty(&inner["type"]))
        }
        "tuple" => format!("({})", list(inner).map(ty).collect::<Vec<_>>().join(", ")),
        "slice" => format!("[{}]", ty(inner)),
        "array" => format!("[{}; {}]", ty(&inner["type"]), inner["len"].as_str().unwrap_or_default()),
        "impl_trait" => format!("impl {}", bounds(inner)),
        "dyn_trait" => {
            let traits = list(&inner["traits"]).map(|one| {
                format!(
                    "{}{}",
                    last(one["trait"]["path"].as_str().unwrap_or_default()),
                    generic_arguments(&one["trait"]["args"])
                )
            });
            format!("dyn {}", traits.collect::<Vec<_>>().join(" + "))
        }
        "qualified_path" => format!("{}::{}", ty(&inner["self_type"]), inner["name"].as_str().unwrap_or_default()),
        "function_pointer" => format!("fn{}", signature(inner)),
        other => other.to_owned(),
    }
}

#[test]
#[ignore = "scripts/api.sh lets rustdoc describe the crates and runs it"]
fn public_items_are_those_of_the_page() {
    let folder = std::env::var_os("MSCCLPP_RUSTDOC_JSON").expect("scripts/api.sh names the folder");
    let crates = Crates::load(Path::new(&folder));
    let mut found = Page::default();
    crates.module(&crates.0[INTERFACE].root, INTERFACE, &mut found);
    // In the order of paths, with what an item contains after it.
    let mut lines: Vec<_> = found.lines.into_iter().collect();
    let key = |line: &String| line.split_once(' ').map(|(_, path)| path.replace('.', "::")).unwrap_or_default();
    lines.sort_by_key(key);
    let mut page = String::from("The public items of mscclpp, one per line; written by scripts/api.sh.\n");
    _ = write!(page, "\n{} items\n\n{}\n", lines.len(), lines.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.txt");
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, page).expect("the page can be written");
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let [found, page] = [&found, &page].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone: Vec<_> = found.difference(&page).collect();
    let new: Vec<_> = page.difference(&found).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "docs/api.txt lists {gone:#?}, which are not public; it lacks {new:#?}; review them and run `MSCCLPP_BLESS=1 scripts/api.sh`"
    );
}
