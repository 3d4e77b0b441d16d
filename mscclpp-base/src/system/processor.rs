//! The model of the processor.

/// Returns the processor's name, as reported by Linux.
pub fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}
