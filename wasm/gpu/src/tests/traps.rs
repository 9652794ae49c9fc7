//! Traps of the translator and of runs: two types with the same numbers and names.

use wasm_ptx::TrapKind as KernelTrap;
use wasm_run::TrapKind as RunTrap;

#[test]
fn traps_of_kernels_and_of_runs_have_the_same_numbers_and_names() {
    for kind in RunTrap::ALL {
        let kernel = KernelTrap::from_code(kind.number()).unwrap();
        assert_eq!((kernel.code(), kernel.message()), (kind.number(), kind.name()));
    }
    // Neither side knows another kind, but for the trap that makes the scheduler start a copy again.
    for number in (0..1000).chain([u32::MAX]) {
        assert_eq!(
            KernelTrap::from_code(number).is_some_and(|kind| kind != KernelTrap::MemoryReserve),
            RunTrap::from_number(number).is_some(),
            "{number}"
        );
    }
}
