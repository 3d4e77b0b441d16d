//! Which calls the simulator rejects during captures, as CUDA's driver does.

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{Options, machine};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{CaptureMode, Device, DriverError, SharedDriver};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("capture_modes::unsafe_call_invalidates_captures", unsafe_call_invalidates_captures),
        Trial::test("capture_modes::wait_for_captured_work_is_rejected", wait_for_captured_work_is_rejected),
        Trial::test("capture_modes::streams_can_be_polled_in_a_capture", streams_can_be_polled_in_a_capture),
    ]
}

/// Makes a call in a thread's capture, here or in another thread; returns the results of the call and of the capture's end.
fn in_capture(
    (is_global, is_here): (bool, bool),
    mode: CaptureMode,
    call: impl Fn(&SharedDriver) -> Result<(), DriverError> + Sync,
) -> Result<[bool; 2], Failed> {
    let driver = machine(Options { global_captures: is_global, ..Options::default() }, 2)?.swap_remove(0);
    let stream = driver.create_stream()?;
    driver.begin_capture(stream)?;
    let called = || {
        let before = driver.exchange_capture_mode(mode)?;
        let called = call(&driver);
        assert_eq!(driver.exchange_capture_mode(before)?, mode);
        Ok::<_, DriverError>(called)
    };
    let called = match is_here {
        true => called()?,
        false => std::thread::scope(|scope| scope.spawn(called).join()).map_err(|_| "it panicked")??,
    };
    let ended = driver.end_capture(stream).and_then(|graph| driver.destroy_graph(graph));
    driver.destroy_stream(stream)?;
    assert!(called.as_ref().err().is_none_or(DriverError::is_capture_error), "{called:?}");
    Ok([called.is_ok(), ended.is_ok()])
}

/// In the thread that captures, or in any thread for a capture in global mode, unless the thread's mode allows it.
fn unsafe_call_invalidates_captures() -> Result<(), Failed> {
    let allocate = |driver: &SharedDriver| driver.alloc(64).and_then(|address| driver.free(address));
    let copy = |driver: &SharedDriver| {
        let relaxed = driver.exchange_capture_mode(CaptureMode::Relaxed)?;
        let address = driver.alloc(64)?;
        driver.exchange_capture_mode(relaxed)?;
        let copied = driver.memcpy_to_device(address, &[1; 64]);
        driver.exchange_capture_mode(CaptureMode::Relaxed)?;
        driver.free(address)?;
        driver.exchange_capture_mode(relaxed)?;
        copied
    };
    let synchronize = |driver: &SharedDriver| {
        let other = driver.create_stream()?;
        let done = driver.synchronize(other);
        driver.destroy_stream(other).and(done)
    };
    type Call<'a> = &'a (dyn Fn(&SharedDriver) -> Result<(), DriverError> + Sync);
    let calls: [Call<'_>; 3] = [&allocate, &copy, &synchronize];
    for (number, call) in calls.into_iter().enumerate() {
        for is_global in [false, true] {
            for is_here in [false, true] {
                for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
                    let is_allowed = match mode {
                        CaptureMode::Global => !is_here && !is_global,
                        CaptureMode::ThreadLocal => !is_here,
                        CaptureMode::Relaxed => true,
                    };
                    let found = in_capture((is_global, is_here), mode, call)?;
                    if found != [is_allowed; 2] {
                        let case = format!("call {number}, global {is_global}, here {is_here}, {mode:?}: {found:?}");
                        return Err(case.into());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Waiting for a device that has a captured stream is rejected in any mode, by any thread.
fn wait_for_captured_work_is_rejected() -> Result<(), Failed> {
    for is_here in [false, true] {
        for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
            assert_eq!(in_capture((false, is_here), mode, |driver| driver.wait_idle())?, [false; 2]);
        }
    }
    let driver = machine(Options::default(), 2)?.swap_remove(0);
    let stream = driver.create_stream()?;
    driver.begin_capture(stream)?;
    let before = driver.exchange_capture_mode(CaptureMode::Relaxed)?;
    assert!(driver.synchronize(stream).is_err_and(|error| error.is_capture_error()));
    driver.exchange_capture_mode(before)?;
    assert!(driver.end_capture(stream).is_err_and(|error| error.is_capture_error()));
    Ok(driver.destroy_stream(stream)?)
}

/// Polls of the captured stream and of another one leave the capture valid.
fn streams_can_be_polled_in_a_capture() -> Result<(), Failed> {
    for global_captures in [false, true] {
        let driver = machine(Options { global_captures, ..Options::default() }, 2)?.swap_remove(0);
        let device = Device::with_driver(driver);
        let (stream, other) = (device.stream()?, device.stream()?);
        stream.capture(|stream| {
            assert!(!stream.is_idle()? && other.is_idle()?);
            assert!(matches!(stream.synchronize_watching(|| {}), Err(Error::Capturing { .. })));
            Ok(())
        })?;
        assert!(stream.is_idle()?);
    }
    Ok(())
}
