//! A collective that was compiled into a program: its plans, and the function to build more.

use crate::check::{Checks, Level};
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::Plan;
use crate::spec::AlgoSpec;

/// A collective under `#[collective]`, as data: what registries and tools hold. `name::algorithm()` gives it.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedAlgorithm {
    name: &'static str,
    params: &'static [Param],
    plans: &'static [Plan],
    spec: fn(u32, &[i128]) -> AlgoSpec,
    compile: fn(AlgoSpec, &[i128]) -> Result<Plan, Diagnostics>,
    level: Level,
    allow: &'static [&'static str],
}

/// A parameter of a collective's function behind the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The values that plans were built for; 1 and 0 for `true` and `false`.
    pub values: &'static [i128],
}

impl EmbeddedAlgorithm {
    /// Meant for generated code.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        params: &'static [Param],
        plans: &'static [Plan],
        spec: fn(u32, &[i128]) -> AlgoSpec,
        compile: fn(AlgoSpec, &[i128]) -> Result<Plan, Diagnostics>,
    ) -> Self {
        Self { name, params, plans, spec, compile, level: Level::Full, allow: &[] }
    }

    /// Meant for generated code: other checks than the default, with the numbers of what is allowed.
    #[doc(hidden)]
    pub const fn with_checks(self, level: Level, allow: &'static [&'static str]) -> Self {
        Self { level, allow, ..self }
    }

    /// The name of its function.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its parameters, in order.
    pub fn params(&self) -> &'static [Param] {
        self.params
    }

    /// The plans that were built with the program, ranks slowest, in the order of the attribute.
    pub fn plans(&self) -> &'static [Plan] {
        self.plans
    }

    /// What its attribute had its plans checked for: everything, unless it says `check = …` or `allow(…)`.
    pub fn checks(&self) -> Checks {
        Checks { level: self.level, allow: self.allow.iter().filter_map(|number| Code::find(number)).collect() }
    }

    /// The specification that its attribute gives for so many ranks and these arguments, which need not be ones that a
    /// plan was built for.
    pub fn spec(&self, ranks: u32, arguments: &[i128]) -> AlgoSpec {
        (self.spec)(ranks, arguments)
    }

    /// Builds a plan by running the function.
    ///
    /// # Cost
    /// Linear in the number of operations; nothing is cached.
    ///
    /// # Errors
    /// M0003 if there are not as many arguments as parameters or one does not fit its type; else as
    /// [`compile`](crate::compile::compile).
    pub fn compile(&self, spec: AlgoSpec, arguments: &[i128]) -> Result<Plan, Diagnostics> {
        if arguments.len() != self.params.len() {
            let message = format!("`{}` takes {} arguments, found {}", self.name, self.params.len(), arguments.len());
            return Err(Diagnostic::new(Code::BadSpecification, Site::None, message).into());
        }
        (self.compile)(spec, arguments)
    }
}

/// An argument as the type that the function takes. For generated code.
///
/// # Errors
/// M0003 if it does not fit.
#[doc(hidden)]
pub fn argument<T: TryFrom<i128>>(name: &str, arguments: &[i128], index: usize) -> Result<T, Diagnostics> {
    let value = arguments.get(index).copied().unwrap_or_default();
    T::try_from(value).map_err(|_| {
        let message = format!("the argument `{name}` is {value}, which its type cannot represent");
        Diagnostic::new(Code::BadSpecification, Site::None, message).into()
    })
}
