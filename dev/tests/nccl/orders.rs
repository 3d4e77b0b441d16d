//! Sums of floats on devices with multicast objects: in switches, unless the program or its environment demands another order.

use crate::clients::{Test, all_ok, run, text};

const RANKS: usize = 3;

/// Which ranks forbid multicast objects, the order that each of them sets, and variables of the environment.
type Case<'a> = (&'a str, [&'a str; RANKS], &'a [(&'a str, &'a str)]);

const DEFAULT: [&str; RANKS] = ["default"; RANKS];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("sums_of_floats_are_in_switches_unless_the_order_is_demanded", each_order),
        ("ranks_that_demand_different_orders_are_told_both", different_orders),
    ]
}

/// Returns what the ranks print.
fn printed((forbidden, orders, variables): Case<'_>) -> Result<Vec<String>, String> {
    let variables = [&[("MSCCLPP_MOCK_MULTICAST", "8")], variables].concat();
    let outputs = run("orders", RANKS, &[&[forbidden], &orders[..]].concat(), &variables)?;
    all_ok(&outputs)?;
    Ok(outputs.iter().map(text).collect())
}

fn each_order() -> Result<(), String> {
    let same = "same-on-all-ranks";
    let cases: [(Case<'_>, bool); 7] = [
        (("none", DEFAULT, &[]), true),
        (("none", DEFAULT, &[("NCCL_NVLS_ENABLE", "2")]), true),
        (("none", DEFAULT, &[("MSCCLPP_ORDER", same)]), false),
        (("none", [same; RANKS], &[]), false),
        (("none", ["in-switch"; RANKS], &[("MSCCLPP_ORDER", same)]), true),
        (("all", DEFAULT, &[]), false),
        // What one rank forbids is forbidden on all.
        (("0", DEFAULT, &[]), false),
    ];
    for (case, by_switch) in cases {
        for text in printed(case)? {
            let served = text.lines().find_map(|line| line.strip_prefix("served by ")).unwrap_or(&text);
            if (served == "allreduce_switch") != by_switch || !served.starts_with("allreduce_") {
                return Err(format!("{case:?}: served by {served}, in the switch: {by_switch} expected"));
            }
        }
    }
    Ok(())
}

fn different_orders() -> Result<(), String> {
    for (orders, both) in [
        (["default", "default", "same-on-all-ranks"], ["in-switch", "same-on-all-ranks"]),
        (["rank-order", "any", "rank-order"], ["rank-order", "any"]),
    ] {
        for text in printed(("none", orders, &[]))? {
            if !text.contains("refused: ") || !both.iter().all(|order| text.contains(order)) {
                return Err(format!("{orders:?}: expected an error with {both:?}, found:\n{text}"));
            }
        }
    }
    Ok(())
}
