//! Tests that need a process of their own: resets, lost contexts, machines without devices or drivers.

use crate::device_code::{DeviceCode, GLOBALS, VECTOR_ADD, address, dim};
use crate::runtime_library::RuntimeLibrary;
use std::process::Command;
use std::ptr::null_mut;

/// The variable that says a process runs one test alone.
const ALONE: &str = "KINESCOPE_TEST_ALONE";

/// Whether this process runs `test` alone. In any other process, runs it in one of its own, with
/// `environment`, and asserts that it passes.
fn runs_alone(test: &str, environment: &[(&str, &str)]) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", &format!("own_processes::{test}")]);
    command.env(ALONE, "1").envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    false
}

#[test]
fn a_reset_gives_variables_their_first_values() {
    if !runs_alone("a_reset_gives_variables_their_first_values", &[]) {
        return;
    }
    for library in RuntimeLibrary::both() {
        let code = DeviceCode::register(library, &GLOBALS);
        let (mut word, eight) = (0_u32, 8_u32);
        assert_eq!(
            library.cudaMemcpyToSymbol(code.variable(1), address(&raw const eight), 4, 0, 1),
            0
        );
        assert_eq!(library.cudaDeviceReset(), 0);
        assert_eq!(
            library.cudaMemcpyFromSymbol(address(&raw mut word), code.variable(1), 4, 0, 2),
            0
        );
        assert_eq!(word, 7);
    }
}

#[test]
fn an_error_of_a_lost_context_stays() {
    if !runs_alone("an_error_of_a_lost_context_stays", &[("STAND_IN_FAIL", "kernel:1=700")]) {
        return;
    }
    let library = RuntimeLibrary::new(13);
    let code = DeviceCode::register(library, &VECTOR_ADD);
    let (mut zero, mut at) = (0_u64, 0);
    let mut arguments = [(&raw mut zero).cast(); 4];
    let launched = library.cudaLaunchKernel(code.function(0), dim(1), dim(1), arguments.as_mut_ptr(), 0, null_mut());
    assert_eq!(launched, 0);
    assert_eq!(library.cudaDeviceSynchronize(), 700);
    assert_eq!((library.cudaGetLastError(), library.cudaGetLastError()), (700, 700));
    assert_eq!(library.cudaMalloc(&raw mut at, 4), 700);
}

#[test]
fn a_machine_without_devices_has_the_count_zero() {
    if !runs_alone(
        "a_machine_without_devices_has_the_count_zero",
        &[("STAND_IN_FAIL", "cuInit:1=100")],
    ) {
        return;
    }
    let library = RuntimeLibrary::new(12);
    let (mut count, mut at) = (3, 0);
    assert_eq!(library.cudaGetDeviceCount(&raw mut count), 100);
    assert_eq!(count, 0);
    assert_eq!(library.cudaMalloc(&raw mut at, 4), 100);
    assert_eq!(library.cudaGetLastError(), 100);
}

#[test]
fn a_machine_without_a_driver_has_the_driver_version_zero() {
    if !runs_alone("a_machine_without_a_driver_has_the_driver_version_zero", &[]) {
        return;
    }
    let library = RuntimeLibrary::without_driver(12);
    let (mut version, mut at) = (3, 0);
    assert_eq!(library.cudaDriverGetVersion(&raw mut version), 0);
    // The machine of the test may have a driver.
    if version == 0 {
        assert_eq!(library.cudaMalloc(&raw mut at, 4), 35);
        assert_eq!(library.cudaGetLastError(), 35);
    }
}
