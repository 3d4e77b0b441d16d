//! What panics natively, and the code it is refused with.

use std::collections::BTreeMap;

panics! {
    fn overflow_usize() -> usize { let id: usize = 0; id - 1 } => Overflow
    fn overflow_default() -> i32 { let x = 1 << 30; x + x } => Overflow
    fn overflow_sum() -> u8 { [200u8, 100].iter().sum() } => Overflow
    fn overflow_neg() -> i8 { let x = i8::MIN; -x } => Overflow
    fn overflow_rem() -> i32 { let (a, b) = (i32::MIN, -1); a % b } => Overflow
    fn overflow_shift() -> u32 { let n = 32; 1u32 << n } => Overflow
    fn overflow_pow() -> u64 { 10u64.pow(20) } => Overflow
    fn overflow_abs() -> i64 { i64::MIN.abs() } => Overflow
    fn overflow_open_range() -> Vec<u8> { (250u8..).take(7).collect() } => Overflow
    fn zero_division() -> i32 { let z = 0; 5 / z } => DivisionByZero
    fn zero_remainder() -> usize { let z: usize = 0; 5 % z } => DivisionByZero
    fn zero_euclid() -> i32 { let z = 0; 5i32.rem_euclid(z) } => DivisionByZero
    fn index_behind() -> i32 { let v = vec![1, 2]; let i = 2; v[i] } => NoSuchElement
    fn index_assigned_behind() -> Vec<i32> { let mut v = vec![1, 2]; let i = 9; v[i] = 0; v } => NoSuchElement
    fn slice_behind() -> usize { let v = vec![1, 2]; v[1..3].len() } => NoSuchElement
    fn slice_reversed() -> usize { let v = vec![1, 2, 3]; let (a, b) = (2, 1); v[a..b].len() } => NoSuchElement
    fn missing_key() -> i32 { let m: BTreeMap<i32, i32> = BTreeMap::new(); m[&3] } => NoSuchElement
    fn remove_behind() -> i32 { let mut v = vec![1]; v.remove(1) } => NoSuchElement
    fn swap_behind() -> Vec<i32> { let mut v = vec![1]; v.swap(0, 1); v } => NoSuchElement
    fn unwrap_none() -> i32 { let o: Option<i32> = None; o.unwrap() } => Panicked
    fn expect_none() -> i32 { let o: Option<i32> = None; o.expect("no peer") } => Panicked
    fn failed_conversion() -> u8 { u8::try_from(256).unwrap() } => Panicked
    fn assertion() -> i32 { let n = 3; assert!(n % 2 == 0, "{n} is odd"); n } => Panicked
    fn equality() -> i32 { assert_eq!(1 + 1, 3); 0 } => Panicked
    fn explicit_panic() -> i32 { if true { panic!("no way") } 0 } => Panicked
    fn unreachable_code() -> i32 { match 3 { 0 => 1, _ => unreachable!("{}", 3) } } => Panicked
    fn step_by_zero() -> usize { (0..3).step_by(0).count() } => Panicked
    fn chunks_of_zero() -> usize { [1, 2].chunks(0).count() } => Panicked
    fn clamp_reversed() -> i32 { 3.clamp(5, 4) } => Panicked
}
