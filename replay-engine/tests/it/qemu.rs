//! Tests of devices in a real QEMU: registers, memory, interrupts, transfers and screens. QEMU can also be missing or
//! end in several ways. Without QEMU, the tests print that they are skipped.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod logs;

use logs::Log;
use replay_core::{Device, DeviceError, WaitResult};
use replay_engine::device::qemu::{Name, QEMU_MODELS, QemuError, QemuReplayDevice, check_installed};
use replay_engine::device::{Containment, RegisterTarget, ReplayDeviceError, Target, space};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};
use trace_core::recording::{Hardware, PciFunction, SpaceKind, ZERO_PAGE};
use trace_core::screen::Picture;

/// Returns from a test if QEMU is missing.
macro_rules! need_qemu {
    () => {
        if check_installed().is_err() {
            println!("skipped: no QEMU (qemu-system-x86)");
            return;
        }
    };
}

const REGISTERS: u8 = space::REGISTERS;
const SECOND: u64 = 1_000_000_000;
/// Time after which a test counts as hung.
const HANG_LIMIT: Duration = Duration::from_secs(60);

fn open_device(name: &str) -> QemuReplayDevice {
    QemuReplayDevice::new(&Name::parse(name).unwrap()).unwrap()
}

fn function(device: &QemuReplayDevice) -> PciFunction {
    match device.info().hardware {
        Some(Hardware::Pci(f)) => f,
        other => panic!("{other:?}"),
    }
}

/// Returns the command line of a process, or `None` if the process no longer exists.
fn command_line(process: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
}

fn kill(process: u32) {
    signal(process, "-9");
}

/// Sends a signal with the shell's own `kill`, because some systems lack the program.
fn signal(process: u32, signal: &str) {
    let mut shell = std::process::Command::new("sh");
    let sent = shell.args(["-c", "kill $0 $1", signal, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

// Registers of QEMU's teaching device `edu`, from QEMU's docs/specs/edu.rst.
const EDU_ID: u64 = 0x00;
const EDU_LIVE: u64 = 0x04;
const EDU_FACTORIAL: u64 = 0x08;
const EDU_STATUS: u64 = 0x20;
const EDU_STATUS_BUSY: u64 = 0x01;
const EDU_STATUS_INTERRUPT: u64 = 0x80;
const EDU_INTERRUPTS: u64 = 0x24;
const EDU_ACKNOWLEDGE: u64 = 0x64;
const EDU_DMA_FROM: u64 = 0x80;
const EDU_DMA_TO: u64 = 0x88;
const EDU_DMA_BYTES: u64 = 0x90;
const EDU_DMA_COMMAND: u64 = 0x98;
const EDU_BUFFER: u64 = 0x4_0000;
const EDU_INTERRUPT_DMA: u64 = 0x100;

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn edu_identifies_itself_and_responds() {
    need_qemu!();
    let mut b = open_device("edu");
    let info = b.info();
    assert_eq!((info.name.as_str(), info.gpu_name.as_str()), ("edu", "edu"));
    assert_eq!(
        (info.gpu_id, info.virtual_time, info.containment),
        (0, false, Containment::Software)
    );
    assert_eq!(info.windows.len(), 1);
    let w = &info.windows[0];
    assert_eq!(
        (w.number, w.name.as_str(), w.kind, w.bytes),
        (0, "bar0", SpaceKind::Registers, 1 << 20)
    );
    let f = function(&b);
    assert_eq!(
        (f.vendor, f.device, f.revision, f.irq),
        (0x1234, 0x11e8, Some(0x10), Some(11))
    );
    assert_eq!((f.subsystem_vendor, f.subsystem_device), (Some(0x1af4), Some(0x1100)));
    assert_eq!((f.class, f.address.as_str()), (Some(0xff00), "0000:00:03.0"));

    assert_eq!(b.read(REGISTERS, EDU_ID, 4), Ok(0x0100_00ed));
    b.write(REGISTERS, EDU_LIVE, 4, 0x1234_5678).unwrap();
    assert_eq!(b.read(REGISTERS, EDU_LIVE, 4), Ok(0xedcb_a987));
    assert_eq!(b.screen().unwrap(), None);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn invalid_accesses_are_refused_before_qemu() {
    need_qemu!();
    let mut b = open_device("edu");
    assert_eq!(b.read(space::FIRST_OTHER, 0, 4), Err(DeviceError::NoSpace));
    assert_eq!(b.read(REGISTERS, 1 << 20, 4), Err(DeviceError::OutOfRange));
    assert_eq!(b.read(REGISTERS, u64::MAX, 4), Err(DeviceError::OutOfRange));
    assert_eq!(b.write(REGISTERS, 0, 3, 0), Err(DeviceError::OutOfRange));
    assert_eq!(b.write(REGISTERS, 2, 4, 0), Err(DeviceError::Misaligned));
    let arena = b.info().arena;
    let bytes = arena.end() - arena.base;
    assert_eq!(b.read(space::ARENA, bytes - 7, 8), Err(DeviceError::OutOfRange));
    assert_eq!(b.read(space::ARENA, bytes - 8, 8), Ok(0));
    for frame in [arena.base.frame() - 1, arena.end().get() >> 12, u64::MAX] {
        let e = b.store_page(frame, &ZERO_PAGE).unwrap_err();
        assert!(matches!(e, ReplayDeviceError::OutsideArena { .. }), "{e}");
    }
    let end = arena.end().saturating_sub(4);
    assert!(b.store_bytes(end, &[0; 8]).is_err());
    assert_eq!(b.trouble(), None);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn edu_computes_a_factorial_and_interrupts() {
    need_qemu!();
    let mut b = open_device("edu");
    // The device does not interrupt by itself, and the wait ends at its limit.
    let before = b.now_ns();
    assert_eq!(b.wait_interrupt(1, SECOND / 20), Ok(WaitResult::TimedOut));
    assert!(b.now_ns() - before >= SECOND / 20);
    for (n, factorial) in [(5, 120), (6, 720), (10, 3_628_800)] {
        b.write(REGISTERS, EDU_STATUS, 4, EDU_STATUS_INTERRUPT).unwrap();
        b.write(REGISTERS, EDU_FACTORIAL, 4, n).unwrap();
        assert_eq!(b.wait_interrupt(1, 20 * SECOND), Ok(WaitResult::Raised { lines: 1 }));
        assert_eq!(b.read(REGISTERS, EDU_STATUS, 4).unwrap() & EDU_STATUS_BUSY, 0);
        assert_eq!(b.read(REGISTERS, EDU_FACTORIAL, 4), Ok(factorial));
        let pending = b.read(REGISTERS, EDU_INTERRUPTS, 4).unwrap();
        assert_eq!(pending, 1);
        // The line stays raised until it is acknowledged.
        assert_eq!(b.wait_interrupt(1, 0), Ok(WaitResult::Raised { lines: 1 }));
        b.write(REGISTERS, EDU_ACKNOWLEDGE, 4, pending).unwrap();
        assert_eq!(b.wait_interrupt(1, 0), Ok(WaitResult::TimedOut));
    }
}

/// Moves bytes with the device's DMA and waits for its interrupt.
fn transfer(b: &mut QemuReplayDevice, from: u64, to: u64, bytes: u64, command: u64) -> WaitResult {
    for (register, value) in [(EDU_DMA_FROM, from), (EDU_DMA_TO, to), (EDU_DMA_BYTES, bytes)] {
        b.write(REGISTERS, register, 8, value).unwrap();
    }
    b.write(REGISTERS, EDU_DMA_COMMAND, 8, command | 1 | 4).unwrap();
    let wait_result = b.wait_interrupt(1, 20 * SECOND).unwrap();
    b.write(REGISTERS, EDU_ACKNOWLEDGE, 4, EDU_INTERRUPT_DMA).unwrap();
    wait_result
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn edu_dma_needs_bus_mastering_and_a_running_clock() {
    need_qemu!();
    let mut b = open_device("edu");
    let base = b.info().arena.base;
    let mut page = ZERO_PAGE;
    for (i, byte) in page.iter_mut().enumerate() {
        *byte = (i * 7 + 3) as u8;
    }
    b.store_page(base.frame(), &page).unwrap();
    assert_eq!(b.content_frames(), Some(vec![base.frame()]));
    let raised = WaitResult::Raised { lines: 1 };
    // Without bus mastering, the device interrupts but moves nothing.
    assert_eq!(transfer(&mut b, base.get(), EDU_BUFFER, 2048, 0), raised);
    assert_eq!(transfer(&mut b, EDU_BUFFER, base.get() + 4096, 2048, 2), raised);
    let mut got = ZERO_PAGE;
    b.load_page(base.frame() + 1, &mut got).unwrap();
    assert_eq!(got, ZERO_PAGE);

    b.set_bus_mastering(true).unwrap();
    assert_eq!(b.content_frames(), None);
    // The transfer takes 100 ms of device time, and the device's clock is stopped.
    for (register, value) in [
        (EDU_DMA_FROM, base.get()),
        (EDU_DMA_TO, EDU_BUFFER),
        (EDU_DMA_BYTES, 2048),
    ] {
        b.write(REGISTERS, register, 8, value).unwrap();
    }
    b.write(REGISTERS, EDU_DMA_COMMAND, 8, 1).unwrap();
    let before = b.now_ns();
    // Time must pass everywhere except in the device, so there is no event to wait for.
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(b.now_ns(), before);
    assert_eq!(
        b.read(REGISTERS, EDU_DMA_COMMAND, 8).unwrap() & 1,
        1,
        "the device's clock is stopped"
    );
    let mut polls = 0;
    while b.read(REGISTERS, EDU_DMA_COMMAND, 8).unwrap() & 1 != 0 {
        b.pause(1_000_000).unwrap();
        polls += 1;
        assert!(polls < 20_000);
    }
    assert!(b.now_ns() > before);
    assert_eq!(transfer(&mut b, EDU_BUFFER, base.get() + 4096, 2048, 2), raised);
    b.load_page(base.frame() + 1, &mut got).unwrap();
    assert_eq!(got[..2048], page[..2048]);
    assert_eq!(got[2048..], ZERO_PAGE[2048..]);

    // Without bus mastering, nothing moves again.
    b.set_bus_mastering(false).unwrap();
    assert_eq!(transfer(&mut b, EDU_BUFFER, base.get() + 8192, 2048, 2), raised);
    b.load_page(base.frame() + 2, &mut got).unwrap();
    assert_eq!(got, ZERO_PAGE);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_reset_discards_all_state() {
    need_qemu!();
    let mut b = open_device("ati-vga,model=rage128p");
    let first = b.process().unwrap();
    b.reset().unwrap();
    assert_eq!(b.process(), Some(first), "an unused device needs no reset");
    let frame = b.info().arena.base.frame();
    b.store_page(frame, &[7; 4096]).unwrap();
    b.write(space::FIRST_OTHER, 0x100, 4, 0x1234).unwrap();
    b.set_bus_mastering(true).unwrap();
    let mut page = ZERO_PAGE;
    b.load_page(frame, &mut page).unwrap();
    assert_eq!(page, [7; 4096]);
    assert_eq!(b.read(space::FIRST_OTHER, 0x100, 4), Ok(0x1234));
    let info = b.info();
    b.reset().unwrap();
    assert_eq!((command_line(first), b.process()), (None, None));
    assert_eq!(b.info(), info);
    assert_eq!(b.content_frames(), Some(Vec::new()));
    b.load_page(frame, &mut page).unwrap();
    assert_eq!(page, ZERO_PAGE);
    assert_eq!(b.read(space::ARENA, 0, 8), Ok(0));
    assert_eq!(b.read(space::FIRST_OTHER, 0x100, 4), Ok(0));
}

/// Replays a log on a device and compares the final picture. Only the reads in `misses` may differ.
fn check_log(device: &str, stem: &str, misses: &[(&str, u64)]) {
    need_qemu!();
    let Some(log) = Log::open(stem) else { return };
    let mut b = open_device(device);
    let message = b.info().description;
    let version = message
        .split(" as QEMU ")
        .nth(1)
        .and_then(|v| v.split('.').next()?.parse().ok());
    if version.is_none_or(|v: u32| v < 10) {
        println!("skipped: the log is of a device as QEMU 10 emulates it; this is {message}");
        return;
    }
    let function = function(&b);
    assert_eq!((function.vendor, function.device), log.function);
    let started = Instant::now();
    let result = log.play(&mut b);
    // Reading the screen waits until QEMU has completed every access.
    let shown = b.screen().unwrap().unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let mismatches: Vec<_> = result.mismatches.iter().map(|m| (m.window, m.offset)).collect();
    assert_eq!(mismatches, misses, "{:?}", result.mismatches);
    let expected = Picture::from_ppm(&log.picture()).unwrap();
    assert_eq!((shown.width(), shown.height()), (expected.width(), expected.height()));
    let pixels = shown.rgb().chunks(3).zip(expected.rgb().chunks(3));
    assert_eq!(pixels.filter(|(a, b)| a != b).count(), 0);
    let accesses = result.reads + result.writes;
    println!(
        "{stem}: {} reads, {} writes, {:.0} accesses/s",
        result.reads,
        result.writes,
        accesses as f64 / seconds
    );
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn radeon_log_replays_to_the_same_picture() {
    // The video BIOS of the recorded machine left this state. No BIOS runs here.
    check_log("ati-vga,model=rv100", "rv100-radeonfb", &[("bar2", 0x64)]);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn rage_log_replays_to_the_same_picture() {
    check_log("ati-vga,model=rage128p", "rage128p-aty128fb", &[]);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn bochs_log_replays_with_all_reads_matching() {
    need_qemu!();
    let Some(log) = Log::open("bochs_display-bochs") else {
        return;
    };
    let mut b = open_device("bochs-display");
    let result = log.play(&mut b);
    assert_eq!(result.mismatches, []);
    assert_eq!(result.reads, 268);
    let shown = b.screen().unwrap().unwrap();
    assert_eq!((shown.width(), shown.height()), (1280, 800));
}

#[test]
fn missing_qemu_error_names_the_package() {
    let empty = tempfile::tempdir().unwrap();
    for path in [OsString::new(), empty.path().into()] {
        let e = QemuReplayDevice::with_path(&Name::parse("edu").unwrap(), &path).unwrap_err();
        assert!(matches!(e, QemuError::Absent { .. }), "{e:?}");
        assert!(e.to_string().contains("package qemu-system-x86"), "{e}");
    }
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_errors_are_passed_on_verbatim() {
    need_qemu!();
    for (name, word) in [
        ("nothing-of-the-kind", "is not a valid device model name"),
        ("edu,colour=red", "not found"),
        ("edu,dma_mask=blue", "blue"),
        // The device belongs on another bus.
        ("isa-serial", "isa-serial"),
    ] {
        let e = QemuReplayDevice::new(&Name::parse(name).unwrap()).unwrap_err();
        let report = e.to_string();
        assert!(matches!(e, QemuError::Ended { .. }), "{report}");
        assert!(report.contains(word) && report.contains("exit code 1"), "{report}");
    }
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn a_killed_qemu_is_gone_until_a_reset() {
    need_qemu!();
    let mut b = open_device("edu");
    let process = b.process().unwrap();
    b.write(REGISTERS, EDU_LIVE, 4, 1).unwrap();
    kill(process);
    assert_eq!(b.read(REGISTERS, EDU_LIVE, 4), Err(DeviceError::Gone));
    let failure = b.trouble().unwrap();
    assert!(failure.contains("signal 9"), "{failure}");
    assert_eq!(command_line(process), None, "QEMU must not remain as a zombie");
    assert_eq!(b.write(REGISTERS, EDU_LIVE, 4, 1), Err(DeviceError::Gone));
    assert_eq!(b.wait_interrupt(1, SECOND), Err(DeviceError::Gone));
    assert_eq!(b.pause(1), Err(DeviceError::Gone));
    b.set_bus_mastering(false).unwrap();
    assert!(b.set_bus_mastering(true).is_err());
    let e = b.screen().unwrap_err().to_string();
    assert!(e.contains("signal 9"), "{e}");
    b.reset().unwrap();
    assert_eq!(b.trouble(), None);
    assert_eq!(b.read(REGISTERS, EDU_ID, 4), Ok(0x0100_00ed));
    // QEMU ends during a wait, and then while no access runs.
    let process = b.process().unwrap();
    let killer = std::thread::spawn(move || {
        // No event shows that the wait has begun. If QEMU ends before it, the wait ends in the same way.
        std::thread::sleep(Duration::from_millis(100));
        kill(process);
    });
    assert_eq!(b.wait_interrupt(1, 60 * SECOND), Err(DeviceError::Gone));
    killer.join().unwrap();
    b.reset().unwrap();
    assert_eq!(b.read(REGISTERS, EDU_ID, 4), Ok(0x0100_00ed));
    let process = b.process().unwrap();
    kill(process);
    let started = Instant::now();
    while command_line(process).is_some() {
        assert!(started.elapsed() < HANG_LIMIT, "QEMU remains as a zombie");
        std::thread::sleep(Duration::from_millis(5));
    }
    b.reset().unwrap();
    assert_eq!(b.read(REGISTERS, EDU_ID, 4), Ok(0x0100_00ed));
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn a_qemu_that_does_not_answer_is_given_up() {
    need_qemu!();
    let mut b = open_device("edu").with_answer_limit(Duration::from_millis(300));
    let process = b.process().unwrap();
    signal(process, "-STOP");
    assert_eq!(b.read(REGISTERS, EDU_ID, 4), Err(DeviceError::Gone));
    assert!(b.trouble().unwrap().contains("did not answer within"));
    assert_eq!(command_line(process), None);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn two_qemu_instances_are_separate_devices() {
    need_qemu!();
    let (mut a, mut b) = (open_device("edu"), open_device("edu"));
    a.write(REGISTERS, EDU_LIVE, 4, 1).unwrap();
    b.write(REGISTERS, EDU_LIVE, 4, 2).unwrap();
    a.write(space::ARENA, 0, 8, 3).unwrap();
    assert_eq!(a.read(REGISTERS, EDU_LIVE, 4), Ok(0xffff_fffe));
    assert_eq!(b.read(REGISTERS, EDU_LIVE, 4), Ok(0xffff_fffd));
    assert_eq!((a.read(space::ARENA, 0, 8), b.read(space::ARENA, 0, 8)), (Ok(3), Ok(0)));
    let process = a.process().unwrap();
    drop(a);
    assert_eq!(command_line(process), None);
    assert_eq!(b.read(REGISTERS, EDU_ID, 4), Ok(0x0100_00ed));
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_leaves_no_process_or_folder() {
    need_qemu!();
    let mut b = open_device("ati-vga,model=rv100");
    let process = b.process().unwrap();
    let line = command_line(process).unwrap();
    // QEMU's command line contains the folder from which it started.
    let folder = line.split(' ').find(|word| word.ends_with("halt.bin")).unwrap();
    let folder = Path::new(folder).parent().unwrap().to_owned();
    assert!(folder.to_str().unwrap().contains("kinescope-qemu-"), "{folder:?}");
    assert!(!folder.exists(), "the folder is removed as soon as QEMU has started");
    assert!(b.screen().unwrap().is_some());
    drop(b);
    assert_eq!(command_line(process), None);
    // A QEMU that fails to start leaves no process either.
    let e = QemuReplayDevice::new(&Name::parse("nothing-of-the-kind").unwrap()).unwrap_err();
    assert!(matches!(e, QemuError::Ended { .. }));
    let own_id = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{own_id}/task/{own_id}/children")).unwrap_or_default();
    assert!(!children.split(' ').any(|c| c == process.to_string()), "{children}");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn mmio_regions_of_qemu_devices_are_known() {
    need_qemu!();
    assert_eq!(open_device("edu").info().register_map, "edu");
    let b = open_device("virtio-gpu-pci,vectors=0");
    let windows = b.info().windows;
    assert_eq!(windows[0].name, "bar4");
    assert_eq!(windows[0].kind, SpaceKind::Registers);
    let b = open_device("ati-vga,model=rv100");
    let entries: Vec<_> = b
        .info()
        .windows
        .iter()
        .map(|w| (w.number, w.name.clone(), w.kind, w.bytes))
        .collect();
    assert_eq!(
        entries,
        [
            (0, "bar2".to_owned(), SpaceKind::Registers, 0x4000),
            (2, "bar0".to_owned(), SpaceKind::Framebuffer, 16 << 20),
            (3, "bar1".to_owned(), SpaceKind::Ports, 256),
        ]
    );
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn offered_qemu_models_have_the_ids_of_the_table() {
    need_qemu!();
    for model in QEMU_MODELS {
        let f = function(&open_device(model.argument));
        assert_eq!((f.vendor, f.device), (model.vendor, model.device), "{}", model.argument);
        assert_eq!(open_device(model.argument).info().register_map, model.register_map);
    }
}
