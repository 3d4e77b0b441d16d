//! Random expressions, each of the type it is asked for.

use super::types::Ty;
use super::write::Writer;

impl Writer {
    /// An expression of a type, one that says what its type is.
    pub(super) fn typed(&mut self, int: &'static str, depth: usize) -> String {
        match self.var(Ty::Int(int)) {
            Some(var) if !self.rng.one_in(4) => var,
            _ if depth > 0 && self.rng.one_in(3) => {
                format!("({} + {})", self.typed(int, depth - 1), self.number(int, depth - 1))
            }
            _ => format!("{}{int}", self.rng.below(9)),
        }
    }
    pub(super) fn number(&mut self, int: &'static str, depth: usize) -> String {
        if depth == 0 {
            return match self.var(Ty::Int(int)) {
                Some(var) if !self.rng.one_in(3) => var,
                _ => {
                    let most = *self.rng.pick(&[7, 7, 7, 7, 120]);
                    self.rng.below(most).to_string()
                }
            };
        }
        let d = depth - 1;
        match self.rng.below(22) {
            0..=4 => {
                let op = *self.rng.pick(&["+", "+", "-", "*", "&", "|", "^"]);
                format!("({} {op} {})", self.number(int, d), self.number(int, d))
            }
            5 => {
                let op = *self.rng.pick(&["/", "%"]);
                let right = if self.rng.one_in(8) { self.number(int, d) } else { (1 + self.rng.below(5)).to_string() };
                format!("({} {op} {right})", self.number(int, d))
            }
            6 => {
                let op = *self.rng.pick(&["<<", ">>"]);
                let most = *self.rng.pick(&[4, 4, 4, 4, 4, 70]);
                format!("({} {op} {})", self.typed(int, d), self.rng.below(most))
            }
            7 => {
                let from = self.int();
                format!("(({}).rem_euclid(100) as {int})", self.typed(from, d))
            }
            8 => {
                let method = *self.rng.pick(&[
                    "min",
                    "max",
                    "saturating_sub",
                    "saturating_mul",
                    "wrapping_add",
                    "wrapping_mul",
                    "rem_euclid",
                    "div_euclid",
                ]);
                format!("({}).{method}({})", self.typed(int, d), self.number(int, d))
            }
            9 => {
                let method = *self.rng.pick(&["checked_add", "checked_mul", "checked_sub", "checked_rem"]);
                format!("({}).{method}({}).unwrap_or({})", self.typed(int, d), self.number(int, d), self.number(int, 0))
            }
            10 => format!("(if {} {{ {} }} else {{ {} }})", self.bool(d), self.number(int, d), self.number(int, d)),
            11 => format!(
                "(match {} {{ 0 => {}, 1..=3 => {}, x if x % 2 == 0 => x, _ => {} }})",
                self.typed(int, d),
                self.number(int, d),
                self.number(int, d),
                self.number(int, d)
            ),
            12 => {
                let (value, name) = (self.typed(int, d), self.name());
                self.vars.push((name.clone(), Ty::Int(int), false));
                let body = self.number(int, d);
                self.vars.pop();
                format!("{{ let {name} = {value}; {body} }}")
            }
            13 => format!("({}).pow({})", self.typed(int, d), self.rng.below(4)),
            14 => match int {
                "usize" => format!("{}.len()", self.list(self.vars.first().map_or("i32", |_| "u8"), d)),
                "u32" => format!("({}).count_ones()", self.typed("u8", d)),
                _ => self.typed(int, d),
            },
            15 => {
                let (list, name) = (self.list(int, d), self.name());
                self.vars.push((name.clone(), Ty::Int(int), false));
                let body = self.typed(int, d);
                self.vars.pop();
                let tail = *self.rng.pick(&[
                    "sum::<T>()",
                    "max().unwrap_or(3)",
                    "min().unwrap_or(4)",
                    "last().unwrap_or_default_()",
                ]);
                let tail = tail.replace('T', int).replace("last().unwrap_or_default_()", "fold(1, |a, b| a ^ b)");
                format!("{list}.into_iter().map(|{name}| {body}).{tail}")
            }
            16 => {
                let list = self.list(int, d);
                let at = self.number("usize", 0);
                format!(
                    "{{ let l = {list}; if l.is_empty() {{ {} }} else {{ l[({at}) % l.len()] }} }}",
                    self.number(int, 0)
                )
            }
            17 => format!("{}.map_or({}, |x| x)", self.option(int, d), self.number(int, d)),
            18 => format!("({} as {int})", self.bool(d)),
            19 => {
                let (a, b) = (self.typed(int, d), self.number(int, d));
                format!("{{ let (a, b) = ({a}, {b}); if a < b {{ a }} else {{ b }} }}")
            }
            20 => format!("apply_{int}(|x: {int}| x / 2, {})", self.number(int, d)),
            _ => self.typed(int, d),
        }
    }

    pub(super) fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .var(Ty::Bool)
                .unwrap_or_else(|| (if self.rng.one_in(2) { "true" } else { "false" }).to_owned());
        }
        let (d, int) = (depth - 1, self.int());
        match self.rng.below(8) {
            0..=2 => {
                let op = *self.rng.pick(&["<", "<=", "==", "!=", ">", ">="]);
                format!("({} {op} {})", self.typed(int, d), self.number(int, d))
            }
            3 => format!("(!{} || {} && {})", self.bool(d), self.bool(d), self.bool(d)),
            4 => format!("{}.contains(&{})", self.list(int, d), self.number(int, 0)),
            5 => format!("{}.iter().all(|x| *x < {})", self.list(int, d), self.number(int, 0)),
            6 => format!("matches!({}, Some(x) if x > {})", self.option(int, d), self.number(int, 0)),
            _ => format!("({} ^ {})", self.bool(d), self.bool(d)),
        }
    }

    pub(super) fn list(&mut self, int: &'static str, depth: usize) -> String {
        let var = self.var(Ty::List(int));
        if depth == 0 {
            return var
                .map_or_else(|| format!("vec![{}{int}, 5, 3]", self.rng.below(9)), |var| format!("{var}.clone()"));
        }
        let d = depth - 1;
        let small = |this: &mut Self| this.rng.below(5);
        match self.rng.below(12) {
            0 => format!("vec![{}; {}]", self.typed(int, d), small(self)),
            1 => format!("vec![{}, {}, {}]", self.typed(int, d), self.number(int, d), self.number(int, d)),
            2 => {
                let (start, count, name) = (small(self), small(self), self.name());
                self.vars.push((name.clone(), Ty::Int(int), false));
                let body = self.typed(int, d);
                self.vars.pop();
                let range = if self.rng.one_in(2) { ".." } else { "..=" };
                let rev = if self.rng.one_in(2) { ".rev()" } else { "" };
                format!("({start}{int}{range}{}){rev}.map(|{name}| {body}).collect::<Vec<{int}>>()", start + count)
            }
            3 => format!("{}.into_iter().filter(|x| x % 2 == 0).collect::<Vec<{int}>>()", self.list(int, d)),
            4 => format!("{}.into_iter().rev().skip({}).collect::<Vec<{int}>>()", self.list(int, d), small(self)),
            5 => format!(
                "{}.into_iter().chain({}).step_by(2).collect::<Vec<{int}>>()",
                self.list(int, d),
                self.list(int, d)
            ),
            6 => format!(
                "{}.iter().zip({}.iter()).map(|(a, b)| a ^ b).take({}).collect::<Vec<{int}>>()",
                self.list(int, d),
                self.list(int, d),
                small(self)
            ),
            7 => format!("{{ let mut l = {}; l.sort(); l.dedup(); l }}", self.list(int, d)),
            8 => format!("{{ let mut l = {}; l.push({}); l.reverse(); l }}", self.list(int, d), self.number(int, d)),
            9 => format!("{}.windows(2).map(|w| w[0].max(w[1])).collect::<Vec<{int}>>()", self.list(int, d)),
            10 => format!(
                "{{ let mut l = {}; for x in l.iter_mut() {{ *x /= 2; }} l.retain(|x| *x != 1); l }}",
                self.list(int, d)
            ),
            _ => format!(
                "{}.iter().enumerate().filter(|(i, _)| i % 2 == 0).map(|(_, x)| *x).collect::<Vec<{int}>>()",
                self.list(int, d)
            ),
        }
    }

    pub(super) fn option(&mut self, int: &'static str, depth: usize) -> String {
        let var = self.var(Ty::Option(int));
        if depth == 0 {
            return var.unwrap_or_else(|| format!("Some({}{int})", self.rng.below(9)));
        }
        let d = depth - 1;
        match self.rng.below(6) {
            0 => format!("Some({})", self.typed(int, d)),
            1 => format!("{}.iter().copied().find(|x| x % 3 == 1)", self.list(int, d)),
            2 => format!("{}.and_then(|x| x.checked_sub({}))", self.option(int, d), self.number(int, 0)),
            3 => format!("({}).then_some({})", self.bool(d), self.typed(int, d)),
            4 => format!("{}.first().copied().or({})", self.list(int, d), self.option(int, d)),
            _ => format!("{}.filter(|x| *x != {})", self.option(int, d), self.number(int, 0)),
        }
    }

    pub(super) fn value(&mut self, ty: Ty, depth: usize) -> String {
        match ty {
            Ty::Int(int) => self.number(int, depth),
            Ty::List(int) => self.list(int, depth),
            Ty::Option(int) => self.option(int, depth),
            Ty::Bool => self.bool(depth),
        }
    }
}
