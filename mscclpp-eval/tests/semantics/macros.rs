//! Macros of the standard library.

values! {
    fn matches_macro() -> (bool, bool) { (matches!(Some(3), Some(x) if x > 2), matches!(4, 1..=3 | 9)) }
    fn strings_for_messages() -> (bool, String) {
        let name = "ring";
        let text = format!("{name} {} {:?} {0} {x}", 1 + 1, Some(2), x = 5);
        (text == "ring 2 Some(2) 2 5", format!("{:?} {{:02}}", (Some((1,)), [(2, 3)])))
    }
    fn asserts_that_hold() -> i32 {
        assert!(1 + 1 == 2, "arithmetic {}", 1);
        assert_eq!(vec![1, 2], [1, 2]);
        debug_assert_ne!(1, 2, "different {:>3}", 4);
        1
    }
}

refused! {
    fn formats_of_strings() -> usize { if format!("{:02}", 3) == "03" { 1 } else { 2 } } => NotInSubset
    fn named_formats_of_strings() -> bool { let x = Some(1); format!("{x:#?}") == format!("{x:?}") } => NotInSubset
}
