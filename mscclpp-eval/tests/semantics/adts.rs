//! Structs and enums: how they are made, matched, compared, shown and converted.

shown! {
    fn unit_and_tuple_structs() {
        #[derive(Debug, Clone, Copy, PartialEq)] struct Marker;
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)] struct Pair(i32, u8);
        let mut pair = Pair(3, 4);
        pair.0 += 10;
        let Pair(a, ..) = pair;
        let Pair(.., b) = pair;
        let pairs: Vec<Pair> = [1, 2].into_iter().map(|a| Pair(a, 9)).collect();
        let marker = Marker;
        let same = match marker { Marker => marker == Marker };
        (marker, pair.max(pairs[1]), same, a + i32::from(b))
    }
    fn constructors_are_functions() {
        #[derive(Debug, Clone, Copy)] struct Shift(usize);
        #[derive(Clone, Copy)] enum Way { Up(usize), Down { by: usize } }
        let make: fn(usize) -> Way = Way::Up;
        let ways: Vec<Way> = (0..2).map(Way::Up).chain([Way::Down { by: 7 }, make(9)]).collect();
        ways.iter().map(|way| match *way { Way::Up(by) => (by, Some(by).map(Shift)), Way::Down { by } => (by * 100, None) }).collect::<Vec<_>>()
    }
    fn struct_update_and_shorthand() {
        #[derive(Debug, Clone)] struct Config { blocks: usize, unit: u64, tags: Vec<i32> }
        let (blocks, base) = (3, Config { blocks: 1, unit: 16, tags: vec![1] });
        let Config { unit, ref tags, .. } = base;
        Config { blocks, unit: unit + tags.len() as u64, ..base.clone() }
    }
    fn enums_are_matched() {
        #[derive(Debug, Clone, PartialEq)] enum Phase { Idle, Send(usize, i32), Receive { from: usize, count: i32 } }
        use Phase::*;
        let phases = vec![Idle, Send(1, 2), Send(2, 30), Phase::Receive { from: 1, count: 5 }, Receive { from: 3, count: 6 }];
        phases.iter().map(|phase| {
            let n = match phase {
                Idle => 0,
                Send(1, n) => *n,
                Send(_, n) if *n > 20 => n * 2,
                Send(..) => -1,
                Receive { from: 1, .. } => 100,
                Phase::Receive { count, from: _ } => *count,
            };
            (n, matches!(phase, Send(_, 30) | Receive { from: 3, .. }))
        }).collect::<Vec<_>>()
    }
    fn enums_are_changed() {
        #[derive(Debug, Clone, PartialEq, Eq)] enum State { Waiting { left: u32 }, Done(Vec<u32>) }
        let mut states = vec![State::Waiting { left: 2 }, State::Done(vec![1])];
        for _ in 0..3 {
            for state in states.iter_mut() {
                match state {
                    State::Waiting { left: 0 } => *state = State::Done(vec![]),
                    State::Waiting { left } => *left -= 1,
                    State::Done(seen) => seen.push(seen.len() as u32),
                }
            }
        }
        let n = if let State::Done(seen) = &mut states[1] { seen.pop().unwrap() } else { 9 };
        (states, n)
    }
    fn discriminants_order_and_cast() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        enum Level { High = 10, Low = -3, Middle, Other = Level::BASE + 2 }
        impl Level { const BASE: isize = 3; }
        #[repr(u8)] #[derive(Clone, Copy)] enum Byte { A = 200, B }
        let mut levels = vec![Level::High, Level::Middle, Level::Other, Level::Low];
        levels.sort();
        let numbers = levels.iter().map(|level| *level as i64).collect::<Vec<_>>();
        (numbers, levels.clone(), Level::High > Level::Low, levels.iter().copied().max(), Byte::B as u8 - Byte::A as u8)
    }
    fn derived_order_is_by_variant_then_fields() {
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        enum Key { B(i32, i32), A { y: i32, x: i32 }, Unit }
        let mut keys = vec![Key::Unit, Key::A { x: 1, y: 2 }, Key::B(2, 0), Key::A { x: 5, y: 1 }, Key::B(1, 9), Key::B(1, -9)];
        keys.sort();
        keys
    }
    fn keys_of_maps() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)] enum Edge { Ring { at: usize }, Tree(usize) }
        use std::collections::{BTreeMap, HashSet};
        let mut counts = BTreeMap::new();
        let mut seen = HashSet::new();
        for edge in [Edge::Tree(1), Edge::Ring { at: 0 }, Edge::Tree(1)] { *counts.entry(edge).or_insert(0) += 1; seen.insert(edge); }
        (counts, seen.contains(&Edge::Tree(1)), seen.len())
    }
    fn recursive_types() {
        #[derive(Debug, Clone, PartialEq)] enum Tree { Leaf(u32), Node(Box<Tree>, Box<Tree>) }
        impl Tree {
            fn sum(&self) -> u32 { match self { Tree::Leaf(n) => *n, Tree::Node(a, b) => a.sum() + b.sum() } }
            fn double(&mut self) { match self { Self::Leaf(n) => *n *= 2, Self::Node(a, b) => { a.double(); b.double(); } } }
        }
        let mut tree = Tree::Node(Box::new(Tree::Leaf(3)), Box::new(Tree::Node(Box::new(Tree::Leaf(4)), Box::new(Tree::Leaf(5)))));
        tree.double();
        (tree.sum(), tree)
    }
    fn variants_named_like_those_of_the_language() {
        #[derive(Clone, Copy)] enum Op { None, Some(i32), Ok, Err(i32) }
        let plain = |op: Op| match op { Op::None => 0, Op::Some(n) => n, Op::Ok => 1, Op::Err(n) => -n };
        fn imported(op: Op) -> i32 { use Op::{None, Some}; match op { None => 10, Some(n) => n * 10, _ => 99 } }
        [Op::None, Op::Some(7), Op::Ok, Op::Err(4)].iter().flat_map(|op| [plain(*op), imported(*op)]).collect::<Vec<_>>()
    }
    fn methods() {
        #[derive(Debug, Clone)] struct Counter { value: u32, step: u32 }
        impl Counter {
            const START: u32 = 5;
            const TWICE: u32 = Self::START * 2;
            fn new(step: u32) -> Self { Self { value: Self::START, step } }
            fn next(&mut self) -> u32 { self.value += self.step; self.value }
            fn peek(self: &Self) -> u32 { self.value + self.step }
            fn faster(mut self) -> Self { self.step *= 2; self }
            fn run(&mut self, n: usize) -> Vec<u32> { (0..n).map(|_| self.next()).collect() }
            fn reset(counter: &mut Counter) { counter.value = Counter::START; }
        }
        let mut counter = Counter::new(1);
        let seen = counter.run(3);
        let mut other = counter.clone().faster();
        other.next();
        let peeked = Counter::peek(&counter);
        Counter::reset(&mut counter);
        (counter, seen, peeked + other.value, Counter::TWICE)
    }
    fn methods_of_enums() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)] enum Direction { Left, Right }
        impl Direction {
            const ALL: [Direction; 2] = [Self::Left, Self::Right];
            fn flip(self) -> Self { match self { Self::Left => Self::Right, Self::Right => Self::Left } }
            fn offset(&self) -> i32 { if *self == Direction::Left { -1 } else { 1 } }
        }
        type Way = Direction;
        (Direction::ALL.iter().map(|way| way.flip()).collect::<Vec<_>>(), Way::ALL.iter().map(Direction::offset).collect::<Vec<_>>())
    }
    fn aliases_and_self_in_patterns() {
        struct Point { x: i32, y: i32 }
        impl Point { fn sum(&self) -> i32 { let Self { x, y } = self; x + y } fn of(x: i32) -> Self { Self { x, ..Self { x: 0, y: 7 } } } }
        struct Wrapped(Point);
        impl Wrapped { fn inner(Self(point): &Self) -> i32 { point.sum() } }
        type P = Point;
        let P { x, .. } = P::of(3);
        (x, Wrapped::inner(&Wrapped(Point::of(1))))
    }
    fn constants_of_own_types() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)] struct Rgb(u8, u8, u8);
        const RED: Rgb = Rgb(255, 0, 0);
        impl Rgb { const BLACK: Self = Self(0, 0, 0); }
        (RED, match Rgb(0, 0, 0) { RED => 1, Rgb::BLACK => 2, Rgb(_, g, _) => g })
    }
    fn items_of_inner_scopes_shadow() {
        enum Kind { A, B }
        fn outer(kind: Kind) -> i32 { match kind { Kind::A => 1, Kind::B => 2 } }
        let inner = { enum Kind { B, C } let all = [Kind::B, Kind::C]; all.iter().map(|k| match k { Kind::B => 10, Kind::C => 20 }).sum::<i32>() };
        (outer(Kind::A) + outer(Kind::B), inner)
    }
}

panics! {
    fn panic_shows_values() -> i32 {
        #[derive(Debug)] enum Phase { Send { to: usize } }
        panic!("{:?}", Phase::Send { to: 3 })
    } => Panicked
}

refused! {
    fn lossy_cast_of_enum() -> u8 { enum E { A = 256, B } let _ = E::A; E::B as u8 } => LossyCast
    fn generic_enum() -> i32 { enum Either<T> { Left(T) } match Either::Left(1) { Either::Left(n) => n } } => NotInSubset
    fn display_by_hand() -> String {
        struct S;
        impl std::fmt::Display for S { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("s") } }
        S.to_string()
    } => NotInSubset
    fn order_by_hand() -> bool {
        #[derive(PartialEq)] enum E { A, B }
        impl PartialOrd for E { fn partial_cmp(&self, _: &Self) -> Option<std::cmp::Ordering> { None } }
        E::A < E::B
    } => NotInSubset
    fn impl_apart_from_its_type() -> bool {
        #[derive(PartialEq)] struct S(i32);
        fn compare() -> bool { impl PartialOrd for S { fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> { other.0.partial_cmp(&self.0) } } S(1) < S(2) }
        compare()
    } => NotInSubset
    fn conditional_variants() -> i32 { enum E { A, #[cfg(any())] B, C } E::C as i32 } => NotInSubset
    fn unions() -> i32 { union U { x: i32 } let u = U { x: 1 }; unsafe { u.x } } => NotInSubset
}
