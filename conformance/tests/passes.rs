//! The plans of MSCCL++ that executors run are those that the checker accepts.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::corpus::{Named, faulty, fragments, reference, size};
use mscclpp_core::check::check;
use mscclpp_exec::Error;
use mscclpp_validate::{
    DeviceLaunch, ExecutorForm, ProcessLaunch, Sharing, ValidationError, validate_devices, validate_form,
    validate_processes,
};

/// The reference plans that the checker accepts.
fn accepted() -> impl Iterator<Item = Named> {
    let all = reference().into_iter().chain(fragments()).chain(faulty().into_iter().map(|(named, _)| named));
    all.filter(|named| check(&named.plan).is_empty())
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_run_as_proved_with_registered_buffers() {
    run_as_proved(Sharing::Registered);
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_run_as_proved_with_staged_buffers() {
    run_as_proved(Sharing::Staged);
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_run_as_proved_with_lasting_buffers() {
    run_as_proved(Sharing::Lasting);
}

fn run_as_proved(sharing: Sharing) {
    let (mut plans, mut validated, mut wrong) = (0, 0, Vec::new());
    for Named { name, plan } in accepted() {
        plans += 1;
        let ranks = plan.ranks.len() as u32;
        for node in (1..=ranks).rev().filter(|node| ranks.is_multiple_of(*node)) {
            match validate_processes(&plan, &ProcessLaunch::new(ranks, node, sharing)) {
                Ok(()) => validated += 1,
                Err(ValidationError::Plan(Error::CrossNodeAccess { .. })) => {}
                Err(invalid) => wrong.push(format!("{name}, {node} per node: {invalid}")),
            }
        }
    }
    println!("{plans} plans, {validated} launches");
    assert!(wrong.is_empty(), "{} of {plans} plans\n{}", wrong.len(), wrong.join("\n"));
    assert!(plans > 100);
}

/// Returns the day's number, or `MSCCLPP_SEED`.
fn seed() -> u64 {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    std::env::var("MSCCLPP_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(days)
}

/// Number of operations of a plan from which on one launch of it, which the seed chooses, is validated instead of all.
const LARGE: usize = 2000;

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_run_as_proved_on_devices() {
    let (seed, mut plans, mut validated, mut wrong) = (seed(), 0, 0, Vec::new());
    println!("seed {seed}");
    for Named { name, plan } in accepted() {
        plans += 1;
        let mut launches = DeviceLaunch::all(&plan);
        let first = (seed % launches.len() as u64) as usize;
        launches.rotate_left(first);
        let most = if size(&plan) < LARGE { launches.len() } else { 1 };
        let mut right = 0;
        for launch in launches {
            match validate_devices(&plan, &launch) {
                Ok(()) => right += 1,
                Err(ValidationError::Plan(Error::CrossNodeAccess { .. })) => continue,
                Err(invalid) => wrong.push(format!("{name}, {launch}: {invalid}")),
            }
            if right == most {
                break;
            }
        }
        validated += right;
    }
    println!("{plans} plans, {validated} launches");
    assert!(wrong.is_empty(), "{} of {plans} plans with seed {seed}\n{}", wrong.len(), wrong.join("\n"));
    assert!(plans > 100 && validated > plans, "{plans} plans, {validated} launches");
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn specialized_kernels_of_reference_plans_execute_their_operations() {
    let (mut plans, mut kernels, mut without, mut wrong) = (0, 0, 0, Vec::new());
    for Named { name, plan } in accepted() {
        plans += 1;
        match validate_form(&plan, ExecutorForm::Kernel) {
            Ok(validated) => {
                kernels += validated.launches;
                without += usize::from(validated.launches == 0);
            }
            Err(invalid) => wrong.push(format!("{name}: {invalid}")),
        }
    }
    println!("{plans} plans, {kernels} kernels; {without} plans have none");
    assert!(wrong.is_empty(), "{} of {plans} plans\n{}", wrong.len(), wrong.join("\n"));
    assert!(plans > 100 && kernels > plans, "{plans} plans, {kernels} kernels");
}
