//! Functions in Rust that compile to found plans.

use mscclpp_algorithms::BuiltinAlgorithm;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{Protocol, Replication};

/// Returns the attribute that a specification is written as, with the value of each parameter.
fn attribute(spec: &AlgoSpec, params: &[(&str, usize)]) -> String {
    let default = AlgoSpec::new("", spec.collective.kind, spec.num_ranks);
    let mut words = vec![format!("{:?}", spec.collective.kind), format!("ranks = {}", spec.num_ranks)];
    let mut add = |differs: bool, word: String| {
        if differs {
            words.push(word);
        }
    };
    add(spec.ranks_per_node != spec.num_ranks, format!("ranks_per_node = {}", spec.ranks_per_node));
    add(spec.collective.in_place, "in_place".to_owned());
    add(spec.collective.chunk_factor != 1, format!("chunk_factor = {}", spec.collective.chunk_factor));
    add(spec.instances != 1, format!("instances = {}", spec.instances));
    add(spec.protocol == Protocol::LL, "protocol = LL".to_owned());
    add(!spec.fuse, "fuse = false".to_owned());
    add(!spec.auto_sync, "auto_sync = false".to_owned());
    add(spec.replication != Replication::Interleaved, format!("replication = {:?}", spec.replication));
    add(spec.reuse_resources, "reuse_resources".to_owned());
    add(spec.double_scratch, "double_scratch".to_owned());
    add(spec.threads_per_block != default.threads_per_block, format!("threads_per_block = {}", spec.threads_per_block));
    add(spec.buffer_alignment != default.buffer_alignment, format!("buffer_alignment = {}", spec.buffer_alignment));
    let sizes = (spec.min_message_size, spec.max_message_size);
    add(sizes != (0, u64::MAX), format!("message_size = {}..={}", sizes.0, sizes.1));
    let is_list = spec.tags.values().all(|value| *value == 1);
    let tag = |(tag, value): (&String, &i64)| if is_list { format!("{tag:?}") } else { format!("{tag} = {value}") };
    let tags = spec.tags.iter().map(tag).collect::<Vec<_>>().join(", ");
    add(!tags.is_empty(), if is_list { format!("tags = [{tags}]") } else { format!("tags({tags})") });
    let values: Vec<String> = params.iter().map(|(name, value)| format!("{name} = [{value}]")).collect();
    add(!values.is_empty(), format!("params({})", values.join(", ")));
    format!("#[collective({})]\n", words.join(", "))
}

/// Returns lines as the documentation of a file.
fn docs(about: &[String]) -> String {
    let lines = about.iter().flat_map(|text| text.split(['\n', '\r']));
    lines.map(|line| format!("//! {line}").trim_end().to_owned() + "\n").collect()
}

/// Returns a file with a function. `about` are lines that say what it is.
pub(crate) fn function(spec: &AlgoSpec, about: &[String], body: &str) -> String {
    let docs = docs(about);
    format!(
        "{docs}\nuse mscclpp::collective;\nuse mscclpp::dsl::{{BlockSync, Program}};\n\n/// Trees that were packed for the machine.\n{}pub fn {}(p: &Program) {{\n{body}}}\n",
        attribute(spec, &[]),
        spec.name
    )
}

/// Returns a file with the function of a built-in algorithm, for a specification and arguments.
pub(crate) fn of_builtin(
    algorithm: &BuiltinAlgorithm,
    spec: &AlgoSpec,
    arguments: &[usize],
    about: &[String],
) -> String {
    let docs = docs(about);
    let params: Vec<_> = algorithm.params().iter().map(|param| param.name).zip(arguments.iter().copied()).collect();
    let (mut imports, mut kept) = (Vec::new(), Vec::new());
    let lines: Vec<&str> =
        algorithm.source().lines().take_while(|line| *line != "/// Entry in the registry.").collect();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        if line.starts_with("#[collective(") {
            let end_of = |from: usize, is_end: &dyn Fn(&str) -> bool| {
                lines[from..].iter().position(|line| is_end(line)).map_or(lines.len(), |count| from + count + 1)
            };
            let attribute_end = end_of(at, &|line| line.ends_with(")]"));
            let is_named = lines.get(attribute_end).is_some_and(|line| {
                line.strip_prefix("pub fn ").is_some_and(|rest| rest.split('(').next() == Some(algorithm.name()))
            });
            if is_named {
                kept.push(attribute(spec, &params).trim_end().to_owned());
                at = attribute_end;
            } else {
                // The other function of the file, and its documentation.
                while kept.last().is_some_and(|line| line.starts_with("///") || line.starts_with("#[")) {
                    kept.pop();
                }
                at = end_of(attribute_end, &|line| line == "}");
            }
            continue;
        }
        at += 1;
        match line.strip_prefix("use ") {
            Some(path) if path.starts_with("crate::") => {}
            Some(path) => {
                let path = path.replace("mscclpp_core::dsl::", "mscclpp::dsl::");
                let path = path.replace("mscclpp_core::types::", "mscclpp::dsl::");
                imports.push(path.replace("mscclpp_macros::collective", "mscclpp::collective"));
            }
            // Empty lines around what is left out would follow each other.
            None if line.is_empty() && kept.last().is_none_or(String::is_empty) => {}
            None => kept.push(line.to_owned()),
        }
    }
    imports.sort();
    // The imports are after the documentation of the file.
    let place = kept.iter().position(String::is_empty).map_or(kept.len(), |place| place + 1);
    let imports = imports.into_iter().map(|path| format!("use {path}"));
    kept.splice(place..place, imports.chain([String::new()]));
    format!("{docs}//!\n{}\n", kept.join("\n").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_replaces_that_of_the_named_function_alone() {
        for algorithm in mscclpp_algorithms::all() {
            let name = algorithm.name();
            let nodes = *algorithm.num_nodes().start();
            let mut spec = algorithm.spec(8 * nodes.max(1), 8);
            spec.min_message_size = 1 << 10;
            spec.tags = [("default".to_owned(), 1), ("fast".to_owned(), 3)].into();
            let arguments = vec![1; algorithm.params().len()];
            let text = of_builtin(
                algorithm,
                &spec,
                &arguments,
                &["About.".to_owned(), String::new(), "More\nlines.".to_owned()],
            );
            assert_eq!(text.matches("#[collective(").count(), 1, "{name}: {text}");
            assert_eq!(text.matches("\npub fn ").count(), 1, "{name}: {text}");
            let params: Vec<_> = algorithm.params().iter().map(|param| (param.name, 1)).collect();
            let expected = format!("{}pub fn {name}(", attribute(&spec, &params));
            assert!(text.contains(&expected), "{name}: {text}");
            assert!(!text.contains("\n\n\n") && text.lines().all(|line| line == line.trim_end()), "{name}: {text}");
            assert!(text.starts_with("//! About.\n//!\n//! More\n//! lines.\n//!\n//! "), "{name}: {text}");
        }
    }
}
