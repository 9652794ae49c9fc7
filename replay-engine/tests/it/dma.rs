//! Tests of devices with DMA: plans as text, the plans that the check refuses, and runs in a real QEMU. Without QEMU,
//! the latter tests print that they are skipped.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail in these ways"
)]

mod driver;
mod hostile;
mod queues;

use replay_core::{Action, Actions, Device as _};
use replay_engine::device::qemu::{Name, QemuReplayDevice, check_installed};
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface, RegisterTarget, Target, Window};
use replay_engine::plan::text::{Files, NoFiles, assemble, print_with_pages};
use replay_engine::plan::{BodyBuilder, Compiled, Effect};
use replay_engine::run::{Outcome, Verdict, run};
use replay_engine::verify::{Reason, Refusal, verify};
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, PciFunction, SpaceKind};
use trace_core::{PAGE_SIZE, PhysAddr};

const EDU: &str = include_str!("../../../sample-traces/edu.plan.txt");

macro_rules! need_qemu {
    () => {
        if check_installed().is_err() {
            println!("skipped: no QEMU (qemu-system-x86)");
            return;
        }
    };
}
pub(crate) use need_qemu;

fn open_device(name: &str) -> QemuReplayDevice {
    QemuReplayDevice::new(&Name::parse(name).unwrap()).unwrap()
}

/// Returns a device on a bus. Its arena differs from that of every sample.
fn device(map: &str, ids: (u16, u16), window: (&str, u64)) -> DeviceInfo {
    DeviceInfo {
        name: map.into(),
        description: String::new(),
        gpu_id: 0,
        gpu_name: map.into(),
        register_map: map.into(),
        containment: Containment::None,
        hardware: Some(Hardware::Pci(PciFunction {
            vendor: ids.0,
            device: ids.1,
            ..PciFunction::default()
        })),
        windows: vec![
            Window {
                number: 0,
                name: window.0.into(),
                kind: SpaceKind::Registers,
                bytes: window.1,
            },
            Window {
                number: 2,
                name: "bar5".into(),
                kind: SpaceKind::Registers,
                bytes: 0x1000,
            },
        ],
        arena: Arena {
            base: PhysAddr::new(0x8_7654_0000),
            pages: 64,
        },
        interface: DeviceInterface::Registers,
        virtual_time: false,
        computes: false,
    }
}

fn edu() -> DeviceInfo {
    device("edu", (0x1234, 0x11e8), ("bar0", 1 << 20))
}

/// Changes, relocates and verifies the sample's text.
fn verify_text(from: &str, to: &str) -> Result<Compiled, String> {
    assert!(EDU.contains(from), "{from}");
    let whole = assemble(&EDU.replacen(from, to, 1), &NoFiles).map_err(|e| e.to_string())?;
    let compiled = whole.moved_to(&edu()).map_err(|e| e.to_string())?;
    verify(&compiled.plan, &compiled.pages, &edu()).map_err(|e| e.to_string())?;
    Ok(compiled)
}

/// Returns a compiled plan with a changed body.
fn with_actions(compiled: &Compiled, change: impl FnOnce(&mut Vec<Action>)) -> Compiled {
    let mut actions: Vec<Action> = Actions::new(&compiled.plan.accesses().unwrap().body)
        .map(Result::unwrap)
        .collect();
    change(&mut actions);
    let mut body = BodyBuilder::new();
    actions.iter().for_each(|a| body.push(a).unwrap());
    let mut new = compiled.clone();
    (new.plan.accesses_mut().unwrap().body, new.plan.actions) = body.finish();
    new
}

fn refuse(compiled: &Compiled, device: &DeviceInfo) -> Refusal {
    verify(&compiled.plan, &compiled.pages, device).unwrap_err()
}

fn play(compiled: &Compiled, device: &mut QemuReplayDevice) -> Outcome {
    verify(&compiled.plan, &compiled.pages, &device.info()).unwrap();
    run(&compiled.plan, &compiled.pages, device, &Progress::new())
}

#[test]
fn edu_sample_is_parsed_relocated_and_verified() {
    let compiled = verify_text("kinescope", "kinescope").unwrap();
    assert_eq!(
        (compiled.plan.accesses().unwrap().pages.len(), compiled.pages.len()),
        (1, 1)
    );
    assert!(compiled.plan.mmio().unwrap().masters);
    // Memory addresses become those of the target. Addresses of the device's buffer stay.
    let written: Vec<(u64, u64)> = Actions::new(&compiled.plan.accesses().unwrap().body)
        .filter_map(|a| match a.unwrap() {
            Action::Write {
                offset: o @ (0x80 | 0x88),
                value,
                ..
            } => Some((o, value)),
            _ => None,
        })
        .collect();
    assert_eq!(
        written,
        [
            (0x80, 0x8_7654_0000),
            (0x88, 0x4_0000),
            (0x80, 0x4_0000),
            (0x88, 0x8_7654_1000)
        ]
    );
    // The printed text and the bytes both read back as the same plan and pages.
    let text = print_with_pages(&compiled.plan, &compiled.pages);
    let again = assemble(&text, &NoFiles).unwrap();
    assert_eq!((&again.plan, &again.pages), (&compiled.plan, &compiled.pages));
    let again = Compiled::from_bytes(&compiled.to_bytes().unwrap()).unwrap();
    assert_eq!((&again.plan, &again.pages), (&compiled.plan, &compiled.pages));
    let bytes = compiled.to_bytes().unwrap();
    for cut in [4, 12, 100, bytes.len() - 1] {
        assert!(Compiled::from_bytes(&bytes[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn invalid_dma_transfers_are_refused() {
    for (from, to, why) in [
        // These addresses are before the memory, beyond it, across its end, and the largest possible.
        (
            "0x80 8 arena+0x0",
            "0x80 8 0x1000",
            "is not completely in the device's memory",
        ),
        (
            "0x88 8 arena+0x1000",
            "0x88 8 arena+0x2000",
            "is not completely in the device's memory",
        ),
        (
            "0x88 8 arena+0x1000",
            "0x88 8 arena+0x1801",
            "is not completely in the device's memory",
        ),
        (
            "0x88 8 arena+0x1000",
            "0x88 8 0xfffffffffffffff0",
            "is not completely in the device's memory",
        ),
        (
            "0x90 8 2048",
            "0x90 8 0x1001",
            "not completely in the device's own buffer",
        ),
        ("0x90 8 2048", "0x90 8 0", "not completely in the device's own buffer"),
        (
            "0x88 8 0x40000",
            "0x88 8 0x40801",
            "not completely in the device's own buffer",
        ),
        // This direction uses the other register as the address.
        ("0x98 8 0x5", "0x98 8 0x7", "not completely in the device's own buffer"),
        (
            "0x80 8 arena+0x0",
            "0x80 4 0x2000000",
            "does not write one whole register",
        ),
        ("write 0 0x8 4 5", "write 0 0x8 4 0x2000010", "EDU_FACTORIAL receives"),
        (
            "bus-mastering\n",
            "",
            "the plan of a device without page tables has pages",
        ),
        (
            "expect memory arena+0x1000 2048 \"pattern\"",
            "expect memory arena+0x1801 2048 \"pattern\"",
            "does not use them",
        ),
        (
            "output \"copy\" va arena+0x1000",
            "output \"copy\" va arena+0x1801",
            "is not in mapped memory",
        ),
        (
            "expect output \"copy\" \"pattern\"",
            "expect output \"other\" 0000000000000000000000000000000000000000000000000000000000000000",
            "cannot be checked",
        ),
        ("check 1", "check 0", "checked a second time"),
        ("check 1", "check 9", "is checked here"),
        ("check 1", "check 2", "is checked here"),
        (
            "page arena+0x0",
            "allow 0x1000 0x1010\npage arena+0x0",
            "ranges of unknown registers are allowed",
        ),
        ("window 0", "window 2 \"bar5\" registers bytes 4096\nwindow 0", "match"),
    ] {
        match (why, verify_text(from, to)) {
            ("match", done) => drop(done.unwrap()),
            (why, done) => {
                let e = done.unwrap_err();
                assert!(e.contains(why), "{to}: {e}");
            }
        }
    }
    // The agent checks the relocated plan in the same way.
    let compiled = verify_text("kinescope", "kinescope").unwrap();
    let corrupt = with_actions(&compiled, |actions| {
        let write = |a: &&mut Action| matches!(a, Action::Write { offset: 0x80, .. });
        if let Some(Action::Write { value, .. }) = actions.iter_mut().find(write) {
            *value -= PAGE_SIZE as u64;
        }
    });
    let e = refuse(&corrupt, &edu());
    assert_eq!(e.rule, 2);
    assert!(
        matches!(&e.reason, Reason::BusMastering { why } if why.contains("EDU_DMA_SOURCE = 0x87653f000")),
        "{e}"
    );
    assert!(e.place.contains("event 25"), "{e}");
    // A write to a region that is not plain memory is refused, because it could set message interrupts.
    let mut other = with_actions(&compiled, |actions| {
        actions.push(Action::Write {
            event: 99,
            space: 2,
            offset: 0,
            width: 4,
            value: 1,
        });
    });
    other.plan.mmio_mut().unwrap().windows = edu().windows;
    let e = refuse(&other, &edu()).to_string();
    assert!(e.contains("bar5+0x0 = 0x1 may not be replayed"), "{e}");
}

#[test]
fn memory_changes_during_a_dma_transfer_are_refused() {
    // Relocation adds the missing waits, so these changes are made to the relocated plan.
    let compiled = verify_text("kinescope", "kinescope").unwrap();
    let no_wait = with_actions(&compiled, |a| {
        a.retain(|a| !matches!(a, Action::Until { reads: 1.., .. }))
    });
    let mut no_wait = no_wait;
    no_wait.plan.accesses_mut().unwrap().reads.until = 0;
    no_wait.plan.rewrites.retain(|r| r.kind.name() != "read-to-wait");
    let e = refuse(&no_wait, &edu()).to_string();
    assert!(
        e.contains("is written while the previous transfer is not known to be over"),
        "{e}"
    );
    let put = |actions: &mut Vec<Action>, offset| {
        let start = |a: &Action| matches!(a, Action::Write { offset: 0x98, .. });
        let at = actions.iter().position(start).unwrap() + 1;
        let event = actions[at - 1].event();
        let (width, value) = (8, 1);
        actions.insert(
            at,
            Action::Put {
                event,
                offset,
                width,
                value,
            },
        );
    };
    let e = refuse(&with_actions(&compiled, |a| put(a, 0x7f8)), &edu()).to_string();
    assert!(e.contains("memory of a transfer is changed"), "{e}");
    let after_transfer = with_actions(&compiled, |a| put(a, 0x800));
    verify(&after_transfer.plan, &after_transfer.pages, &edu()).unwrap();
    let e = refuse(&with_actions(&compiled, |a| put(a, 0x2000)), &edu()).to_string();
    assert!(e.contains("not of one page that the plan uses"), "{e}");
}

#[test]
fn errors_of_the_text_name_line_and_column() {
    struct One;
    impl Files for One {
        fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, String> {
            match name {
                "ones.bin" => Ok(vec![1; 16]),
                "long.bin" => Ok(vec![1; max as usize]),
                _ => Err("there is no such file".into()),
            }
        }
    }
    let assemble_changed = |from: &str, to: &str| assemble(&EDU.replacen(from, to, 1), &One);
    for (from, to, place, why) in [
        (
            "window 0 \"bar0\" registers",
            "window 0 \"bar0\" registres",
            "column 17",
            "`registres` is not a kind",
        ),
        ("write 0 0x4 4", "wriet 0 0x4 4", "column 3", "is not an operation"),
        (
            "write 0 0x4 4 0x12345678",
            "write 0 0x4 4 0x12345678 9",
            "column 28",
            "`9` is too much in this line",
        ),
        ("write 0 0x4 4 0x12345678", "write 0 0x4", "column 14", "is missing"),
        (
            "data \"pattern\"",
            "data \"patern\"",
            "column 21",
            "no content \"patern\"",
        ),
        (
            "page arena+0x0 ",
            "page arena+0x10 ",
            "column 6",
            "not a multiple of 4096",
        ),
        (
            "content \"nothing\" 0x000 00",
            "content \"nothing\" 0xfff 0000",
            "",
            "do not fit a page",
        ),
        (
            "content \"nothing\" 0x000 00",
            "content \"nothing\" 0x0 +1",
            "",
            "hexadecimal",
        ),
        ("write 0 0x4 4", "write 0 +4 4", "column 11", "`+4` is not a number"),
        ("write 0 0x4 4", "write 0 0x+4 4", "column 11", "`0x+4` is not a number"),
        ("title \"edu", "title \"\\u41} edu", "", "is not a character"),
        ("title \"edu", "title \"\\u{+41} edu", "", "is not a character"),
        (
            "content \"nothing\" 0x000 00",
            "content \"nothing\" file \"none.bin\"",
            "",
            "none.bin: there is no such file",
        ),
        (
            "content \"nothing\" 0x000 00",
            "content \"nothing\" file \"long.bin\"",
            "",
            "do not fit a page",
        ),
        ("title ", "title \"a\"\ntitle ", "", "the line `title` appears twice"),
        (
            "map \"edu\"\narena 0x2000000",
            "map \"edu\"\n# arena 0x2000000",
            "",
            "the line `arena` must come first",
        ),
        (
            "kinescope plan 5",
            "kinescope plan 3",
            "line 1, column 16",
            "reads versions 5 to 7",
        ),
    ] {
        let e = assemble_changed(from, to).unwrap_err().to_string();
        assert!(e.contains(place) && e.contains(why), "{to}: {e}");
    }
    let many: String = (0..=1 << 16).map(|n| format!("content \"{n}\" 0x0 00\n")).collect();
    let e = assemble_changed("content \"nothing\" 0x000 00\n", &many)
        .unwrap_err()
        .to_string();
    assert!(e.contains("more than 65536 page images"), "{e}");
    let filled = assemble_changed(
        "content \"nothing\" 0x000 00",
        "content \"nothing\" file \"ones.bin\" # sixteen",
    )
    .unwrap();
    let Effect::Memory { digest, .. } = filled.plan.accesses().unwrap().expectations[0].effect else {
        panic!("{:?}", filled.plan.accesses().unwrap().expectations)
    };
    let mut bytes = [0; 2048];
    bytes[..16].fill(1);
    assert_eq!(digest, *blake3::hash(&bytes).as_bytes());
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn edu_text_plan_computes_and_copies_memory() {
    need_qemu!();
    let whole = assemble(EDU, &NoFiles).unwrap();
    let mut b = open_device("edu");
    // The sample also has this arena, but the arena of another target is elsewhere.
    let compiled = whole.moved_to(&b.info()).unwrap();
    let outcome = play(&compiled, &mut b);
    assert_eq!(
        (outcome.verdict, &outcome.failure),
        (Verdict::Match, &None),
        "{:?}",
        outcome.effects()
    );
    assert!(outcome.accesses().unwrap().mastered_bus);
    assert_eq!(outcome.interrupts(), 5);
    let seen: Vec<_> = outcome
        .effects()
        .iter()
        .map(|e| (e.kind.as_str(), e.matched == Some(true), e.event))
        .collect();
    assert_eq!(
        seen,
        [
            ("memory", true, Some(30)),
            ("memory", true, Some(39)),
            ("output", true, None),
            ("interrupts", true, None)
        ]
    );
    let pattern = compiled.pages.values().next().unwrap();
    assert_eq!(outcome.outputs[0].data, pattern[..2048]);
    // Bus mastering is off after the replay.
    b.write(0, 0x80, 8, 0x4_0000).unwrap();
    let base = b.info().arena.base.get();
    for (register, value) in [(0x88, base), (0x90, 8), (0x98, 7)] {
        b.write(0, register, 8, value).unwrap();
    }
    b.wait_interrupt(1, 20_000_000_000).unwrap();
    let mut page = [0; PAGE_SIZE];
    b.load_page(base / PAGE_SIZE as u64, &mut page).unwrap();
    assert_eq!(page[..8], pattern[..8]);
    // The outcome is a recording that includes memory.
    let recorded = trace_core::container::from_bytes(outcome.recording).unwrap();
    let frame = recorded.memory.last().frame(base / PAGE_SIZE as u64 + 1).unwrap();
    assert_eq!(frame[..2048], pattern[..2048]);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn wrong_digest_and_endless_poll_do_not_match() {
    need_qemu!();
    let mut b = open_device("edu");
    let assemble_changed = |from: &str, to: &str| {
        let whole = assemble(&EDU.replacen(from, to, 1), &NoFiles).unwrap();
        whole.moved_to(&open_device("edu").info()).unwrap()
    };
    let wrong = assemble_changed(
        "expect memory arena+0x1000 2048 \"pattern\"",
        "expect memory arena+0x1000 2048 \"nothing\"",
    );
    let outcome = play(&wrong, &mut b);
    assert_eq!(outcome.verdict, Verdict::Diverged);
    assert_eq!(outcome.reads.compared, outcome.reads.matched);
    let missing: Vec<_> = outcome.effects().iter().filter(|e| e.matched != Some(true)).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!((missing[0].kind.as_str(), missing[0].event), ("memory", Some(39)));
    assert_ne!(missing[0].expected, missing[0].got);
    // Without its interrupt, the transfer is not finished at the poll. The run ends there, and the device is off.
    let hasty = assemble_changed(
        "26 wait 0x1 5000000000\n27 until 0 0x98 8 0x4 mask 0xffffffffffffffff reads 1 limit 100000000",
        "27 until 0 0x98 8 0x4 mask 0xffffffffffffffff reads 1 limit 1000",
    );
    let outcome = play(&hasty, &mut b);
    assert_eq!(
        (outcome.verdict, outcome.accesses().unwrap().mastered_bus),
        (Verdict::Failed, true)
    );
    let why = outcome.failure.clone().unwrap();
    assert!(
        why.contains("event 27") && why.contains("does not finish its memory accesses"),
        "{why}"
    );
    assert!(
        outcome
            .effects()
            .iter()
            .skip(1)
            .all(|e| e.matched == Some(false) && e.got.contains("not checked"))
    );
}
