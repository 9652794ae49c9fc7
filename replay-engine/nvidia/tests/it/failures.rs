//! Each request of a client that can be refused, at each of its calls: an error, and nothing left.

use crate::machine::{LONG, Machine, add_numbers, room, set_up};
use nvidia_client::{ClientError, PlayError};
use nvidia_model::Settings;

/// Status of missing memory.
const STATUS: u32 = 0x51;

/// Opens a GPU, plays on it, and closes it.
fn play(machine: &Machine) -> Result<(), PlayError> {
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories)?;
    let played = set_up(&mut player).and_then(|mut work| add_numbers(&mut player, &mut work));
    let closed = player.close();
    played.and(closed)
}

/// Refuses call 1, 2, … of a request, until all calls of it succeed. Returns the number of refused calls.
fn refuse_each(request: &str) -> usize {
    for call in 1..100 {
        let failure = format!("{request}:{STATUS:#x}@{call}");
        let settings = Settings::default().with_failures(&failure).unwrap();
        let machine = Machine::new(settings);
        let played = play(&machine);
        machine.assert_empty(&failure);
        match played {
            Err(PlayError::Client(ClientError::Refused { status: STATUS, .. })) => {}
            // Without what watches faults, a replay works. Video memory that is refused is asked for again, without a
            // mapping for the CPU, and written by copies.
            Ok(()) if request == "alloc:83de" || request.starts_with("request:") && call < 9 => {}
            Ok(()) => return call - 1,
            Err(e) => panic!("{failure}: {e}"),
        }
        if request == "alloc:83de" {
            return 1;
        }
    }
    panic!("{request} is called a hundred times");
}

#[test]
fn refused_allocations_leave_nothing() {
    for (class, calls) in [
        (0x41, 1),
        (0x80, 1),
        (0x2080, 1),
        (0xc661, 1),
        (0x90f1, 1),
        (0x70, 1),
        (0x3e, 4),
        (0xa06c, 1),
        (0x9067, 1),
        (0xc86f, 3),
        (0xcbc0, 1),
        (0xc8b5, 3),
        (0x83de, 1),
    ] {
        assert_eq!(refuse_each(&format!("alloc:{class:x}")), calls, "class {class:#x}");
    }
}

#[test]
fn refused_controls_leave_nothing() {
    for (command, calls) in [
        (0x205u32, 1),
        (0x80_0292, 1),
        (0x2080_1201, 1),
        (0x2080_0110, 1),
        (0xc36f_0108, 3),
        (0xa06c_0101, 1),
    ] {
        assert_eq!(
            refuse_each(&format!("control:{command:x}")),
            calls,
            "command {command:#x}"
        );
    }
}

#[test]
fn refused_mappings_leave_nothing() {
    assert!(refuse_each("request:57") >= 5, "mappings for the GPU");
    assert!(refuse_each("request:4e") >= 5, "mappings for the CPU");
}

#[test]
fn missing_video_memory_leaves_nothing() {
    for bytes in [0, 0x20_0000, 0x40_0000] {
        let machine = Machine::new(Settings::default().with_memory(bytes));
        let error = play(&machine).unwrap_err();
        let is_refusal = matches!(error, PlayError::Client(ClientError::Refused { status: STATUS, .. }));
        assert!(is_refusal, "{bytes:#x}: {error}");
        machine.assert_empty("no video memory");
    }
}
