//! Every shipped algorithm, and every plan of a folder that is named in `MSCCLPP_PLANS`.

use std::path::PathBuf;

use libtest_mimic::Failed;
use mscclpp_core::plan::Plan;
use mscclpp_exec::algorithms::{self, Placement, Shipped};
use mscclpp_exec::cuda::{Device, World};
use mscclpp_exec::{DataType, Message};

use super::Tests;
use super::bits::Pair;

pub(crate) fn tests() -> Tests {
    let shipped = algorithms::all().iter().map(|algorithm| {
        let name = format!("plans::{}", algorithm.name());
        (name, Box::new(move |device: &Device| every_machine(device, algorithm)) as Box<_>)
    });
    let files = std::env::var_os("MSCCLPP_PLANS").and_then(|folder| std::fs::read_dir(folder).ok());
    let mut files: Vec<PathBuf> = files.into_iter().flatten().filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let files = files.into_iter().map(|file| {
        let name = format!("plans::file::{}", file.file_stem().unwrap_or_default().to_string_lossy());
        (name, Box::new(move |device: &Device| of_file(device, &file)) as Box<_>)
    });
    shipped.chain(files).collect()
}

/// Messages that divide evenly and that do not, short and long.
fn messages(ranks: u32) -> impl Iterator<Item = Message> {
    let ranks = u64::from(ranks);
    let f32 = [1, 64, 1021, 50_000].map(|count| Message::new(DataType::F32, count * ranks));
    let odd = [7, 3333].map(|count| Message::new(DataType::F16, count * ranks));
    f32.into_iter().chain(odd).map(Message::any_size)
}

fn check(device: &Device, plan: &Plan) -> Result<(), Failed> {
    let world = World::new(device, plan.num_ranks());
    for message in messages(plan.num_ranks()) {
        if let Some(mut pair) = Pair::new(&world, plan, message)? {
            pair.check(3)?;
        }
    }
    Ok(())
}

fn every_machine(device: &Device, algorithm: &Shipped) -> Result<(), Failed> {
    const MACHINES: [(u32, u32); 10] = [(2, 2), (3, 3), (4, 4), (7, 7), (8, 8), (2, 1), (4, 2), (6, 3), (8, 4), (3, 1)];
    let in_place: &[bool] = match algorithm.placement() {
        Placement::InPlace => &[true],
        Placement::OutOfPlace => &[false],
        Placement::Either => &[true, false],
    };
    for (ranks, ranks_per_node) in MACHINES.into_iter().filter(|&(ranks, node)| algorithm.supports(ranks, node)) {
        for &in_place in in_place {
            let mut spec = algorithm.spec(ranks, ranks_per_node);
            spec.collective.in_place = in_place;
            let plan = Plan::new(&algorithm.compile(spec, &algorithm.arguments([])?)?);
            check(device, &plan).map_err(|failed| {
                let what = failed.message().unwrap_or_default();
                format!("{ranks} ranks, {ranks_per_node} per node, in place {in_place}: {what}")
            })?;
        }
    }
    Ok(())
}

fn of_file(device: &Device, file: &PathBuf) -> Result<(), Failed> {
    let text = std::fs::read_to_string(file)?;
    match Plan::load(text.as_bytes()) {
        Ok(loaded) => check(device, &loaded),
        // Refused by the checks, which have tests of their own.
        Err(_) => Ok(()),
    }
}
