//! Suggestions for misspelled names.

use mscclpp_core::diag::closest_name;

/// Returns "a similar name exists: `ranks`; ", or an empty text if no known name is similar.
pub(super) fn suggest(name: &str, known: &[&str]) -> String {
    // The parentheses that follow some kinds are not part of the name.
    let bare = |known: &'_ &'_ str| known.split('(').next().unwrap_or_default().to_owned();
    let names: Vec<String> = known.iter().map(bare).collect();
    closest_name(name, names.iter().map(String::as_str))
        .and_then(|near| names.iter().position(|name| name == near))
        .map(|at| format!("a similar name exists: `{}`; ", known[at]))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn suggestion_ignores_parentheses() {
        let known = ["ranks", "Custom(input = 4, output = 8)"];
        assert_eq!(suggest("custm", &known), "a similar name exists: `Custom(input = 4, output = 8)`; ");
        assert_eq!(suggest("rank", &known), "a similar name exists: `ranks`; ");
        assert_eq!(suggest("color", &known), "");
    }
}
