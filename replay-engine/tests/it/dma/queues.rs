//! Tests of virtio rings: a recording with the device's memory, its replay in other memory, and rings that the check
//! refuses.

use super::{device, driver, need_qemu, open_device, play, refuse, with_actions};
use replay_core::Action;
use replay_engine::compile::{compile, compile_with};
use replay_engine::device::qemu::check_installed;
use replay_engine::device::{DeviceInfo, Target};
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits};
use replay_engine::run::Verdict;
use replay_engine::verify::{Reason, verify, verify_with};
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::screen::Picture;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample-traces/qemu/virtio-gpu.kine");
const DEVICE: &str = "virtio-gpu-pci,vectors=0";

fn sample() -> Recording {
    trace_core::container::from_bytes(std::fs::read(SAMPLE).unwrap()).unwrap()
}

fn virtio() -> DeviceInfo {
    let mut info = device("virtio-gpu", (0x1af4, 0x1050), ("bar4", 0x4000));
    info.windows.truncate(1);
    info
}

fn compiled_for(recording: &Recording, info: &DeviceInfo) -> Result<Compiled, CompileError> {
    compile(
        recording,
        &Edits::default(),
        info,
        &CompileOptions::default(),
        &Progress::new(),
    )
}

fn compiled() -> Compiled {
    let compiled = compiled_for(&sample(), &virtio()).unwrap();
    let verified = verify(&compiled.plan, &compiled.pages, &virtio()).unwrap();
    assert_eq!(verified.report().unproved, Vec::<String>::new());
    compiled
}

/// Returns the register map with one line changed.
fn map(from: &str, to: &str) -> RegisterMap {
    let text = |name: &str| {
        let path = format!("{}/../assets/registers/virtio-gpu/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    };
    let common = text("common.toml");
    assert!(common.contains(from), "{from}");
    let common = common.replacen(from, to, 1);
    let (head, isr, notify, own) = (
        text("map.toml"),
        text("isr.toml"),
        text("notify.toml"),
        text("device.toml"),
    );
    RegisterMap::parse(&[
        ("map.toml", &head),
        ("common.toml", &common),
        ("isr.toml", &isr),
        ("notify.toml", &notify),
        ("device.toml", &own),
    ])
    .unwrap()
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn queue_recording_replays_its_picture_at_other_addresses() {
    need_qemu!();
    let mut b = open_device(DEVICE);
    let recording = driver::record(&mut b);
    if std::env::var_os("KINESCOPE_WRITE_SAMPLES").is_some() {
        std::fs::write(SAMPLE, trace_core::container::to_bytes(&recording).unwrap()).unwrap();
    }
    for recording in [recording, sample()] {
        assert_eq!(recording.expected_screen().unwrap().unwrap(), driver::picture());
        let mut b = open_device(DEVICE);
        let compiled = compiled_for(&recording, &b.info()).unwrap();
        let moved = compiled
            .plan
            .rewrites
            .iter()
            .filter(|r| r.kind.name() == "address")
            .count();
        // The rewrites are five runs of memory and the sum.
        assert_eq!(moved, 6, "{:?}", compiled.plan.rewrites);
        assert!(
            compiled
                .plan
                .rewrites
                .iter()
                .any(|r| r.detail == "3 addresses in registers and 14 in memory are the agent's"),
            "{:?}",
            compiled.plan.rewrites
        );
        let outcome = play(&compiled, &mut b);
        assert_eq!(
            (outcome.verdict, &outcome.failure),
            (Verdict::Match, &None),
            "{:?}",
            outcome.effects()
        );
        assert!(outcome.accesses().unwrap().mastered_bus);
        let kinds: Vec<&str> = outcome.effects().iter().map(|e| e.kind.as_str()).collect();
        assert_eq!(kinds, ["screen", "interrupts"]);
        let first_outcome = trace_core::container::from_bytes(outcome.recording).unwrap();
        let shown: Picture = first_outcome.expected_screen().unwrap().unwrap();
        let drawn = driver::picture();
        let differ = shown.rgb().chunks(3).zip(drawn.rgb().chunks(3)).filter(|(a, b)| a != b);
        assert_eq!(
            (shown.width(), shown.height(), differ.count()),
            (driver::WIDTH, driver::HEIGHT, 0)
        );
        // The outcome replays like the recording.
        let again = compiled_for(&first_outcome, &b.info()).unwrap();
        let outcome = play(&again, &mut b);
        assert_eq!(
            (outcome.verdict, &outcome.failure),
            (Verdict::Match, &None),
            "{:?}",
            outcome.effects()
        );
        // Only memory addresses differ.
        let second_outcome = trace_core::container::from_bytes(outcome.recording).unwrap();
        for (a, b) in [
            (&recording, &first_outcome),
            (&first_outcome, &second_outcome),
            (&recording, &second_outcome),
        ] {
            let d = trace_core::diff::diff(a, b);
            assert!(d.is_empty() && trace_core::diff::diff(b, a).is_empty(), "{d:#?}");
            assert!(d.host_writes.same > 0, "{:#?}", d.host_writes);
        }
    }
}

#[test]
fn untyped_bus_address_refuses_bus_mastering_replay() {
    let typed =
        "role = \"bus-address\"\nzero = \"none\"\ndoc = \"Address on the bus of the ring that the driver fills.\"";
    let untyped = map(typed, &typed.replace("role = \"bus-address\"\n", ""));
    let options = CompileOptions::default();
    let e = compile_with(
        &sample(),
        &Edits::default(),
        &virtio(),
        &untyped,
        &options,
        &Progress::new(),
    )
    .unwrap_err();
    let message = "bus mastering refused: QUEUE_DRIVER_LO holds a bus address, but the map does not type it";
    assert!(e.to_string().contains(message), "{e}");
    // The agent also refuses a plan that was compiled with a different map.
    let compiled = compiled();
    let e = verify_with(&compiled.plan, &compiled.pages, &virtio(), &untyped).unwrap_err();
    assert!(e.to_string().contains(message), "{e}");
    // Commands are refused if their map entry has no addresses, or if they have no map entry.
    let command = map(
        "{ number = 0x106, name = \"RESOURCE_ATTACH_BACKING\", entries = { count-at = 28, first-at = 32, bytes = 16, address-at = 0, length-at = 8 } },",
        "{ number = 0x106, name = \"RESOURCE_ATTACH_BACKING\" },",
    );
    let e = compile_with(
        &sample(),
        &Edits::default(),
        &virtio(),
        &command,
        &options,
        &Progress::new(),
    )
    .unwrap_err();
    assert!(
        e.to_string()
            .contains("RESOURCE_ATTACH_BACKING, carries 0x210d000 at byte 32"),
        "{e}"
    );
    let unknown = map("    { number = 0x105, name = \"TRANSFER_TO_HOST_2D\" },\n", "");
    let e = compile_with(
        &sample(),
        &Edits::default(),
        &virtio(),
        &unknown,
        &options,
        &Progress::new(),
    )
    .unwrap_err();
    assert!(e.to_string().contains("0x105, has no entry in the map"), "{e}");
    let e = verify_with(&compiled.plan, &compiled.pages, &virtio(), &unknown).unwrap_err();
    assert!(matches!(e.reason, Reason::BusMastering { .. }), "{e}");
}

/// Changes the first action that `change` accepts.
fn first(change: impl Fn(&mut Action) -> bool) -> impl FnOnce(&mut Vec<Action>) {
    move |actions| assert!(actions.iter_mut().any(&change))
}

fn write_of(at: u64, new: u64) -> impl Fn(&mut Action) -> bool {
    move |a| match a {
        Action::Write { offset, value, .. } if *offset == at => {
            *value = new;
            true
        }
        _ => false,
    }
}

#[test]
fn invalid_descriptor_rings_are_refused() {
    let compiled = compiled();
    let base = compiled.plan.accesses().unwrap().arena.base.get();
    let used = compiled.plan.accesses().unwrap().used_pages * 4096;
    let is_address = move |v: u64| v >= base && v < base + used;
    // The relocated words start with the descriptors of the first command.
    let word = |n: usize, new: Box<dyn Fn(u64) -> u64>| {
        move |actions: &mut Vec<Action>| {
            let is_relocated = |a: &&mut Action| matches!(a, Action::Put { width: 8, value, .. } if is_address(*value));
            match actions.iter_mut().filter(is_relocated).nth(n) {
                Some(Action::Put { value, .. }) => *value = new(*value),
                _ => panic!("the plan has no such word"),
            }
        }
    };
    type Change = Box<dyn FnOnce(&mut Vec<Action>)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(word(0, Box::new(|_| 0x1000))),
            "names 24 bytes at 0x1000, which are not completely in the device's memory",
        ),
        (Box::new(word(1, Box::new(move |_| base + used - 8))), "names 408 bytes"),
        (
            Box::new(word(1, Box::new(|v| v | 1 << 63))),
            "which are not completely in the device's memory",
        ),
        // The device would write its answer over the descriptors and over its command.
        (
            Box::new(word(1, Box::new(move |_| base))),
            "over a queue that it reads addresses from",
        ),
        (
            Box::new(word(1, Box::new(move |_| base + 0x3000))),
            "overlaps one that it reads",
        ),
        // One entry of the backing is outside the agent's memory.
        (Box::new(word(6, Box::new(|v| v + 0x10_0000))), "entry 0 of the command"),
        (Box::new(first(write_of(0x18, 0))), "is enabled with 0 entries"),
        (Box::new(first(write_of(0x18, 24))), "is enabled with 24 entries"),
        (Box::new(first(write_of(0x18, 2048))), "is enabled with 2048 entries"),
        (Box::new(first(write_of(0x1c, 0))), "is enabled with the value 0"),
        (
            Box::new(first(write_of(0x20, base & 0xffff_ffff | 8))),
            "not aligned to 16",
        ),
        (Box::new(first(write_of(0x34, 0))), "QUEUE_DEVICE = 0x"),
        (
            Box::new(first(write_of(0x30, base & 0xffff_ffff))),
            "overlaps memory that the device reads addresses from",
        ),
        (Box::new(first(write_of(0x16, 99))), "queue 99 is selected"),
        // The driver accepts packed rings.
        (
            Box::new(first(|a| match a {
                Action::Write {
                    offset: 0xc,
                    value: v @ 1,
                    ..
                } => {
                    *v = 5;
                    true
                }
                _ => false,
            })),
            "features 0x5 of word 1",
        ),
        (
            Box::new(first(|a| match a {
                Action::Write { offset: 0x3000, .. } => {
                    let event = a.event();
                    let (space, offset, width, value) = (0, 0x3a, 2, 1);
                    *a = Action::Write {
                        event,
                        space,
                        offset,
                        width,
                        value,
                    };
                    true
                }
                _ => false,
            })),
            "QUEUE_RESET is written",
        ),
        (
            Box::new(first(|a| match a {
                Action::Until { space: 1, expected, .. } => {
                    *expected += 1;
                    true
                }
                _ => false,
            })),
            "does not show that the device is done",
        ),
        (
            Box::new(|actions| actions.retain(|a| !matches!(a, Action::Until { space: 1, .. }))),
            "while it is not known to be done with queue 0",
        ),
        (
            Box::new(|actions| {
                let reset = |a: &Action| matches!(a, Action::Until { offset: 0x14, .. });
                let at = actions.iter().position(reset).unwrap();
                actions.remove(at);
            }),
            "before the reset is known to be over",
        ),
        // The ring's index jumps.
        (
            Box::new(first(|a| match a {
                Action::Put { width: 2, value, .. } if *value == 1 => {
                    *value = 40;
                    true
                }
                _ => false,
            })),
            "receives 40 at once",
        ),
    ];
    for (n, (change, why)) in cases.into_iter().enumerate() {
        let e = refuse(&with_actions(&compiled, change), &virtio());
        assert!(e.to_string().contains(why), "{n}: {e}, not {why}");
        assert_eq!(e.rule, 2, "{n}: {e}");
    }
    // The recorded addresses are refused without the relocated words.
    let recorded = with_actions(&compiled, |actions| {
        actions.retain(|a| !matches!(a, Action::Put { width: 8, value, .. } if is_address(*value)));
    });
    let e = refuse(&recorded, &virtio()).to_string();
    assert!(e.contains("names 24 bytes at 0x2108000"), "{e}");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn different_picture_is_not_a_match() {
    need_qemu!();
    let mut recording = sample();
    let mut ppm = driver::picture().to_ppm();
    if let Some(last) = ppm.last_mut() {
        *last ^= 1;
    }
    recording.set_expected_screen(&Picture::from_ppm(&ppm).unwrap());
    let mut b = open_device(DEVICE);
    let compiled = compiled_for(&recording, &b.info()).unwrap();
    let outcome = play(&compiled, &mut b);
    assert_eq!(outcome.verdict, Verdict::Diverged);
    let screen = &outcome.effects()[0];
    assert_eq!((screen.kind.as_str(), screen.matched), ("screen", Some(false)));
}
