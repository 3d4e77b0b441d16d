//! How many file descriptors this process can still open.

use std::fs;
use std::io::ErrorKind;

use rustix::process::{Resource, getrlimit};

/// Returns the number of descriptors that this process can still open.
pub(crate) fn free() -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    match fs::read_dir("/dev/fd") {
        // One of them is that of the folder.
        Ok(open) => limit.saturating_sub(open.count().saturating_sub(1)),
        // A system that does not list them.
        Err(error) if error.kind() == ErrorKind::NotFound => limit / 2,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_not_free() {
        let limit = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(free() <= limit - files.len());
    }
}
