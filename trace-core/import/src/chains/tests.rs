//! Tests of readable folders, and of refused ones with file and reason.

use super::*;

/// Returns a folder with one submit of one object, and a change of a file's text.
fn folder(change: impl Fn(&str, String) -> String) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let spec = r#"{"program": "p", "gpu_id": "0x6000", "submits": [{"submit": "submit000.json"}], "buffers": [
        {"name": "x", "bytes": 64, "type": "f32x4", "gpu_va": "0x10000", "expected": "x.bin"},
        {"name": "far", "bytes": 8, "gpu_va": "0x90000000", "expected": null},
        {"name": "none", "bytes": 8, "gpu_va": null}]}"#;
    let submit = r#"{"jc": "0x10000", "requirements": 1, "bos": [
        {"handle": 7, "va": "0x20000", "size": 134217728, "noexec": true, "heap": true, "in_submit": false, "file": null},
        {"handle": 3, "va": "0x10000", "size": 4096, "noexec": false, "heap": false, "in_submit": true, "file": "a.bin"}]}"#;
    for (name, text) in [("spec.json", spec), ("submit000.json", submit)] {
        std::fs::write(dir.path().join(name), change(name, text.to_owned())).unwrap();
    }
    std::fs::write(dir.path().join("a.bin"), [9; 4096]).unwrap();
    dir
}

fn refused(change: impl Fn(&str, String) -> String, file: &str, message: &str) {
    let dir = folder(change);
    let e = read(dir.path()).unwrap_err().to_string();
    let start = format!("{}: ", dir.path().join(file).display());
    assert!(e.starts_with(&start) && e.contains(message), "{e}");
}

#[test]
fn submission_folder_is_read() {
    let dir = folder(|_, t| t);
    assert!(fits(dir.path()) && !fits(&dir.path().join("a.bin")));
    let chains = read(dir.path()).unwrap();
    assert_eq!((chains.program.as_str(), chains.gpu_id), ("p", 0x6000_0000));
    let [x] = &chains.buffers[..] else { panic!("{chains:?}") };
    assert_eq!(
        (x.name.as_str(), x.va, x.bytes, x.element),
        ("x", GpuVa::new(0x10000), 64, ElementType::F32)
    );
    assert_eq!(x.role, Some(BufferRole::Output));
    let messages: Vec<&str> = chains.findings.iter().map(|f| f.message.as_str()).collect();
    assert!(
        messages.len() == 2 && messages[0].contains("\"far\"") && messages[1].contains("\"none\""),
        "{messages:?}"
    );
    let [submit] = &chains.submits[..] else {
        panic!("{chains:?}")
    };
    assert!(submit.fragment && submit.head == GpuVa::new(0x10000));
    let [a, heap] = &submit.objects[..] else {
        panic!("{submit:?}")
    };
    assert_eq!(
        (a.handle, a.va, a.bytes, a.executable, a.used),
        (3, GpuVa::new(0x10000), 4096, true, true)
    );
    assert_eq!((heap.bytes, heap.used), (HEAP_BYTES, false));
    assert_eq!(chains.image(submit, a).unwrap(), [9; 4096]);
    assert!(chains.image(submit, heap).unwrap().is_empty());
    let names: Vec<_> = parts(dir.path())
        .iter()
        .map(|p| p.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["a.bin", "spec.json", "submit000.json"]);
}

#[test]
fn missing_or_invalid_submission_files_are_named() {
    let dir = folder(|_, t| t);
    std::fs::remove_file(dir.path().join("a.bin")).unwrap();
    let e = read(dir.path()).unwrap_err().to_string();
    assert!(e.contains("a.bin: it is missing, but submit000.json names it"), "{e}");
    std::fs::create_dir(dir.path().join("a.bin")).unwrap();
    let e = read(dir.path()).unwrap_err().to_string();
    assert!(e.contains("a.bin: it is not a regular file"), "{e}");
    let dir = folder(|_, t| t);
    std::fs::remove_file(dir.path().join("submit000.json")).unwrap();
    let e = read(dir.path()).unwrap_err().to_string();
    assert!(
        e.contains("submit000.json: it is missing, but spec.json names it"),
        "{e}"
    );
    let dir = folder(|_, t| t);
    std::fs::write(dir.path().join("a.bin"), [9; 4095]).unwrap();
    let e = read(dir.path()).unwrap_err().to_string();
    assert!(
        e.contains("a.bin: it has 4095 bytes, but submit000.json states 4096"),
        "{e}"
    );
    // A file that became shorter in the meantime is reported too.
    let dir = folder(|_, t| t);
    let chains = read(dir.path()).unwrap();
    std::fs::write(dir.path().join("a.bin"), [9; 100]).unwrap();
    let e = chains
        .image(&chains.submits[0], &chains.submits[0].objects[0])
        .unwrap_err()
        .to_string();
    assert!(e.contains("a.bin: it has 100 bytes"), "{e}");
}

#[test]
fn inconsistent_submissions_are_refused_with_a_location() {
    let swap = |file: &'static str, from: &'static str, to: &'static str| {
        move |name: &str, text: String| if name == file { text.replace(from, to) } else { text }
    };
    let cases = [
        ("spec.json", "\"program\": \"p\",", "", "missing field `program`"),
        ("spec.json", "{\"program\"", "\"program\"", "line 1"),
        ("spec.json", "0x6000", "Mali-G71", "gpu_id is \"Mali-G71\""),
        ("spec.json", "0x6000", "0x60a00002", "more than 16 bits"),
        (
            "spec.json",
            "\"submits\": [{\"submit\": \"submit000.json\"}]",
            "\"submits\": []",
            "0 submits",
        ),
        ("spec.json", "submit000.json", "../submit000.json", "is not a file name"),
        ("spec.json", "\"far\"", "\"x\"", "two buffers are called \"x\""),
        (
            "spec.json",
            "\"bytes\": 64",
            "\"bytes\": 18446744073709551615",
            "is too large",
        ),
        ("submit000.json", "\"jc\": \"0x10000\"", "\"jc\": \"\"", "jc is \"\""),
        ("submit000.json", "a.bin", "/etc/passwd", "is not a file name"),
        ("submit000.json", "4096", "4097", "whole pages"),
        ("submit000.json", "4096", "0", "whole pages"),
        (
            "submit000.json",
            "\"0x10000\", \"size\"",
            "\"0x10008\", \"size\"",
            "whole pages",
        ),
        (
            "submit000.json",
            "\"0x20000\"",
            "\"0xfffffffffffff000\"",
            "within the address range",
        ),
        ("submit000.json", "\"0x20000\"", "\"0x10000\"", "overlap"),
        ("submit000.json", "\"heap\": true", "\"heap\": 1", "line 2"),
    ];
    for (file, from, to, message) in cases {
        refused(swap(file, from, to), file, message);
    }
    let big = |name: &str, text: String| {
        let many = "\"size\": 268435456, \"noexec\": true, \"heap\": false";
        match name {
            "submit000.json" => text.replace("\"size\": 134217728, \"noexec\": true, \"heap\": true", many),
            _ => text,
        }
    };
    refused(big, "submit000.json", "take more than");
}
