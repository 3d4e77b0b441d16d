//! Changes of loops.

use mscclpp_core::plan::raw::Op;

use super::mutants::Operator;

/// Returns the changes of the loop at a location, and the number of each.
pub(crate) fn variants(ops: &[Op], index: usize) -> Vec<(Operator, usize)> {
    use Operator as O;
    let Some(body) = &ops[index].body else { return Vec::new() };
    let inner = body.ops.len();
    let is_loop = |op: &Op| op.body.is_some();
    vec![
        (O::Split, inner.saturating_sub(1)),
        (O::Merge, usize::from(ops.get(index + 1).is_some_and(is_loop))),
        (O::MoveOut, 2 * inner),
        (O::MoveIn, 2),
        (O::Rotate, usize::from(inner > 1)),
        (O::Peel, 2),
        (O::LoopOrder, usize::from(ops[index + 1..].iter().any(is_loop))),
        (O::Span, 2),
    ]
}

/// Applies a change; `None` if there is nothing to change.
pub(crate) fn apply(ops: &mut Vec<Op>, index: usize, operator: Operator, variant: usize) -> Option<()> {
    use Operator as O;
    let body = |ops: &mut Vec<Op>| ops.get_mut(index).and_then(|op| op.body.take());
    match operator {
        O::Split => {
            let mut second = ops[index].clone();
            let at = variant + 1;
            let rest = ops[index].body.as_mut()?.ops.split_off(at);
            second.body.as_mut()?.ops = rest;
            ops.insert(index + 1, second);
        }
        O::Merge => {
            let next = body_of(ops.remove(index + 1))?;
            ops[index].body.as_mut()?.ops.extend(next);
        }
        O::MoveOut => {
            let body = ops[index].body.as_mut()?;
            if body.ops.len() < 2 {
                return None;
            }
            let moved = body.ops.remove(variant / 2);
            ops.insert(index + variant % 2, moved);
        }
        O::MoveIn => {
            let from = if variant == 0 { index.checked_sub(1)? } else { index + 1 };
            if ops.get(from)?.body.is_some() {
                return None;
            }
            let moved = ops.remove(from);
            let body = ops[if variant == 0 { index - 1 } else { index }].body.as_mut()?;
            let at = if variant == 0 { 0 } else { body.ops.len() };
            body.ops.insert(at, moved);
        }
        O::Rotate => ops[index].body.as_mut()?.ops.rotate_left(1),
        O::Peel => {
            let at = index + variant;
            let copies = ops[index].body.as_ref()?.ops.clone();
            ops.splice(at..at, copies);
        }
        O::LoopOrder => {
            let other = (index + 1..ops.len()).find(|&other| ops[other].body.is_some())?;
            let (first, second) = (body(ops)?, ops[other].body.take()?);
            (ops[index].body, ops[other].body) = (Some(second), Some(first));
        }
        O::Span => {
            let body = ops[index].body.as_mut()?;
            let factor = variant as u32 + 2;
            body.unit *= u64::from(factor);
            body.num_chunks *= factor;
        }
        _ => return None,
    }
    Some(())
}

fn body_of(op: Op) -> Option<Vec<Op>> {
    op.body.map(|body| body.ops)
}
