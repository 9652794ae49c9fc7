//! Tests of register histories of Arm's kernel driver for Mali GPUs, from debugfs and from the kernel log.
//!
//! The project has no history of a phone or board that it may store here. The tests therefore print histories in the
//! format of the driver from other recordings. These are a sample of this project and, if present, the published
//! recording of a Mali-G71 that ran AlexNet.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Access, Clock, EventKind, Recording};
use trace_core::registers::RecordedRegisters;
use trace_core::{PhysAddr, RegOffset, check, container};
use trace_import::ImportError;
use trace_import::trace::regs_history::{self, Options, SOURCE};

/// Kernel address of the register window.
const AT: u64 = 0xffff_ff80_08a8_0000;

fn path_in_crate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn accesses(r: &Recording) -> Vec<Access> {
    r.events.accesses(0..r.events.len()).map(|(_, a)| a).collect()
}

fn sample() -> Vec<Access> {
    accesses(&container::open(&path_in_crate("../../sample-traces/vecadd.kine")).unwrap())
}

/// Returns the dump that the driver prints for a ring of `size` entries after these accesses, with a prefix on each
/// line.
fn print_dump(accesses: &[Access], size: usize, prefix: &str) -> String {
    let last = accesses.len().min(size);
    let mut out = format!("{prefix}Last {last} register accesses of {} total:\n", accesses.len());
    for (i, a) in accesses[accesses.len() - last..].iter().enumerate() {
        let way = if a.write { 'w' } else { 'r' };
        let address = AT + u64::from(a.offset.get());
        writeln!(out, "{prefix}{i:6}: {way}: reg 0x{address:016x} val {:08x}", a.value).unwrap();
    }
    out
}

fn import_with(text: &[u8], options: &Options) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.txt");
    std::fs::write(&path, text).unwrap();
    regs_history::import(&path, options, &Progress::new())
}

fn import_text(text: impl AsRef<[u8]>) -> Recording {
    import_with(text.as_ref(), &Options::default()).unwrap()
}

fn refused(text: &str) -> String {
    import_with(text.as_bytes(), &Options::default())
        .unwrap_err()
        .to_string()
}

fn finding_messages(r: &Recording, kind: FindingKind) -> Vec<&str> {
    let of_kind = r.metadata.findings.iter().filter(|f| f.kind == kind);
    of_kind.map(|f| f.message.as_str()).collect()
}

fn lost(r: &Recording) -> Vec<(u64, Option<u64>)> {
    r.metadata.lost.iter().map(|l| (l.before_event, l.count)).collect()
}

/// The file has the accesses of `vecadd.kine`, printed by C's `printf` with the format strings of the driver. Each line
/// except the first is an access, so `wc -l` counts 1 more than the accesses. `grep -c ': w: reg'` counts the writes.
#[test]
fn sample_history_matches_its_accesses() {
    let path = path_in_crate("tests/mmio/vecadd.regs_history.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let writes = text.lines().filter(|l| l.contains(": w: reg ")).count();
    let r = crate::open(&path);
    let sample = sample();
    assert_eq!(text, print_dump(&sample, 1 << 15, ""));
    assert_eq!(accesses(&r), sample);
    assert_eq!(sample.len(), text.lines().count() - 1);
    assert_eq!(
        r.events.kind.iter().filter(|k| *k == EventKind::Write as u8).count(),
        writes
    );
    assert_eq!(r.metadata.identity.source, SOURCE);
    assert_eq!(
        (r.metadata.identity.gpu_name.as_str(), r.metadata.identity.clock),
        ("Mali-G71", Clock::SinceStart)
    );
    assert_eq!(lost(&r), []);
    let assumed = finding_messages(&r, FindingKind::Assumed);
    assert!(
        assumed.len() == 1 && assumed[0].contains("begin at 0xffffff8008a80000, where the id of a known GPU is read"),
        "{assumed:?}"
    );
    let registers = RecordedRegisters::new(&r).unwrap();
    assert!(sample.iter().all(|a| registers.find_accessed(a).is_some()));
    let reopened = container::from_bytes(container::to_bytes(&r).unwrap()).unwrap();
    assert_eq!((&reopened.metadata, accesses(&reopened)), (&r.metadata, sample));
}

#[test]
fn full_ring_reports_the_number_of_lost_accesses() {
    let sample = sample();
    let r = import_text(print_dump(&sample, 40, ""));
    assert_eq!(accesses(&r), sample[sample.len() - 40..]);
    let before = sample.len() as u64 - 40;
    assert_eq!(lost(&r), [(0, Some(before))]);
    let messages = finding_messages(&r, FindingKind::LostEvents);
    assert!(
        messages[0].starts_with(&format!("{before} accesses before it are missing")),
        "{messages:?}"
    );
    // `check` does not repeat findings of the import.
    let all = check::check(&r);
    assert_eq!(all.iter().filter(|f| f.kind == FindingKind::LostEvents).count(), 1);
}

#[test]
fn dumps_of_one_ring_are_merged() {
    let sample = sample();
    let prefix = |n: u32| format!("<3>[{n:5}.000100] [0:  kworker/0:1:  123] mali 13000000.gpu: ");
    let noise = "<6>[    1.000000] Linux version 4.9.0\n<6>[    2.000000] usb 1-1: new device\n";
    let mut log = noise.to_owned();
    // The second dump lacks 30 accesses, and the third dump lacks its last five lines.
    log += &format!("{}Register IO History:\n", prefix(7));
    log += &print_dump(&sample[..50], 40, &prefix(7));
    log += &print_dump(&sample[..120], 40, &prefix(9));
    let third = print_dump(&sample[..140], 40, &prefix(12));
    let lines: Vec<&str> = third.lines().collect();
    log += &lines[..lines.len() - 5].join("\n");
    log += "\n";
    let r = import_text(&log);
    let expected = [&sample[10..50], &sample[80..135]].concat();
    assert_eq!(accesses(&r), expected);
    assert_eq!(lost(&r), [(0, Some(10)), (41, Some(30)), (98, Some(5))]);
    assert_eq!(r.metadata.identity.clock, Clock::Monotonic);
    assert_eq!(
        r.events.marks,
        [
            "the last 40 of 50 register accesses",
            "the last 40 of 120 register accesses",
            "the last 40 of 140 register accesses"
        ]
    );
    let times: Vec<u64> = (0..r.events.len()).map(|e| r.events.time.get(e).unwrap()).collect();
    assert_eq!(
        (times[0], times[40], times[41], times[97]),
        (7_000_100_000, 7_000_100_000, 9_000_100_000, 12_000_100_000)
    );
    assert!(
        finding_messages(&r, FindingKind::NotUsed)[0].starts_with("3 lines from here on are not part of a history")
    );
    assert!(
        finding_messages(&r, FindingKind::Assumed)
            .iter()
            .any(|t| t.contains("happened before it"))
    );
}

#[test]
fn restarted_ring_keeps_earlier_accesses() {
    let sample = sample();
    // A resized ring restarts its count. A second log can also have the same numbers with other accesses.
    let r = import_text(print_dump(&sample[..60], 40, "") + &print_dump(&sample[..30], 40, ""));
    assert_eq!(accesses(&r), [&sample[20..60], &sample[..30]].concat());
    assert_eq!(lost(&r), [(0, Some(20)), (41, None)]);
    let r = import_text(print_dump(&sample[..60], 40, "") + &print_dump(&sample[30..90], 40, ""));
    assert_eq!(accesses(&r), [&sample[20..60], &sample[50..90]].concat());
    // A repeated dump is imported once.
    let twice = print_dump(&sample[..60], 40, "").repeat(2);
    assert_eq!(accesses(&import_text(twice)), sample[20..60]);
}

#[test]
fn missing_or_broken_lines_are_reported() {
    let sample = sample();
    let text = print_dump(&sample[..20], 40, "");
    let without: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(n, _)| *n != 5)
        .map(|(_, l)| l)
        .collect();
    let r = import_text(without.join("\n") + "\n");
    assert_eq!(lost(&r), [(5, Some(1))]);
    assert_eq!(accesses(&r).len(), 19);
    let cut = text.trim_end();
    let r = import_text(&cut[..cut.len() - 3]);
    assert_eq!((accesses(&r).len(), lost(&r)), (19, vec![(20, Some(1))]));
    assert!(finding_messages(&r, FindingKind::TruncatedSection)[0].contains("no line end"));
    // A log that starts in the middle of a dump has no header line.
    let headless: String = text.lines().skip(8).map(|l| format!("{l}\n")).collect();
    let r = import_text(headless);
    assert_eq!((accesses(&r), lost(&r)), (sample[7..20].to_vec(), vec![(0, Some(7))]));
    let odd = text.replace("     3: ", "    99: ").replace("val", "va");
    assert!(
        refused(&odd).contains("no line of it is a register access"),
        "{}",
        refused(&odd)
    );
    let r = import_text(text.replace("     3: ", "    99: "));
    assert_eq!(accesses(&r).len(), 19);
    assert!(finding_messages(&r, FindingKind::NotUsed)[0].starts_with("1 accesses have a number"));
}

#[test]
fn dumps_of_another_device_are_left_out() {
    let sample = sample();
    let dump = |device: &str, n: usize| print_dump(&sample[..n], 40, &format!("[ 1.000000] mali {device}: "));
    let r = import_text(dump("13000000.gpu", 30) + &dump("1c500000.gpu", 20));
    assert_eq!(accesses(&r), sample[..30]);
    assert_eq!(
        finding_messages(&r, FindingKind::NotUsed),
        ["1 dumps belong to other devices than the first, 13000000.gpu, and were not imported"]
    );
}

#[test]
fn user_options_set_register_base_and_gpu_id() {
    let sample = sample();
    let without_id: Vec<Access> = sample.iter().copied().filter(|a| a.offset != RegOffset::ZERO).collect();
    let text = print_dump(&without_id, 1 << 15, "");
    let r = import_text(&text);
    assert_eq!(accesses(&r), without_id);
    assert!(finding_messages(&r, FindingKind::Assumed)[1].contains("--gpu-id"));
    let options = Options {
        base: Some(PhysAddr::new(AT - 0x2000)),
        gpu_id: Some(0x6000_0000),
    };
    let r = import_with(text.as_bytes(), &options).unwrap();
    assert_eq!(accesses(&r)[0].offset, without_id[0].offset + 0x2000);
    assert_eq!(r.metadata.identity.gpu_name, "Mali-G71");
    assert_eq!(finding_messages(&r, FindingKind::Assumed), Vec::<&str>::new());
    let shifted = Options {
        base: Some(PhysAddr::new(AT + 0x1000)),
        ..Options::default()
    };
    let r = import_with(text.as_bytes(), &shifted).unwrap();
    let expected = without_id.iter().filter(|a| a.offset >= RegOffset::new(0x1000)).count();
    assert_eq!(accesses(&r).len(), expected);
    assert!(finding_messages(&r, FindingKind::NotUsed)[0].contains("and were not imported"));
    let far = Options {
        base: Some(PhysAddr::new(0x1000)),
        ..Options::default()
    };
    let error = import_with(text.as_bytes(), &far).unwrap_err().to_string();
    assert!(error.contains("line 1: none of its"), "{error}");
}

#[test]
fn history_without_addresses_is_refused_with_a_remedy() {
    let head = "Last 2 register accesses of 2 total:\n";
    let zeros = "     0: r: reg 0x               0 val 00000001\n     1: w: reg 0x               0 val 00000001\n";
    let hashes = "     0: r: reg 0x        8c1e2d36 val 00000001\n     1: w: reg 0x        f2201195 val 00000001\n";
    let words = "     0: r: reg 0x(____ptrval____) val 00000001\n     1: w: reg 0x(____ptrval____) val 00000001\n";
    for (text, message) in [
        (head.to_owned() + zeros, "kptr_restrict"),
        (head.to_owned() + hashes, "no_hash_pointers"),
        (head.to_owned() + words, "kptr_restrict"),
        (
            "The register access history is disabled\n".to_owned(),
            "regs_history_enabled",
        ),
        (
            head.replace('2', "0"),
            "no line of it is a register access (1 lines read)",
        ),
    ] {
        let error = refused(&text);
        assert!(
            error.contains(message) && error.contains("history.txt, line 1: "),
            "{error}"
        );
    }
}

#[test]
fn register_history_is_recognized_after_leading_noise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last_kmsg");
    let fits = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        regs_history::fits(&path)
    };
    let noise = "[    1.000000] usb 1-1: new device\n".repeat(100_000);
    let dump = print_dump(&sample()[..9], 40, "[    1.000000] mali 13000000.gpu: ");
    assert!(fits(dump.as_bytes()));
    assert!(fits((noise.clone() + &dump).as_bytes()));
    assert!(fits(b"The register access history is disabled\n"));
    assert!(!fits(noise.as_bytes()));
    assert!(!fits(b""));
    assert!(!fits(&[&[0; 1 << 15], dump.as_bytes()].concat()));
    assert!(!fits(b"how many register accesses of a driver\nwrite: reg 0x12\n"));
}

/// GPUReplay recorded a real GPU with this driver. The test prints the accesses of `gr_io_history` in the format of the
/// driver and imports them.
#[test]
fn mali_g71_accesses_round_trip_through_a_history() {
    let root = std::env::var_os("KINESCOPE_RECORDINGS")
        .map_or_else(|| path_in_crate("../../../shared/recordings"), PathBuf::from);
    let Ok(text) = std::fs::read_to_string(root.join("gpureplay/alexnet/gr_io_history")) else {
        println!("skipped: {} is missing", root.display());
        return;
    };
    let hex = |t: &str| u64::from_str_radix(t.trim().trim_start_matches("0x"), 16).unwrap();
    let recorded: Vec<Access> = text
        .lines()
        .map(|l| {
            let fields: Vec<&str> = l.split(',').collect();
            Access {
                space: 0,
                write: fields[1].eq_ignore_ascii_case("w"),
                offset: RegOffset::new(hex(fields[2]) as u32),
                width: 4,
                value: hex(fields[3]),
            }
        })
        .collect();
    assert_eq!(recorded.len(), text.lines().count());
    for size in [512, 1 << 15] {
        let r = import_text(print_dump(&recorded, size, "[  100.000000] mali e82c0000.mali: "));
        let last = recorded.len().min(size);
        assert_eq!(accesses(&r), recorded[recorded.len() - last..], "{size}");
        assert!(finding_messages(&r, FindingKind::Assumed)[0].contains("0xffffff8008a80000"));
    }
}

/// Accesses of a GPU with a command stream front end, at these offsets.
fn print_streams(with_id: bool) -> String {
    let id = [(false, 0x0, 0xa867_0005u32), (false, 0x4, 0x0713_0206)];
    let running = [
        (true, 0x24, 0x3_0101),
        (true, 0x704, 0),
        (true, 0x700, 1),
        (false, 0x100c, 0x8000_0000),
        (true, 0x8_0000, 1),
    ];
    let all = id.into_iter().filter(|_| with_id).chain(running);
    let mut out = String::new();
    for (i, (write, offset, value)) in all.enumerate() {
        let way = if write { 'w' } else { 'r' };
        writeln!(out, "{i:6}: {way}: reg 0x{:016x} val {value:08x}", AT + offset).unwrap();
    }
    out
}

#[test]
fn a_command_stream_front_end_is_told_and_has_names_of_its_control() {
    let r = import_text(print_streams(true));
    let identity = &r.metadata.identity;
    assert_eq!((identity.gpu_id, &identity.gpu_name[..]), (0xa867_0005, "Mali-G610"));
    let text = finding_messages(&r, FindingKind::Assumed).join("\n");
    assert!(text.contains("no job manager (its id is 0xa8670005)"), "{text}");
    assert!(
        text.contains("registers of a Mali with a command stream front end"),
        "{text}"
    );
    let registers = RecordedRegisters::new(&r).unwrap();
    let names: Vec<_> = accesses(&r)
        .iter()
        .map(|a| registers.name_of(a).map(|n| n.into_owned()))
        .collect();
    let names: Vec<_> = names.iter().map(|n| n.as_deref().unwrap_or("")).collect();
    assert_eq!(
        names,
        [
            "GPU_ID",
            "L2_FEATURES",
            "GPU_IRQ_CLEAR",
            "MCU_STATUS",
            "MCU_CONTROL",
            "JOB_IRQ_STATUS",
            ""
        ]
    );
    // Without a read of the id, the doorbells tell.
    let text = finding_messages(&import_text(print_streams(false)), FindingKind::Assumed).join("\n");
    assert!(text.contains("no job manager (its accesses reach beyond"), "{text}");
    assert!(text.contains("--gpu-id"), "{text}");
    let options = Options {
        gpu_id: Some(0xa867_0005),
        ..Options::default()
    };
    let r = import_with(print_streams(false).as_bytes(), &options).unwrap();
    assert!(RecordedRegisters::new(&r).is_some());
}
