//! Types of one's own together with references, collections and closures.

use std::collections::{BTreeMap, HashMap};

shown! {
    fn changed_through_references() {
        #[derive(Debug, Clone, PartialEq)] enum Step { Send { to: usize }, Wait(u32), Stop }
        impl Step { fn advance(&mut self) -> bool { match self { Self::Send { to } => { *to += 1; true } Self::Wait(0) => { *self = Step::Stop; false } Self::Wait(n) => { *n -= 1; true } Self::Stop => false } } }
        let mut steps = vec![Step::Send { to: 1 }, Step::Wait(1), Step::Stop];
        let mut seen = vec![];
        for round in 0..2 { for step in &mut steps { seen.push((round, step.advance())); } }
        if let Some(Step::Send { to }) = steps.get_mut(0) { *to *= 10; }
        steps[1].advance();
        let last = steps.last_mut().unwrap();
        *last = Step::Wait(7);
        let old = std::mem::replace(&mut steps[0], Step::Stop);
        (steps, old, seen)
    }
    fn fields_of_elements_and_values() {
        #[derive(Debug, Clone, Copy, Default, PartialEq)] struct Cell { x: i32, y: (u8, [i32; 2]) }
        impl Cell { fn bump(&mut self, by: i32) -> &mut i32 { self.x += by; &mut self.x } }
        let mut cells = vec![Cell::default(); 3];
        cells[1].x += 4;
        cells[2].y.1[0] = 9;
        *cells[0].bump(2) *= 5;
        let mut map: BTreeMap<u8, Cell> = BTreeMap::new();
        map.entry(3).or_default().bump(1);
        map.entry(3).or_default().y.0 = 7;
        if let Some(cell) = map.get_mut(&3) { cell.bump(1); }
        let mut copy = cells[0];
        copy.x = -1;
        (cells, map, copy)
    }
    fn linked_list() {
        #[derive(Debug, Clone)] struct Node { value: i32, next: Option<Box<Node>> }
        let mut list: Option<Box<Node>> = None;
        for value in 0..4 { list = Some(Box::new(Node { value, next: list.take() })); }
        let (mut sum, mut at) = (0, &list);
        while let Some(node) = at { sum = sum * 10 + node.value; at = &node.next; }
        if let Some(node) = list.as_mut() && let Some(next) = &mut node.next { next.value = 50; }
        (sum, list)
    }
    fn closures_and_own_types() {
        #[derive(Debug, Default)] struct Log { lines: Vec<(usize, bool)> }
        impl Log { fn add(&mut self, n: usize) -> usize { self.lines.push((n, n % 2 == 0)); self.lines.len() } }
        struct Rule { name: u8, next: fn(usize) -> usize, limit: Option<usize> }
        fn twice(x: usize) -> usize { 2 * x }
        let mut log = Log::default();
        let rules = [Rule { name: 1, next: twice, limit: Some(3) }, Rule { name: 2, next: |x| x + 1, limit: None }];
        let mut run = |rule: &Rule, start| { let mut x = start; while x < rule.limit.unwrap_or(5) { x = (rule.next)(x); log.add(x); } (rule.name, x) };
        let ends = [run(&rules[0], 1), run(&rules[1], 2)];
        (ends, log)
    }
    fn tables_of_constants() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)] enum Size { Small = 1, Large = 64 }
        #[derive(Debug, Clone, Copy)] struct Row { size: Size, blocks: usize }
        impl Row {
            const TABLE: [Row; 2] = [Row { size: Size::Small, blocks: 1 }, Row { size: Size::Large, blocks: Self::MOST }];
            const MOST: usize = 8;
            const fn doubled(&self) -> usize { self.blocks * 2 }
        }
        let find = |bytes: usize| Row::TABLE.iter().rev().find(|row| row.size as usize <= bytes).map(Row::doubled);
        let kind = |n: usize| match n { 0 => 26, Row::MOST => 8, 1..Row::MOST => 1, _ => 2 };
        (find(3), find(100), find(0), Row::TABLE.iter().map(|row| row.size).max(), [1, 8, 9].map(|n| if n > 0 { n } else { 0 }))
    }
    fn nested_variants() {
        #[derive(Debug, Clone, Copy, PartialEq)] enum Side { Left, Right }
        #[derive(Debug, Clone, PartialEq)] enum Work { One(Side, Option<i32>), Many(Vec<Work>), None }
        fn count(work: &Work) -> i32 {
            match work {
                Work::One(Side::Left, Some(n @ 1..=9)) => *n,
                Work::One(_, Some(n)) if *n < 0 => -n,
                Work::One(Side::Right, None) => 100,
                Work::One(..) => 1000,
                Work::Many(all) => all.iter().map(count).sum(),
                Work::None => 0,
            }
        }
        let work = Work::Many(vec![Work::One(Side::Left, Some(3)), Work::One(Side::Right, Some(-4)), Work::One(Side::Right, None), Work::One(Side::Left, None), Work::Many(vec![Work::None])]);
        let Work::Many(ref all) = work else { unreachable!() };
        let [Work::One(first, _), .., last] = all.as_slice() else { panic!() };
        (count(&work), *first == Side::Left, last.clone(), Some(Work::One(*first, None)))
    }
    fn copies_are_values_of_their_own() {
        #[derive(Debug, Clone, Copy)] struct P { x: i32 }
        let a = P { x: 1 };
        let mut b = a;
        b.x = 2;
        let mut pair = (a, b);
        let P { x: mut y } = pair.1;
        y += 5;
        pair.0.x = y;
        let c = P { x: 9, ..pair.0 };
        (a, b, pair, c, y)
    }
    fn keys_and_counts() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)] enum Kind { Put, Get }
        let mut counts: HashMap<Kind, usize> = HashMap::new();
        for kind in [Kind::Get, Kind::Put, Kind::Get] { *counts.entry(kind).or_default() += 1; }
        let mut pairs: Vec<(Kind, usize)> = [Kind::Get, Kind::Put].iter().map(|kind| (*kind, counts[kind])).collect();
        pairs.sort_unstable_by_key(|(kind, n)| (std::cmp::Reverse(*n), *kind));
        pairs
    }
    fn early_returns_of_errors() {
        #[derive(Debug, PartialEq)] enum Fault { Missing(usize), Negative { at: usize, value: i64 } }
        fn read(list: &[i64], at: usize) -> Result<u32, Fault> {
            let value = *list.get(at).ok_or(Fault::Missing(at))?;
            if value < 0 { return Err(Fault::Negative { at, value }); }
            u32::try_from(value).map_err(|_| Fault::Missing(at))
        }
        fn total(list: &[i64], at: &[usize]) -> Result<u32, Fault> {
            let mut sum = 0;
            for index in at { sum += read(list, *index)?; }
            at.iter().map(|index| read(list, *index)).try_fold(sum, |sum, value| value.map(|value| sum + value))
        }
        [total(&[1, 2], &[0, 1]), total(&[1, -2], &[0, 1]), total(&[1], &[3])]
    }
    fn references_in_fields() {
        struct Writer<'a> { out: &'a mut Vec<i32>, base: &'a i32 }
        impl<'a> Writer<'a> {
            fn new(out: &'a mut Vec<i32>, base: &'a i32) -> Self { Self { out, base } }
            fn put(&mut self, n: i32) -> &mut Self { self.out.push(*self.base + n); self }
            fn reset(&mut self) { *self.out = vec![]; for x in self.out.iter_mut() { *x = 0; } }
            fn last(&self) -> Option<&i32> { self.out.last() }
        }
        let (mut list, base) = (vec![1], 10);
        let mut writer = Writer::new(&mut list, &base);
        writer.put(1).put(2);
        let last = writer.last().copied();
        let len = writer.out.len();
        { let Writer { out, .. } = &mut writer; out[0] = 7; }
        let kept = writer.out.clone();
        writer.reset();
        writer.put(5);
        (last, len, kept, list)
    }
    fn loops_over_own_state() {
        #[derive(Clone, Copy, Debug, PartialEq)] enum State { Start, Run { left: u8 }, End }
        let mut state = State::Start;
        let mut trace = vec![];
        let steps = loop {
            trace.push(state);
            state = match state { State::Start => State::Run { left: 2 }, State::Run { left: 0 } => State::End, State::Run { left } => State::Run { left: left - 1 }, State::End => break trace.len() };
        };
        while let State::End | State::Run { .. } = state { state = State::Start; }
        (steps, trace, state)
    }
    fn swapped_and_moved() {
        #[derive(Debug, Clone, Default, PartialEq)] struct Buf { id: u32, data: Vec<u8> }
        let (mut a, mut b) = (Buf { id: 1, data: vec![1] }, Buf { id: 2, ..Buf::default() });
        std::mem::swap(&mut a, &mut b);
        std::mem::swap(&mut a.data, &mut b.data);
        let moved = std::mem::take(&mut b);
        let mut all = vec![a, moved.clone()];
        all.swap(0, 1);
        let (left, right) = all.split_at_mut(1);
        std::mem::swap(&mut left[0].id, &mut right[0].id);
        let [first, second] = &mut all[..] else { panic!() };
        first.data.append(&mut second.data);
        let Buf { id, .. } = &mut all[1];
        *id += 40;
        (b, moved, all)
    }
    fn options_of_own_types() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)] struct Id(u32);
        let mut slot: Option<Id> = None;
        let first = *slot.get_or_insert(Id(4));
        if let Some(Id(n)) = slot.as_mut() { *n += 1; }
        if let Some(id) = &mut slot { id.0 *= 2; }
        let taken = if slot.is_some_and(|id| id.0 % 2 == 0) { slot.take() } else { None };
        (first, slot, taken, Some(Id(3)) > None, Some(Id(3)).max(Some(Id(2))), Some(Id(1)).map(|Id(n)| n))
    }
    fn shared_borrows_of_parts() {
        struct Grid { cells: Vec<Vec<u8>>, size: (usize, usize) }
        impl Grid {
            fn new(rows: usize, columns: usize) -> Self { Grid { cells: vec![vec![0; columns]; rows], size: (rows, columns) } }
            fn row(&mut self, row: usize) -> &mut Vec<u8> { &mut self.cells[row] }
            fn column(&self, column: usize) -> impl Iterator<Item = u8> { self.cells.iter().map(move |row| row[column]).collect::<Vec<_>>().into_iter() }
        }
        let mut grid = Grid::new(2, 3);
        grid.row(1)[2] = 5;
        grid.row(0).iter_mut().enumerate().for_each(|(i, cell)| *cell = i as u8);
        let Grid { cells, size: (rows, _) } = &grid;
        (cells.clone(), *rows, grid.column(2).collect::<Vec<_>>(), grid.size.1)
    }
}

refused! {
    fn sum_of_results() -> Result<i32, String> { [Ok(1), Err("bad".to_string())].into_iter().sum() } => NotInSubset
    fn changing_references_in_patterns() -> i32 { let mut pair = (1, 2); let (ref mut a, _) = pair; *a += 5; pair.0 } => NotInSubset
}
