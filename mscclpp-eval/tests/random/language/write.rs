//! What the text of a random function is written with.

use super::super::rng::Rng;
use super::types::{INTS, Ty};

/// Writes one random function.
pub(super) struct Writer {
    pub(super) rng: Rng,
    /// Variables in scope, and whether they may change.
    pub(super) vars: Vec<(String, Ty, bool)>,
    names: usize,
    out: String,
}

impl Writer {
    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    pub(super) fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    pub(super) fn int(&mut self) -> &'static str {
        INTS[self.rng.below(INTS.len())]
    }

    pub(super) fn ty(&mut self) -> Ty {
        let int = self.int();
        match self.rng.below(8) {
            0..=3 => Ty::Int(int),
            4 | 5 => Ty::List(int),
            6 => Ty::Option(int),
            _ => Ty::Bool,
        }
    }

    /// A variable of a type.
    pub(super) fn var(&mut self, ty: Ty) -> Option<String> {
        let found: Vec<String> = self.vars.iter().filter(|var| var.1 == ty).map(|var| var.0.clone()).collect();
        (!found.is_empty()).then(|| self.rng.pick(&found).clone())
    }

    /// A variable of a type that may change.
    pub(super) fn changing(&mut self, ty: Ty) -> Option<String> {
        let found: Vec<String> = self.vars.iter().filter(|var| var.1 == ty && var.2).map(|var| var.0.clone()).collect();
        (!found.is_empty()).then(|| self.rng.pick(&found).clone())
    }
}

/// The text of a random function and its name.
pub(super) fn function(seed: u64) -> (String, String) {
    let mut writer = Writer { rng: Rng::new(seed), vars: Vec::new(), names: 0, out: String::new() };
    for _ in 0..3 {
        writer.declare(1);
    }
    for _ in 0..6 {
        writer.stmt(2);
    }
    let results: Vec<(String, Ty, bool)> = writer.vars.iter().rev().take(4).cloned().collect();
    let types: Vec<String> = results.iter().map(|result| result.1.text()).collect();
    let values: Vec<String> = results.into_iter().map(|result| result.0).collect();
    let name = format!("f{seed}");
    let text = format!("fn {name}() -> ({},) {{\n{}({},)\n}}\n", types.join(", "), writer.out, values.join(", "));
    (name, text)
}
