//! Slurm's lists of hosts: `node[001-004,7],login`.

/// The first host of a list: where rank 0 is. `None` if the list cannot be read.
pub(super) fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else {
        return (!name.is_empty()).then(|| name.to_owned());
    };
    let (numbers, behind) = inside.split_once(']')?;
    let first = numbers.split([',', '-']).next().filter(|number| !number.is_empty())?;
    if !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A name may go on, even with more brackets.
    let end = behind.find(',').unwrap_or(behind.len());
    let tail = &behind[..end];
    let tail = if tail.is_empty() { String::new() } else { first_host(behind)? };
    Some(format!("{name}{first}{tail}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_host_is_found() {
        for (list, host) in [
            ("node", "node"),
            ("node1,node2", "node1"),
            ("node[001-004,7],login", "node001"),
            ("rack[3,5]n[01-02]", "rack3n01"),
            ("gpu[2].cluster,x", "gpu2.cluster"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(host), "{list}");
        }
    }

    #[test]
    fn what_is_no_list_has_none() {
        for junk in ["", ",", "node[", "node[]", "node[a-b]", "node[-3]"] {
            assert_eq!(first_host(junk), None, "{junk}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9,\\[\\]-]{0,40}") {
            let _ = first_host(&text);
        }
    }
}
