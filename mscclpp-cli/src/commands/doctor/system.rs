//! Checks the system, the installed launchers, and the variables that a launcher has set.

use std::env;

use mscclpp_bootstrap::{Environment, Error, Options, Secret};

use super::finding::{Finding, State};

/// The launchers that are searched.
const LAUNCHERS: [&str; 4] = ["torchrun", "mpirun", "srun", "mpiexec"];

pub(super) fn findings() -> Vec<Finding> {
    vec![system(), launchers(), environment(), secret()]
}

fn system() -> Finding {
    let name = rustix::system::uname();
    let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let found = format!(
        "{} {} on {}, {}",
        part(name.sysname()),
        part(name.release()),
        part(name.machine()),
        part(name.nodename())
    );
    Finding::good("system", found)
}

fn launchers() -> Finding {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<_> = env::split_paths(&path).collect();
    let found: Vec<_> =
        LAUNCHERS.into_iter().filter(|name| directories.iter().any(|at| at.join(name).is_file())).collect();
    let ours = "mscclpp launch";
    Finding::good("launchers", [&[ours], &found[..]].concat().join(", "))
}

fn environment() -> Finding {
    let found = match Environment::launcher() {
        Some(_) => Environment::read().map(|environment| environment.to_string()),
        // Ranks that a launcher starts in this environment get its other variables.
        None => Options::from_env().and_then(|_| given_secret()).map(|_| "not started by a launcher".to_owned()),
    };
    match found {
        Ok(found) => Finding::good("environment", found),
        Err(error) => {
            let help = error.help().unwrap_or("unset the variable, or start the program with the launcher");
            Finding::bad("environment", State::Missing, error.to_string(), help)
        }
    }
}

/// Returns the secret that `MSCCLPP_SECRET` states.
fn given_secret() -> Result<Option<Secret>, Error> {
    let text = env::var_os("MSCCLPP_SECRET");
    text.map(|text| text.to_string_lossy().parse()).transpose()
}

fn secret() -> Finding {
    let environment = Environment::read().ok().filter(|environment| environment.num_ranks > 1);
    match environment {
        Some(environment) if environment.has_derived_secret => {
            let found = format!("derived from {}", environment.secret_source);
            let help = "set MSCCLPP_SECRET to the same value on all ranks, such as the output of `openssl rand -hex 16`; \
                        without it the ranks use loopback addresses only";
            Finding::bad("secret", State::Absent, found, help)
        }
        Some(environment) => Finding::good("secret", environment.secret_source),
        None if matches!(given_secret(), Ok(Some(_))) => Finding::good("secret", "MSCCLPP_SECRET"),
        None => Finding::good("secret", "not set; `mscclpp launch` generates one for each job"),
    }
}
