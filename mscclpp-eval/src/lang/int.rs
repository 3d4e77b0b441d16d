//! Integers, booleans and strings.

use mscclpp_core::diag::Code;

use super::{Call, Table, methods};
use crate::eval::arith::{compute, wrap};
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter, fmt};
use crate::hir::{BinOp, IntTy};

/// Integers.
pub(crate) const INT: Table = Table {
    header: "Self",
    about: "integers (`i8` … `i64`, `u8` … `u64`, `isize`, `usize`)",
    methods: methods! {
        "abs() -> Self" Value => |vm, call| unary(vm, call, |a| Some(a.abs()));
        "abs_diff(Self) -> Unsigned" Value => |vm, call| binary(vm, call, |a, b| Some((a - b).abs()), IntTy::unsigned);
        "unsigned_abs() -> Unsigned" Value => |vm, call| Ok(Value::Int(receiver(vm, call)?.abs()));
        "signum() -> Self" Value => |vm, call| unary(vm, call, |a| Some(a.signum()));
        "pow(u32) -> Self" Value => |vm, call| binary(vm, call, pow, |int| int);
        "isqrt() -> Self" Value => |vm, call| unary(vm, call, |a| u128::try_from(a).ok().map(|a| a.isqrt() as i128));
        "ilog2() -> u32" Value => |vm, call| unary(vm, call, |a| log(a, 2));
        "ilog(Self) -> u32" Value => |vm, call| binary(vm, call, log, |int| int);
        "div_ceil(Self) -> Self" Value => |vm, call| divide(vm, call, |a, b| a.div_euclid(b) + i128::from(a.rem_euclid(b) > 0));
        "div_euclid(Self) -> Self" Value => |vm, call| divide(vm, call, i128::div_euclid);
        "rem_euclid(Self) -> Self" Value => |vm, call| divide(vm, call, i128::rem_euclid);
        "is_multiple_of(Self) -> bool" Value => |vm, call| {
            let (a, b) = (receiver(vm, call)?, call.int(vm)?);
            Ok(Value::Bool(if b == 0 { a == 0 } else { a % b == 0 }))
        };
        "next_multiple_of(Self) -> Self" Value => |vm, call| divide(vm, call, |a, b| (a + b - 1).div_euclid(b) * b);
        "is_power_of_two() -> bool" Value => |vm, call| Ok(Value::Bool(receiver(vm, call)?.count_ones() == 1));
        "next_power_of_two() -> Self" Value => |vm, call| unary(vm, call, |a| Some(a.unsigned_abs().next_power_of_two() as i128));
        "trailing_zeros() -> u32" Value => |vm, call| bits(vm, call, |a, width| a.trailing_zeros().min(width));
        "leading_zeros() -> u32" Value => |vm, call| bits(vm, call, |a, width| a.leading_zeros() + width - 128);
        "count_ones() -> u32" Value => |vm, call| bits(vm, call, |a, _| a.count_ones());
        "reverse_bits() -> Self" Value => |vm, call| {
            let (a, int) = (receiver(vm, call)?, call.int);
            Ok(Value::Int(wrap((a as u128).reverse_bits().wrapping_shr(128 - int.bits()) as i128, int)))
        };
        "checked_add(Self) -> Option<Self>" Value => |vm, call| checked(vm, call, |a, b| a.checked_add(b));
        "checked_add_signed(Signed) -> Option<Self>" Value => |vm, call| checked(vm, call, |a, b| a.checked_add(b));
        "checked_sub(Self) -> Option<Self>" Value => |vm, call| checked(vm, call, |a, b| a.checked_sub(b));
        "checked_mul(Self) -> Option<Self>" Value => |vm, call| checked(vm, call, |a, b| a.checked_mul(b));
        "checked_div(Self) -> Option<Self>" Value => |vm, call| checked(vm, call, |a, b| a.checked_div(b));
        "checked_rem(Self) -> Option<Self>" Value => |vm, call| {
            let (a, b, int) = (receiver(vm, call)?, call.int(vm)?, call.int);
            Ok(Value::option(compute(BinOp::Rem, a, b, int).ok().map(Value::Int)))
        };
        "checked_pow(u32) -> Option<Self>" Value => |vm, call| checked(vm, call, pow);
        "checked_next_power_of_two() -> Option<Self>" Value => |vm, call| {
            let (a, int) = (receiver(vm, call)?, call.int);
            let next = a.unsigned_abs().next_power_of_two() as i128;
            Ok(Value::option(int.holds(next).then_some(Value::Int(next))))
        };
        "checked_ilog2() -> Option<u32>" Value => |vm, call| {
            let a = receiver(vm, call)?;
            Ok(Value::option(log(a, 2).map(Value::Int)))
        };
        "saturating_add(Self) -> Self" Value => |vm, call| saturating(vm, call, |a, b| Some(a + b));
        "saturating_add_signed(Signed) -> Self" Value => |vm, call| saturating(vm, call, |a, b| Some(a + b));
        "saturating_sub(Self) -> Self" Value => |vm, call| saturating(vm, call, |a, b| Some(a - b));
        "saturating_mul(Self) -> Self" Value => |vm, call| saturating(vm, call, |a, b| a.checked_mul(b));
        "wrapping_add(Self) -> Self" Value => |vm, call| wrapping(vm, call, |a, b| a + b);
        "wrapping_sub(Self) -> Self" Value => |vm, call| wrapping(vm, call, |a, b| a - b);
        "wrapping_mul(Self) -> Self" Value => |vm, call| wrapping(vm, call, i128::wrapping_mul);
    },
};

/// Booleans.
pub(crate) const BOOL: Table = Table {
    header: "bool",
    about: "booleans",
    methods: methods! {
        "then(fn() -> T) -> Option<T>" Value => |vm, call| match call.receiver {
            Value::Bool(true) => {
                let f = call.arg();
                Ok(Value::some(vm.call(&f, Vec::new(), call.tok)?))
            }
            _ => Ok(Value::None),
        };
        "then_some(T) -> Option<T>" Value => |_, call| match call.receiver {
            Value::Bool(true) => Ok(Value::some(call.arg())),
            _ => Ok(Value::None),
        };
    },
};

/// Strings.
pub(crate) const STR: Table = Table {
    header: "str",
    about: "strings, for messages only",
    methods: methods! {
        "to_string() -> str" Value => |_, call| Ok(call.receiver.clone());
        "as_str() -> str" Value => |_, call| Ok(call.receiver.clone());
    },
};

fn receiver(vm: &mut Interpreter<'_>, call: &Call) -> Eval<i128> {
    match &call.receiver {
        Value::Int(value) => Ok(*value),
        _ => Err(vm.ill_typed(call.tok)),
    }
}

/// Evaluates an operation that overflows if its result does not fit the receiver's type.
fn unary(vm: &mut Interpreter<'_>, call: &mut Call, op: fn(i128) -> Option<i128>) -> Eval {
    let a = receiver(vm, call)?;
    fit(vm, call, op(a), call.int, &a.to_string())
}

fn binary(
    vm: &mut Interpreter<'_>,
    call: &mut Call,
    op: fn(i128, i128) -> Option<i128>,
    result: fn(IntTy) -> IntTy,
) -> Eval {
    let (a, b) = (receiver(vm, call)?, call.int(vm)?);
    fit(vm, call, op(a, b), result(call.int), &format!("{a} and {b}"))
}

fn fit(vm: &mut Interpreter<'_>, call: &Call, result: Option<i128>, int: IntTy, what: &str) -> Eval {
    match result {
        Some(result) if int.holds(result) => Ok(Value::Int(result)),
        _ => {
            let message = format!("this has no result in `{}` for {what}", int.name());
            Err(vm.fail(Code::Overflow, call.tok, message))
        }
    }
}

fn divide(vm: &mut Interpreter<'_>, call: &mut Call, op: fn(i128, i128) -> i128) -> Eval {
    let (a, b) = (receiver(vm, call)?, call.int(vm)?);
    if b == 0 {
        return Err(vm.fail(Code::DivisionByZero, call.tok, format!("{a} is divided by zero")));
    }
    // `MIN` by -1 overflows, also where the result would fit.
    let result = (!(call.int.signed() && b == -1 && a == call.int.min())).then(|| op(a, b));
    fit(vm, call, result, call.int, &format!("{a} and {b}"))
}

fn pow(a: i128, exponent: i128) -> Option<i128> {
    a.checked_pow(u32::try_from(exponent).ok()?)
}

fn log(a: i128, base: i128) -> Option<i128> {
    if a <= 0 || base < 2 { None } else { a.checked_ilog(base).map(i128::from) }
}

/// Evaluates an operation on the bits of the receiver: its low bits, and their number.
fn bits(vm: &mut Interpreter<'_>, call: &mut Call, op: fn(u128, u32) -> u32) -> Eval {
    let width = call.int.bits();
    let low = receiver(vm, call)? & ((1 << width) - 1);
    Ok(Value::Int(i128::from(op(low as u128, width))))
}

fn checked(vm: &mut Interpreter<'_>, call: &mut Call, op: fn(i128, i128) -> Option<i128>) -> Eval {
    let (a, b) = (receiver(vm, call)?, call.int(vm)?);
    Ok(Value::option(op(a, b).filter(|result| call.int.holds(*result)).map(Value::Int)))
}

fn saturating(vm: &mut Interpreter<'_>, call: &mut Call, op: fn(i128, i128) -> Option<i128>) -> Eval {
    let (a, b) = (receiver(vm, call)?, call.int(vm)?);
    // Without a result it is too large; it is negative if exactly one factor is, or the base of an odd power.
    let beyond = if (a < 0) != (b < 0) && b != 0 && (b < 0 || b % 2 == 1) { call.int.min() } else { call.int.max() };
    Ok(Value::Int(op(a, b).unwrap_or(beyond).clamp(call.int.min(), call.int.max())))
}

fn wrapping(vm: &mut Interpreter<'_>, call: &mut Call, op: fn(i128, i128) -> i128) -> Eval {
    let (a, b) = (receiver(vm, call)?, call.int(vm)?);
    Ok(Value::Int(wrap(op(a, b), call.int)))
}

/// Evaluates `to_string` of any value that has it.
pub(super) fn to_string(_: &mut Interpreter<'_>, call: &mut Call) -> Eval {
    Ok(Value::Str(fmt::display(&call.receiver).into()))
}
