//! What somebody who misspelt a name may have meant.

/// Most letters that a misspelt name differs in.
const MOST_DIFFERENCES: usize = 2;

/// "did you mean `ranks`? ", or nothing if no known name comes close. Case and underscores do not count.
pub(super) fn meant(name: &str, known: &[&str]) -> String {
    let close = known.iter().map(|known| (distance(&plain(name), &plain(known)), known)).min();
    match close {
        Some((distance, known)) if distance <= MOST_DIFFERENCES && distance < known.len() / 2 => {
            format!("did you mean `{known}`? ")
        }
        _ => String::new(),
    }
}

fn plain(name: &str) -> Vec<char> {
    // What a kind takes in parentheses is not part of its name.
    let name = name.split('(').next().unwrap_or(name);
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}

/// How many letters are to be added, left out or changed to get from one name to the other.
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
    use super::meant;

    #[test]
    fn close_names_are_found_and_others_are_not() {
        let known = ["ranks", "in_place", "protocol", "AllReduce", "Custom(input = 4, output = 8)"];
        for (name, expected) in [
            ("protocl", "did you mean `protocol`? "),
            ("inplace", "did you mean `in_place`? "),
            ("allreduce", "did you mean `AllReduce`? "),
            ("rank", "did you mean `ranks`? "),
            ("colour", ""),
            ("x", ""),
            ("", ""),
        ] {
            assert_eq!(meant(name, &known), expected, "{name}");
        }
    }
}
