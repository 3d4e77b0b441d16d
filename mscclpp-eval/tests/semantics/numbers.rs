//! Integers and booleans: literals and their types, operators, casts, methods.

values! {
    fn literals() -> (i32, u8, i64, usize, bool) { (1_000, 0xff, -5, 1 << 20, !false) }
    fn default_integer_is_i32() -> (i32, u32) { let x = 5; (x - 7, (1u64 << 4).count_ones() + 1u32) }
    fn literals_adopt_the_type_they_meet() -> (u64, usize) {
        let unit = 48 << 30;
        let mut tb = 0;
        let n: usize = 7;
        for i in 0..n { tb += i % 2; }
        (unit, tb)
    }
    fn negative_literals() -> (i8, i64, i32) { (-128, i64::MIN, -(3 - 7)) }
    fn precedence() -> i32 { 2 + 3 * 4 - 10 / 3 % 2 << 1 & 0xff | 1 ^ 3 }
    fn signed_division() -> (i32, i32, i32, i32) { (-7 / 2, -7 % 2, (-7i32).div_euclid(2), (-7i32).rem_euclid(2)) }
    fn shifts() -> (u8, i32, i8) { (0b1100_0011u8 << 3, -9 >> 1, (-1i8) << 7) }
    fn bit_not() -> (u8, i32, bool) { (!5u8, !5, !true) }
    fn casts() -> (u8, i64, usize, i32) { (200usize as u8, 3u8 as i64, true as usize, -1i64 as i32) }
    fn literals_take_the_type_they_are_cast_to() -> (u64, u8, i64) { (!0 as u64, { 200 } as u8, -3_000_000_000 as i64) }
    fn conversions() -> (u64, i32, bool, Option<u8>, usize) {
        (u64::from(3u8), i32::try_from(9usize).unwrap(), u8::try_from(300).is_err(), u8::try_from(7i32).ok(), usize::from(true))
    }
    fn integer_methods() -> Vec<i64> {
        vec![
            (-5i64).abs(), 7i64.pow(3), 17i64.isqrt(), (-3i64).signum(), 3i64.min(-1), 3i64.max(9), 11i64.clamp(0, 10),
            i64::from(10u32.ilog2()), i64::from(81u32.ilog(3)), i64::from(7u32.div_ceil(2)),
            i64::from(13u32.next_multiple_of(8)), i64::from(5u32.next_power_of_two()), i64::from(40u16.trailing_zeros()),
            i64::from(1u16.leading_zeros()), i64::from((-1i8).count_ones()), i64::from(0x1du8.reverse_bits()), i64::from((-3i32).reverse_bits()),
            i64::from(3u8.abs_diff(9)),
            i64::from((-100i8).abs_diff(100)), i64::from((-128i8).unsigned_abs()),
        ]
    }
    fn checked_methods() -> Vec<Option<u8>> {
        vec![
            200u8.checked_add(56), 200u8.checked_add(55), 3u8.checked_sub(4), 16u8.checked_mul(16), 7u8.checked_div(0),
            7u8.checked_rem(4), 2u8.checked_pow(8), 3u8.checked_pow(5), 3u8.checked_add_signed(-4), 3u8.checked_add_signed(4), 200u8.checked_next_power_of_two(),
        ]
    }
    fn saturating_methods() -> (u8, u8, i8, i8, i8, i8) {
        (250u8.saturating_add(9), 3u8.saturating_sub(4), (-100i8).saturating_sub(100), 100i8.saturating_mul(2),
         (-100i8).saturating_mul(2), i8::from(3u8.saturating_add_signed(-4) == 0))
    }
    fn wrapping_methods() -> (u8, u8, i64, u64) {
        (250u8.wrapping_add(9), 3u8.wrapping_sub(4), i64::MAX.wrapping_mul(3), u64::MAX.wrapping_mul(u64::MAX))
    }
    fn path_forms() -> (usize, i32, u32, u8, usize) {
        (std::cmp::min(3, 4), i32::max(3, 4), u64::BITS, u8::MAX, usize::pow(2, 5))
    }
    fn comparisons() -> Vec<bool> {
        vec![1 < 2, 2 <= 1, (1, 2) < (1, 3), [3, 1] > [2, 9], Some(1) > None, "a" == "a", (true, 1) != (true, 1), vec![1, 2] == [1, 2]]
    }
    fn lazy_logic() -> (bool, usize) {
        let mut calls = 0;
        let mut touch = || { calls += 1; true };
        let result = false && touch() || true || touch();
        (result, calls)
    }
    fn ordering() -> (bool, i32) {
        use std::cmp::Ordering;
        let sign = |o: Ordering| match o { Ordering::Less => -1, Ordering::Equal => 0, Ordering::Greater => 1 };
        (1.cmp(&2).is_lt(), sign(3.cmp(&2)) + sign(1.cmp(&2).reverse()) * 10 + sign(1.cmp(&1).then_with(|| 2.cmp(&1))) * 100)
    }
    fn type_of_sum_from_context() -> u64 { let v: Vec<u64> = vec![1 << 40, 2]; let s: u64 = v.iter().map(|x| x * 2).sum(); s }
}
