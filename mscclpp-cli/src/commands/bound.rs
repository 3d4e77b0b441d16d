//! `mscclpp bound`: a time that no algorithm is below.

use std::process::ExitCode;

use mscclpp_predict::{Bound, Certificate, Direction, Machine, lower_bound};
use serde_json::{Value, json};

use super::machine::load;
use crate::args::BoundArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::output::{print, print_json};
use crate::report::three_digits;
use crate::size::human;

/// Prints the lower bound of a collective with its certificate.
///
/// # Errors
/// Those of the machine; [`Error::Usage`] for ranks that it does not have.
pub(crate) fn bound(args: &BoundArgs) -> Result<ExitCode> {
    let machine = load(&args.machine)?;
    let ranks = args.ranks.unwrap_or(machine.ranks);
    let found =
        lower_bound(args.collective, &machine, ranks, args.size).map_err(|error| Error::Usage(error.to_string()))?;
    if args.json {
        print_json(&value(args, &machine, ranks, &found))?;
    } else {
        print(text(args, &machine, ranks, &found))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

fn value(args: &BoundArgs, machine: &Machine, ranks: u32, bound: &Bound) -> Value {
    json!({
        "collective": args.collective.name(),
        "machine": machine.name,
        "ranks": ranks,
        "bytes": args.size,
        "bound_us": bound.time_us,
        "throughput_us": bound.throughput_us,
        "latency_us": bound.latency_us,
        "algbw_gbps": Some(bound.algbw_gb_per_s).filter(|rate| rate.is_finite()),
        "without_multicast_us": bound.without_multicast_us,
        "load_reduce_us": bound.load_reduce_us,
        "certificate": bound.certificate.as_ref().map(|certificate| json!({
            "sets": certificate.sets,
            "gb_per_s": certificate.gb_per_s,
            "messages": certificate.messages,
            "direction": direction(certificate),
        })),
    })
}

fn direction(certificate: &Certificate) -> &'static str {
    match certificate.direction {
        Direction::Leave => "leave",
        Direction::Enter => "enter",
    }
}

/// Formats microseconds.
pub(crate) fn us(value: f64) -> String {
    format!("{} us", three_digits(value))
}

fn text(args: &BoundArgs, machine: &Machine, ranks: u32, bound: &Bound) -> String {
    let mut lines = vec![
        format!(
            "{} of {} on {ranks} ranks of {}: at least {}",
            args.collective.name(),
            human(args.size),
            machine.name,
            us(bound.time_us)
        ),
        format!("latency: at least {}", us(bound.latency_us)),
    ];
    if let Some(certificate) = &bound.certificate {
        lines.push(format!("throughput: at least {}, {:.3} GB/s", us(bound.throughput_us), bound.algbw_gb_per_s));
        let sets: Vec<_> = certificate.sets.iter().map(|set| format!("{{{}}}", set.join(", "))).collect();
        let messages = (certificate.messages * 1e4).round() / 1e4;
        lines.push(format!(
            "because {messages} {} must {} over {} GB/s: {}",
            if messages == 1.0 { "message" } else { "messages" },
            direction(certificate),
            certificate.gb_per_s,
            sets.join(" ")
        ));
    }
    if let Some(other) = bound.load_reduce_us {
        lines.push(format!("with loads that a switch reduces, which load the own part, too: at least {}", us(other)));
    }
    if let Some(other) = bound.without_multicast_us {
        lines.push(format!("without sums and multicast in switches: at least {}", us(other)));
    }
    lines.join("\n")
}
