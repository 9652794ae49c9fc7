//! Tests that need a process of their own: resets, lost contexts, machines without devices or drivers.

use crate::device_code::{DeviceCode, GLOBALS, VECTOR_ADD, address, dim};
use crate::runtime_library::RuntimeLibrary;
use std::process::Command;
use std::ptr::null_mut;

/// Runs one of the ignored tests in a process of its own.
fn run_alone(test: &str, environment: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", &format!("own_processes::{test}")]);
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

#[test]
fn a_reset_gives_variables_their_first_values() {
    run_alone("reset_alone", &[]);
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn reset_alone() {
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
    run_alone("lost_context_alone", &[("STAND_IN_FAIL", "kernel:1=700")]);
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn lost_context_alone() {
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
    run_alone("no_device_alone", &[("STAND_IN_FAIL", "cuInit:1=100")]);
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn no_device_alone() {
    let library = RuntimeLibrary::new(12);
    let (mut count, mut at) = (3, 0);
    assert_eq!(library.cudaGetDeviceCount(&raw mut count), 100);
    assert_eq!(count, 0);
    assert_eq!(library.cudaMalloc(&raw mut at, 4), 100);
    assert_eq!(library.cudaGetLastError(), 100);
}

#[test]
fn a_machine_without_a_driver_has_the_driver_version_zero() {
    run_alone("no_driver_alone", &[]);
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn no_driver_alone() {
    let library = RuntimeLibrary::without_driver(12);
    let (mut version, mut at) = (3, 0);
    assert_eq!(library.cudaDriverGetVersion(&raw mut version), 0);
    // The machine of the test may have a driver.
    if version == 0 {
        assert_eq!(library.cudaMalloc(&raw mut at, 4), 35);
        assert_eq!(library.cudaGetLastError(), 35);
    }
}
