//! What rustc takes, and the subset does not.

use std::collections::HashMap;

refused! {
    fn lossy_cast() -> u8 { (299 + 1) as u8 } => LossyCast
    fn lossy_sign() -> usize { (0i32 - 1) as usize } => LossyCast
    fn endless_loop() -> i32 { let mut i = 0; loop { i = 1 - i; } } => TooManySteps
    fn endless_recursion() -> usize { fn f(n: usize) -> usize { f(n + 1) } f(0) } => RecursionLimit
    fn too_many_elements() -> usize { vec![0u8; 1 << 40].len() } => TooManyElements
    fn endless_collect() -> Vec<i32> { std::iter::repeat(1).collect() } => TooManySteps
    fn printing() -> i32 { println!("{}", 1); 1 } => NotInSubset
    fn floats() -> i32 { let x = 1.5; x as i32 } => NotInSubset
    fn characters() -> i32 { let c = 'a'; c as i32 } => NotInSubset
    fn unsafe_code() -> i32 { unsafe { 1 } } => NotInSubset
    fn hash_order() -> i32 { let m: HashMap<i32, i32> = HashMap::new(); let mut s = 0; for (k, _) in &m { s += k; } s } => NotInSubset
    fn threads() -> i32 { std::thread::spawn(|| 1).join().unwrap() } => NotInSubset
    fn generics() -> i32 { fn id<T>(x: T) -> T { x } id(3) } => NotInSubset
    fn strings() -> usize { "abc".to_uppercase().len() } => NotInSubset
    fn assignment_to_fields() -> (i32, i32) { struct P { x: i32, y: i32 } let (x, y); P { x, y } = P { x: 3, y: 4 }; (x, y) } => NotInSubset
    fn assignment_with_rest() -> i32 { let first; (first, ..) = (1, 2, 3); first } => NotInSubset
    fn environment() -> bool { std::env::var("HOME").is_ok() } => NotInSubset
    fn traits_by_hand() -> bool {
        struct Odd(i32);
        impl PartialEq for Odd { fn eq(&self, _: &Self) -> bool { false } }
        Odd(1) == Odd(1)
    } => NotInSubset
    fn conditional_compilation() -> i32 { #[cfg(test)] let x = 1; #[cfg(not(test))] let x = 2; x } => NotInSubset
    fn conditional_calls() -> i32 { let mut v = vec![1]; #[cfg(any())] v.push(2); v[0] } => NotInSubset
    fn conditional_fields() -> i32 { struct S { #[cfg(all())] x: i32 } S { x: 1 }.x } => NotInSubset
    fn conditional_functions() -> i32 {
        #[cfg(all())] fn f() -> i32 { 1 }
        #[cfg(any())] fn f() -> i32 { 2 }
        f()
    } => NotInSubset
    fn big_integers() -> i32 { (1u128 << 100 >> 99) as i32 } => NotInSubset
}
