//! Suggestions for misspelled names.

/// Maximum number of letters by which a suggestion differs.
const MAX_DIFFERENCES: usize = 2;

/// Returns the known name that is closest to a misspelled one, if any is close enough. Case, `_` and `-` are ignored.
///
/// # Cost
/// The product of the names' lengths for each known name.
pub fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = plain(name);
    let close = known.into_iter().map(|known| (distance(&name, &plain(known)), known)).min();
    close
        .filter(|(distance, known)| *distance <= MAX_DIFFERENCES && *distance < known.len() / 2)
        .map(|(_, known)| known)
}

fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Returns the number of letters to add, remove or replace to change one name into the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let changed = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::closest_name;

    #[test]
    fn close_names_are_found_and_others_are_not() {
        let known = ["ranks", "in_place", "protocol", "AllReduce", "unmatched-wait"];
        for (name, expected) in [
            ("protocl", Some("protocol")),
            ("inplace", Some("in_place")),
            ("allreduce", Some("AllReduce")),
            ("rank", Some("ranks")),
            ("unmatched_waits", Some("unmatched-wait")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest_name(name, known), expected, "{name}");
        }
    }
}
