//! Tests of a device on a bus, from recording to outcome: regions, widths, read classes, and the screen as an expected
//! effect.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail in these ways"
)]

use replay_core::{Action, Actions, Device, DeviceError, ReadClass, WaitResult};
use replay_engine::compile::compile_with;
use replay_engine::device::{
    Arena, Containment, DeviceInfo, DeviceInterface, JobReport, RegisterTarget, ReplayDeviceError, Target, Window,
};
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits, Effect, Plan, RewriteKind, text};
use replay_engine::run::{Outcome, Verdict, run_with};
use replay_engine::verify::{Reason, Refusal, verify_with};
use trace_core::progress::Progress;
use trace_core::recording::{Access, Bar, EventsBuilder, Hardware, InterruptRow, Page, PciFunction, Space, SpaceKind};
use trace_core::registers::RegisterMap;
use trace_core::screen::Picture;
use trace_core::{PhysAddr, Recording, RegOffset};

const MAP: &str = r#"
[map]
name = "toy"
window = 0x100
doc = "A toy display."
id_mask = 0xffff
[[map.gpu]]
id = 0xffff
name = "Toy"
[block]
name = "DISPLAY"
base = 0
provenance = "made up"
[[register]]
name = "ID"
offset = 0
access = "ro"
doc = "What it is."
[[register]]
name = "COLOUR"
offset = 4
access = "rw"
replay = true
doc = "Background."
[[register]]
name = "STATUS"
offset = 8
access = "ro"
read = "until"
doc = "1 when it is done."
[[register]]
name = "CLOCK"
offset = 12
access = "ro"
read = "any"
reason = "It runs."
doc = "Ticks."
[[register]]
name = "BIOS"
offset = 16
access = "rw"
replay = true
before = "the firmware sets it"
doc = "What the firmware left."
[[register]]
name = "KILL"
offset = 20
access = "wo"
replay = false
reason = "it ends the device"
doc = "Ends it."
"#;

fn map() -> RegisterMap {
    RegisterMap::parse(&[("toy.toml", MAP)]).unwrap()
}

fn hardware(device: u16) -> Hardware {
    Hardware::Pci(PciFunction {
        vendor: 0x1234,
        device,
        bars: vec![Bar {
            number: 2,
            bytes: 0x100,
            ..Bar::default()
        }],
        ..PciFunction::default()
    })
}

/// A display of 4 by 2 pixels with one byte per pixel in `bar0`. A byte of 0 shows the background.
struct Toy {
    colour: [u8; 4],
    vram: [u8; 8],
    now: u64,
    polls: u32,
    dead: bool,
}

impl Toy {
    fn new() -> Self {
        Self {
            colour: [0; 4],
            vram: [0; 8],
            now: 0,
            polls: 0,
            dead: false,
        }
    }
}

fn info() -> DeviceInfo {
    DeviceInfo {
        name: "toy".into(),
        description: "a toy display".into(),
        gpu_id: 0,
        gpu_name: "Toy".into(),
        register_map: "toy".into(),
        containment: Containment::Software,
        hardware: Some(hardware(1)),
        windows: vec![
            Window {
                number: 0,
                name: "bar2".into(),
                kind: SpaceKind::Registers,
                bytes: 0x100,
            },
            Window {
                number: 2,
                name: "bar0".into(),
                kind: SpaceKind::Framebuffer,
                bytes: 8,
            },
        ],
        arena: Arena {
            base: PhysAddr::ZERO,
            pages: 0,
        },
        interface: DeviceInterface::Registers,
        virtual_time: true,
        computes: false,
    }
}

impl Device for Toy {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        self.now += 1;
        let little = |bytes: &[u8]| bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
        let (at, width) = (offset as usize, usize::from(width));
        Ok(match (space, offset) {
            (2, _) => little(self.vram.get(at..at + width).ok_or(DeviceError::OutOfRange)?),
            (0, 0..4) => little(&[0x5a, 0x34, 0x12, 0x01][at..at + width]),
            (0, 4..8) => little(&self.colour[at - 4..at - 4 + width]),
            (0, 8) => {
                self.polls += 1;
                u64::from(self.polls > 5)
            }
            (0, 12) => self.now,
            (0, 16) => 7,
            _ => return Err(DeviceError::OutOfRange),
        })
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        let (at, width) = (offset as usize, usize::from(width));
        let bytes = &value.to_le_bytes()[..width];
        match (space, offset) {
            (2, _) => self
                .vram
                .get_mut(at..at + width)
                .ok_or(DeviceError::OutOfRange)?
                .copy_from_slice(bytes),
            (0, 4..8) => self.colour[at - 4..at - 4 + width].copy_from_slice(bytes),
            _ => return Err(DeviceError::OutOfRange),
        }
        Ok(())
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        if lines & 1 == 1 {
            return Ok(WaitResult::Raised { lines: 1 });
        }
        self.now += limit_ns;
        Ok(WaitResult::TimedOut)
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.now += ns;
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.now
    }
}

impl Target for Toy {
    fn info(&self) -> DeviceInfo {
        info()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        (self.colour, self.vram, self.now, self.polls) = ([0; 4], [0; 8], 0, 0);
        Ok(())
    }
}

impl RegisterTarget for Toy {
    fn store_page(&mut self, frame: u64, _: &Page) -> Result<(), ReplayDeviceError> {
        Err(ReplayDeviceError::OutsideArena { frame })
    }
    fn load_page(&mut self, frame: u64, _: &mut Page) -> Result<(), ReplayDeviceError> {
        Err(ReplayDeviceError::OutsideArena { frame })
    }
    fn screen(&mut self) -> Result<Option<Picture>, ReplayDeviceError> {
        if self.dead {
            return Err(ReplayDeviceError::Failed("the tube is broken".into()));
        }
        let pixel = |b: &u8| match b {
            0 => [self.colour[2], self.colour[1], self.colour[0]],
            b => [*b; 3],
        };
        Ok(Picture::new(4, 2, self.vram.iter().flat_map(pixel).collect()).ok())
    }
    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}

/// Returns an access. `space` is 0 for registers, 1 for the framebuffer and 2 for a firmware table.
fn access(space: u8, write: bool, offset: u32, width: u8, value: u64) -> Access {
    Access {
        space,
        write,
        offset: RegOffset::new(offset),
        width,
        value,
    }
}

fn recording(accesses: &[Access], interrupts: u32) -> Recording {
    let mut events = EventsBuilder::new();
    for (i, a) in accesses.iter().enumerate() {
        events.access(i as u64 * 100, 0, *a);
    }
    for _ in 0..interrupts {
        events.interrupt(9_000, InterruptRow { line: 0, status: 0 });
    }
    let mut r = Recording {
        events: events.finish(),
        ..Recording::default()
    };
    for (name, kind, bytes) in [
        ("bar2", SpaceKind::Registers, 0x100),
        ("bar0", SpaceKind::Framebuffer, 8),
        ("memory@0xc0000", SpaceKind::Memory, 0x1000),
    ] {
        r.metadata.spaces.push(Space {
            name: name.into(),
            kind,
            bytes,
        });
    }
    r.set_hardware(&hardware(1));
    r
}

/// Records a drawing of a background and two pixels, with every class of read.
fn drawing() -> Recording {
    recording(
        &[
            access(2, false, 0x18, 2, 0xaa55),
            access(2, false, 0x1a, 2, 0x1234),
            access(0, false, 0, 4, 0x0112_345a),
            access(0, false, 2, 2, 0x0112),
            access(0, false, 16, 4, 9),
            access(0, true, 4, 4, 0x0030_2010),
            access(0, true, 5, 1, 0x22),
            access(0, false, 4, 4, 0x0030_2210),
            access(0, false, 8, 4, 0),
            access(0, false, 8, 4, 0),
            access(0, false, 8, 4, 1),
            access(0, false, 12, 4, 0xffff),
            access(1, true, 0, 1, 0xee),
            access(1, true, 4, 4, 0xdd),
        ],
        1,
    )
}

fn expected_picture() -> Picture {
    let background = [0x30, 0x22, 0x10];
    let mut rgb = background.repeat(8);
    rgb[..3].fill(0xee);
    rgb[12..15].fill(0xdd);
    Picture::new(4, 2, rgb).unwrap()
}

fn with_screen(picture: &Picture) -> CompileOptions {
    CompileOptions {
        expect_screen: Some(picture.clone()),
        screen_source: "a test".into(),
        ..CompileOptions::default()
    }
}

fn compiled(r: &Recording, options: &CompileOptions) -> Result<Compiled, CompileError> {
    compile_with(r, &Edits::default(), &info(), &map(), options, &Progress::new())
}

fn play(r: &Recording, options: &CompileOptions, device: &mut Toy) -> Outcome {
    let c = compiled(r, options).unwrap();
    verify_with(&c.plan, &c.pages, &info(), &map()).unwrap();
    run_with(&c.plan, &c.pages, device, Some(&map()), &Progress::new())
}

#[test]
fn display_replay_matches_the_screen_and_classifies_reads() {
    let outcome = play(&drawing(), &with_screen(&expected_picture()), &mut Toy::new());
    assert_eq!(outcome.verdict, Verdict::Match, "{outcome:?}");
    let (reads, classes) = (outcome.reads, outcome.accesses().unwrap().classes);
    assert_eq!((classes.equal, classes.until, classes.any), (4, 3, 1));
    // One read returns state of the firmware, which differs here. It is a finding but not a divergence.
    assert_eq!((reads.compared, reads.matched), (6, 6));
    let findings: Vec<String> = outcome.findings().iter().map(|f| f.message.clone()).collect();
    assert!(
        findings[0].contains("BIOS reads 0x7 here and 0x9") && findings[0].contains("the firmware sets it"),
        "{findings:?}"
    );
    assert!(
        findings[1].contains("2 reads of memory@0xc0000"),
        "the omitted reads must be reported: {findings:?}"
    );
    let effects: Vec<_> = outcome
        .effects()
        .iter()
        .map(|e| (e.kind.as_str(), e.matched == Some(true)))
        .collect();
    assert_eq!(effects, [("screen", true), ("interrupts", true)]);
    assert!(outcome.accesses().unwrap().unchecked.is_empty());
    // The outcome is a recording with the same regions and the picture.
    let recorded = trace_core::container::from_bytes(outcome.recording).unwrap();
    let names: Vec<&str> = recorded.metadata.spaces.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["bar2", "bar0"]);
    assert_eq!(recorded.hardware(), Some(&hardware(1)));
    assert_eq!(recorded.expected_screen(), Ok(Some(expected_picture())));
    let stores: Vec<_> = (0..recorded.events.len())
        .filter_map(|e| recorded.events.access(e).filter(|a| a.space == 1))
        .collect();
    assert_eq!(stores, [access(1, true, 0, 1, 0xee), access(1, true, 4, 4, 0xdd)]);
}

#[test]
fn matching_reads_are_no_match_without_the_screen() {
    let mut accesses: Vec<Access> = (0..drawing().events.len())
        .filter_map(|e| drawing().events.access(e))
        .collect();
    accesses.pop();
    let mut r = recording(&accesses, 0);
    // A recording that contains the picture needs no picture in the options.
    r.set_expected_screen(&expected_picture());
    let outcome = play(&r, &CompileOptions::default(), &mut Toy::new());
    assert_eq!(outcome.reads.compared, outcome.reads.matched);
    assert_eq!(outcome.divergence_count, 0);
    assert_eq!(outcome.verdict, Verdict::Diverged);
    assert_eq!(outcome.effects()[0].matched, Some(false));
    assert_ne!(outcome.effects()[0].expected, outcome.effects()[0].got);
    // Without a picture, the outcome reports that the screen was not checked.
    r.register_trace_mut().unwrap().screen_at_end = None;
    let outcome = play(&r, &CompileOptions::default(), &mut Toy::new());
    assert_eq!(outcome.verdict, Verdict::Match);
    assert!(
        outcome.accesses().unwrap().unchecked[0].contains("was not checked"),
        "{:?}",
        outcome.accesses().unwrap().unchecked
    );
    // A screen that cannot be read does not match.
    let mut device = Toy::new();
    device.dead = true;
    let outcome = play(&drawing(), &with_screen(&expected_picture()), &mut device);
    assert_eq!(outcome.verdict, Verdict::Diverged);
    assert!(outcome.effects()[0].got.contains("the tube is broken"));
    r.register_trace_mut().unwrap().screen_at_end = Some(b"P5".to_vec());
    assert!(matches!(
        compiled(&r, &CompileOptions::default()),
        Err(CompileError::Screen(_))
    ));
}

#[test]
fn an_interrupt_that_never_comes_ends_the_run() {
    let mut r = drawing();
    let mut events = EventsBuilder::new();
    events.access(0, 0, access(0, false, 0, 4, 0x0112_345a));
    events.interrupt(1, InterruptRow { line: 3, status: 0 });
    r.events = events.finish();
    let outcome = play(&r, &CompileOptions::default(), &mut Toy::new());
    assert_eq!(outcome.verdict, Verdict::Failed);
    assert!(outcome.failure.as_ref().unwrap().contains("no interrupt came"));
    assert!(outcome.effects()[0].matched == Some(false) && outcome.effects()[0].got.contains("not checked"));
}

#[test]
fn non_replayable_accesses_are_compile_errors() {
    let compile_access = |a: Access| {
        compiled(&recording(&[a], 0), &CompileOptions::default())
            .unwrap_err()
            .to_string()
    };
    for (a, why) in [
        (
            access(0, true, 20, 4, 1),
            "KILL = 0x1 is not replayed: it ends the device",
        ),
        (access(0, true, 21, 1, 1), "KILL"),
        (access(0, true, 0x40, 4, 1), "does not know the register at 0x40"),
        (access(0, true, 6, 4, 1), "does not fit an MMIO region"),
        (access(0, true, 0xfe, 4, 1), "does not fit an MMIO region"),
        (access(0, true, 4, 3, 1), "does not fit an MMIO region"),
        (access(1, true, 8, 1, 1), "does not fit an MMIO region"),
        (
            access(2, true, 0, 1, 1),
            "accesses `memory@0xc0000`, and toy has no such MMIO region",
        ),
        (access(9, true, 0, 1, 1), "and toy has no such MMIO region"),
    ] {
        let e = compile_access(a);
        assert!(e.contains(why), "{a:?}: {e}");
    }
    let mut other = drawing();
    other.set_hardware(&hardware(2));
    let e = compiled(&other, &CompileOptions::default()).unwrap_err().to_string();
    assert_eq!(e, "the recording is of 1234:0002; the target is toy, 1234:0001");
}

/// Returns the display with an I/O port region, which may access its registers in another way.
fn with_ports() -> DeviceInfo {
    let mut info = info();
    info.windows.push(Window {
        number: 3,
        name: "bar1".into(),
        kind: SpaceKind::Ports,
        bytes: 0x100,
    });
    info
}

#[test]
fn writes_to_regions_unknown_to_the_map_are_refused() {
    let mut r = drawing();
    r.metadata.spaces.push(Space {
        name: "bar1".into(),
        kind: SpaceKind::Ports,
        bytes: 0x100,
    });
    let number = r.metadata.spaces.len() as u8 - 1;
    let compile_access = |write| {
        let mut r = r.clone();
        let mut events = EventsBuilder::new();
        events.access(0, 0, access(number, write, 20, 4, 1));
        r.events = events.finish();
        compile_with(
            &r,
            &Edits::default(),
            &with_ports(),
            &map(),
            &with_screen(&expected_picture()),
            &Progress::new(),
        )
    };
    let e = compile_access(true).unwrap_err().to_string();
    assert!(
        e.contains("bar1+0x14 = 0x1 is not replayed") && e.contains("another way to the registers"),
        "{e}"
    );
    // The agent refuses such a write from another compiler too, with or without bus mastering. Reads are allowed.
    let mut c = compile_access(false).unwrap();
    verify_with(&c.plan, &c.pages, &with_ports(), &map()).unwrap();
    let mut body = replay_engine::plan::BodyBuilder::new();
    let write = Action::Write {
        event: 0,
        space: 3,
        offset: 20,
        width: 4,
        value: 1,
    };
    body.push(&write).unwrap();
    (c.plan.accesses_mut().unwrap().body, c.plan.actions) = body.finish();
    c.plan.accesses_mut().unwrap().reads = Default::default();
    let e = verify_with(&c.plan, &c.pages, &with_ports(), &map()).unwrap_err();
    assert!(
        matches!(&e.reason, Reason::NotReplayable { register, .. } if register == "bar1+0x14"),
        "{e}"
    );
}

/// Returns the refusal of a plan that this compiler does not emit.
fn refuse(change: impl FnOnce(&mut Plan)) -> Refusal {
    let mut c = compiled(&drawing(), &with_screen(&expected_picture())).unwrap();
    change(&mut c.plan);
    verify_with(&c.plan, &c.pages, &info(), &map()).unwrap_err()
}

fn body(plan: &mut Plan, change: impl Fn(&mut Action)) {
    let mut body = replay_engine::plan::BodyBuilder::new();
    for action in Actions::new(plan.body.bytes()) {
        let mut action = action.unwrap();
        change(&mut action);
        body.push(&action).unwrap();
    }
    plan.body.set_bytes(body.finish().0);
}

#[test]
fn agent_refuses_plans_that_the_compiler_never_emits() {
    let writes = |to: (u8, u64, u8)| {
        refuse(|plan| {
            body(plan, |a| {
                if let Action::Write {
                    space: space @ 0,
                    offset: offset @ 4,
                    width,
                    value,
                    ..
                } = a
                {
                    (*space, *offset, *width) = to;
                    *value &= replay_core::width_mask(*width);
                }
            });
        })
    };
    assert!(matches!(writes((0, 20, 4)).reason, Reason::NotReplayable { .. }));
    assert!(matches!(writes((0, 22, 1)).reason, Reason::NotReplayable { .. }));
    assert!(matches!(writes((0, 0x40, 4)).reason, Reason::UnknownRegister { .. }));
    assert!(matches!(writes((0, 6, 4)).reason, Reason::WidthOrAlignment { .. }));
    assert!(matches!(writes((2, 8, 4)).reason, Reason::OutsideWindow { .. }));
    assert!(matches!(writes((1, 0, 4)).reason, Reason::UnknownSpace { .. }));
    assert!(matches!(writes((3, 0, 4)).reason, Reason::UnknownSpace { .. }));
    let widened = refuse(|plan| {
        body(plan, |a| {
            if let Action::Read { offset: 0, class, .. } = a {
                *class = ReadClass::Any;
            }
        });
    });
    assert!(matches!(widened.reason, Reason::ReadWidened { .. }), "{widened}");
    let before = refuse(|plan| {
        body(plan, |a| {
            if let Action::Read { offset: 0, class, .. } = a {
                *class = ReadClass::Before(0xffff_ffff);
            }
        });
    });
    assert!(matches!(before.reason, Reason::NotBefore { .. }), "{before}");
    let foreign = refuse(|plan| plan.mmio_mut().unwrap().hardware = hardware(2));
    assert!(matches!(foreign.reason, Reason::OtherHardware { .. }));
    let wide = refuse(|plan| plan.mmio_mut().unwrap().windows[1].bytes = 16);
    assert!(matches!(wide.reason, Reason::OtherWindows));
    let none = refuse(|plan| plan.mmio_mut().unwrap().windows.clear());
    assert!(matches!(none.reason, Reason::OtherWindows));
    let arena = refuse(|plan| plan.mmio_mut().unwrap().windows[1].number = 1);
    assert!(matches!(arena.reason, Reason::OtherWindows));
    let pages = refuse(|plan| plan.accesses_mut().unwrap().used_pages = 0x1000);
    assert!(pages.rule == 2 || pages.rule == 4, "{pages}");
    let outside_effect = refuse(|plan| {
        plan.accesses_mut().unwrap().expectations[0].effect = Effect::Window {
            number: 2,
            offset: 4,
            bytes: 5,
            digest: [0; 32],
        }
    });
    assert!(matches!(outside_effect.reason, Reason::EffectOutside { .. }));
    let registers = refuse(|plan| {
        plan.accesses_mut().unwrap().expectations[0].effect = Effect::Window {
            number: 0,
            offset: 0,
            bytes: 4,
            digest: [0; 32],
        }
    });
    assert!(matches!(registers.reason, Reason::EffectOutside { .. }));
    let unnamed = refuse(|plan| plan.rewrites.retain(|r| r.kind != RewriteKind::ReadToWait));
    assert!(matches!(unnamed.reason, Reason::Unnamed { .. }));
}

#[test]
fn framebuffer_bytes_are_checked_as_an_effect() {
    let mut c = compiled(&drawing(), &CompileOptions::default()).unwrap();
    for (bytes, matched) in [([0xdd, 0, 0, 0], true), ([0xdd, 0, 0, 1], false)] {
        c.plan.accesses_mut().unwrap().expectations = vec![replay_engine::plan::Expectation {
            effect: Effect::Window {
                number: 2,
                offset: 4,
                bytes: 4,
                digest: *blake3::hash(&bytes).as_bytes(),
            },
            source: "a test".into(),
        }];
        verify_with(&c.plan, &c.pages, &info(), &map()).unwrap();
        let outcome = run_with(&c.plan, &c.pages, &mut Toy::new(), Some(&map()), &Progress::new());
        assert_eq!(outcome.effects()[0].matched, Some(matched), "{outcome:?}");
        assert_eq!(outcome.verdict == Verdict::Match, matched);
    }
}

#[test]
fn plans_with_regions_round_trip_as_bytes_and_text() {
    let plan = compiled(&drawing(), &with_screen(&expected_picture())).unwrap().plan;
    assert_eq!(Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap(), plan);
    let printed = text::print(&plan);
    assert_eq!(text::parse(&printed).unwrap(), plan, "{printed}");
    for line in [
        "window 0 \"bar2\" registers bytes 256",
        "window 2 \"bar0\" framebuffer bytes 8",
        "expect interrupts 1 from \"the recording's interrupts\"",
        "6 write 0 0x5 1 0x22",
        "12 write 2 0x0 1 0xee",
    ] {
        assert!(printed.lines().any(|l| l == line), "no line '{line}' in:\n{printed}");
    }
}
