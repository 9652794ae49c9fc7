//! What a verb writes is never what it reads, and nothing but a regular file is replaced.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use whole_program_tests::{ProgramOutput, root, run};

/// A folder with a copy of a sample in it, `x.kine`, and contents for its buffer `a`, `i.bin`.
struct Desk {
    folder: tempfile::TempDir,
    recording: Vec<u8>,
}

impl Desk {
    fn new() -> Self {
        let desk = Self {
            folder: tempfile::tempdir().unwrap(),
            recording: fs::read(root().join("sample-traces/vecadd.kine")).unwrap(),
        };
        fs::write(desk.at("x.kine"), &desk.recording).unwrap();
        fs::write(desk.at("i.bin"), [7; 4096]).unwrap();
        desk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command line in the folder.
    fn run(&self, line: &str) -> ProgramOutput {
        let mut command = Command::new(whole_program_tests::program("kinescope"));
        command
            .current_dir(self.folder.path())
            .args(line.split(' '))
            .env("KINESCOPE_KEYS", self.at("keys"));
        command.output().unwrap().into()
    }

    fn names(&self) -> Vec<OsString> {
        let mut names: Vec<OsString> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .filter(|n| n != "keys")
            .collect();
        names.sort();
        names
    }

    /// Refused with both files named, and nothing was changed, made or left.
    fn refused(&self, line: &str, needles: &[&str]) {
        let before = self.names();
        let ended = self.run(line);
        for needle in needles {
            ended.assert_refused(needle);
        }
        assert_eq!(fs::read(self.at("x.kine")).unwrap(), self.recording, "{line}");
        assert_eq!(fs::read(self.at("i.bin")).unwrap(), [7; 4096], "{line}");
        assert_eq!(self.names(), before, "{line}");
    }
}

const REPLAY: &str = "replay x.kine --on software:mali-g71";

#[test]
fn outputs_must_not_name_the_recording() {
    let desk = Desk::new();
    symlink("x.kine", desk.at("soft.kine")).unwrap();
    fs::hard_link(desk.at("x.kine"), desk.at("hard.kine")).unwrap();
    fs::create_dir(desk.at("sub")).unwrap();
    for name in ["x.kine", "soft.kine", "hard.kine", "./x.kine", "sub/../x.kine"] {
        let both = [name, "the recording, x.kine"];
        desk.refused(&format!("{REPLAY} -o {name}"), &both);
        desk.refused(&format!("{REPLAY} --output c={name}"), &both);
        desk.refused(&format!("memory x.kine --buffer a -o {name}"), &both);
        desk.refused(&format!("plan x.kine --on software:mali-g71 -o {name}"), &both);
        desk.refused(&format!("import x.kine -o {name}"), &both);
        desk.refused(&format!("--screenshot {name} x.kine"), &both);
    }
    let through = desk.run("replay soft.kine --on software:mali-g71 -o x.kine");
    through.assert_refused("the recording, soft.kine");
    fs::write(desk.at("x.kine-edits"), "").unwrap();
    fs::write(desk.at("x.kine-edits"), "an edit").unwrap();
    desk.refused(&format!("{REPLAY} -o x.kine-edits"), &["the edits of the recording"]);
}

#[test]
fn outputs_must_differ_from_inputs_and_each_other() {
    let desk = Desk::new();
    desk.refused(
        &format!("{REPLAY} --input a=i.bin --output a=i.bin"),
        &["--output a names the same file as --input a, i.bin"],
    );
    desk.refused(
        &format!("{REPLAY} --input a=i.bin -o i.bin"),
        &["-o names the same file as --input a, i.bin"],
    );
    desk.refused(
        "plan x.kine --on software:mali-g71 --input a=i.bin -o i.bin",
        &["-o names the same file as --input a, i.bin"],
    );
    // They need not be there to be the same.
    desk.refused(
        &format!("{REPLAY} --output a=o -o ./o"),
        &["-o names the same file as --output a, o"],
    );
    desk.refused(
        &format!("{REPLAY} --output a=o --output c=o"),
        &["--output c names the same file as --output a, o"],
    );
}

#[test]
fn outputs_inside_the_recording_folder_are_refused() {
    let desk = Desk::new();
    fs::create_dir(desk.at("rec")).unwrap();
    let history = "0,R,0x0,60a00002\n521,R,0x4,07130206\n";
    fs::write(desk.at("rec/gr_io_history"), history).unwrap();
    fs::write(desk.at("elsewhere"), "").unwrap();
    symlink("../elsewhere", desk.at("rec/gr_sync_as")).unwrap();
    fs::write(desk.at("rec/mine_integrated"), "").unwrap();
    for part in [
        "gr_io_history",
        "gr_pgt",
        "gr_mem_contents",
        "gr_sync_as",
        "rec_integrated",
        "mine_integrated",
    ] {
        for verb in ["import rec", "memory rec 0", "replay rec --on software:mali-g71"] {
            desk.refused(&format!("{verb} -o rec/{part}"), &["a part of the recording", part]);
        }
    }
    desk.refused("import rec -o elsewhere", &["a part of the recording, rec/gr_sync_as"]);
    desk.refused("import rec -o rec", &["names the same file as the recording, rec"]);
    assert_eq!(fs::read_to_string(desk.at("rec/gr_io_history")).unwrap(), history);
    // Another file of that folder is nobody's. Parts that are empty are errors among the findings, and it is written.
    let imported = desk.run("import rec -o rec/new.kine");
    assert_eq!((imported.code, imported.err.as_str()), (Some(1), ""), "{imported:?}");
    assert!(desk.at("rec/new.kine").exists());
}

#[test]
fn outputs_replace_the_symlink_target() {
    let desk = Desk::new();
    for (link, target) in [("o1", "t1"), ("o2", "t2"), ("o3", "t3"), ("o4", "t4"), ("o5.png", "t5")] {
        fs::write(desk.at(target), "before").unwrap();
        symlink(target, desk.at(link)).unwrap();
    }
    for line in [
        &format!("{REPLAY} -o o1 --output a=o2"),
        "import x.kine -o o3",
        "plan x.kine --on software:mali-g71 -o o4",
        "--screenshot o5.png x.kine",
    ] {
        let ended = desk.run(line);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }
    for (link, target) in [("o1", "t1"), ("o2", "t2"), ("o3", "t3"), ("o4", "t4"), ("o5.png", "t5")] {
        assert!(fs::symlink_metadata(desk.at(link)).unwrap().is_symlink(), "{link}");
        let known = fs::symlink_metadata(desk.at(target)).unwrap();
        assert!(known.is_file() && known.len() > 6, "{target}");
    }
}

/// Reads a pipe to its end while something writes into it.
fn reader(pipe: &Path) -> std::thread::JoinHandle<Vec<u8>> {
    let pipe = pipe.to_owned();
    std::thread::spawn(move || fs::read(pipe).unwrap())
}

#[test]
fn a_pipe_is_written_through_and_stays_a_pipe() {
    let desk = Desk::new();
    let pipe = desk.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let is_pipe = || fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo();
    for (line, file) in [
        ("memory x.kine --buffer a -o", "raw"),
        ("plan x.kine --on software:mali-g71 -o", "plan"),
        (&format!("{REPLAY} -o"), "outcome"),
    ] {
        // The same into a file of its own.
        assert_eq!(desk.run(&format!("{line} {file}")).code, Some(0));
        let read = reader(&pipe);
        let ended = desk.run(&format!("{line} pipe"));
        // Whoever replaced the pipe has left its reader waiting.
        assert!(is_pipe(), "{line}");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(read.join().unwrap(), fs::read(desk.at(file)).unwrap(), "{line}");
    }
    desk.run("import x.kine -o pipe")
        .assert_refused("pipe: is a pipe or a device");
    assert!(is_pipe());
}

#[test]
fn output_to_stdout_uses_the_open_file_not_its_name() {
    let desk = Desk::new();
    symlink("/proc/self/fd/1", desk.at("stdout")).unwrap();
    let ended = desk.run("memory x.kine --buffer a -o raw");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let raw = fs::read(desk.at("raw")).unwrap();
    let piped = Command::new(whole_program_tests::program("kinescope"))
        .current_dir(desk.folder.path())
        .args(["memory", "x.kine", "--buffer", "a", "-o", "stdout"])
        .output()
        .unwrap();
    assert_eq!(piped.stdout, raw);
    // A file behind it is gone on with where it is.
    let mut into = fs::File::create(desk.at("log")).unwrap();
    std::io::Write::write_all(&mut into, b"head").unwrap();
    let status = Command::new(whole_program_tests::program("kinescope"))
        .current_dir(desk.folder.path())
        .args(["memory", "x.kine", "--buffer", "a", "-o", "stdout"])
        .stdout(into)
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read(desk.at("log")).unwrap(), [b"head".as_slice(), &raw].concat());
    assert!(fs::symlink_metadata(desk.at("stdout")).unwrap().is_symlink());
}

#[test]
fn unwritable_output_error_names_only_the_output() {
    let desk = Desk::new();
    fs::write(desk.at("kept"), "kept").unwrap();
    fs::set_permissions(desk.at("kept"), fs::Permissions::from_mode(0o444)).unwrap();
    for (output, why) in [
        ("kept", "read-only"),
        ("none/out", "folder does not exist"),
        ("keys", "is a folder"),
    ] {
        fs::create_dir_all(desk.at("keys")).unwrap();
        for line in [
            &format!("{REPLAY} -o {output}"),
            &format!("{REPLAY} --output a={output}"),
            &format!("import x.kine -o {output}"),
            &format!("memory x.kine --buffer a -o {output}"),
            &format!("plan x.kine --on software:mali-g71 -o {output}"),
            &format!("--screenshot {output} x.kine"),
        ] {
            let ended = desk.run(line);
            ended.assert_refused(why);
            ended.assert_refused(&format!("kinescope: {output}: "));
            for wrong in ["x.kine", ".tmp"] {
                assert!(!ended.err.contains(wrong), "{line}: {}", ended.err);
            }
        }
    }
    assert_eq!(fs::read(desk.at("kept")).unwrap(), b"kept");
    // The system has names that are too long for it.
    let long = "n".repeat(300);
    let ended = run([
        "import".as_ref(),
        desk.at("x.kine").as_os_str(),
        "-o".as_ref(),
        desk.at(&long).as_os_str(),
    ]);
    ended.assert_refused(&long);
    assert!(
        !ended.err.contains("x.kine") && !ended.err.contains(".kinescope"),
        "{ended:?}"
    );
}
