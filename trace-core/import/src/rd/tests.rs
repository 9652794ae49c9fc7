//! Tests of Mesa's own recordings against the output of Mesa's tools, and of damaged files.

use super::*;
use flate2::read::GzDecoder;
use std::collections::BTreeSet;
use std::io::Read as _;
use trace_core::memory::GpuMemoryView;

/// Mesa's decoder test recordings, with the first submit that the reference decodes and the number of submits; see
/// `sample-traces/freedreno/README.md`.
const SAMPLES: [(&str, u64, u64); 6] = [
    ("compute-a540", 0, 3),
    (
        "dEQP-GLES2.functional.texture.specification.basic_teximage2d.rgba16f_2d",
        0,
        19,
    ),
    (
        "dEQP-VK.draw.indirect_draw.indexed.indirect_draw_count.triangle_list",
        0,
        1,
    ),
    ("es2gears-a320", 0, 1),
    ("fd-clouds", 0, 1),
    ("glxgears-a420", 1, 1),
];

fn sample(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../sample-traces/freedreno")
        .join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(std::fs::File::open(sample(name)).unwrap())
        .read_to_end(&mut out)
        .unwrap();
    out
}

/// Returns registers and values of a reference. They come from packets that write registers, and from other packets
/// that Mesa's decoder treats as such writes.
fn reference(name: &str) -> Vec<(u32, u32)> {
    let log = String::from_utf8_lossy(&unpacked(&format!("{name}.log.gz"))).into_owned();
    let hex = |t: &str| u32::from_str_radix(t, 16);
    let mut out = Vec::new();
    let words_of = |line: &str| -> Option<(u32, Vec<u32>)> {
        let (_, rest) = line.trim_start().split_once(":\t")?;
        let (offset, words) = rest.trim_start().split_once(": ")?;
        let words = words.split_whitespace().map_while(|w| hex(w).ok());
        Some((hex(offset).ok()?, words.collect()))
    };
    let lines: Vec<&str> = log.lines().collect();
    let mut next = 0;
    while let Some(line) = lines.get(next) {
        next += 1;
        let text = line.trim_start();
        let number = |t: &str| t.rsplit_once('(').and_then(|(_, n)| hex(n.trim_end_matches(')')).ok());
        let write = text.strip_prefix("write ").and_then(number);
        let opcode = text
            .strip_prefix("opcode: ")
            .and_then(|t| number(t.rsplit_once(" (")?.0));
        if write.is_none() && !matches!(opcode, Some(0x2d | 0x5c | 0x6d)) {
            continue;
        }
        // The packet follows in lines of `ADDRESS: OFFSET: WORDS`; the targets of its values may come before it.
        let is_header = |w: u32| match (write, opcode) {
            (Some(r), _) => (w >> 28 == 4 && w >> 8 & 0x7_ffff == r) || (w >> 30 == 0 && w & 0x7fff == r),
            (_, Some(o)) => (w >> 28 == 7 && w >> 16 & 0x7f == o) || (w >> 30 == 3 && w >> 8 & 0xff == o),
            _ => false,
        };
        let found = (next..lines.len()).find_map(|n| match words_of(lines[n]) {
            Some((0, words)) if words.first().is_some_and(|w| is_header(*w)) => Some((n, words)),
            _ => None,
        });
        let (at, mut words) = found.unwrap_or_else(|| panic!("no words: {text}"));
        next = at + 1;
        let word_count = 1 + match words[0] >> 28 {
            4 => words[0] & 0x7f,
            7 => words[0] & 0x3fff,
            _ => (words[0] >> 16 & 0x3fff) + 1,
        } as usize;
        // A star stands for rows of zeros.
        while let Some(line) = lines.get(next).filter(|_| words.len() < word_count) {
            match words_of(line) {
                Some((offset, more)) if offset > 0 => {
                    words.resize(offset as usize / 4, 0);
                    words.extend(more);
                }
                None if *line == "*" => {}
                _ => break,
            }
            next += 1;
        }
        words.resize(word_count, 0);
        let values = &words[1..];
        match opcode {
            None => out.extend((write.unwrap()..).zip(values.iter().copied())),
            Some(0x2d) if values[0] >> 16 == 4 => {
                out.extend((0x2000 + (values[0] & 0xffff)..).zip(values[1..].iter().copied()))
            }
            Some(0x5c) => out.extend(values.chunks_exact(2).map(|p| (p[0], p[1]))),
            Some(0x6d) => out.push((values[1] & 0xffff, values[2])),
            Some(_) => {}
        }
    }
    out
}

/// Returns registers and values that the commands of some submits write.
fn written(recording: &Recording, first: u64, count: u64) -> Vec<(u32, u32)> {
    let events = &recording.events;
    let mut submit = 0;
    let mut out = Vec::new();
    for event in 0..events.len() {
        match events.access(event) {
            Some(a) if (first + 1..=first + count).contains(&submit) => out.push((a.offset.get() / 4, a.value as u32)),
            Some(_) => {}
            None => submit += u64::from(events.kind(event) == Some(trace_core::recording::EventKind::Submit)),
        }
    }
    out
}

/// Number of sections of each kind from 1, and size of the contents, counted with Mesa's own `parse_rd_section`.
const SECTIONS: [(&str, [u64; 14], u64); 7] = [
    (
        "compute-a540",
        [1, 88, 120, 0, 0, 3, 0, 0, 1, 0, 1, 77, 2, 0],
        3_805_184,
    ),
    (SAMPLES[1].0, [0, 19, 59, 0, 0, 19, 0, 0, 0, 0, 0, 59, 1, 0], 202_800),
    (SAMPLES[2].0, [0, 2, 16, 0, 0, 2, 0, 0, 0, 0, 0, 7, 1, 0], 77_824),
    (
        "es2gears-a320",
        [0, 64, 128, 0, 0, 64, 0, 0, 0, 0, 0, 128, 1, 0],
        1_745_408,
    ),
    ("fd-clouds", [0, 3, 39, 0, 0, 6, 0, 0, 0, 0, 0, 39, 1, 0], 53_616),
    (
        "glxgears-a420",
        [0, 245, 372, 0, 0, 245, 0, 0, 0, 0, 0, 372, 1, 0],
        2_120_120,
    ),
    ("shadow", [0, 5, 89, 0, 0, 10, 0, 0, 0, 0, 0, 63, 1, 0], 398_528),
];

#[test]
fn sections_are_counted_as_mesas_reader_counts_them() {
    for (name, report, content_bytes) in SECTIONS {
        let (recording, tally) = import_with_tally(&sample(&format!("{name}.rd.gz")), &Progress::new()).unwrap();
        let count_of = |number: usize| {
            let kind = Kind::try_from(number as u32 + 1).ok()?;
            tally.sections.get(&kind).copied()
        };
        let counts: [u64; 14] = std::array::from_fn(|n| count_of(n).unwrap_or(0));
        assert_eq!((counts, tally.content_bytes), (report, content_bytes), "{name}");
        assert_eq!(
            tally.sections.values().sum::<u64>(),
            report.iter().sum::<u64>(),
            "{name}"
        );
        assert_eq!(recording.events.submits.len() as u64, report[5], "{name}");
        // The latest contents of each buffer are at its addresses at the end.
        assert!(
            recording
                .metadata
                .findings
                .iter()
                .all(|f| f.kind != FindingKind::TruncatedSection),
            "{name}"
        );
        assert!(
            !tally.walked.endless && tally.walked.no_packet == 0,
            "{name}: {:?}",
            tally.walked
        );
    }
}

#[test]
fn register_writes_match_mesas_reference_decodes() {
    for (name, first, count) in SAMPLES {
        let (recording, _) = import_with_tally(&sample(&format!("{name}.rd.gz")), &Progress::new()).unwrap();
        let (writes, entries) = (written(&recording, first, count), reference(name));
        // The references list commands that run for each tile or draw once, the recording each time.
        let set = |v: &[(u32, u32)]| v.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(set(&writes), set(&entries), "{name}");
        let (n, m) = match name {
            "es2gears-a320" => (5651, 2962),
            "fd-clouds" => (931, 561),
            n if n.starts_with("dEQP-GLES2") => (1971, 1578),
            _ => (entries.len(), entries.len()),
        };
        assert_eq!((writes.len(), entries.len()), (n, m), "{name}");
        assert_eq!(writes == entries, n == m, "{name}: the order of the writes");
    }
}

#[test]
fn memory_content_is_known_at_each_submit() {
    let name = "glxgears-a420.rd.gz";
    let recording = import(&sample(name), &Progress::new()).unwrap();
    let [space] = &recording.metadata.address_spaces[..] else {
        panic!("{:?}", recording.metadata)
    };
    let identity = &recording.metadata.identity;
    assert_eq!(
        (identity.gpu_name.as_str(), identity.gpu_id),
        ("Adreno 420", 0x0402_00ff)
    );
    // Independent check: the memory at each submit is the latest contents before it.
    let bytes = unpacked(name);
    let (mut at, mut buffer, mut compared) = (0, (0, 0), 0);
    let mut now: BTreeMap<u64, &[u8]> = BTreeMap::new();
    let submits: Vec<usize> = (0..recording.events.len())
        .filter(|e| recording.events.submit(*e).is_some())
        .collect();
    let mut submits = submits.into_iter();
    while at < bytes.len() {
        let (kind, length) = (word(&bytes[at..]), word(&bytes[at + 4..]) as usize);
        let contents = &bytes[at + 8..at + 8 + length];
        at += 8 + length;
        match kind {
            3 => buffer = (u64::from(word(contents)), word(&contents[4..])),
            12 => {
                now.insert(buffer.0, contents);
            }
            6 => {
                let event = submits.next().unwrap();
                let view = GpuMemoryView::new(recording.memory.at(event as u64), space);
                for (va, contents) in std::mem::take(&mut now) {
                    let found = view.read_range(GpuVa::new(va), contents.len() as u64);
                    assert!(
                        found.bytes == contents && found.holes.is_empty(),
                        "{va:#x} at event {event}"
                    );
                    compared += 1;
                }
            }
            _ => {}
        }
    }
    assert_eq!(
        (compared > 300, submits.next()),
        (true, None),
        "{compared} buffers compared"
    );
}

/// Returns a file of sections.
fn file(sections: &[(u32, &[u8])]) -> Vec<u8> {
    let head = |a: u32, b: u32| [a.to_le_bytes(), b.to_le_bytes()].concat();
    sections
        .iter()
        .flat_map(|(kind, bytes)| [head(*kind, bytes.len() as u32), bytes.to_vec()].concat())
        .collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn read(bytes: &[u8]) -> Result<Recording, ImportError> {
    read_with_progress(bytes, &Progress::new())
}

fn read_with_progress(bytes: &[u8], progress: &Progress) -> Result<Recording, ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("A.RD");
    std::fs::write(&path, bytes).unwrap();
    assert!(fits(&path) && !fits(dir.path()));
    import(&path, progress)
}

#[test]
fn damaged_rd_file_is_reported_and_the_rest_imported() {
    let commands = words(&[1 << 16 | 0x10, 1, 2]);
    let sound = file(&[
        (13, &words(&[330])),
        (2, b"a/1: fence=5\0\xff\xfe"),
        (3, &words(&[0x10ffc, 12])),
        (12, &commands),
        (6, &words(&[0x10ffc, 3])),
    ]);
    let r = read(&sound).unwrap();
    assert_eq!(written(&r, 0, 1), [(0x10, 1), (0x11, 2)]);
    assert_eq!(
        (&*r.metadata.identity.gpu_name, &r.events.marks[..]),
        ("Adreno 330", &["a/1: fence=5".to_owned()][..])
    );
    let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
    assert_eq!(
        view.read_range(GpuVa::new(0x10ffc), 12).bytes,
        commands,
        "a read across two pages differs"
    );
    // Sync words are skipped. A file that ends within a section is reported.
    assert_eq!(
        read(&[words(&[u32::MAX, u32::MAX]), sound.clone()].concat())
            .unwrap()
            .events
            .len(),
        r.events.len()
    );
    for cut in 13..sound.len() {
        let r = read(&sound[..cut]).unwrap();
        let damage = r
            .metadata
            .findings
            .iter()
            .any(|f| f.kind == FindingKind::TruncatedSection);
        let ends = [12, 35, 51, 71, 87].contains(&cut);
        assert_eq!(damage, !ends, "{cut}");
    }
    let refused = |bytes: &[u8], message: &str| {
        let e = read(bytes).unwrap_err().to_string();
        assert!(e.contains(message), "{e}");
    };
    refused(b"", "has no section");
    refused(b"text and no more", "more than");
    refused(&words(&[3, u32::MAX]), "more than");
    refused(&file(&[(3, &[1, 2, 3, 4])]), "expected 8 or 12");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, &sound).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(read(&packed).unwrap().events.len(), r.events.len());
    let cut = read(&packed[..packed.len() - 12]);
    assert!(
        cut.is_err()
            || cut
                .unwrap()
                .metadata
                .findings
                .iter()
                .any(|f| f.message.contains("decompressed further"))
    );
    // Zeros are sections of an unknown kind. The import fails after a few thousand of them, before it decompresses all.
    let mut zeros = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..256 {
        std::io::Write::write_all(&mut zeros, &[0; 1 << 20]).unwrap();
    }
    let zeros = zeros.finish().unwrap();
    let progress = Progress::new();
    let e = read_with_progress(&zeros, &progress).unwrap_err().to_string();
    assert!(e.contains("4096 sections of unknown kinds follow each other"), "{e}");
    // The file is read in blocks of 64 KiB, and has about four of them.
    let done = progress.fraction().unwrap();
    assert!(done < 0.5, "{done} of the file was read");
    // Zeros after valid sections end the file and are reported.
    let mut padded = sound.clone();
    padded.resize(sound.len() + (64 << 10), 0);
    let recording = read(&padded).unwrap();
    assert_eq!(recording.events.len(), r.events.len());
    let finding = recording
        .metadata
        .findings
        .iter()
        .find(|f| f.message.contains("unknown kinds"))
        .unwrap();
    assert_eq!(finding.place, format!("byte {:#x}", sound.len()));
    // The file has an unknown kind, contents without a buffer, and an address that no table maps.
    let odd = file(&[
        (99, &[]),
        (12, &[1]),
        (3, &words(&[0, 4, 0x10_0000])),
        (12, &[1, 2, 3, 4]),
        (4, &[]),
    ]);
    let messages: Vec<String> = read(&odd)
        .unwrap()
        .metadata
        .findings
        .into_iter()
        .map(|f| f.message)
        .collect();
    for message in [
        "kind 99",
        "precede every buffer",
        "pages are missing",
        "of the kind context",
        "does not state the GPU",
    ] {
        assert!(messages.iter().any(|t| t.contains(message)), "{message}: {messages:?}");
    }
}
