//! Parses Slurm's host lists: `node[001-004,7],login`.

/// Returns the first host of a list, which is rank 0's. `None` if the list is invalid.
pub(super) fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else {
        return (!name.is_empty()).then(|| name.to_owned());
    };
    let (numbers, after) = inside.split_once(']')?;
    let first = numbers.split([',', '-']).next().filter(|number| !number.is_empty())?;
    if !first.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A name may continue after the bracket, and contain more brackets.
    let end = after.find(',').unwrap_or(after.len());
    let tail = &after[..end];
    let tail = if tail.is_empty() { String::new() } else { first_host(after)? };
    Some(format!("{name}{first}{tail}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn first_host_of_a_list_is_parsed() {
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
    fn invalid_list_has_no_first_host() {
        for junk in ["", ",", "node[", "node[]", "node[a-b]", "node[-3]"] {
            assert_eq!(first_host(junk), None, "{junk}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected(text in "[a-z0-9,\\[\\]-]{0,40}") {
            let _ = first_host(&text);
        }
    }
}
