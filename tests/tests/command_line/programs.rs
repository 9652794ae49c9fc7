//! `export --to program`: written files, messages and refused options.

use whole_program_tests::{root, run};

fn digits() -> String {
    root().join("sample-traces/digits.kine").display().to_string()
}

#[test]
fn exported_program_sources_compile() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("made");
    let ended = run([
        "export",
        &digits(),
        "--to",
        "program",
        "--arena",
        "0x80000000",
        "-o",
        to.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(parsed_json["name"], "digits");
    assert_eq!(parsed_json["arena"], "0x80000000");
    let field = |list: &str| parsed_json[list][0]["field"].clone();
    assert_eq!((field("inputs"), field("outputs")), ("image".into(), "logits".into()));
    for file in parsed_json["files"].as_array().unwrap() {
        assert!(to.join(file.as_str().unwrap()).is_file(), "{file}");
    }
    let header = std::fs::read_to_string(to.join("c/digits.h")).unwrap();
    assert!(
        header.contains("digits_run") && header.contains("const float *image;"),
        "{header}"
    );
    assert!(header.contains("#define DIGITS_BASE UINT64_C(0x80000000)"), "{header}");
    let make_output = std::process::Command::new("make")
        .args(["-C", to.join("c").to_str().unwrap(), "CC=cc -Werror"])
        .output();
    match make_output {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(e) => println!("skipped: the C library's own Makefile (make: {e})"),
    }
}

#[test]
fn program_export_refuses_full_folders_and_invalid_options() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("mine"), "kept").unwrap();
    let ended = run(["export", &digits(), "--to", "program", "-o", to]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("not empty"), "{ended:?}");
    for (more, message) in [
        (["--arena", "0x80000001"], "0x1000"),
        (["--name", "2x"], "`2x`"),
        (["--input", "nobody"], "there are:"),
        (["--on", "software:mali-g52"], "Mali-G52"),
    ] {
        let to = dir.path().join("other");
        let line = ["export", &digits(), "--to", "program", "-o", to.to_str().unwrap()];
        let ended = run(line.into_iter().chain(more));
        assert_eq!(ended.code, Some(2), "{more:?}: {ended:?}");
        assert!(ended.err.contains(message), "{more:?}: {ended:?}");
        assert!(!to.exists());
    }
    // An exported program does not switch bus mastering on and off, so DMA recordings are refused.
    if std::path::Path::new("/usr/bin/qemu-system-x86_64").exists() {
        let recording = root().join("sample-traces/qemu/virtio-gpu.kine").display().to_string();
        let to = dir.path().join("other");
        let target = "qemu:virtio-gpu-pci,vectors=0";
        let to = to.to_str().unwrap();
        let ended = run(["export", &recording, "--to", "program", "--on", target, "-o", to]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("reads and writes memory by itself"), "{ended:?}");
    } else {
        println!("skipped: no QEMU (qemu-system-x86)");
    }
    // The first line requests neither a table nor a program, the second line both.
    for line in [
        vec!["export", &digits(), "-o", to],
        vec!["export", &digits(), "--table", "events", "--to", "program", "-o", to],
    ] {
        assert_eq!(run(line).code, Some(2));
    }
}
