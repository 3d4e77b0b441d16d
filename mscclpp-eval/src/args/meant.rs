//! What somebody who misspelt a name may have meant.

use mscclpp_core::diag::closest_name;

/// "did you mean `ranks`? ", or nothing if no known name comes close.
pub(super) fn meant(name: &str, known: &[&str]) -> String {
    // What a kind takes in parentheses is not part of its name.
    let bare = |known: &'_ &'_ str| known.split('(').next().unwrap_or_default().to_owned();
    let names: Vec<String> = known.iter().map(bare).collect();
    closest_name(name, names.iter().map(String::as_str))
        .and_then(|near| names.iter().position(|name| name == near))
        .map(|at| format!("did you mean `{}`? ", known[at]))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn what_stands_in_parentheses_does_not_count() {
        let known = ["ranks", "Custom(input = 4, output = 8)"];
        assert_eq!(meant("custm", &known), "did you mean `Custom(input = 4, output = 8)`? ");
        assert_eq!(meant("rank", &known), "did you mean `ranks`? ");
        assert_eq!(meant("colour", &known), "");
    }
}
