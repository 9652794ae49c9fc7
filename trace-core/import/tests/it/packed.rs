//! Packed files and archives, made by the programs and Python modules that `tests/packed/make.py` names.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trace_core::Recording;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_import::{ImportError, OpenOptions, Opened, fits, recordings_in, trace};

/// Number of accesses of the long log, and of the one in archives.
const LONG: usize = 8000;
const SHORT: usize = 100;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packed").join(name)
}

fn try_open(path: &Path) -> Result<Recording, ImportError> {
    trace_import::open(path, &OpenOptions::default(), &Progress::new()).and_then(Opened::into_recording)
}

fn open(path: &Path) -> Recording {
    try_open(path).unwrap_or_else(|e| panic!("{e}"))
}

/// The text of a log with so many accesses.
fn log(accesses: usize) -> String {
    let mut text = String::from(
        "VERSION 20070824\nPCIDEV 0018 10025046 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000 \n",
    );
    for n in 0..accesses {
        let (seconds, micros) = (4 + n / 500_000, n * 2 % 1_000_000);
        let address = 0xfebf_0000 + n % 64 * 4;
        text += &format!("W 4 {seconds}.{micros:06} 1 {address:#x} {:#x} 0x0 0\n", n % 7);
    }
    text
}

fn in_folder(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn messages(recording: &Recording, kind: FindingKind) -> Vec<String> {
    let findings = recording.metadata.findings.iter().filter(|f| f.kind == kind);
    findings.map(|f| format!("{}: {}", f.place, f.message)).collect()
}

#[test]
fn every_packing_opens_by_its_content() {
    let (_folder, plain) = in_folder("plain.txt", log(LONG).as_bytes());
    let expected = open(&plain);
    assert_eq!(expected.events.len(), LONG);
    // Streams that follow each other, other levels and checks, and a packed file in a packed one.
    for name in [
        "log.gz", "log.xz", "log.bz2", "log.zst", "one.xz", "one.bz2", "one.zst", "twice.gz",
    ] {
        // The name says nothing.
        let (_folder, renamed) = in_folder("renamed", &fs::read(file(name)).unwrap());
        assert!(fits(&renamed), "{name}");
        let opened = open(&renamed);
        let same = |a: &Recording, b: &Recording| {
            a.events.time.iter().eq(b.events.time.iter()) && a.events.value.iter().eq(b.events.value.iter())
        };
        assert!(same(&opened, &expected), "{name}");
        assert_eq!(opened.metadata.findings, expected.metadata.findings, "{name}");
    }
}

#[test]
fn cut_packed_files_open_as_far_as_they_go() {
    for (name, least) in [
        ("one.xz", 1000),
        ("one.bz2", 1000),
        ("one.zst", 1000),
        ("log.gz", 1000),
        ("twice.gz", 1),
    ] {
        let bytes = fs::read(file(name)).unwrap();
        let (_folder, cut) = in_folder(name, &bytes[..bytes.len() * 3 / 4]);
        let opened = open(&cut);
        let events = opened.events.len();
        assert!((least..LONG).contains(&events), "{name}: {events}");
        let found = messages(&opened, FindingKind::TruncatedSection);
        assert!(
            found.iter().any(|m| m.contains("cannot be decompressed further")),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn damage_in_a_packed_file_is_told() {
    for name in ["one.xz", "one.bz2", "one.zst"] {
        let mut bytes = fs::read(file(name)).unwrap();
        let middle = bytes.len() / 2;
        for byte in &mut bytes[middle..middle + 8] {
            *byte ^= 0x55;
        }
        let (_folder, damaged) = in_folder(name, &bytes);
        match try_open(&damaged) {
            Ok(opened) => assert!(!messages(&opened, FindingKind::TruncatedSection).is_empty(), "{name}"),
            Err(e) => assert!(!e.to_string().is_empty(), "{name}"),
        }
    }
}

#[test]
fn the_log_of_an_archive_is_found_in_any_order() {
    for name in ["log-first.tar.gz", "log-last.tar.xz"] {
        let opened = open(&file(name));
        assert_eq!(opened.events.len(), SHORT, "{name}");
        let unused = messages(&opened, FindingKind::NotUsed);
        let expected = "archive: mydump.txt is opened; other members of the archive are not used: dmesg.txt, lspci.txt";
        assert_eq!(unused, [expected], "{name}");
    }
    for name in [
        "long-gnu.tar.bz2",
        "long-pax.tar.zst",
        "deflated.zip",
        "stored.zip",
        "bzip2.zip",
    ] {
        assert!(fits(&file(name)), "{name}");
        assert_eq!(open(&file(name)).events.len(), SHORT, "{name}");
    }
}

#[test]
fn a_named_member_opens() {
    let dmesg = format!("{}:dmesg.txt", file("log-first.tar.gz").display());
    let opened = open(Path::new(&dmesg));
    assert_eq!(opened.metadata.identity.source, "nouveau");
    let missing = format!("{}:other.txt", file("log-first.tar.gz").display());
    let error = try_open(Path::new(&missing)).unwrap_err().to_string();
    assert!(
        error.ends_with("the archive has no member other.txt; it has dmesg.txt, lspci.txt, mydump.txt"),
        "{error}"
    );
    let outside = format!("{}:../x", file("log-first.tar.gz").display());
    assert!(try_open(Path::new(&outside)).is_err());
    let plain = format!("{}:x", file("make.py").display());
    let error = try_open(Path::new(&plain)).unwrap_err().to_string();
    assert!(
        error.ends_with("the file is no archive, so it has no member x"),
        "{error}"
    );
}

#[test]
fn several_recordings_are_listed() {
    let archive = file("several.tar");
    let error = try_open(&archive).unwrap_err();
    let name = archive.display();
    let expected =
        format!("{name}: the archive holds 2 recordings; open one of them: {name}:a.txt, {name}:inner/b.txt");
    assert_eq!(error.to_string(), expected);
    let listed = recordings_in(&archive);
    assert_eq!(listed.len(), 2);
    let opened = open(&listed[1]);
    assert_eq!(opened.events.len(), SHORT);
    let unused = messages(&opened, FindingKind::NotUsed);
    assert!(
        unused
            .iter()
            .any(|m| m.contains("../outside.txt") && m.contains("link.txt")),
        "{unused:?}"
    );
    assert!(!archive.with_file_name("outside.txt").exists());
}

#[test]
fn errors_name_the_archive_and_its_member() {
    let mut builder = tar_of(&[("inner/log.txt", b"VERSION 20070824\nW 4\n")]);
    builder.extend([0; 1024]);
    let (_folder, path) = in_folder("bad.tar", &builder);
    let error = try_open(&path).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}:inner/log.txt, line 2: ", path.display())) && error.contains("lacks the time"),
        "{error}"
    );
}

/// A tar archive in the old form.
fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.extend(header);
        out.extend(*content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out
}

#[test]
fn archives_hold_folders_packed_members_and_archives() {
    let history = b"520,R,0x00000000,60000000\n521,W,0x00000030,00000001\n";
    let folder = tar_of(&[("net/gr_io_history", history), ("net/notes.txt", b"a note")]);
    let (_keep, path) = in_folder("net.tar", &folder);
    let opened = open(&path);
    assert_eq!(opened.metadata.identity.source, "gpureplay");
    let packed = fs::read(file("one.xz")).unwrap();
    let inner = tar_of(&[("log.txt.xz", &packed)]);
    let outer = tar_of(&[("readme", b"text"), ("inner.tar", &inner)]);
    let (_keep, path) = in_folder("outer.tar", &outer);
    assert_eq!(open(&path).events.len(), LONG);
    let named = format!("{}:inner.tar:log.txt.xz", path.display());
    assert_eq!(open(Path::new(&named)).events.len(), LONG);
    let mut nested = inner;
    for _ in 0..6 {
        nested = tar_of(&[("x.tar", &nested)]);
    }
    let (_keep, path) = in_folder("nested.tar", &nested);
    let error = try_open(&path).unwrap_err().to_string();
    assert!(error.contains("archives are in each other"), "{error}");
}

#[test]
fn cut_archives_open_as_far_as_they_go() {
    let log = log(SHORT);
    let archive = tar_of(&[("log.txt", log.as_bytes())]);
    let (_keep, path) = in_folder("cut.tar", &archive[..512 + log.len() / 2]);
    let opened = open(&path);
    assert!((10..SHORT).contains(&opened.events.len()));
    let found = messages(&opened, FindingKind::TruncatedSection);
    assert!(
        found.iter().any(|m| m.contains("log.txt: the file ends early")),
        "{found:?}"
    );
    // Without the list at its end.
    let mut zip = fs::read(file("deflated.zip")).unwrap();
    zip.truncate(zip.len() - 60);
    let (_keep, path) = in_folder("cut.zip", &zip);
    let opened = open(&path);
    assert_eq!(opened.events.len(), SHORT);
}

#[test]
fn an_archive_without_a_recording_lists_its_files() {
    let archive = tar_of(&[("a/letter.txt", b"a letter"), ("b", b"\x01\x02")]);
    let (_keep, path) = in_folder("letters.tar", &archive);
    let error = try_open(&path).unwrap_err().to_string();
    assert!(
        error.contains("an archive without a recording: it holds a/letter.txt, b;"),
        "{error}"
    );
    let (_keep, path) = in_folder("empty.tar", &[0; 1024]);
    assert!(try_open(&path).is_err());
}

#[test]
fn files_that_are_read_in_any_order_are_unpacked_first() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces/vecadd.kine");
    let kine = fs::read(&samples).unwrap();
    let mut packer = flate2::read::GzEncoder::new(&kine[..], flate2::Compression::fast());
    let mut packed = Vec::new();
    packer.read_to_end(&mut packed).unwrap();
    let (_keep, path) = in_folder("x", &packed);
    assert!(fits(&path));
    let opened = open(&path);
    assert_eq!(opened.events.len(), open(&samples).events.len());
    // The same recording under another name.
    let (_keep, path) = in_folder("renamed.bin", &kine);
    assert_eq!(open(&path).events.len(), opened.events.len());
}

#[test]
fn bombs_are_refused() {
    use std::io::Write as _;
    let mut zeros = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let piece = vec![b'\n'; 1 << 20];
    for _ in 0..16 {
        zeros.write_all(&piece).unwrap();
    }
    let once = zeros.finish().unwrap();
    // Members that unpack to more than the limit together, in archives of both kinds.
    let zeros = vec![0; 1 << 20];
    let tar = tar_of(&[("log.txt", log(SHORT).as_bytes()), ("zeros", &zeros)]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&tar).unwrap();
    let (_keep, tar) = in_folder("bomb.tar.gz", &packed.finish().unwrap());
    for (path, limit) in [(tar, 1 << 19), (file("deflated.zip"), 1 << 10)] {
        let progress = Progress::new();
        progress.limit_unpacked(limit);
        let result = trace_import::open(&path, &OpenOptions::default(), &progress);
        let error = result.map(|_| ()).unwrap_err();
        assert!(
            matches!(error, ImportError::OverLimit { limit: l, .. } if l == limit),
            "{error}"
        );
    }
    // Packed twice: the limit holds for the innermost bytes.
    let mut twice = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    twice.write_all(&once).unwrap();
    let (_keep, path) = in_folder("twice.gz", &twice.finish().unwrap());
    let progress = Progress::new();
    progress.limit_unpacked(1 << 20);
    let result = trace::import(&path, &trace::Options::default(), &progress);
    assert!(result.is_err());
}

#[test]
fn almost_known_files_say_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gr_pgt"), b"x").unwrap();
    let error = try_open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("gr_io_history is missing"), "{error}");
    let (_keep, path) = in_folder("kernel", br#"{"StaticHash": 1, "KernelName": "k", "instances": {}}"#);
    let error = try_open(&path).unwrap_err().to_string();
    assert!(error.contains("VAddr"), "{error}");
    let mut rd = Vec::new();
    for (kind, content) in [(13u32, &[0u8; 4][..]), (0x4444, b"nothing")] {
        rd.extend(kind.to_le_bytes());
        rd.extend((content.len() as u32).to_le_bytes());
        rd.extend(content);
    }
    let (_keep, path) = in_folder("capture", &rd);
    let error = try_open(&path).unwrap_err().to_string();
    assert!(
        error.contains("at byte 0xc stands a section of kind 17476 with 7 bytes"),
        "{error}"
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// Copies a folder; `packs` says which files are packed by gzip.
fn copy_packed(from: &Path, to: &Path, packs: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            copy_packed(&path, &to.join(name), packs);
        } else if packs(&name) {
            fs::write(to.join(format!("{name}.gz")), gzip(&fs::read(&path).unwrap())).unwrap();
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn folders_whose_files_are_packed_one_by_one_open() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/folders/vecadd-g52");
    let digest = |path: &Path| match trace_import::open(path, &OpenOptions::default(), &Progress::new()).unwrap() {
        Opened::Submission(chains) => format!("{chains:?}").len(),
        Opened::Recording(_) => panic!("{} is no folder of chains", path.display()),
    };
    let folder = tempfile::tempdir().unwrap();
    type Choice<'a> = (&'a str, &'a dyn Fn(&str) -> bool);
    let choices: [Choice<'_>; 3] = [
        ("all", &|_| true),
        ("data", &|name| name != "spec.json"),
        ("list", &|name| name == "spec.json"),
    ];
    for (name, packs) in choices {
        let path = folder.path().join(name);
        copy_packed(&source, &path, packs);
        assert!(fits(&path), "{name}");
        assert!(digest(&path) > 100, "{name}");
    }
    // Packed files that make no recording change nothing.
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes.txt.gz"), gzip(b"notes\n")).unwrap();
    assert!(!fits(&other) && try_open(&other).is_err());
}
