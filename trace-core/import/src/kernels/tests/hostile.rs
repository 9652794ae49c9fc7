//! Tests of hostile and truncated databases, and of cancelled imports.

use super::{BASE, Bytes, bytes, copies, folder, mneme_json, mneme_whole, rr_json, rr_snapshot};
use crate::kernels::mneme;
use crate::{FilePosition, ImportError, OpenOptions, Opened};
use trace_core::progress::Progress;

#[test]
fn invalid_json_is_refused_with_its_line() {
    let f = folder(&[("d.json", b"{\n\"Kernels\": 5,\n\"StartVAAddr\": \"0\"}")]);
    assert_eq!(f.fails().1, FilePosition::Line(2));
    let base = rr_json(&[("k", "b", "a")]);
    for (from, to, expected) in [
        ("7f0a40000000", "zz", "not a hexadecimal number"),
        ("\"SharedMemory\":256", "\"SharedMemory\":-1", "u32"),
        ("\"x\":64", "\"x\":4294967296", "u32"),
        ("\"InputData\"", "\"Other\"", "InputData"),
    ] {
        let f = folder(&[("d.json", base.replace(from, to).as_bytes())]);
        let (file, _, message) = f.fails();
        assert!(file == "d.json" && message.contains(expected), "{message}");
    }
    let long = base.replace("\"k\"", &format!("\"{}\"", "k".repeat(70_000)));
    assert!(
        folder(&[("d.json", long.as_bytes())])
            .fails()
            .2
            .contains("the name of a kernel")
    );
    let many = base.replace("\"/gone/runmodule.bc\"", &vec!["\"m\""; 300].join(","));
    assert!(folder(&[("d.json", many.as_bytes())]).fails().2.contains("300 modules"));
    let f = folder(&[(
        "5.json",
        mneme_json(&[("1", "p", "e")]).replace(":5,", ":-5,").as_bytes(),
    )]);
    assert!(f.open().is_err());
}

#[test]
fn invalid_record_replay_snapshot_is_refused_with_its_offset() {
    let sound = rr_snapshot(1, &[(BASE, &[1; 64])]);
    let json = rr_json(&[("k", "b", "a")]);
    let fails = |snapshot: &[u8]| {
        let f = folder(&[("d.json", json.as_bytes()), ("b", snapshot), ("a", &sound)]);
        let (file, position, message) = f.fails();
        assert_eq!(file, "b");
        (position, message)
    };
    let with = |at: usize, number: u64| {
        let mut bytes = sound.clone();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    // Arguments: count, sizes; variables: count at 36, length of the name at 44, size at 59; an allocation at 71.
    assert_eq!(fails(&with(0, u64::MAX)).0, FilePosition::Byte(0));
    assert!(fails(&with(8, 1 << 20)).1.contains("more than 131072 bytes"));
    assert_eq!(fails(&with(36, 1 << 60)).0, FilePosition::Byte(36));
    assert_eq!(fails(&with(44, 1 << 40)).0, FilePosition::Byte(44));
    assert_eq!(fails(&with(59, u64::MAX - 3)).0, FilePosition::Byte(59));
    assert_eq!(
        fails(&with(79, 65)),
        (
            FilePosition::Byte(79),
            "an allocation has 65 bytes, but only 64 follow".into()
        )
    );
    assert!(
        fails(&with(71, u64::MAX - 5))
            .1
            .contains("outside the addresses of any device")
    );
    assert_eq!(fails(&[]).1, "the file ends in the number of arguments");
    let twice = rr_snapshot(1, &[(BASE, &[1; 64]), (BASE + 63, &[1; 64])]);
    assert_eq!(fails(&twice).0, FilePosition::Byte(71 + 16 + 64));
    for n in 0..sound.len() {
        if n != 71 {
            let (position, _) = fails(&sound[..n]);
            assert!(
                matches!(position, FilePosition::Byte(at) if at <= n as u64),
                "cut at {n}: {position:?}"
            );
        }
    }
}

#[test]
fn invalid_mneme_snapshot_is_refused_with_its_offset() {
    let sound = mneme_whole(1, &[1; 16], &[2; 16]);
    let json = mneme_json(&[("1", "p", "e")]);
    let fails = |before: &[u8], after: &[u8]| {
        let f = folder(&[("5.json", json.as_bytes()), ("p", before), ("e", after)]);
        let (file, position, message) = f.fails();
        assert_eq!(file, if after == sound { "p" } else { "e" });
        (position, message)
    };
    for n in 0..sound.len() {
        let (position, _) = fails(&sound[..n], &sound);
        assert!(
            matches!(position, FilePosition::Byte(at) if at <= n as u64),
            "cut at {n}: {position:?}"
        );
    }
    let longer = [&sound[..], b"more"].concat();
    assert_eq!(
        fails(&longer, &sound).1,
        "4 bytes follow after the expected end of the file"
    );

    let head = |steps: u64| bytes().b(mneme::DIFF).n(1).name("steps").n(2).n(0x1234).n(steps);
    let first = |d: Bytes| d.n(2).n(512).n(16).n(BASE).plain();
    let second = |d: Bytes| d.n(8192).n(16).n(BASE + 1024).plain();
    let empty = second(first(head(0)).n(0)).n(0).0;
    let f = folder(&[("5.json", json.as_bytes()), ("p", &sound), ("e", &empty)]);
    assert_eq!(
        copies(&f.open().unwrap()).len(),
        6,
        "a launch without changes has other copies"
    );
    for n in 0..empty.len() {
        fails(&sound, &empty[..n]);
    }
    for (offset, length, expected) in [
        (16, 1, "which has 16 bytes"),
        (0, 17, "which has 16 bytes"),
        (u64::MAX, 2, "which has 16 bytes"),
        (2, u64::MAX, "which has 16 bytes"),
    ] {
        let diff = second(first(head(0)).n(1).n(offset).n(length).b(&[9; 32])).n(0).0;
        let (position, message) = fails(&sound, &diff);
        assert!(message.contains(expected), "{message}");
        assert!(matches!(position, FilePosition::Byte(_)));
    }
    let cases: [(Vec<u8>, &str); 8] = [
        (head(1 << 60).0, "the number of changed ranges is"),
        (
            bytes().b(mneme::DIFF).n(0).n(0).0,
            "lists 0 variables, but there were 1",
        ),
        (
            bytes().b(b"MNEME_DIFF_V2").n(0).n(0).0,
            "version of the snapshot is not MNEME_DIFF_V1",
        ),
        (
            head(0).n(1).n(512).n(16).n(BASE).plain().n(0).0,
            "lists 1 allocations, but there were 2",
        ),
        (
            second(head(0).n(2).n(512).n(16).n(BASE + 8).plain().n(0)).n(0).0,
            "were not allocated before",
        ),
        (
            second(head(0).n(2).n(512).n(15).n(BASE).plain().n(0)).n(0).0,
            "were not allocated before",
        ),
        (second(second(head(0).n(2)).n(0)).n(0).0, "overlaps another one"),
        (
            second(head(0).n(2).n(512).n(16).n(BASE).label(11, 0.0, 0, 0, "").n(0))
                .n(0)
                .0,
            "the element type 11 does not exist",
        ),
    ];
    for (diff, expected) in cases {
        let (_, message) = fails(&sound, &diff);
        assert!(message.contains(expected), "{message}");
    }
    assert!(
        fails(&empty, &sound).1.contains("the number of variables is"),
        "no launch begins with changes"
    );
}

#[test]
fn cancelled_kernel_import_ends() {
    let f = folder(&[
        ("d.json", rr_json(&[("k", "b", "a")]).as_bytes()),
        ("b", &rr_snapshot(1, &[(BASE, &[1; 64])])),
    ]);
    let progress = Progress::new();
    progress.cancel();
    assert!(matches!(
        crate::open(&f.database, &OpenOptions::default(), &progress).and_then(Opened::into_recording),
        Err(ImportError::Cancelled(_))
    ));
}
