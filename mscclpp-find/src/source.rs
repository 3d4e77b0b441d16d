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
    let values: Vec<String> = params.iter().map(|(name, value)| format!("{name} = [{value}]")).collect();
    add(!values.is_empty(), format!("params({})", values.join(", ")));
    format!("#[collective({})]\n", words.join(", "))
}

/// Returns lines as the documentation of a file.
fn docs(about: &[String]) -> String {
    about.iter().map(|line| format!("//! {line}").trim_end().to_owned() + "\n").collect()
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
    let mut text = String::new();
    let mut in_attribute = false;
    for line in algorithm.source().lines().take_while(|line| *line != "/// Entry in the registry.") {
        if line.starts_with("#[collective(") {
            text += &attribute(spec, &params);
            in_attribute = true;
        }
        if in_attribute {
            in_attribute = !line.ends_with(")]");
            continue;
        }
        // The empty lines of what is left out would follow each other.
        if line.starts_with("use crate::") || (line.is_empty() && text.ends_with("\n\n")) {
            continue;
        }
        let line = line.replace("use mscclpp_core::dsl::", "use mscclpp::dsl::");
        let line = line.replace("use mscclpp_core::types::", "use mscclpp::dsl::");
        text += line.replace("use mscclpp_macros::collective", "use mscclpp::collective").trim_end();
        text.push('\n');
    }
    format!("{docs}//!\n{}\n", text.trim_end())
}
