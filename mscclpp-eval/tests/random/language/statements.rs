//! Random statements, and the variables that they declare.

use super::types::Ty;
use super::write::Writer;

impl Writer {
    pub(super) fn declare(&mut self, depth: usize) {
        let ty = self.ty();
        let (value, name) = (self.value(ty, depth), self.name());
        self.line(&format!("let mut {name}: {} = {value};", ty.text()));
        self.vars.push((name, ty, true));
    }

    pub(super) fn block(&mut self, depth: usize) {
        let mark = self.vars.len();
        for _ in 0..1 + self.rng.below(3) {
            self.stmt(depth);
        }
        self.vars.truncate(mark);
    }

    pub(super) fn stmt(&mut self, depth: usize) {
        let int = self.int();
        match self.rng.below(if depth == 0 { 8 } else { 14 }) {
            0 | 1 => self.declare(2),
            2 | 3 => {
                if let Some(var) = self.changing(Ty::Int(int)) {
                    let op = *self.rng.pick(&["=", "+=", "-=", "*=", "^=", "%=", "|="]);
                    let value = self.number(int, 2);
                    self.line(&format!("{var} {op} {value};"));
                }
            }
            4 => {
                if let Some(var) = self.changing(Ty::List(int)) {
                    let (at, value) = (self.number("usize", 1), self.number(int, 1));
                    let stmt = match self.rng.below(6) {
                        0 => format!("{var}.push({value});"),
                        1 => format!("if !{var}.is_empty() {{ let i = ({at}) % {var}.len(); {var}[i] = {value}; }}"),
                        2 => format!("{var}.swap({}, 0);", self.rng.below(2)),
                        3 => format!("{var}.extend([{value}, 1]);"),
                        4 => format!("{var}.truncate({});", self.rng.below(6)),
                        _ => format!("{{ let y = {value}; if let Some(x) = {var}.last_mut() {{ *x = y; }} }}"),
                    };
                    self.line(&stmt);
                }
            }
            5 => {
                if let Some(var) = self.changing(Ty::Int(int)) {
                    let outer = self.vars.clone();
                    self.vars.retain(|other| other.0 != var);
                    let value = self.number(int, 1);
                    self.vars = outer;
                    self.line(&format!("{{ let r = &mut {var}; *r ^= {value}; *r = *r / 2 + 1; }}"));
                }
            }
            6 => {
                if let Some(var) = self.changing(Ty::Int(int)) {
                    self.line(&format!("let mut add = |x: {int}| {{ {var} = {var} / 3 + x; {var} }}; add(1); add(2);"));
                }
            }
            7 => {
                // The type of this variable is known only by what comes later.
                let name = self.name();
                let (a, b) = (self.rng.below(9), self.rng.below(9));
                self.line(&format!("let mut {name} = {a}; {name} += {b};"));
                let typed = self.typed(int, 1);
                self.line(&format!("let {name}: {int} = {name} ^ {typed};"));
                self.vars.push((name, Ty::Int(int), false));
            }
            8 => {
                let condition = self.bool(2);
                self.line(&format!("if {condition} {{"));
                self.block(depth - 1);
                self.line("} else {");
                self.block(depth - 1);
                self.line("}");
            }
            9 => {
                let (name, end) = (self.name(), self.rng.below(4));
                self.line(&format!("'l{name}: for {name} in 0{int}..={end} {{"));
                self.vars.push((name.clone(), Ty::Int(int), false));
                self.block(depth - 1);
                let condition = self.bool(1);
                let leave = *self.rng.pick(&["break", "continue"]);
                self.line(&format!("if {condition} {{ {leave} 'l{name}; }}"));
                self.block(depth - 1);
                self.vars.pop();
                self.line("}");
            }
            10 => {
                let (list, name) = (self.list(int, 1), self.name());
                self.line(&format!("for {name} in {list} {{"));
                self.vars.push((name, Ty::Int(int), false));
                self.block(depth - 1);
                self.vars.pop();
                self.line("}");
            }
            11 => {
                let (option, name) = (self.option(int, 2), self.name());
                self.line(&format!("if let Some({name}) = {option} {{"));
                self.vars.push((name, Ty::Int(int), false));
                self.block(depth - 1);
                self.vars.pop();
                self.line("}");
            }
            12 => {
                let (name, start) = (self.name(), self.rng.below(20));
                self.line(&format!("let mut {name}: u8 = {start}; while {name} > 0 {{ {name} /= 2;"));
                self.block(depth - 1);
                self.line("}");
            }
            _ => {
                let name = self.name();
                let condition = self.bool(1);
                self.line(&format!(
                    "let mut {name} = 0u8; loop {{ {name} += 1; if {name} > 3 || {condition} {{ break; }}"
                ));
                self.block(depth - 1);
                self.line("}");
            }
        }
    }
}
