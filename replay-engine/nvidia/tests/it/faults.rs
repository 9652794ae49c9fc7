//! Faults of submissions on the model: what the client knows about them, and the next submission on new channels.

use crate::machine::{LONG, Machine, VIDEO, add_numbers, prepare_channel, room, set_up, submit};
use nvidia_client::{ClientError, MmuFault, Operation, PlayError, PlayFault, Player};
use nvidia_model::{ENDLESS_KERNEL, Settings};
use std::time::Duration;

/// Address that has no memory.
const UNMAPPED: u64 = 0x7f_0000_0000;
/// Time limit of a submission that never ends.
const SHORT: Duration = Duration::from_millis(20);

/// Runs a kernel that stores to an address, and returns the fault. Then new channels add numbers.
fn store(machine: &Machine, va: u64) -> PlayFault {
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let mut work = set_up(&mut player).unwrap();
    add_numbers(&mut player, &mut work).unwrap();
    let words = work.launch("fault", 1, 4, &va.to_le_bytes());
    let error = submit(&mut player, 77, &words).unwrap_err();
    let fault = *player.fault().unwrap();
    let code = fault.notifier.map(|n| n.code);
    assert_eq!(error, PlayError::Fault { event: 77, code });
    assert_eq!((fault.event, fault.fetched), (77, true));
    check_recovery(player);
    machine.assert_empty("a fault");
    fault
}

/// Asserts that a player works again after a fault.
fn check_recovery<K: nvidia_client::Kernel>(mut player: Player<'_, K>) {
    // The channels are gone: without new ones, nothing is executed.
    player.recover().unwrap();
    let mut work = prepare_channel(&mut player).unwrap();
    add_numbers(&mut player, &mut work).unwrap();
    player.close().unwrap();
}

#[test]
fn access_without_memory_has_its_address() {
    let machine = Machine::new(Settings::default());
    for va in [UNMAPPED, UNMAPPED + 0x123_4000] {
        let fault = store(&machine, va);
        assert_eq!(fault.notifier.map(|n| (n.code, n.engine)), Some((31, 1)));
        let expected = MmuFault { va, kind: 0, access: 1 };
        assert_eq!(fault.mmu_faults, [Some(expected), None, None, None]);
        assert_eq!(fault.refused, None);
    }
}

#[test]
fn misaligned_access_has_its_multiprocessor() {
    let machine = Machine::new(Settings::default());
    let fault = store(&machine, VIDEO + 2);
    assert_eq!(fault.notifier.map(|n| n.code), Some(13));
    let error = fault.sm_errors[0].unwrap();
    assert_eq!((error.sm, error.warp & 0xffff, error.address), (0, 15, VIDEO + 2));
    assert_eq!(fault.mmu_faults, [None; 4]);
    assert_eq!(fault.sm_errors[1], None);
}

#[test]
fn refused_details_leave_the_code() {
    for (failure, operation) in [
        ("alloc:83de:0x1b", Operation::Allocate(0x83de)),
        ("control:83de0328:0x56", Operation::Control(0x83de_0328)),
    ] {
        let machine = Machine::with_failures(failure);
        let fault = store(&machine, UNMAPPED);
        assert_eq!(fault.notifier.map(|n| n.code), Some(31));
        assert_eq!(fault.mmu_faults, [None; 4]);
        let refused = fault.refused.unwrap();
        assert!(
            matches!(refused, ClientError::Refused { operation: o, .. } if o == operation),
            "{refused}"
        );
    }
}

#[test]
fn endless_kernel_ends_with_the_time_limit() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(SHORT, &mut memories).unwrap();
    let mut work = set_up(&mut player).unwrap();
    // The kernel's code becomes a branch to itself.
    let upload = work.replace_code("fault", &ENDLESS_KERNEL);
    submit(&mut player, 1, &upload).unwrap();
    let words = work.launch("fault", 1, 1, &VIDEO.to_le_bytes());
    let error = submit(&mut player, 2, &words).unwrap_err();
    assert_eq!(error, PlayError::Fault { event: 2, code: None });
    let fault = *player.fault().unwrap();
    assert!(fault.fetched && fault.notifier.is_none());
    assert!(fault.after_ns >= SHORT.as_nanos() as u64);
    check_recovery(player);
    machine.assert_empty("an endless kernel");
}

#[test]
fn damaged_push_buffers_are_faults_of_their_event() {
    let machine = Machine::new(Settings::default());
    for (words, code) in [
        (vec![0xc000_0000u32], 32),
        (vec![1 << 29 | 1 << 16 | 3 << 13, 0xc7c0], 69),
    ] {
        let mut memories = room();
        let mut player = machine.player(LONG, &mut memories).unwrap();
        set_up(&mut player).unwrap();
        let error = submit(&mut player, 5, &words).unwrap_err();
        let expected = PlayError::Fault {
            event: 5,
            code: Some(code),
        };
        assert_eq!(error, expected);
        check_recovery(player);
    }
    machine.assert_empty("damaged push buffers");
}
