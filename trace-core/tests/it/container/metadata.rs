//! Tests of metadata records: round trips, unknown and damaged records, and the older form in extras.

use crate::container::damage::reseal;
use crate::container::generate::{assert_same, metadata, metadata_with_records, recording, records, split_records};
use std::path::Path;
use trace_core::Recording;
use trace_core::container::{
    self, ContainerError, KineFile, MemorySink, MetadataDefect, MetadataError, MetadataTag, Writer, decode_metadata,
    encode_metadata,
};
use trace_core::progress::Progress;
use trace_core::recording::{
    Api, ApiTraceMetadata, CallStream, Metadata, RegisterTraceMetadata, SectionKind, TraceKind, UnknownRecord,
};

/// Returns a record.
fn record(tag: u32, version: u32, body: &[u8]) -> Vec<u8> {
    let head = [&tag.to_le_bytes()[..], &version.to_le_bytes()].concat();
    [&head, &(body.len() as u64).to_le_bytes()[..], body].concat()
}

/// Returns the metadata that a section `metadata` holds: everything besides the record `facts`.
fn without_facts(metadata: Metadata) -> Metadata {
    Metadata {
        identity: Default::default(),
        spaces: Vec::new(),
        address_spaces: Vec::new(),
        buffers: Vec::new(),
        regions: Vec::new(),
        lost: Vec::new(),
        findings: Vec::new(),
        source_pages: 0,
        source_zero_pages: 0,
        ..metadata
    }
}

fn api_metadata() -> Metadata {
    Metadata {
        kind: TraceKind::Api(ApiTraceMetadata {
            api: Api::Cuda,
            version: 13000,
            streams: vec![CallStream::default()],
            ..ApiTraceMetadata::default()
        }),
        ..Metadata::default()
    }
}

#[test]
fn metadata_records_round_trip() {
    let register = without_facts(metadata_with_records());
    for metadata in [Metadata::default(), register, api_metadata()] {
        let bytes = encode_metadata(&metadata).unwrap();
        let read = decode_metadata(&bytes).unwrap();
        assert_eq!(read, metadata);
        assert_eq!(encode_metadata(&read).unwrap(), bytes);
    }
    assert!(encode_metadata(&Metadata::default()).unwrap().is_empty());
    // Each tag of a register trace has a record, in the order of the tags; `calls` makes it the other kind.
    let mut all = metadata_with_records();
    if let TraceKind::Register(trace) = &mut all.kind {
        trace.job_queues = vec!["rcs0".to_owned(), String::new(), "bcs0".to_owned()];
    }
    let tags: Vec<u32> = records(&all).iter().map(|r| r.0).collect();
    assert_eq!(tags, (2..=10).chain([12]).collect::<Vec<u32>>());
    assert_eq!(decode_metadata(&encode_metadata(&all).unwrap()).unwrap().kind, all.kind);
    for tag in MetadataTag::ALL {
        assert_eq!(MetadataTag::from_raw(tag as u32), Some(tag));
        assert_eq!(MetadataTag::from_name(tag.name()), Some(tag));
    }
}

#[test]
fn api_of_a_trace_is_kept_by_name() {
    let read = |json: &str| serde_json::from_str::<ApiTraceMetadata>(json).unwrap().api;
    assert_eq!(read(r#"{"api":"cuda"}"#), Api::Cuda);
    assert_eq!(read(r#"{"api":"hip"}"#), Api::Unknown("hip".to_owned()));
    assert_eq!(read("{}"), Api::default());
    assert_eq!(serde_json::to_string(&read(r#"{"api":"hip"}"#)).unwrap(), r#""hip""#);
}

#[test]
fn unknown_records_are_written_back() {
    let unknown = record(77, 9, b"of a newer program");
    let hardware = record(MetadataTag::Hardware as u32, 1, br#"{"bus":"pci"}"#);
    let read = decode_metadata(&[unknown.clone(), hardware].concat()).unwrap();
    let expected = UnknownRecord {
        tag: 77,
        version: 9,
        body: b"of a newer program".to_vec(),
    };
    assert_eq!(read.unknown_records, [expected]);
    let again = encode_metadata(&read).unwrap();
    assert!(again.ends_with(&unknown) && split_records(&again).len() == 2);
    // They survive a file and a later commit of other metadata.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unknown.kine");
    let mut r = recording(1, 5);
    r.metadata.unknown_records.clone_from(&read.unknown_records);
    container::write(&r, &path, &Progress::new()).unwrap();
    let mut opened = container::open(&path).unwrap();
    assert_same(&r, &opened);
    opened.metadata.capture = None;
    container::append(&opened, &path, &Progress::new()).unwrap();
    assert_same(&opened, &container::open(&path).unwrap());
    // A file of version 1 has no place for them.
    let mut w = Writer::begin_without_blocks(MemorySink::default()).unwrap();
    let error = w.put(&r).unwrap_err();
    assert!(matches!(error, ContainerError::Refused(_)), "{error}");
}

#[test]
fn invalid_records_are_errors_that_name_the_tag() {
    let before = record(MetadataTag::Capture as u32, 1, b"{}");
    let at = before.len() as u64;
    let cases = [
        (
            record(2, 2, b"{}"),
            "hardware",
            MetadataDefect::TooNew { version: 2, known: 1 },
        ),
        (record(8, 0, b"[]"), "cuts", MetadataDefect::VersionZero),
        (record(3, 1, b"{}"), "capture", MetadataDefect::Repeated),
        (
            record(2, 1, b"{}")[..7].to_vec(),
            "hardware",
            MetadataDefect::TruncatedHeader { left: 7 },
        ),
        (vec![1, 0], "without a tag", MetadataDefect::TruncatedHeader { left: 2 }),
        (
            record(99, 1, b"abc")[..18].to_vec(),
            "with tag 99",
            MetadataDefect::TruncatedBody { bytes: 3, left: 2 },
        ),
    ];
    for (bytes, tag, defect) in cases {
        let error = decode_metadata(&[before.clone(), bytes].concat()).unwrap_err();
        let expected = MetadataError {
            byte: at,
            tag: tag.to_owned(),
            defect,
        };
        assert_eq!(error, expected);
        assert!(error.to_string().starts_with("section metadata, record "), "{error}");
    }
    // A size that no memory can hold is compared with the section before anything is allocated.
    for size in [u64::MAX, 1 << 63, 1 << 40, 3] {
        let mut bytes = record(4, 1, b"{}");
        bytes[8..16].copy_from_slice(&size.to_le_bytes());
        let error = decode_metadata(&bytes).unwrap_err();
        assert_eq!(error.defect, MetadataDefect::TruncatedBody { bytes: size, left: 2 });
    }
    // Bodies that do not have the form of their tag.
    for (tag, body) in [
        (MetadataTag::Calls, &b"{"[..]),
        (MetadataTag::Hardware, br#"{"bus":"isa"}"#),
        (MetadataTag::Capture, b"[]x"),
        (MetadataTag::BufferShapes, br#"{"image":[-1]}"#),
        (MetadataTag::ChainReports, b"[{}]"),
        (MetadataTag::RecordedRanges, b"{}"),
        (MetadataTag::Cuts, br#"[{"source":1}]"#),
        (MetadataTag::AppliedEdits, b"null"),
        (MetadataTag::Processes, b"\xff"),
        (MetadataTag::JobQueues, br#"[1]"#),
    ] {
        let error = decode_metadata(&record(tag as u32, 1, body)).unwrap_err();
        assert_eq!((error.tag.as_str(), error.byte), (tag.name(), 0));
        assert!(matches!(error.defect, MetadataDefect::Body { .. }), "{error}");
    }
    // Whatever the order of the records, an API trace has no record of a register trace.
    let (calls, hardware) = (record(1, 1, b"{}"), record(2, 1, br#"{"bus":"pci"}"#));
    for bytes in [[calls.clone(), hardware.clone()].concat(), [hardware, calls].concat()] {
        let error = decode_metadata(&bytes).unwrap_err();
        assert_eq!(
            (error.tag.as_str(), error.defect),
            ("hardware", MetadataDefect::OtherKind)
        );
    }
}

#[test]
fn every_truncation_of_the_section_is_an_error() {
    let bytes = encode_metadata(&metadata_with_records()).unwrap();
    let mut ends = vec![0];
    for (_, _, body) in split_records(&bytes) {
        ends.push(ends.last().unwrap() + 16 + body.len());
    }
    for cut in 0..bytes.len() {
        let read = decode_metadata(&bytes[..cut]);
        assert_eq!(read.is_ok(), ends.contains(&cut), "cut at {cut}: {read:?}");
    }
}

/// Returns the section of a kind, of this name if it has one.
fn section(bytes: &[u8], kind: SectionKind, name: Option<&str>) -> container::SectionInfo {
    let sections = KineFile::from_bytes(bytes.to_vec()).unwrap().sections();
    let found = sections
        .into_iter()
        .find(|s| s.kind == Some(kind) && s.name.as_deref() == name);
    found.expect("the file has no such section")
}

#[test]
fn section_with_a_wrong_digest_is_listed_as_damaged() {
    let r = recording(4, 30);
    let bytes = container::to_bytes(&r).unwrap();
    let at = section(&bytes, SectionKind::Metadata, None).offset;
    let mut damaged = bytes;
    damaged[at as usize + 20] ^= 1;
    let opened = KineFile::from_bytes(damaged.clone()).unwrap().recording().unwrap();
    assert_eq!(opened.metadata, metadata(), "the other records are complete");
    let block = opened.damage.first().unwrap();
    assert_eq!((block.kind, block.bytes.start), (SectionKind::Metadata, at));
    assert_eq!(
        block.to_string(),
        format!(
            "section metadata, block 0 (bytes {at:#x} to {:#x}) does not agree with its digest",
            block.bytes.end
        )
    );
    assert!(matches!(
        container::to_bytes(&opened),
        Err(ContainerError::DamagedSource(_))
    ));
    let report = container::verify_bytes(damaged).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(report.findings[0].byte, at);
}

#[test]
fn invalid_record_in_a_file_is_an_error_with_its_byte() {
    let bytes = container::to_bytes(&recording(4, 30)).unwrap();
    let at = section(&bytes, SectionKind::Metadata, None).offset;
    // The version of the first record, which is `hardware`.
    let mut newer = bytes.clone();
    newer[at as usize + 4] = 2;
    reseal(&mut newer);
    let error = container::from_bytes(newer.clone()).unwrap_err();
    assert!(error.byte() == Some(at) && !error.is_damage(), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "bytes in memory: byte {at:#x}: section metadata, record hardware: it has version 2, but this program reads \
             up to 1; use a newer version"
        )
    );
    let report = container::verify_bytes(newer).unwrap();
    assert_eq!((report.findings.len(), report.findings[0].byte), (1, at));
    assert!(
        report.findings[0]
            .message
            .starts_with("section metadata, record hardware: ")
    );
    let mut invalid = bytes;
    invalid[at as usize + 16] = b'x';
    reseal(&mut invalid);
    let error = container::from_bytes(invalid).unwrap_err();
    assert!(error.byte() == Some(at) && error.is_damage(), "{error}");
    assert!(
        error.to_string().contains("record hardware: its body cannot be read"),
        "{error}"
    );
}

/// Returns a file of version 1, which has the metadata in extras.
fn in_version_1(r: &Recording) -> Vec<u8> {
    let mut w = Writer::begin_without_blocks(MemorySink::default()).unwrap();
    w.put(r).unwrap();
    w.commit().unwrap();
    w.into_sink().bytes
}

/// Returns a file of version 2 with the metadata in extras, as earlier programs wrote it.
fn in_old_extras(r: &Recording) -> Vec<u8> {
    let mut w = Writer::begin(MemorySink::default()).unwrap();
    let tags = records(&r.metadata);
    let mut bare = r.clone();
    bare.metadata = metadata();
    // The writer reserves the names for metadata, so they get their lower case later.
    for (tag, _, body) in tags {
        let name = MetadataTag::from_raw(tag).unwrap().name();
        bare.extras.insert(name.to_uppercase(), body);
    }
    w.put(&bare).unwrap();
    w.commit().unwrap();
    let mut bytes = w.into_sink().bytes;
    for s in KineFile::from_bytes(bytes.clone()).unwrap().sections() {
        if let Some(name) = &s.name {
            let at = s.offset as usize + 48;
            bytes[at..at + name.len()].copy_from_slice(name.to_lowercase().as_bytes());
        }
    }
    reseal(&mut bytes);
    bytes
}

#[test]
fn metadata_in_old_extras_gives_the_same_fields() {
    let mut api = recording(2, 40);
    api.metadata = Metadata {
        kind: api_metadata().kind,
        ..metadata()
    };
    for r in [recording(3, 40), api] {
        for bytes in [in_version_1(&r), in_old_extras(&r)] {
            let file = KineFile::from_bytes(bytes.clone()).unwrap();
            let has = |kind| file.sections().iter().any(|s| s.kind == Some(kind));
            assert!(has(SectionKind::Extra) && !has(SectionKind::Metadata));
            assert_same(&r, &container::from_bytes(bytes.clone()).unwrap());
            assert!(container::verify_bytes(bytes).unwrap().is_sound());
        }
    }
}

#[test]
fn damaged_old_extra_is_reported_with_its_name_and_place() {
    let r = recording(3, 40);
    for bytes in [in_version_1(&r), in_old_extras(&r)] {
        let s = section(&bytes, SectionKind::Extra, Some("hardware"));
        // The digest agrees, but the body is no description of a device.
        let mut invalid = bytes.clone();
        invalid[s.offset as usize + 256] = b'[';
        if KineFile::from_bytes(bytes.clone()).unwrap().version() == 2 {
            reseal(&mut invalid);
        } else {
            reseal_version_1(&mut invalid);
        }
        let opened = KineFile::from_bytes(invalid.clone()).unwrap().recording().unwrap();
        assert_eq!(opened.hardware(), None);
        assert_eq!(opened.chain_reports(), r.chain_reports(), "other metadata is complete");
        assert!(!opened.extras.contains_key("hardware"));
        let text = opened.damage.first().unwrap().to_string();
        let place = format!("section extra \"hardware\" (bytes {:#x} to ", s.offset);
        assert!(
            text.starts_with(&place) && text.contains("its body cannot be read"),
            "{text}"
        );
        assert!(container::from_bytes(invalid.clone()).is_err());
        assert!(matches!(
            container::to_bytes(&opened),
            Err(ContainerError::DamagedSource(_))
        ));
        let report = container::verify_bytes(invalid).unwrap();
        assert_eq!((report.findings.len(), report.findings[0].byte), (1, s.offset));
        assert_eq!(report.findings[0].message, text);
    }
}

/// Updates the digests of a file of version 1 with one commit.
fn reseal_version_1(b: &mut [u8]) {
    let word = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap()) as usize;
    let record = b.len() - 128;
    let (table, len) = (word(b, record + 24), word(b, record + 32));
    for entry in (table..table + len).step_by(96) {
        let (offset, bytes) = (word(b, entry + 8), word(b, entry + 16));
        let digest = *blake3::hash(&b[offset..offset + bytes]).as_bytes();
        b[entry + 64..entry + 96].copy_from_slice(&digest);
    }
    let digest = *blake3::hash(&b[table..table + len]).as_bytes();
    b[record + 64..record + 96].copy_from_slice(&digest);
    let digest = *blake3::hash(&b[record..record + 96]).as_bytes();
    b[record + 96..record + 128].copy_from_slice(&digest);
}

fn append(r: &Recording, path: &Path) {
    container::append(r, path, &Progress::new()).unwrap();
}

#[test]
fn appended_metadata_replaces_old_extras() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.kine");
    let mut r = recording(3, 40);
    std::fs::write(&path, in_old_extras(&r)).unwrap();
    r.metadata.cuts.clear();
    append(&r, &path);
    assert_same(&r, &container::open(&path).unwrap());
    // Metadata without any record does not bring the extras back.
    r.metadata = metadata();
    append(&r, &path);
    assert_same(&r, &container::open(&path).unwrap());
    let file = KineFile::open(&path).unwrap();
    assert_eq!(file.sections().iter().filter(|s| s.number == 0x604).count(), 1);
    assert!(container::verify(&path).unwrap().is_sound());
    // The facts alone leave the records as they are.
    r.metadata = metadata_with_records();
    append(&r, &path);
    let mut w = Writer::append(&path).unwrap();
    w.facts(&Metadata::default()).unwrap();
    w.commit().unwrap();
    let opened = container::open(&path).unwrap();
    assert_eq!(opened.metadata, without_facts(metadata_with_records()));
}

#[test]
fn names_of_metadata_are_reserved() {
    let mut w = Writer::begin(MemorySink::default()).unwrap();
    for tag in MetadataTag::ALL {
        let error = w.extra(tag.name(), b"{}").unwrap_err();
        assert!(error.to_string().contains(tag.name()), "{error}");
    }
    w.extra("kernel-database", b"{}").unwrap();
    // A recording that is no API trace has the other kind's metadata, and only that.
    let mut r = Recording::default();
    assert_eq!(
        (r.api(), r.register_trace()),
        (None, Some(&RegisterTraceMetadata::default()))
    );
    r.metadata.kind = api_metadata().kind;
    assert!(r.register_trace().is_none() && r.api().is_some_and(|m| m.api == Api::Cuda));
}
