//! Folders of job chains on the command line: imports, and replays from the `.kine` file alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

#[path = "../../../replay-engine/driver-mali/tests/it/agreement.rs"]
mod agreement;

use agreement::programs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use whole_program_tests::{ProgramOutput, root, run};

fn folder(name: &str) -> PathBuf {
    root().join("tests/folders").join(name)
}

/// Copies a folder, so that a test may break it.
fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder(name)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

fn import(folder: &Path, to: &Path) -> ProgramOutput {
    run([
        "import".as_ref(),
        folder.as_os_str(),
        "-o".as_ref(),
        to.as_os_str(),
        "--json".as_ref(),
    ])
}

fn import_checked(folder: &Path, to: &Path) -> Value {
    let ended = import(folder, to);
    assert_eq!(ended.code, Some(0), "{}: {ended:?}", folder.display());
    ended.json()
}

/// Replays with buffers from files and into files, such as `--input x=FILE`.
fn replay(source: &Path, device: &str, buffers: &[(&str, &str, &Path)]) -> ProgramOutput {
    let mut arguments = vec![
        "replay".to_owned(),
        source.display().to_string(),
        "--on".to_owned(),
        format!("software:{device}"),
        "--json".to_owned(),
    ];
    for (option, name, file) in buffers {
        arguments.extend([(*option).to_owned(), format!("{name}={}", file.display())]);
    }
    run(arguments)
}

fn i32s(bytes: &[u8]) -> Vec<i32> {
    bytes
        .chunks(4)
        .map(|c| i32::from_le_bytes(c.try_into().unwrap()))
        .collect()
}

fn bytes(words: &[i32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn every_recorded_program_replays_from_its_kine_file() {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), Into::into);
    let root = root.join("panfrost");
    if !root.is_dir() {
        println!("skipped: no recordings at {}", root.display());
        return;
    }
    let (mut count, mut compared) = (0, 0);
    for p in programs(&root) {
        let dir = tempfile::tempdir().unwrap();
        let kine = dir.path().join("x.kine");
        let report = import_checked(&p.folder, &kine);
        let target = format!("software:{}", p.device);
        assert_eq!(
            (&report["board"], &report["failed"], &report["computed"]),
            (&json!(target), &json!(0), &json!(p.computes())),
            "{}: {report}",
            p.name
        );
        let names = p.checked();
        let files: Vec<PathBuf> = names.iter().map(|n| dir.path().join(format!("{n}.bin"))).collect();
        let outputs: Vec<(&str, &str, &Path)> = names
            .iter()
            .zip(&files)
            .map(|(n, f)| ("--output", n.as_str(), f.as_path()))
            .collect();
        let ended = replay(&kine, p.device, &outputs);
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", p.name);
        let outcome = ended.json();
        assert_eq!(
            (&outcome["outcome"], &outcome["computed"]),
            (&json!("match"), &json!(p.computes())),
            "{}",
            p.name
        );
        for (name, file) in names.iter().zip(&files) {
            compared += p.assert_agrees(name, &std::fs::read(file).unwrap());
        }
        count += 1;
    }
    assert!(count >= 27 && compared >= 40, "{count} programs, {compared} buffers");
}

#[test]
fn submission_imports_buffers_and_edits_reach_both_submits() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (source, kine) = (folder("twopass"), file("x.kine"));
    let report = import_checked(&source, &kine);
    assert_eq!(
        (&report["board"], &report["jobs"], &report["computed"]),
        (&json!("software:mali-g71"), &json!(2), &json!(true))
    );
    let info = run(["info".as_ref(), kine.as_os_str(), "--json".as_ref()]).json();
    assert_eq!((&info["jobs"], &info["address_spaces"]), (&json!(2), &json!(1)));
    let buffers: Vec<(&str, &str)> = info["buffers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (b["name"].as_str().unwrap(), b["role"].as_str().unwrap()))
        .collect();
    let inputs_and_outputs = [("a", "input"), ("t", "output"), ("o", "output")];
    assert_eq!(buffers[..3], inputs_and_outputs);
    assert_eq!(buffers[3..], [("shader0", "shader"), ("shader1", "shader")]);

    // The `.kine` file and the folder both replay.
    for source in [&kine, &source] {
        let (t, o) = (file("t.bin"), file("o.bin"));
        let ended = replay(source, "mali-g71", &[("--output", "t", &t), ("--output", "o", &o)]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.json()["computed"], true);
        for (got, expected) in [(t, "t.expected.bin"), (o, "o.expected.bin")] {
            assert_eq!(
                std::fs::read(got).unwrap(),
                std::fs::read(folder("twopass").join(expected)).unwrap()
            );
        }
    }

    let a: Vec<i32> = (0..512)
        .map(|i: i32| i.wrapping_mul(0x9e37_79b9_u32 as i32) >> 7)
        .collect();
    std::fs::write(file("a.bin"), bytes(&a)).unwrap();
    let (input, o) = (file("a.bin"), file("o.bin"));
    let ended = replay(&kine, "mali-g71", &[("--input", "a", &input), ("--output", "o", &o)]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let t: Vec<i32> = (0..512)
        .zip(&a)
        .map(|(i, a)| a.wrapping_mul(3).wrapping_add(i ^ 5))
        .collect();
    let expected: Vec<i32> = (0..512).map(|i| t[i].wrapping_sub(t[(i + 1) & 511])).collect();
    assert_eq!(i32s(&std::fs::read(o).unwrap()), expected);

    // The recording's shaders can be disassembled.
    let shader = run(["shader".as_ref(), kine.as_os_str(), "--job".as_ref(), "1".as_ref()]);
    assert!(shader.code == Some(0) && shader.out.contains("IADD"), "{shader:?}");
    let verified = run(["verify".as_ref(), kine.as_os_str()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn submissions_are_refused_on_another_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let kine = dir.path().join("x.kine");
    let out = dir.path().join("out.bin");
    for (name, device, other, message) in [
        (
            "twopass",
            "mali-g71",
            "mali-g52",
            "the recording was made on a Mali-G71 (0x60a00002), software:mali-g52 is a Mali-G52 (0x72120000), and the first runs shaders and descriptors of \
             Bifrost's first generation (architecture 6), the second those of \
             Bifrost's second generation (architecture 7): \
             software:mali-g71 would fit",
        ),
        (
            "vecadd-g52",
            "mali-g52",
            "mali-g71",
            "the recording was made on a Mali-G52 (0x72120000), software:mali-g71 is a Mali-G71 (0x60a00002), and the first runs shaders and descriptors of \
             Bifrost's second generation (architecture 7), the second those of \
             Bifrost's first generation (architecture 6): \
             software:mali-g52 would fit",
        ),
    ] {
        let output = if name == "twopass" { "o" } else { "c" };
        let source = folder(name);
        assert_eq!(import_checked(&source, &kine)["board"], format!("software:{device}"));
        for source in [&kine, &source] {
            replay(source, other, &[("--output", output, &out)]).assert_refused(message);
            assert!(!out.exists());
        }
        let ended = replay(&kine, device, &[("--output", output, &out)]);
        assert_eq!(
            (ended.code, &ended.json()["computed"]),
            (Some(0), &json!(true)),
            "{ended:?}"
        );
        let expected = std::fs::read(folder(name).join(format!("{output}.expected.bin"))).unwrap();
        assert_eq!(std::fs::read(&out).unwrap(), expected);
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn broken_submission_names_the_file_and_writes_no_output() {
    type Break<'a> = &'a dyn Fn(&Path);
    let change = |file: &'static str, from: &'static str, to: &'static str| {
        move |dir: &Path| {
            let text = std::fs::read_to_string(dir.join(file)).unwrap();
            assert!(text.contains(from));
            std::fs::write(dir.join(file), text.replacen(from, to, 1)).unwrap();
        }
    };
    let remove_image = |dir: &Path| std::fs::remove_file(dir.join("submit001_bo_f7ffb000.bin")).unwrap();
    let remove_submit = |dir: &Path| std::fs::remove_file(dir.join("submit001.json")).unwrap();
    let short = |dir: &Path| std::fs::write(dir.join("submit000_bo_f7ffb000.bin"), [0; 4000]).unwrap();
    let cases: [(Break<'_>, &str); 8] = [
        (
            &remove_image,
            "submit001_bo_f7ffb000.bin: it is missing, but submit001.json names it: the folder is incomplete, copy it again",
        ),
        (&remove_submit, "submit001.json: it is missing, but spec.json names it"),
        (
            &short,
            "submit000_bo_f7ffb000.bin: it has 4000 bytes, but submit000.json states 4096",
        ),
        (
            &change("spec.json", "{", "["),
            "spec.json: this is not the list of a folder of job chains",
        ),
        (
            &change("submit000.json", "\"jc\"", "\"jd\""),
            "submit000.json: this is not a submit of a folder of job chains: missing field `jc`",
        ),
        (
            &change("submit000.json", "\"size\": 4096", "\"size\": 4097"),
            "submit000.json: the buffer object of 4097 bytes",
        ),
        (
            &change("spec.json", "0x6000", "0x9999"),
            "its job chains are for a GPU of id 0x9999, and no simulator models it (software:mali-g71: Mali-G71, software:mali-g52: Mali-G52, software:mali-g72: Mali-G72, software:mali-g51: Mali-G51, software:mali-g76: Mali-G76, software:mali-g31: Mali-G31)",
        ),
        (
            &change("spec.json", "0x6000", "0x6000 "),
            "spec.json: gpu_id is \"0x6000 \"",
        ),
    ];
    for (broken, message) in cases {
        let dir = copy("twopass");
        broken(dir.path());
        let out = tempfile::tempdir().unwrap();
        import(dir.path(), &out.path().join("x.kine")).assert_refused(message);
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "{message}");
        run(["info".as_ref(), dir.path().as_os_str()]).assert_refused(message);
    }
}

#[test]
fn outputs_inside_the_submission_folder_are_refused() {
    let dir = copy("twopass");
    for part in ["spec.json", "submit001.json", "submit000_bo_f7ffb000.bin"] {
        let part = dir.path().join(part);
        let before = std::fs::read(&part).unwrap();
        replay(dir.path(), "mali-g71", &[("--output", "o", &part)]).assert_refused("a part of the recording");
        assert_eq!(std::fs::read(&part).unwrap(), before);
    }
}

#[test]
fn uncomputed_jobs_are_reported_at_once() {
    // The chain's job becomes a drawing job. The job type is in byte 16 of the header, above one bit for the size.
    let dir = copy("vecadd-g52");
    let text = std::fs::read_to_string(dir.path().join("submit000.json")).unwrap();
    let jc = text.split("\"jc\": \"0x").nth(1).unwrap().split('"').next().unwrap();
    let jc = u64::from_str_radix(jc, 16).unwrap();
    let image = dir.path().join(format!("submit000_bo_{:08x}.bin", jc & !0xfff));
    let mut bytes = std::fs::read(&image).unwrap();
    let at = (jc & 0xfff) as usize + 16;
    assert_eq!(bytes[at] >> 1, 4, "the job is a compute job");
    bytes[at] = bytes[at] & 1 | 5 << 1;
    std::fs::write(&image, bytes).unwrap();
    let out = tempfile::tempdir().unwrap();
    let kine = out.path().join("x.kine");
    let plain = run([
        "import".as_ref(),
        dir.path().as_os_str(),
        "-o".as_ref(),
        kine.as_os_str(),
    ]);
    assert_eq!(plain.code, Some(0), "{plain:?}");
    assert!(
        plain
            .out
            .contains("1 job ran on software:mali-g52; the shaders of 1 job did not run"),
        "{plain:?}"
    );
    assert_eq!(import_checked(dir.path(), &kine)["computed"], false);
}
