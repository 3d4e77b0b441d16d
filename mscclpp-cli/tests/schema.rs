//! `mscclpp plan schema`: the schema accepts what the reader of plan files accepts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::mscclpp;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::json;
use mscclpp_core::plan::raw::{IdList, OpClass, OpKind};
use mscclpp_core::types::ReduceOp;
use serde_json::{Map, Value};

fn schema() -> Value {
    mscclpp(["plan", "schema"]).succeeds().json()
}

/// Whether a value satisfies a schema, for the keywords that the schema of plans uses.
struct Validator {
    root: Value,
}

impl Validator {
    /// Why the value does not satisfy the schema of plans; `None` if it does.
    fn error(&self, value: &Value) -> Option<String> {
        self.check(&self.root, value, "").err()
    }

    fn check(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            _ => return Err(format!("{path}: not allowed")),
        };
        for (keyword, expected) in schema {
            self.keyword(schema, keyword, expected, value, path)?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        schema: &Map<String, Value>,
        keyword: &str,
        expected: &Value,
        value: &Value,
        path: &str,
    ) -> Result<(), String> {
        let require = |is_valid: bool| {
            if is_valid { Ok(()) } else { Err(format!("{path}: {keyword} {expected}, found {value}")) }
        };
        match keyword {
            "$schema" | "$defs" | "title" | "description" | "default" | "then" | "else" => Ok(()),
            "$ref" => {
                let pointer = expected.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
                self.check(self.root.pointer(pointer).expect("a definition"), value, path)
            }
            "type" => require(match expected.as_str().expect("one type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64() || value.is_i64(),
                other => panic!("type {other}"),
            }),
            "enum" => require(expected.as_array().expect("values").contains(value)),
            "const" => require(expected == value),
            "minimum" => {
                require(integer(value).is_none_or(|value| value >= integer(expected).expect("a whole number")))
            }
            "maximum" => {
                require(integer(value).is_none_or(|value| value <= integer(expected).expect("a whole number")))
            }
            "minItems" => {
                require(value.as_array().is_none_or(|list| list.len() as u64 >= expected.as_u64().expect("a count")))
            }
            "maxItems" => {
                require(value.as_array().is_none_or(|list| list.len() as u64 <= expected.as_u64().expect("a count")))
            }
            "required" => {
                let keys: Vec<_> = expected.as_array().expect("keys").iter().filter_map(Value::as_str).collect();
                require(value.as_object().is_none_or(|object| keys.iter().all(|key| object.contains_key(*key))))
            }
            "properties" => value.as_object().into_iter().flatten().try_for_each(|(key, value)| {
                expected.get(key).map_or(Ok(()), |schema| self.check(schema, value, &format!("{path}/{key}")))
            }),
            "additionalProperties" => {
                assert!(!schema.contains_key("properties"), "not needed together");
                let mut values = value.as_object().into_iter().flatten();
                values.try_for_each(|(key, value)| self.check(expected, value, &format!("{path}/{key}")))
            }
            "items" => {
                let mut values = value.as_array().into_iter().flatten().enumerate();
                values.try_for_each(|(index, value)| self.check(expected, value, &format!("{path}/{index}")))
            }
            "allOf" => {
                expected.as_array().expect("schemas").iter().try_for_each(|schema| self.check(schema, value, path))
            }
            "oneOf" => {
                let schemas = expected.as_array().expect("schemas").iter();
                require(schemas.filter(|schema| self.check(schema, value, path).is_ok()).count() == 1)
            }
            "if" => {
                let branch = if self.check(expected, value, path).is_ok() { "then" } else { "else" };
                schema.get(branch).map_or(Ok(()), |schema| self.check(schema, value, path))
            }
            other => panic!("the validator does not know the keyword `{other}`"),
        }
    }
}

fn integer(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

/// Numbers of ranks and of ranks per node.
const SMALL: [(u32, u32); 2] = [(2, 2), (4, 2)];
const LARGE: [(u32, u32); 2] = [(8, 8), (8, 4)];

/// The plans of the library's algorithms, the shortest first.
fn plans(machines: [(u32, u32); 2]) -> Vec<(String, Value)> {
    let mut plans = Vec::new();
    for algorithm in
        mscclpp_algorithms::all().iter().chain(mscclpp_algorithms::counted()).chain(mscclpp_algorithms::norms())
    {
        for (ranks, per_node) in machines.into_iter().filter(|&(ranks, per_node)| algorithm.supports(ranks, per_node)) {
            let mut spec = algorithm.spec(ranks, per_node);
            spec.collective.in_place |= algorithm.buffer_mode() == mscclpp_algorithms::BufferMode::InPlace;
            let arguments = algorithm.arguments([]).expect("defaults");
            let Ok(trace) = algorithm.record(spec, &arguments) else { continue };
            let tree = mscclpp_core::lower::lower(&trace).expect("a plan");
            let text = json::write(&tree, json::Style::Compact);
            let plan = serde_json::from_str(&text).expect("JSON");
            plans.push((text.len(), format!("{} {ranks}/{per_node}", algorithm.name()), plan));
        }
    }
    assert!(plans.len() > 30, "{}", plans.len());
    plans.sort_by_key(|(length, ..)| *length);
    plans.into_iter().map(|(_, name, plan)| (name, plan)).collect()
}

#[test]
fn docs_repeat_the_schema_of_the_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan.schema.json");
    let printed = mscclpp(["plan", "schema"]).succeeds().stdout;
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        fs::write(path, printed).unwrap();
        return;
    }
    assert_eq!(fs::read_to_string(path).unwrap(), printed, "MSCCLPP_BLESS=1 writes docs/plan.schema.json anew");
}

#[test]
fn plans_of_the_library_satisfy_the_schema() {
    let validator = Validator { root: schema() };
    for (name, plan) in plans(SMALL).into_iter().chain(plans(LARGE)) {
        assert_eq!(validator.error(&plan), None, "{name}");
    }
}

#[test]
#[ignore = "needs the plans of the reference system: MSCCLPP_CONFORMANCE"]
fn plans_of_the_reference_system_satisfy_the_schema() {
    fn visit(folder: &Path, validator: &Validator, seen: &mut usize) {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                visit(&path, validator, seen);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let text = fs::read_to_string(&path).expect("a text");
                if json::read(&text, json::ReadOptions::default()).is_ok() {
                    let plan = serde_json::from_str(&text).expect("JSON");
                    assert_eq!(validator.error(&plan), None, "{}", path.display());
                    *seen += 1;
                }
            }
        }
    }
    let Some(folder) = std::env::var_os("MSCCLPP_CONFORMANCE") else { panic!("MSCCLPP_CONFORMANCE is not set") };
    let mut seen = 0;
    visit(Path::new(&folder), &Validator { root: schema() }, &mut seen);
    assert!(seen > 0, "no plans in {}", folder.display());
}

/// The keys that the files of an operation must have; `port`: that they must have on port channels in addition.
fn required_keys(kind: OpKind, port: bool) -> Vec<&'static str> {
    let mut keys = match kind.class() {
        _ if port => vec![],
        OpClass::Data(..) if kind == OpKind::SwitchReduce => {
            vec!["buffer_type", "buffer_offset", "size", "dst_chunk", "channel_ids"]
        }
        OpClass::Data(..) if kind.is_counted() => vec!["src_buff", "dst_buff", "count"],
        OpClass::Data(..) => vec!["src_buff", "dst_buff"],
        OpClass::Barrier => vec!["barrier_id", "num_threadblocks"],
        OpClass::Acquire | OpClass::Release => vec!["semaphore_ids"],
        OpClass::Pipeline => vec!["iter_context", "ops"],
        OpClass::ExchangeCounts
        | OpClass::BlockSync
        | OpClass::Signal { .. }
        | OpClass::Wait { .. }
        | OpClass::Flush => vec![],
    };
    if !port && !kind.channels().is_empty() {
        keys.push("channel_type");
    }
    match kind.ids() {
        IdList::Channels | IdList::ChannelPerPair if !port => keys.push("channel_ids"),
        IdList::ChannelPerPortDestination if port => keys.push("channel_ids"),
        _ => {}
    }
    keys
}

/// The rules of the schema about the keys of operations: for each set of keys the operations that need it.
fn rules_of_keys() -> String {
    let mut rules = Vec::new();
    for port in [false, true] {
        let mut names: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for &kind in OpKind::ALL {
            names.entry(required_keys(kind, port)).or_default().push(kind.name());
        }
        for (keys, names) in names.into_iter().filter(|(keys, _)| !keys.is_empty()) {
            let condition = if port { ", \"channel_type\": {\"const\": \"port\"}" } else { "" };
            let needs = if port { "\"name\", \"channel_type\"" } else { "\"name\"" };
            // A `glre` has one channel.
            let one = ", \"properties\": {\"channel_ids\": {\"minItems\": 1, \"maxItems\": 1}}";
            let one = if keys.contains(&"dst_chunk") { one } else { "" };
            rules.push(format!(
                "        {{\n          \"if\": {{\"properties\": {{\"name\": {{\"enum\": {names:?}}}{condition}}}, \
                 \"required\": [{needs}]}},\n          \"then\": {{\"required\": {keys:?}{one}}}\n        }}"
            ));
        }
    }
    rules.join(",\n")
}

/// Replaces what is between two texts.
fn between(text: &str, begin: &str, end: &str, new: &str) -> String {
    let (before, rest) = text.split_once(begin).expect("the begin");
    let (_, after) = rest.split_once(end).expect("the end");
    format!("{before}{begin}{new}{end}{after}")
}

#[test]
fn operations_of_the_schema_have_the_declared_properties() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/plan.schema.json");
    let found = fs::read_to_string(&path).unwrap();
    let names: Vec<_> = OpKind::ALL.iter().map(|kind| format!("            {:?}", kind.name())).collect();
    let names = names.join(",\n");
    let expected = between(&found, "\"name\": {\n          \"enum\": [\n", "\n          ]", &names);
    let begin = "\"description\": \"The keys that operations of each name need.\",\n      \"allOf\": [\n";
    let expected = between(&expected, begin, "\n      ]\n    },\n    \"expectation\"", &rules_of_keys());
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        fs::write(path, expected).unwrap();
        return;
    }
    assert!(found == expected, "MSCCLPP_BLESS=1 writes the operations in plan.schema.json anew");
}

#[test]
fn names_of_the_schema_are_those_of_the_format() {
    let schema = schema();
    let names = |pointer: &str| -> BTreeSet<String> {
        let list = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).as_array().expect("names");
        list.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let fields = "/$defs/operation_fields/properties";
    let reductions: BTreeSet<_> = ReduceOp::ALL.iter().map(|op| op.name().to_owned()).collect();
    assert_eq!(names(&format!("{fields}/reduce_op/enum")), reductions);
    let mut plan = plans(SMALL).remove(0).1;
    for name in names("/properties/collective/enum") {
        plan["collective"] = name.into();
        assert!(is_readable(&plan).is_ok(), "{plan}");
    }
}

/// Whether the reader takes a plan, or the codes of what it finds.
fn is_readable(plan: &Value) -> Result<(), Vec<Code>> {
    let read = json::read(&plan.to_string(), json::ReadOptions::default());
    read.map(drop).map_err(|findings| findings.iter().map(|finding| finding.code).collect())
}

/// All places of a value: one of each shape, which is the path without indexes but with the names of operations and channels.
fn places(value: &Value, pointer: String, shape: String, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            let kind = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
            let shape = format!("{shape}<{}{}>", kind("name"), kind("channel_type"));
            for (key, value) in object {
                places(value, format!("{pointer}/{key}"), format!("{shape}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, format!("{pointer}/{index}"), format!("{shape}/*"), found);
            }
        }
        _ => {}
    }
    found.entry(shape).or_insert(pointer);
}

/// The plan without a key, or without an element.
fn without(plan: &Value, pointer: &str) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/')?;
    let mut plan = plan.clone();
    plan.pointer_mut(parent)?.as_object_mut()?.remove(key)?;
    Some(plan)
}

#[test]
fn reader_and_schema_refuse_the_same_changes_of_plans() {
    let validator = Validator { root: schema() };
    let (mut shapes, mut changes, mut refused) = (BTreeSet::new(), 0, 0);
    for (name, plan) in plans(SMALL) {
        let mut found = BTreeMap::new();
        places(&plan, String::new(), String::new(), &mut found);
        for (shape, pointer) in found.into_iter().filter(|(shape, _)| !shape.is_empty()) {
            // The name of the plan is in the shape of the whole; the rest is seen once.
            let shape = shape.split_once('>').map_or(shape.clone(), |(_, rest)| rest.to_owned());
            if !shapes.insert(shape) {
                continue;
            }
            let others = [
                Value::Null,
                Value::Bool(true),
                "?".into(),
                (-1).into(),
                3.into(),
                0.5.into(),
                (1_u64 << 32).into(),
                u64::MAX.into(),
                Value::Array(vec![]),
                Value::Object(Map::new()),
            ];
            let changed = others.into_iter().filter_map(|other| {
                let mut plan = plan.clone();
                *plan.pointer_mut(&pointer)? = other;
                Some(plan)
            });
            for changed in changed.chain(without(&plan, &pointer)) {
                changes += 1;
                match (is_readable(&changed), validator.error(&changed)) {
                    (Ok(()), Some(why)) => {
                        panic!("{name} {pointer}: the reader accepts what the schema refuses: {why}")
                    }
                    (Err(codes), None) => {
                        let only = codes.iter().all(|code| *code == Code::InconsistentValue);
                        assert!(
                            only,
                            "{name} {pointer}: the schema accepts what the reader refuses: {codes:?}\n{:?}",
                            changed.pointer(&pointer)
                        );
                    }
                    (Err(_), Some(_)) => refused += 1,
                    (Ok(()), None) => {}
                }
            }
        }
    }
    assert!(changes > 1000 && refused > 500, "{changes} changes, {refused} refused");
}

#[test]
fn operations_are_listed_with_operands_and_keys() {
    let table = mscclpp(["plan", "schema", "--operations"]).succeeds().stdout;
    let row = |name: &str| table.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap_or_default();
    assert_eq!(table.lines().count(), 2 + mscclpp_core::plan::raw::OpKind::ALL.len());
    assert!(row("respkt").ends_with("| 1 local, k own packets | 1 local, k remote packets | |"), "{}", row("respkt"));
    assert!(row("putv").ends_with("| 1 local | 1 remote | `count`, `channel_ids` on ports |"), "{}", row("putv"));
    assert!(row("pwsf").contains("Port put followed by a signal and a flush."), "{}", row("pwsf"));
}
