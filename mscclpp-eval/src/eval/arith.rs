//! Integer arithmetic, as in a debug build.

use mscclpp_core::diag::Code;

use super::value::Value;
use super::{Eval, Interpreter, Stop};
use crate::hir::{BinOp, Expr, ExprKind, IntTy, SpanId, TypeExpr};

/// Why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The result does not fit.
    Overflow,
    /// Division by zero.
    Zero,
    /// A shift by at least the number of bits of the type.
    Shift,
}

/// Computes `a op b` in an integer type.
pub(crate) fn compute(op: BinOp, a: i128, b: i128, int: IntTy) -> Result<i128, Fault> {
    let result = match op {
        BinOp::Add => a.checked_add(b),
        BinOp::Sub => a.checked_sub(b),
        BinOp::Mul => a.checked_mul(b),
        BinOp::Div | BinOp::Rem if b == 0 => return Err(Fault::Zero),
        BinOp::Div => a.checked_div(b),
        // `MIN % -1` overflows, although its result would fit.
        BinOp::Rem if b == -1 && a == int.min() => None,
        BinOp::Rem => a.checked_rem(b),
        BinOp::And => Some(a & b),
        BinOp::Or => Some(a | b),
        BinOp::Xor => Some(a ^ b),
        BinOp::Shl | BinOp::Shr if !(0..i128::from(int.bits())).contains(&b) => return Err(Fault::Shift),
        // Bits that are shifted out are lost without an error, as in Rust.
        BinOp::Shl => Some(wrap(a.wrapping_shl(b as u32), int)),
        BinOp::Shr => Some(a >> b),
    };
    result.filter(|result| int.holds(*result)).ok_or(Fault::Overflow)
}

/// Returns the value of a type with the same low bits.
pub(crate) fn wrap(value: i128, int: IntTy) -> i128 {
    let low = value & ((1 << int.bits()) - 1);
    if int.signed() && low > int.max() { low - (1 << int.bits()) } else { low }
}

impl<'t> Interpreter<'t> {
    /// Evaluates a literal. rustc also rejects one that its type cannot hold.
    pub(super) fn literal(&mut self, value: i128, expr: &'t Expr) -> Eval<i128> {
        let int = self.types.int(expr.id);
        // `-128i8` is negated afterwards, so the minimum may be one too large here.
        if int.holds(value) || (value < 0 && int.holds(-value)) {
            Ok(value)
        } else {
            Err(self.overflow(&value.to_string(), int, expr.tok))
        }
    }

    pub(super) fn overflow(&mut self, what: &str, int: IntTy, tok: SpanId) -> Stop {
        let message = format!("{what} overflows `{}` ({}..={})", int.name(), int.min(), int.max());
        let help = "reorder the computation, use a wider type, or say what is meant with `checked_…`, `wrapping_…` or \
                    `saturating_…`";
        self.fail_with(Code::Overflow, tok, message, Some(help))
    }

    /// Reports the fault of an operation.
    pub(crate) fn fault(&mut self, fault: Fault, op: BinOp, a: i128, b: i128, int: IntTy, tok: SpanId) -> Stop {
        let text = format!("{a} {} {b}", op.symbol());
        match fault {
            Fault::Overflow => self.overflow(&text, int, tok),
            Fault::Zero => self.fail(Code::DivisionByZero, tok, format!("{text} divides by zero")),
            Fault::Shift => {
                let message = format!("{text} shifts a `{}` by more than {} bits", int.name(), int.bits() - 1);
                self.fail(Code::Overflow, tok, message)
            }
        }
    }

    pub(super) fn binary(&mut self, op: BinOp, left: &'t Expr, right: &'t Expr, expr: &'t Expr) -> Eval {
        let (left, right) = (self.eval(left)?, self.eval(right)?);
        self.combine(op, left, right, expr.id, expr.tok)
    }

    /// Combines two values; `node` is the one for which inference recorded the type of the left side.
    fn combine(&mut self, op: BinOp, left: Value, right: Value, node: u32, tok: SpanId) -> Eval {
        match (left, right) {
            (Value::Int(a), Value::Int(b)) => {
                let int = self.types.int(node);
                compute(op, a, b, int).map(Value::Int).map_err(|fault| self.fault(fault, op, a, b, int, tok))
            }
            (Value::Bool(a), Value::Bool(b)) => match op {
                BinOp::And => Ok(Value::Bool(a & b)),
                BinOp::Or => Ok(Value::Bool(a | b)),
                BinOp::Xor => Ok(Value::Bool(a ^ b)),
                _ => Err(self.ill_typed(tok)),
            },
            (left @ Value::Place(_), right) | (left, right @ Value::Place(_)) => {
                self.combine(op, left.load(), right.load(), node, tok)
            }
            _ => Err(self.ill_typed(tok)),
        }
    }

    pub(super) fn assign_op(&mut self, op: BinOp, place: &'t Expr, value: &'t Expr, expr: &'t Expr) -> Eval {
        // As in Rust, the value of an operation on numbers is computed before its place.
        let value = self.eval(value)?;
        if let ExprKind::Var(var) = &place.kind {
            let old = self.variable(*var);
            let new = self.combine(op, old, value, place.id, expr.tok)?;
            self.assign_variable(*var, new);
            return Ok(Value::Unit);
        }
        let at = self.place(place)?;
        let new = self.combine(op, at.get(), value, place.id, expr.tok)?;
        self.change(&at, expr.tok, |old| *old = new)?;
        Ok(Value::Unit)
    }

    pub(super) fn neg(&mut self, value: &'t Expr, expr: &'t Expr) -> Eval {
        let int = self.types.int(expr.id);
        if let ExprKind::Int(literal, _) = &value.kind {
            // The literal of `-128i8`, which is already negated.
            return if int.holds(*literal) && int.signed() {
                Ok(Value::Int(*literal))
            } else {
                Err(self.overflow(&literal.to_string(), int, expr.tok))
            };
        }
        let value = self.integer(value)?;
        if int.signed() && int.holds(-value) {
            Ok(Value::Int(-value))
        } else {
            Err(self.overflow(&format!("-({value})"), int, expr.tok))
        }
    }

    pub(super) fn not(&mut self, value: &'t Expr, expr: &'t Expr) -> Eval {
        match self.eval(value)?.load() {
            Value::Bool(value) => Ok(Value::Bool(!value)),
            Value::Int(value) => Ok(Value::Int(wrap(!value, self.types.int(expr.id)))),
            _ => Err(self.ill_typed(expr.tok)),
        }
    }

    pub(super) fn cast(&mut self, value: &'t Expr, ty: &TypeExpr, expr: &'t Expr) -> Eval {
        let int = match ty {
            TypeExpr::Int(int) => *int,
            _ => self.types.int(expr.id),
        };
        match self.eval(value)?.load() {
            Value::Int(value) if int.holds(value) => Ok(Value::Int(value)),
            Value::Bool(value) => Ok(Value::Int(i128::from(value))),
            Value::Adt(value) if int.holds(value.discriminant) => Ok(Value::Int(value.discriminant)),
            Value::Int(value) => Err(self.lossy(value, int, expr.tok)),
            Value::Adt(value) => Err(self.lossy(value.discriminant, int, expr.tok)),
            _ => Err(self.ill_typed(expr.tok)),
        }
    }

    fn lossy(&mut self, value: i128, int: IntTy, tok: SpanId) -> Stop {
        let message = format!("{value} does not fit into `{0}` ({1}..={2})", int.name(), int.min(), int.max());
        let help = "`as` would change the number; if that is meant, say it with `rem_euclid`, `wrapping_…` or a mask";
        self.fail_with(Code::LossyCast, tok, message, Some(help))
    }

    /// Converts between integers, or from a boolean.
    pub(super) fn convert(&mut self, value: &'t Expr, int: IntTy, fallible: bool, tok: SpanId) -> Eval {
        let value = match self.eval(value)?.load() {
            Value::Int(value) => value,
            Value::Bool(value) => i128::from(value),
            _ => return Err(self.ill_typed(tok)),
        };
        match (int.holds(value), fallible) {
            (true, true) => Ok(Value::ok(Value::Int(value))),
            (true, false) => Ok(Value::Int(value)),
            (false, true) => Ok(Value::err(Value::TryFromIntError)),
            (false, false) => Err(self.ill_typed(tok)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, compute, wrap};
    use crate::hir::{BinOp, IntTy};

    /// Every operation on all pairs of `i8` and of `u8`, against Rust itself.
    #[test]
    fn eight_bit_arithmetic_is_rusts() {
        macro_rules! check {
            ($ty:ty, $int:expr) => {
                for a in <$ty>::MIN..=<$ty>::MAX {
                    for b in <$ty>::MIN..=<$ty>::MAX {
                        let shift = u32::try_from(b).ok();
                        let zero = b == 0;
                        let cases = [
                            (BinOp::Add, a.checked_add(b)),
                            (BinOp::Sub, a.checked_sub(b)),
                            (BinOp::Mul, a.checked_mul(b)),
                            (BinOp::Div, a.checked_div(b)),
                            (BinOp::Rem, a.checked_rem(b)),
                            (BinOp::And, Some(a & b)),
                            (BinOp::Or, Some(a | b)),
                            (BinOp::Xor, Some(a ^ b)),
                            (BinOp::Shl, shift.and_then(|shift| a.checked_shl(shift))),
                            (BinOp::Shr, shift.and_then(|shift| a.checked_shr(shift))),
                        ];
                        for (op, expected) in cases {
                            let found = compute(op, i128::from(a), i128::from(b), $int);
                            let fault = match op {
                                BinOp::Div | BinOp::Rem if zero => Fault::Zero,
                                BinOp::Shl | BinOp::Shr => Fault::Shift,
                                _ => Fault::Overflow,
                            };
                            let expected = expected.map(i128::from).ok_or(fault);
                            assert_eq!(found, expected, "{a} {} {b}", op.symbol());
                        }
                    }
                }
            };
        }
        check!(i8, IntTy::I8);
        check!(u8, IntTy::U8);
    }

    #[test]
    fn wide_products_overflow_instead_of_wrapping() {
        let max = i128::from(u64::MAX);
        assert_eq!(compute(BinOp::Mul, max, max, IntTy::U64), Err(Fault::Overflow));
        assert_eq!(compute(BinOp::Add, max, 0, IntTy::U64), Ok(max));
        assert_eq!(compute(BinOp::Shl, max, 63, IntTy::U64), Ok(1 << 63));
    }

    #[test]
    fn wrapping_keeps_the_low_bits() {
        for value in -1000_i128..1000 {
            assert_eq!(wrap(value, IntTy::I8), i128::from(value as i8));
            assert_eq!(wrap(value, IntTy::U16), i128::from(value as u16));
        }
    }
}
