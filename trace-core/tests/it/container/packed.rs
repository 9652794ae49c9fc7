//! Tests of packed blocks: round trips, sizes, damage, hostile tables.

use crate::container::generate::{assert_same, metadata};
use crate::container::golden::{bless, compare_with_python, golden_path};
use std::path::Path;
use trace_core::container::{self, ContainerError, Encoding, KineFile, MemorySink, SectionInfo, Writer};
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, SectionKind};
use trace_core::{Recording, RegOffset};

const EVENTS: u64 = 150_000;

/// Returns a recording of a driver that repeats its work: long columns.
fn long_recording(count: u64) -> Recording {
    let mut events = EventsBuilder::new();
    for n in 0..count {
        let step = n % 31;
        let access = Access {
            space: 0,
            write: step % 3 == 0,
            offset: RegOffset::new((step * 4) as u32),
            width: 4,
            value: if step == 7 { n / 31 } else { step * 0x1001 },
        };
        events.access(n * 520 + step, 1, access);
    }
    Recording {
        metadata: metadata(),
        events: events.finish(),
        ..Recording::default()
    }
}

/// Returns the file of a recording, with packed columns or without.
fn file_of(recording: &Recording, packs: bool) -> Vec<u8> {
    let mut writer = Writer::begin(MemorySink::default()).unwrap();
    writer.set_packing(packs);
    writer.put(recording).unwrap();
    writer.commit().unwrap();
    writer.into_sink().bytes
}

fn section(bytes: &[u8], kind: SectionKind) -> SectionInfo {
    let file = KineFile::from_bytes(bytes.to_vec()).unwrap();
    file.sections().into_iter().find(|s| s.kind == Some(kind)).unwrap()
}

fn read(bytes: Vec<u8>) -> Result<Recording, ContainerError> {
    KineFile::from_bytes(bytes)?.recording()
}

#[test]
fn packed_columns_round_trip_and_are_small() {
    let recording = long_recording(EVENTS);
    let (packed, plain) = (file_of(&recording, true), file_of(&recording, false));
    assert!(
        packed.len() * 30 < plain.len(),
        "{} of {} bytes",
        packed.len(),
        plain.len()
    );
    for bytes in [&packed, &plain] {
        assert_same(&read(bytes.clone()).unwrap(), &recording);
        assert!(container::verify_bytes(bytes.clone()).unwrap().is_sound());
    }
    let times = section(&packed, SectionKind::EventTime);
    assert_eq!(times.encoding, Some(Encoding::PackedRows));
    assert_eq!((times.bytes, times.rows), (EVENTS * 8, EVENTS));
    assert!(times.stored_bytes * 30 < times.bytes, "{} bytes", times.stored_bytes);
    // Short columns are stored as they are.
    let mut short = EventsBuilder::new();
    short.mark(1, "a".to_owned());
    let short = Recording {
        events: short.finish(),
        ..Recording::default()
    };
    assert_eq!(file_of(&short, true), file_of(&short, false));
}

#[test]
fn files_that_are_written_as_a_whole_are_packed_and_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.kine");
    let mut recording = long_recording(EVENTS);
    container::write(&recording, &path, &Progress::new()).unwrap();
    let is_packed = |path: &Path| {
        let sections = KineFile::open(path).unwrap().sections();
        sections.iter().any(|s| s.encoding == Some(Encoding::PackedRows))
    };
    assert!(is_packed(&path));
    assert_same(&container::open(&path).unwrap(), &recording);
    recording.extras.insert("more".to_owned(), vec![1, 2, 3]);
    container::append(&recording, &path, &Progress::new()).unwrap();
    let both = container::open(&path).unwrap();
    assert_same(&both, &recording);
    assert!(container::verify(&path).unwrap().is_sound());
    // A copy of a packed recording is packed too.
    let copy = folder.path().join("copy.kine");
    container::write(&both, &copy, &Progress::new()).unwrap();
    assert_same(&container::open(&copy).unwrap(), &recording);
}

#[test]
fn a_damaged_packed_block_loses_only_its_rows() {
    let recording = long_recording(EVENTS);
    let bytes = file_of(&recording, true);
    let times = section(&bytes, SectionKind::EventTime);
    let per_block = (256 << 10) / 8;
    let blocks = times.rows.div_ceil(per_block);
    assert!(blocks >= 4, "{blocks} blocks");
    // The stored sizes are in the table of blocks.
    let mut at = times.offset;
    for block in 0..blocks {
        let entry = (times.blocks_at + block * 40 + 32) as usize;
        let size = u32::from_le_bytes(bytes[entry..entry + 4].try_into().unwrap());
        let mut damaged = bytes.clone();
        damaged[(at + u64::from(size) / 2) as usize] ^= 4;
        let report = container::verify_bytes(damaged.clone()).unwrap();
        assert_eq!(report.finding_count, 1, "{:?}", report.findings.get(..3));
        assert_eq!(report.findings[0].byte, at);
        let read = read(damaged).unwrap();
        for row in 0..EVENTS {
            let expected = recording
                .events
                .time
                .get(row as usize)
                .filter(|_| row / per_block != block);
            assert_eq!(read.events.time.get(row as usize), expected, "row {row}, block {block}");
        }
        let found = read.damage.blocks();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].block, found[0].bytes.start), (Some(block), at));
        assert_eq!(found[0].rows, block * per_block..((block + 1) * per_block).min(EVENTS));
        at += u64::from(size);
    }
    assert!(at <= times.blocks_at);
}

/// Every byte of the table of blocks is covered by a digest.
#[test]
fn a_changed_table_of_packed_blocks_is_damage() {
    let bytes = file_of(&long_recording(EVENTS), true);
    let offsets = section(&bytes, SectionKind::AccessOffset);
    for at in [0, 31, 32, 36, 37, 38, 39] {
        let mut damaged = bytes.clone();
        damaged[offsets.blocks_at as usize + at] ^= 1;
        assert!(
            !container::verify_bytes(damaged.clone()).unwrap().is_sound(),
            "byte {at}"
        );
        let read = read(damaged).unwrap();
        assert_eq!(read.events.offset.get(5), None, "byte {at}");
        assert!(
            read.damage.blocks()[0].to_string().contains("table of its blocks"),
            "byte {at}"
        );
    }
}

#[test]
fn older_programs_see_the_codec_before_anything_else() {
    let recording = long_recording(EVENTS);
    let codecs = |bytes: &[u8]| {
        // The last commit record is the end of the file.
        let record = &bytes[bytes.len() - 128..];
        u64::from_le_bytes(record[56..64].try_into().unwrap())
    };
    assert_eq!(codecs(&file_of(&recording, true)), 3);
    assert_eq!(codecs(&file_of(&recording, false)), 1);
}

/// A packed file stays readable, whatever zstd makes of the same rows later.
#[test]
fn golden_packed_file_is_readable() {
    let path = golden_path(2, "packed");
    let recording = long_recording(20_000);
    if bless() {
        std::fs::write(&path, file_of(&recording, true)).unwrap();
    }
    assert_same(&container::open(&path).unwrap(), &recording);
    assert!(container::verify(&path).unwrap().is_sound());
    let times = section(&std::fs::read(&path).unwrap(), SectionKind::EventTime);
    assert_eq!(times.encoding, Some(Encoding::PackedRows));
    compare_with_python(&path);
}

/// Derived data is packed with the columns, and read in parts.
#[test]
fn packed_derived_data_is_current_and_read_in_parts() {
    let recording = long_recording(EVENTS);
    let data: Vec<u8> = (0..90_000u64).flat_map(|n| (n * 38).to_le_bytes()).collect();
    let mut writer = Writer::begin(MemorySink::default()).unwrap();
    writer.set_packing(true);
    writer.put(&recording).unwrap();
    writer.derived("answers", 3, &data).unwrap();
    // The same data again adds nothing.
    writer.derived("answers", 3, &data).unwrap();
    writer.commit().unwrap();
    let bytes = writer.into_sink().bytes;
    let stored = section(&bytes, SectionKind::Derived);
    assert_eq!(stored.encoding, Some(Encoding::PackedRecord));
    assert_eq!(stored.name.as_deref(), Some("answers"));
    assert!(stored.stored_bytes * 30 < stored.bytes, "{} bytes", stored.stored_bytes);
    let file = KineFile::from_bytes(bytes.clone()).unwrap();
    assert_eq!(file.sections().iter().filter(|s| s.name.is_some()).count(), 1);
    let derived = file.derived("answers").unwrap().unwrap();
    assert_eq!((derived.analysis_version, derived.is_current), (3, true));
    assert_eq!(derived.part(300_000..300_100).unwrap(), &data[300_000..300_100]);
    assert!(derived.bytes() == data);
    let column = derived.column::<u64>(8, 89_999).unwrap();
    assert_eq!((column.get(0), column.get(89_998)), (Some(38), Some(89_999 * 38)));
    assert_eq!(derived.part(0..data.len() + 1), None);
    assert!(container::verify_bytes(bytes.clone()).unwrap().is_sound());
    // Damage in a block takes what is in it.
    let mut damaged = bytes;
    damaged[stored.blocks_at as usize - 9] ^= 1;
    let file = KineFile::from_bytes(damaged).unwrap();
    let derived = file.derived("answers").unwrap().unwrap();
    assert!(derived.part(0..1000).is_some());
    assert_eq!(derived.part(data.len() - 8..data.len()), None);
    assert!(derived.bytes().is_empty());
}
