//! An output is never an input of the same command, and it replaces only regular files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use whole_program_tests::{ProgramOutput, root, run};

/// A folder with a copy of a sample, `x.kine`, and new content for its buffer `a`, `i.bin`.
struct TestFolder {
    dir: tempfile::TempDir,
    recording: Vec<u8>,
}

impl TestFolder {
    fn new() -> Self {
        let folder = Self {
            dir: tempfile::tempdir().unwrap(),
            recording: fs::read(root().join("sample-traces/vecadd.kine")).unwrap(),
        };
        fs::write(folder.at("x.kine"), &folder.recording).unwrap();
        fs::write(folder.at("i.bin"), [7; 4096]).unwrap();
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a command line in the folder.
    fn run(&self, line: &str) -> ProgramOutput {
        let mut command = Command::new(whole_program_tests::program("kinescope"));
        command
            .current_dir(self.dir.path())
            .args(line.split(' '))
            .env("KINESCOPE_KEYS", self.at("keys"));
        command.output().unwrap().into()
    }

    fn names(&self) -> Vec<OsString> {
        let mut names: Vec<OsString> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .filter(|n| n != "keys")
            .collect();
        names.sort();
        names
    }

    /// Asserts that a command line is refused with all `needles` in its message, and that no file changes.
    fn assert_refused(&self, line: &str, needles: &[&str]) {
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
    let folder = TestFolder::new();
    symlink("x.kine", folder.at("soft.kine")).unwrap();
    fs::hard_link(folder.at("x.kine"), folder.at("hard.kine")).unwrap();
    fs::create_dir(folder.at("sub")).unwrap();
    for name in ["x.kine", "soft.kine", "hard.kine", "./x.kine", "sub/../x.kine"] {
        let needles = [name, "the recording, x.kine"];
        folder.assert_refused(&format!("{REPLAY} -o {name}"), &needles);
        folder.assert_refused(&format!("{REPLAY} --output c={name}"), &needles);
        folder.assert_refused(&format!("memory x.kine --buffer a -o {name}"), &needles);
        folder.assert_refused(&format!("plan x.kine --on software:mali-g71 -o {name}"), &needles);
        folder.assert_refused(&format!("import x.kine -o {name}"), &needles);
        folder.assert_refused(&format!("--screenshot {name} x.kine"), &needles);
    }
    let via_symlink = folder.run("replay soft.kine --on software:mali-g71 -o x.kine");
    via_symlink.assert_refused("the recording, soft.kine");
    fs::write(folder.at("x.kine-edits"), "").unwrap();
    fs::write(folder.at("x.kine-edits"), "an edit").unwrap();
    folder.assert_refused(&format!("{REPLAY} -o x.kine-edits"), &["the edits of the recording"]);
}

#[test]
fn outputs_must_differ_from_inputs_and_each_other() {
    let folder = TestFolder::new();
    folder.assert_refused(
        &format!("{REPLAY} --input a=i.bin --output a=i.bin"),
        &["--output a names the same file as --input a, i.bin"],
    );
    folder.assert_refused(
        &format!("{REPLAY} --input a=i.bin -o i.bin"),
        &["-o names the same file as --input a, i.bin"],
    );
    folder.assert_refused(
        "plan x.kine --on software:mali-g71 --input a=i.bin -o i.bin",
        &["-o names the same file as --input a, i.bin"],
    );
    // The check also compares paths of files that do not exist.
    folder.assert_refused(
        &format!("{REPLAY} --output a=o -o ./o"),
        &["-o names the same file as --output a, o"],
    );
    folder.assert_refused(
        &format!("{REPLAY} --output a=o --output c=o"),
        &["--output c names the same file as --output a, o"],
    );
}

#[test]
fn outputs_inside_the_recording_folder_are_refused() {
    let folder = TestFolder::new();
    fs::create_dir(folder.at("rec")).unwrap();
    let history = "0,R,0x0,60a00002\n521,R,0x4,07130206\n";
    fs::write(folder.at("rec/gr_io_history"), history).unwrap();
    fs::write(folder.at("elsewhere"), "").unwrap();
    symlink("../elsewhere", folder.at("rec/gr_sync_as")).unwrap();
    fs::write(folder.at("rec/mine_integrated"), "").unwrap();
    for part in [
        "gr_io_history",
        "gr_pgt",
        "gr_mem_contents",
        "gr_sync_as",
        "rec_integrated",
        "mine_integrated",
    ] {
        for verb in ["import rec", "memory rec 0", "replay rec --on software:mali-g71"] {
            folder.assert_refused(&format!("{verb} -o rec/{part}"), &["a part of the recording", part]);
        }
    }
    folder.assert_refused("import rec -o elsewhere", &["a part of the recording, rec/gr_sync_as"]);
    folder.assert_refused("import rec -o rec", &["names the same file as the recording, rec"]);
    assert_eq!(fs::read_to_string(folder.at("rec/gr_io_history")).unwrap(), history);
    // Another file name in that folder is accepted. Empty parts of the recording are errors among the findings, and the
    // import still writes the file.
    let imported = folder.run("import rec -o rec/new.kine");
    assert_eq!((imported.code, imported.err.as_str()), (Some(1), ""), "{imported:?}");
    assert!(folder.at("rec/new.kine").exists());
}

#[test]
fn outputs_replace_the_symlink_target() {
    let folder = TestFolder::new();
    for (link, target) in [("o1", "t1"), ("o2", "t2"), ("o3", "t3"), ("o4", "t4"), ("o5.png", "t5")] {
        fs::write(folder.at(target), "before").unwrap();
        symlink(target, folder.at(link)).unwrap();
    }
    for line in [
        &format!("{REPLAY} -o o1 --output a=o2"),
        "import x.kine -o o3",
        "plan x.kine --on software:mali-g71 -o o4",
        "--screenshot o5.png x.kine",
    ] {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }
    for (link, target) in [("o1", "t1"), ("o2", "t2"), ("o3", "t3"), ("o4", "t4"), ("o5.png", "t5")] {
        assert!(fs::symlink_metadata(folder.at(link)).unwrap().is_symlink(), "{link}");
        let metadata = fs::symlink_metadata(folder.at(target)).unwrap();
        assert!(metadata.is_file() && metadata.len() > 6, "{target}");
    }
}

/// Starts a thread that reads a pipe to its end.
fn read_pipe(pipe: &Path) -> std::thread::JoinHandle<Vec<u8>> {
    let pipe = pipe.to_owned();
    std::thread::spawn(move || fs::read(pipe).unwrap())
}

#[test]
fn a_pipe_is_written_through_and_stays_a_pipe() {
    let folder = TestFolder::new();
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let is_pipe = || fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo();
    for (line, file) in [
        ("memory x.kine --buffer a -o", "raw"),
        ("plan x.kine --on software:mali-g71 -o", "plan"),
        (&format!("{REPLAY} -o"), "outcome"),
    ] {
        // A regular file receives the same output, for comparison.
        assert_eq!(folder.run(&format!("{line} {file}")).code, Some(0));
        let read = read_pipe(&pipe);
        let ended = folder.run(&format!("{line} pipe"));
        // A replaced pipe would leave its reader blocked.
        assert!(is_pipe(), "{line}");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(read.join().unwrap(), fs::read(folder.at(file)).unwrap(), "{line}");
    }
    folder
        .run("import x.kine -o pipe")
        .assert_refused("pipe: is a pipe or a device");
    assert!(is_pipe());
}

#[test]
fn output_to_stdout_uses_the_open_file_not_its_name() {
    let folder = TestFolder::new();
    symlink("/proc/self/fd/1", folder.at("stdout")).unwrap();
    let ended = folder.run("memory x.kine --buffer a -o raw");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let raw = fs::read(folder.at("raw")).unwrap();
    let piped = Command::new(whole_program_tests::program("kinescope"))
        .current_dir(folder.dir.path())
        .args(["memory", "x.kine", "--buffer", "a", "-o", "stdout"])
        .output()
        .unwrap();
    assert_eq!(piped.stdout, raw);
    // Output to a regular file continues at the current position of standard output.
    let mut into = fs::File::create(folder.at("log")).unwrap();
    std::io::Write::write_all(&mut into, b"head").unwrap();
    let status = Command::new(whole_program_tests::program("kinescope"))
        .current_dir(folder.dir.path())
        .args(["memory", "x.kine", "--buffer", "a", "-o", "stdout"])
        .stdout(into)
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read(folder.at("log")).unwrap(), [b"head".as_slice(), &raw].concat());
    assert!(fs::symlink_metadata(folder.at("stdout")).unwrap().is_symlink());
}

#[test]
fn unwritable_output_error_names_only_the_output() {
    let folder = TestFolder::new();
    fs::write(folder.at("kept"), "kept").unwrap();
    fs::set_permissions(folder.at("kept"), fs::Permissions::from_mode(0o444)).unwrap();
    for (output, why) in [
        ("kept", "read-only"),
        ("none/out", "folder does not exist"),
        ("keys", "is a folder"),
    ] {
        fs::create_dir_all(folder.at("keys")).unwrap();
        for line in [
            &format!("{REPLAY} -o {output}"),
            &format!("{REPLAY} --output a={output}"),
            &format!("import x.kine -o {output}"),
            &format!("memory x.kine --buffer a -o {output}"),
            &format!("plan x.kine --on software:mali-g71 -o {output}"),
            &format!("--screenshot {output} x.kine"),
        ] {
            let ended = folder.run(line);
            ended.assert_refused(why);
            ended.assert_refused(&format!("kinescope: {output}: "));
            for wrong in ["x.kine", ".tmp"] {
                assert!(!ended.err.contains(wrong), "{line}: {}", ended.err);
            }
        }
    }
    assert_eq!(fs::read(folder.at("kept")).unwrap(), b"kept");
    // The name is too long for the file system.
    let long = "n".repeat(300);
    let ended = run([
        "import".as_ref(),
        folder.at("x.kine").as_os_str(),
        "-o".as_ref(),
        folder.at(&long).as_os_str(),
    ]);
    ended.assert_refused(&long);
    assert!(
        !ended.err.contains("x.kine") && !ended.err.contains(".kinescope"),
        "{ended:?}"
    );
}
