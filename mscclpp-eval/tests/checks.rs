//! `check = …` and `allow(…)`: what is asked of the plans of a collective.

/// Two thread blocks write one chunk, and nothing orders them.
const RACE: &str = "for rank in p.ranks() {
    rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
    rank.copy(rank.output().chunk(0), rank.input().chunk(0), 1);
}";
/// Both ranks wait before they signal.
const DEADLOCK: &str = "for rank in p.ranks() {
    let channel = rank.memory_channel(1 - rank.id());
    channel.wait(0);
    channel.signal(0);
}";
/// Rank 0 waits for a signal that nobody gives.
const UNMATCHED: &str = "for rank in p.ranks() {
    let channel = rank.memory_channel(1 - rank.id());
    if rank.id() == 0 {
        channel.wait(0);
    }
}";

fn expand(checks: &str, body: &str) -> String {
    let attribute = format!("Test(input = 1, output = 1), ranks = 2, {checks}");
    let function = format!("fn f(p: &Program) {{ {body} }}");
    mscclpp_eval::collective(attribute.parse().expect("tokens"), function.parse().expect("tokens")).to_string()
}

/// The slug of the first error; `None` if there is none.
fn refused(checks: &str, body: &str) -> Option<String> {
    let text = expand(checks, body);
    let (_, after) = text.split_once(" [M0")?;
    Some(after.split_once(' ')?.1.split(']').next()?.to_owned())
}

#[test]
fn levels_ask_what_they_say() {
    let table = [
        (RACE, Some("race"), None, None),
        (DEADLOCK, Some("deadlock"), None, None),
        (UNMATCHED, Some("unmatched-wait"), Some("unmatched-wait"), None),
    ];
    for (body, full, basic, off) in table {
        for (checks, expected) in [("", full), ("check = full", full), ("check = basic", basic), ("check = off", off)] {
            assert_eq!(refused(checks, body).as_deref(), expected, "{checks}: {body}");
        }
    }
}

#[test]
fn what_is_allowed_passes_and_nothing_else() {
    for (checks, body, expected) in [
        ("allow(race, redundant_transfer)", RACE, None),
        ("allow(M0210, M0229)", RACE, None),
        ("allow(deadlock, race, redundant_transfer)", RACE, None),
        ("allow(deadlock)", RACE, Some("race")),
        ("allow(race)", UNMATCHED, Some("unmatched-wait")),
        // What is let pass by one rule, the next one may still mind.
        ("allow(unmatched_wait)", UNMATCHED, Some("deadlock")),
    ] {
        assert_eq!(refused(checks, body).as_deref(), expected, "{checks}: {body}");
    }
}

#[test]
fn mistakes_in_them_say_what_there_is() {
    for (checks, parts) in [
        ("allow(rase)", ["unknown finding `rase`", "a similar name exists: `race`"]),
        ("allow(colour)", ["unknown finding `colour`", "expected one of: unmatched-wait, "]),
        ("allow(bad_operands)", ["`bad-operands` (M0203) cannot be allowed", "the other checks depend on it"]),
        ("allow(reversed_slice)", ["`reversed-slice` (M0005) cannot be allowed", "only findings of the plan checks"]),
        ("allow = race", ["`allow` is a list", "write `allow("]),
        ("check = most", ["`check` is one of full, basic, off", "write `check = full`"]),
    ] {
        let text = expand(checks, RACE);
        for part in parts {
            assert!(text.contains(part), "{checks}: {part}: {text}");
        }
    }
}

#[test]
fn the_documentation_says_how_much_was_checked() {
    for (checks, about) in [
        ("allow(race)", "built and checked while this crate was compiled; its author allows `race`."),
        ("check = basic", "checked in part only (`check = basic`): not for deadlocks, races and results."),
        ("check = off", "and not checked (`check = off`)."),
    ] {
        assert!(expand(checks, RACE).contains(about), "{checks}");
    }
}
