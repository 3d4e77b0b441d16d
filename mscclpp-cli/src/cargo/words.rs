//! Which words of a command line are cargo's.

use crate::error::{Error, Result};

/// Options of cargo with a value. Not `--target`, which `export` has, too.
const WITH_VALUE: [&str; 15] = [
    "-p",
    "--package",
    "--bin",
    "--example",
    "--test",
    "--profile",
    "-F",
    "--features",
    "--target-dir",
    "--manifest-path",
    "--exclude",
    "-j",
    "--jobs",
    "--config",
    "-Z",
];

/// Options of cargo without a value.
const FLAGS: [&str; 19] = [
    "--lib",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "--bins",
    "--examples",
    "--tests",
    "--all-targets",
    "--workspace",
    "--all",
    "-r",
    "--release",
    "--all-features",
    "--no-default-features",
    "--locked",
    "--offline",
    "--frozen",
    "--keep-going",
];

/// A command line, split.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// What cargo builds.
    pub(super) target: Vec<String>,
    /// What `mscclpp` does with it.
    pub(super) own: Vec<String>,
}

/// Splits a command line.
///
/// # Errors
/// [`Error::Usage`] for an option of cargo without its value.
pub(super) fn split(words: &[String]) -> Result<Words> {
    let mut split = Words::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let key = word.split_once('=').map_or(&word[..], |(key, _)| key);
        if FLAGS.contains(&&word[..]) {
            split.target.push(word.clone());
        } else if WITH_VALUE.contains(&&word[..]) {
            let value =
                words.next().ok_or_else(|| Error::Usage(format!("{word} needs a value, as for `cargo build`")))?;
            split.target.extend([word.clone(), value.clone()]);
        } else if word.starts_with("--") && WITH_VALUE.contains(&key) {
            split.target.push(word.clone());
        } else {
            split.own.push(word.clone());
        }
    }
    Ok(split)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_of_cargo_are_recognized_wherever_they_stand() {
        let split =
            split(&words("-p outside ring --size 1M --example=quickstart --release --json --features a,b")).unwrap();
        assert_eq!(split.target, words("-p outside --example=quickstart --release --features a,b"));
        assert_eq!(split.own, words("ring --size 1M --json"));
    }

    #[test]
    fn option_of_cargo_without_value_is_refused() {
        assert!(super::split(&words("ring --example")).is_err());
    }

    #[test]
    fn no_option_of_the_commands_is_one_of_cargo() {
        fn visit(command: &clap::Command) {
            for argument in command.get_arguments() {
                let names = [
                    argument.get_long().map(|long| format!("--{long}")),
                    argument.get_short().map(|short| format!("-{short}")),
                ];
                for name in names.into_iter().flatten() {
                    assert!(
                        !WITH_VALUE.contains(&&name[..]) && !FLAGS.contains(&&name[..]),
                        "{name} of `{}`",
                        command.get_name()
                    );
                }
            }
            command.get_subcommands().for_each(visit);
        }
        let cli = Cli::command();
        for (_, path, _) in crate::cargo::COMMANDS {
            visit(path.iter().fold(&cli, |command, name| command.find_subcommand(name).expect("a command")));
        }
    }
}
