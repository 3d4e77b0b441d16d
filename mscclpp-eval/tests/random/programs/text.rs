//! Programs as Rust text.

use std::fmt::Write;

use super::tree::{Cond, Expr, Stmt};

fn expr_text(expr: &Expr) -> String {
    match expr {
        // With its type: `3 - 4` alone would be an `i32`, and -1.
        Expr::Number(number) => format!("{number}usize"),
        Expr::Ranks => "p.num_ranks()".to_owned(),
        Expr::Var(name) => name.clone(),
        Expr::Binary(op, a, b) => format!("({} {op} {})", expr_text(a), expr_text(b)),
        Expr::Helper(a, b) => format!("helper({}, {})", expr_text(a), expr_text(b)),
        Expr::Closure(name, a) => format!("{name}({})", expr_text(a)),
        Expr::Sum(count, name, body) => {
            format!("(0..{}).map(|{name}| {}).sum::<usize>()", expr_text(count), expr_text(body))
        }
        Expr::Index(list, at) => format!("{list}[{} % {list}.len()]", expr_text(at)),
        Expr::If(cond, a, b) => format!("(if {} {{ {} }} else {{ {} }})", cond_text(cond), expr_text(a), expr_text(b)),
    }
}

fn cond_text(cond: &Cond) -> String {
    match cond {
        Cond::Less(a, b) => format!("({} < {})", expr_text(a), expr_text(b)),
        Cond::Equal(a, b) => format!("({} == {})", expr_text(a), expr_text(b)),
        Cond::Not(a) => format!("!{}", cond_text(a)),
        Cond::Both(a, b) => format!("({} && {})", cond_text(a), cond_text(b)),
        Cond::Either(a, b) => format!("({} || {})", cond_text(a), cond_text(b)),
        Cond::Any(count, name, body) => format!("(0..{}).any(|{name}| {} % 3 == 1)", expr_text(count), expr_text(body)),
    }
}

pub(super) fn block_text(stmts: &[Stmt], out: &mut String) {
    out.push_str("{\n");
    for stmt in stmts {
        stmt_text(stmt, out);
    }
    out.push_str("}\n");
}

fn stmt_text(stmt: &Stmt, out: &mut String) {
    let e = expr_text;
    match stmt {
        Stmt::Let(name, value) => writeln!(out, "let mut {name} = {};", e(value)).unwrap(),
        Stmt::Add(name, value) => writeln!(out, "{name} += {};", e(value)).unwrap(),
        Stmt::Closure(name, param, body) => writeln!(out, "let {name} = |{param}: usize| {};", e(body)).unwrap(),
        Stmt::List(name, start, end, param, item, keep) => writeln!(
            out,
            "let mut {name}: Vec<usize> = ({}..{}).map(|{param}| {}).filter(|&{param}| ({}) % 2 == 0).collect();",
            e(start),
            e(end),
            e(item),
            e(keep)
        )
        .unwrap(),
        Stmt::Push(list, value) => writeln!(out, "{list}.push({});", e(value)).unwrap(),
        Stmt::For(name, start, end, body) => {
            write!(out, "for {name} in {}..={} ", e(start), e(end)).unwrap();
            block_text(body, out);
        }
        Stmt::Ranks(name, without, back, body) => {
            let rev = if *back { ".rev()" } else { "" };
            write!(out, "for {name} in p.ranks().filter(|r| r.id() != {}){rev}.map(|r| r.id()) ", e(without)).unwrap();
            block_text(body, out);
        }
        Stmt::Over(index, item, list, body) => {
            write!(out, "for ({index}, &{item}) in {list}.iter().enumerate() ").unwrap();
            block_text(body, out);
        }
        Stmt::While(name, start, body) => {
            writeln!(out, "let mut {name} = {};\nwhile {name} > 0 {{\n{name} /= 2;", e(start)).unwrap();
            block_text(body, out);
            out.push_str("}\n");
        }
        Stmt::If(cond, then, otherwise) => {
            write!(out, "if {} ", cond_text(cond)).unwrap();
            block_text(then, out);
            out.push_str("else ");
            block_text(otherwise, out);
        }
        Stmt::Leave(cond, leave) => {
            writeln!(out, "if {} {{ {}; }}", cond_text(cond), if *leave { "break" } else { "continue" }).unwrap();
        }
        Stmt::Copy([rank, to, from, block]) => writeln!(
            out,
            "let r = p.rank({}); r.copy(r.output().chunk({}), r.input().chunk({}), {});",
            e(rank),
            e(to),
            e(from),
            e(block)
        )
        .unwrap(),
        Stmt::Reduce([rank, to, first, count, block]) => writeln!(
            out,
            "let r = p.rank({}); let o: Vec<_> = (0..{}).map(|k| r.input().chunk({} + k)).collect(); \
             r.reduce(r.output().chunk({}), &o, {}).op(ReduceOp::Max);",
            e(rank),
            e(count),
            e(first),
            e(to),
            e(block)
        )
        .unwrap(),
        Stmt::Channel(memory, [from, to, dst, src, block, kind]) => {
            let (channel, relaxed) = if *memory { ("memory", ".relaxed()") } else { ("port", "") };
            writeln!(
                out,
                "let (a, b) = (p.rank({}), p.rank({})); let c = a.{channel}_channel(b); \
                 c.put(b.output().chunk({}), a.input().chunk({}), {}); \
                 match {} {{ 0 => {{ c.signal(0){relaxed}; }} 1 | 2 => {{ c.wait(1).sync(BlockSync::Both); }} \
                 3 => {{ c.handshake(0){relaxed}; }} \
                 4 => {{ a.{channel}_channels([b, c.peer()]).handshake(1).sync(BlockSync::After); }} \
                 5 => {{ [c, b.{channel}_channel(a)].handshake(0); }} _ => {{}} }}",
                e(from),
                e(to),
                e(dst),
                e(src),
                e(block),
                e(kind)
            )
            .unwrap();
        }
        Stmt::Barrier(rank, count) => writeln!(out, "p.rank({}).barrier(0..{});", e(rank), e(count)).unwrap(),
        Stmt::Scratch([rank, size, from, block]) => writeln!(
            out,
            "let r = p.rank({}); let s = r.scratch({} + 1); let g = p.thread_block_group([{}, 7]); \
             r.copy(s.chunk(0), r.input().chunk({}), &g);",
            e(rank),
            e(size),
            e(block),
            e(from)
        )
        .unwrap(),
    }
}
