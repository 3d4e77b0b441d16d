//! Collectives that were compiled into a program: their plans, and the functions that build further plans.

use crate::check::{Checks, Level};
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::Plan;
use crate::spec::AlgoSpec;

/// A collective that `#[collective]` compiled, as a value for registries and tools. The generated `name::algorithm()`
/// returns it.
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

/// A parameter of a collective's function, after the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The parameter's name.
    pub name: &'static str,
    /// The values that plans were built for; 1 and 0 for `true` and `false`.
    pub values: &'static [i128],
}

impl EmbeddedAlgorithm {
    /// For generated code: creates the description of a collective with default checks.
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

    /// For generated code: sets other checks than the default ones; `allow` has the numbers of the allowed diagnostics.
    #[doc(hidden)]
    pub const fn with_checks(self, level: Level, allow: &'static [&'static str]) -> Self {
        Self { level, allow, ..self }
    }

    /// Returns the name of the collective's function.
    #[doc(hidden)]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the parameters of the function, in order.
    #[doc(hidden)]
    pub fn params(&self) -> &'static [Param] {
        self.params
    }

    /// Returns the embedded plans in the order of the attribute; the number of ranks varies slowest.
    #[doc(hidden)]
    pub fn plans(&self) -> &'static [Plan] {
        self.plans
    }

    /// Returns the checks that the attribute selects: all checks, unless it has `check = …` or `allow(…)`.
    #[doc(hidden)]
    pub fn checks(&self) -> Checks {
        Checks { level: self.level, allow: self.allow.iter().filter_map(|number| Code::find(number)).collect() }
    }

    /// Returns the specification that the attribute gives for a number of ranks and these arguments. No plan needs to
    /// have been built for the arguments.
    #[doc(hidden)]
    pub fn spec(&self, num_ranks: u32, arguments: &[i128]) -> AlgoSpec {
        (self.spec)(num_ranks, arguments)
    }

    /// Builds a plan by running the function.
    ///
    /// # Cost
    /// Linear in the number of operations; nothing is cached.
    ///
    /// # Errors
    /// M0003 if the number of arguments differs from the number of parameters, or if an argument does not fit its type;
    /// otherwise the errors of [`compile`](fn@crate::compile).
    #[doc(hidden)]
    pub fn compile(&self, spec: AlgoSpec, arguments: &[i128]) -> Result<Plan, Diagnostics> {
        if arguments.len() != self.params.len() {
            let message = format!("`{}` takes {} arguments, found {}", self.name, self.params.len(), arguments.len());
            return Err(Diagnostic::new(Code::BadSpecification, Site::None, message).into());
        }
        (self.compile)(spec, arguments)
    }
}

/// For generated code: converts an argument to the type of the function's parameter.
///
/// # Errors
/// M0003 if the argument does not fit the type.
#[doc(hidden)]
pub fn argument<T: TryFrom<i128>>(name: &str, arguments: &[i128], index: usize) -> Result<T, Diagnostics> {
    let value = arguments.get(index).copied().unwrap_or_default();
    T::try_from(value).map_err(|_| {
        let message = format!("the argument `{name}` is {value}, which its type cannot represent");
        Diagnostic::new(Code::BadSpecification, Site::None, message).into()
    })
}
