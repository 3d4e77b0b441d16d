//! Python processes that start fast, as copies of one that has imported PyTorch (`preload.py`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What a process is a copy of: the command of a Python and its variables.
type Key = (Vec<PathBuf>, BTreeMap<String, String>);

/// A process that makes copies of itself until its input ends, which is with this one.
struct Server {
    name: String,
    _process: Child,
}

type Started = Arc<OnceLock<Result<Server, String>>>;

/// Returns the arguments of a Python that make it run the script that follows them in a copy of a process, which has imported
/// PyTorch with the given variables. The copy has the variables, the folder and the output of that Python, and ends with it.
/// `python`: the command that starts the process to be copied, which is a Python or ends with one.
///
/// # Errors
/// What the process to be copied printed if it could not start.
pub(crate) fn preloaded(python: &[&Path], variables: &[(&str, &str)]) -> Result<[String; 4], String> {
    static SERVERS: Mutex<BTreeMap<Key, Started>> = Mutex::new(BTreeMap::new());
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let key = (python.iter().map(|word| word.to_path_buf()).collect(), variables.iter().map(own).collect());
    let started = {
        let mut servers = SERVERS.lock().map_err(|error| error.to_string())?;
        Arc::clone(servers.entry(key).or_default())
    };
    let server = started.get_or_init(|| Server::start(python, variables)).as_ref().map_err(Clone::clone)?;
    Ok(["-S".into(), script().display().to_string(), "run".into(), server.name.clone()])
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mscclpp-python/tests/common/preload.py")
}

impl Server {
    fn start(python: &[&Path], variables: &[(&str, &str)]) -> Result<Self, String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("mscclpp-tests-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (program, arguments) = python.split_first().ok_or("no command of a Python")?;
        let mut command = Command::new(program);
        command.args(arguments).arg(script()).args(["serve", &name]).envs(variables.iter().copied());
        let mut start = || -> std::io::Result<(Child, String)> {
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let mut line = String::new();
            if let Some(output) = process.stdout.take() {
                BufReader::new(output).read_line(&mut line)?;
            }
            Ok((process, line))
        };
        match start().map_err(|error| format!("{}: {error}", program.display()))? {
            (process, line) if line == "ready\n" => Ok(Self { name, _process: process }),
            (_, line) => Err(format!("expected `ready` of {}, found {line:?}", script().display())),
        }
    }
}
