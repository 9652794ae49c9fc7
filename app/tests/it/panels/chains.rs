//! Tests of a folder of job chains in the window: it is opened, dropped, edited and replayed. An unfit target refuses
//! it, and a broken folder is reported by its missing file.

use crate::common::{Window, samples};
use egui::{Key, Modifiers};
use kinescope_files::scene::Selection;
use replay_engine::run::Verdict;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Copies a folder of the project, so that a journal lies next to the copy. Returns its path.
fn copy(w: &Window, name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/folders")
        .join(name);
    let to = w.folder.path().join(name);
    std::fs::create_dir(&to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

fn open_folder(name: &str) -> Window {
    let mut w = Window::empty();
    let folder = copy(&w, name);
    w.will_choose(&folder);
    w.click("Open folder…");
    let message = format!("{:?}", w.app().last_error());
    assert_eq!(w.app().doc.as_ref().map(|d| &d.path), Some(&folder), "{message}");
    w
}

fn output(w: &mut Window, name: &str) -> Vec<u8> {
    let o = w.doc().replay.outcome.clone().unwrap();
    assert_eq!((o.verdict, o.computed), (Verdict::Match, true), "{:?}", o.failure);
    o.outputs.iter().find(|b| b.name == name).unwrap().data.clone()
}

#[derive(Debug)]
struct DroppedFolder(PathBuf);

impl egui::DroppedFile for DroppedFolder {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        Err("a folder has no bytes".into())
    }
}

#[test]
fn edited_submission_input_changes_its_output() {
    let mut w = open_folder("twopass");
    assert_eq!(w.doc().derived.jobs.len(), 2);
    let names: Vec<String> = w
        .doc()
        .recording
        .metadata
        .buffers
        .iter()
        .map(|b| b.name.clone())
        .collect();
    assert_eq!(names, ["a", "t", "o", "shader0", "shader1"]);
    assert_eq!(w.doc().replay.target(), "software:mali-g71");
    w.run("show-jobs");
    assert!(w.has_part("0xf7fe91c0"));
    w.run("replay");
    let folder = w.doc().path.clone();
    let expected = std::fs::read(folder.join("o.expected.bin")).unwrap();
    assert_eq!(output(&mut w, "o"), expected);

    w.run("show-inputs");
    w.doc().select(Selection::Buffer("a".into()));
    w.settle();
    let a: Vec<i32> = (0..512).map(|i| i * i - 7).collect();
    let file = w.folder.path().join("a.bin");
    std::fs::write(&file, a.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    w.will_choose(&file);
    w.click("Load…");
    w.run("replay");
    let t: Vec<i32> = (0..512).zip(&a).map(|(i, a)| a * 3 + (i ^ 5)).collect();
    let implied: Vec<u8> = (0..512).flat_map(|i| (t[i] - t[(i + 1) & 511]).to_le_bytes()).collect();
    assert_eq!(output(&mut w, "o"), implied);

    // Reloading keeps the recording and its changes.
    w.run("reload");
    assert_eq!(w.doc().changes().len(), 1);
}

#[test]
fn dropped_folder_opens_and_a_wrong_gpu_target_is_refused() {
    for (name, other, fits, folded) in [
        ("vecadd-g52", "software:mali-g71", "software:mali-g52", 2),
        ("twopass", "software:mali-g52", "software:mali-g71", 4),
    ] {
        let mut w = Window::empty();
        let folder = copy(&w, name);
        w.harness
            .input_mut()
            .dropped_files
            .push(Arc::new(DroppedFolder(folder.clone())));
        w.settle();
        assert_eq!(w.doc().path, folder);
        assert_eq!(w.doc().replay.target(), fits);
        w.run("show-replay");
        w.click(&format!("{folded} more that do not fit"));
        w.click(&format!("target {other}"));
        assert!(!w.run("replay"), "replay is disabled");
        for part in ["Mali-G52", "Mali-G71", &format!("Use {fits}")] {
            assert!(w.has_part(part), "{part}");
        }
    }
}

#[test]
fn window_names_the_missing_file_of_a_broken_submission() {
    let mut w = Window::empty();
    let folder = copy(&w, "twopass");
    std::fs::remove_file(folder.join("submit001_bo_f7ffb000.bin")).unwrap();
    w.will_choose(&folder);
    w.click("Open folder…");
    let (title, text) = w.app().notice.clone().expect("a notice is shown");
    assert!(w.app().doc.is_none() && title == "twopass was not opened", "{title}");
    let words = "submit001_bo_f7ffb000.bin: it is missing, but submit001.json names it: the folder is incomplete, copy it again";
    assert!(text.contains(words), "{text}");
    w.click("Dismiss");
    assert!(w.has("Open folder…"));
}

#[test]
fn a_folder_of_recordings_offers_them_by_mouse_and_by_keyboard() {
    for by_key in [false, true] {
        let mut w = Window::empty();
        let folder = w.folder.path().join("lab");
        std::fs::create_dir(&folder).unwrap();
        for name in ["a.kine", "b.kine"] {
            std::fs::copy(samples().join("digits.kine"), folder.join(name)).unwrap();
        }
        w.will_choose(&folder);
        w.click("Open folder…");
        assert!(w.app().notice.is_none() && w.app().doc.is_none());
        assert!(w.has("lab holds 2 recordings: open one"));
        if by_key {
            w.stroke(Modifiers::NONE, Key::Tab, None);
            w.stroke(Modifiers::NONE, Key::Enter, None);
        } else {
            w.click("b.kine");
        }
        w.settle();
        assert_eq!(w.doc().path, folder.join("b.kine"));
        assert!(!w.has_part("holds 2 recordings"));
    }
}

/// Returns a tar archive of files.
fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        header[263..265].copy_from_slice(b"00");
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.extend(header);
        out.extend(*content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.extend([0; 1024]);
    out
}

#[test]
fn recordings_of_an_archive_are_offered_by_their_places() {
    let mut w = Window::empty();
    let recording = std::fs::read(samples().join("digits.kine")).unwrap();
    let archive = w.folder.path().join("lab.tar");
    std::fs::write(
        &archive,
        tar_of(&[("first/a.kine", &recording), ("second/a.kine", &recording)]),
    )
    .unwrap();
    w.will_choose(&archive);
    w.click("Open file…");
    w.settle();
    assert!(w.has("lab.tar holds 2 recordings: open one"));
    assert!(w.has("first/a.kine"));
    w.click("second/a.kine");
    w.settle();
    assert!(
        w.doc().path.ends_with("lab.tar:second/a.kine"),
        "{}",
        w.doc().path.display()
    );
}
