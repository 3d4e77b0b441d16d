//! The public items of the published crates are those of `docs/api.txt`, so that a change of the API is seen in review.
//!
//! `scripts/api.sh` lets rustdoc describe the crates and runs this test; `MSCCLPP_BLESS=1 scripts/api.sh` rewrites the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// Crates whose items are listed, by the names of their folders in the documentation.
const CRATES: [&str; 12] = [
    "mscclpp",
    "mscclpp_plan",
    "mscclpp_check",
    "mscclpp_core",
    "mscclpp_algorithms",
    "mscclpp_bootstrap",
    "mscclpp_exec",
    "mscclpp_select",
    "mscclpp_communicator",
    "mscclpp_validate",
    "mscclpp_fuzz",
    "mscclpp_kernels",
];

/// Crates that are no interface: only what others re-export of them is listed, there.
const INTERNAL: [&str; 2] = ["mscclpp_base", "mscclpp_transport"];

/// What rustdoc says of a crate.
struct Docs {
    index: BTreeMap<String, Value>,
    root: String,
    /// Those of the internal crates, by their names.
    internal: BTreeMap<&'static str, Docs>,
}

impl Docs {
    fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut docs: Value = serde_json::from_str(&text).expect("JSON of rustdoc");
        let Value::Object(index) = docs["index"].take() else { panic!("no index in {}", path.display()) };
        Self { index: index.into_iter().collect(), root: docs["root"].to_string(), internal: BTreeMap::new() }
    }

    fn root(&self) -> Value {
        serde_json::from_str(&self.root).expect("an id")
    }

    /// Returns the item of an internal crate that a path names.
    fn internal(&self, path: &str) -> Option<(&Self, Value)> {
        let mut segments = path.split("::");
        let docs = self.internal.get(segments.next()?)?;
        let mut at = docs.root();
        for segment in segments {
            let (.., module) = docs.get(&at)?;
            let named = docs.children(&module["items"]).find_map(|child| match docs.get(child)? {
                (_, "use", inner) => (inner["name"] == segment).then(|| inner["id"].clone()),
                (name, ..) => (name == segment).then(|| child.clone()),
            });
            at = named?;
        }
        Some((docs, at))
    }

    fn get(&self, id: &Value) -> Option<(&str, &str, &Value)> {
        let item = self.index.get(&id.to_string())?;
        let (kind, inner) = item["inner"].as_object()?.iter().next()?;
        Some((item["name"].as_str().unwrap_or_default(), kind, inner))
    }

    fn children<'a>(&'a self, list: &'a Value) -> impl Iterator<Item = &'a Value> {
        list.as_array().into_iter().flatten()
    }

    /// Adds the items of a module.
    fn module(&self, id: &Value, path: &str, out: &mut BTreeSet<String>, open: &mut Vec<String>) {
        let Some((_, _, inner)) = self.get(id) else { return };
        // A module that re-exports one of those around it would never end.
        if open.contains(&id.to_string()) {
            return;
        }
        open.push(id.to_string());
        for child in self.children(&inner["items"]) {
            let Some((name, kind, inner)) = self.get(child) else { continue };
            if kind == "use" {
                let (target, name) = (&inner["id"], inner["name"].as_str().unwrap_or_default());
                match self.get(target) {
                    Some((_, "module", _)) if inner["is_glob"] == true => self.module(target, path, out, open),
                    Some(_) => self.item(target, &format!("{path}::{name}"), out, open),
                    None => {
                        let source = inner["source"].as_str().unwrap_or_default();
                        match self.internal(source) {
                            Some((docs, id)) => docs.item(&id, &format!("{path}::{name}"), out, &mut Vec::new()),
                            None => _ = out.insert(format!("use {path}::{name} = {source}")),
                        }
                    }
                }
            } else {
                self.item(child, &format!("{path}::{name}"), out, open);
            }
        }
        open.pop();
    }

    /// Adds an item with its fields, variants and methods.
    fn item(&self, id: &Value, path: &str, out: &mut BTreeSet<String>, open: &mut Vec<String>) {
        let Some((_, kind, inner)) = self.get(id) else { return };
        if self.index[&id.to_string()]["attrs"].to_string().contains("hidden") {
            return;
        }
        match kind {
            "module" => self.module(id, path, out, open),
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
    let mut page = String::from("Public items of the published crates, one per line; written by scripts/api.sh.\n");
    let load = |name: &str| Docs::load(&Path::new(&folder).join(format!("{name}.json")));
    for name in CRATES {
        let docs = Docs { internal: INTERNAL.into_iter().map(|name| (name, load(name))).collect(), ..load(name) };
        let mut out = BTreeSet::new();
        docs.module(&docs.root(), name, &mut out, &mut Vec::new());
        // In the order of paths, with what an item contains after it.
        let mut lines: Vec<_> = out.into_iter().collect();
        let key = |line: &String| line.split_once(' ').map(|(_, path)| path.replace('.', "::")).unwrap_or_default();
        lines.sort_by_key(key);
        _ = write!(page, "\n# {name}: {} items\n\n{}\n", lines.len(), lines.join("\n"));
    }
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
