//! Programs that the window runs: the sheet, the output, the recording that is followed and opened, and errors.

use crate::common::{HANG_LIMIT, Window};
use egui::Key;
use kinescope::window::shortcut::key;
use kinescope_session::GrowthState;
use kinescope_session::program_run::RunEnd;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What stands for `kinescope run --on TARGET --record F -- PROGRAM …`: a script of `$to` (the file) and its arguments.
fn stand_in(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("kinescope-stand-in");
    let head =
        "#!/bin/sh\n[ \"$1 $2\" = 'run --on' ] || exit 9\ntarget=$3\n[ \"$4\" = --record ] || exit 9\nto=$5\nshift 6\n";
    fs::write(&path, format!("{head}{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

impl Window {
    /// Opens the sheet and fills it in.
    fn fill_program_sheet(&mut self, program: &str, arguments: &str) {
        self.run("run-program");
        let folder = self.folder.path().to_string_lossy().into_owned();
        let sheet = self.app().program_sheet.as_mut().unwrap();
        sheet.request.target = "agent:lab/cuda0".to_owned();
        sheet.request.program = program.to_owned();
        sheet.request.arguments = arguments.to_owned();
        sheet.folder = folder;
        self.settle();
    }

    /// Starts a program that ends only when it is stopped.
    pub fn start_endless_program(&mut self) {
        self.app().kinescope = stand_in(self.folder.path(), "echo begun; while :; do sleep 0.01; done");
        self.fill_program_sheet("sh", "");
        self.click("Run the program");
        self.wait_until("output", |w| w.has("begun"));
    }

    /// Runs frames until the program has ended.
    fn wait_for_program(&mut self) -> RunEnd {
        let since = Instant::now();
        loop {
            self.harness.step();
            if let Some(end) = self.app().program().unwrap().run.end() {
                self.settle();
                return end;
            }
            assert!(since.elapsed() < HANG_LIMIT, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn program_is_run_followed_and_opened() {
    let mut w = Window::empty();
    let made = w.folder.path().join("made.kine");
    let mut recorder = crate::common::growing::Recorder::begin(&made);
    recorder.commit(2);
    recorder.end();
    let script = format!(
        "echo \"on $target: $*\"; echo careful >&2; cp '{}' \"$to\"; exit 3",
        made.display()
    );
    w.app().kinescope = stand_in(w.folder.path(), &script);
    w.fill_program_sheet("sh", "-c 'two words'");
    for label in [
        "Target",
        "Program",
        "Arguments",
        "Folder of the recording",
        "Run the program",
        "Cancel",
    ] {
        assert!(w.has(label), "{label}");
    }
    w.click("Run the program");
    assert!(w.app().program_sheet.is_none());
    assert_eq!(w.wait_for_program(), RunEnd::Code(3));
    w.wait_until("the recording", |w| {
        w.app().doc.is_some() && w.app().following().is_none()
    });
    w.settle();
    let recording = w.folder.path().join("sh.kine");
    assert_eq!((w.doc().path.clone(), w.doc().len()), (recording, 6));
    assert_eq!(w.doc().growth(), GrowthState::Complete);
    assert!(w.has("on agent:lab/cuda0: sh -c two words") && w.has("! careful"));
    assert!(w.has_part("exit code 3") && !w.has("Stop the program"));
    w.click("Close");
    assert!(!w.has("! careful"));
    w.run("show-program");
    assert!(w.has("! careful"));
    // The sheet has the values of the last program, and the next recording another name.
    w.run("run-program");
    let sheet = w.app().program_sheet.as_ref().unwrap();
    assert_eq!(
        (sheet.request.program.as_str(), sheet.request.arguments.as_str()),
        ("sh", "-c 'two words'")
    );
    w.press(key(Key::Enter).unwrap());
    w.settle();
    let request = w.app().program().unwrap().run.request().clone();
    assert!(request.recording.ends_with("sh-2.kine"), "{request:?}");
    w.wait_for_program();
}

#[test]
fn program_that_runs_is_stopped() {
    let mut w = Window::empty();
    w.app().kinescope = stand_in(
        w.folder.path(),
        "trap 'echo stopped; exit 143' TERM; echo begun; while :; do sleep 0.01; done",
    );
    w.fill_program_sheet("sh", "");
    w.click("Run the program");
    w.wait_until("output", |w| w.has("begun"));
    assert!(w.has_part("Running for") && w.has("Waiting for sh.kine") && w.has("sh on agent:lab/cuda0"));
    assert!(!w.run("run-program"), "one program at a time");
    w.click("Stop the program");
    assert_eq!(w.wait_for_program(), RunEnd::Code(143));
    assert!(w.has("stopped"));
    // Nothing was recorded.
    assert!(w.app().following().is_none());
    assert!(w.app().last_error().unwrap().contains("exit code 143"));
}

#[test]
fn program_that_does_not_end_is_ended_at_once() {
    let mut w = Window::empty();
    w.app().kinescope = stand_in(
        w.folder.path(),
        "trap '' TERM; echo begun; while :; do sleep 0.01; done",
    );
    w.fill_program_sheet("sh", "");
    w.click("Run the program");
    w.wait_until("output", |w| w.has("begun"));
    w.run("stop-program");
    assert!(w.has_part("Stopping after"));
    w.click("End the program at once");
    assert_eq!(w.wait_for_program(), RunEnd::Signal(9));
}

#[test]
fn errors_of_programs_are_shown() {
    let mut w = Window::empty();
    w.app().kinescope = stand_in(
        w.folder.path(),
        "echo 'kinescope: this agent runs no live programs' >&2; exit 2",
    );
    w.fill_program_sheet("no-such-program", "");
    w.click("Run the program");
    assert!(w.has_part("There is no program no-such-program"));
    w.app().program_sheet.as_mut().unwrap().request.program = "sh".to_owned();
    w.app().program_sheet.as_mut().unwrap().request.target.clear();
    w.click("Run the program");
    assert!(w.has_part("Name a target"));
    w.app().program_sheet.as_mut().unwrap().request.target = "agent:lab/cuda0".to_owned();
    w.click("Run the program");
    assert_eq!(w.wait_for_program(), RunEnd::Code(2));
    let error = w.app().last_error().unwrap().to_owned();
    assert!(
        error.contains("sh did not run") && error.contains("this agent runs no live programs"),
        "{error}"
    );
    assert!(w.app().following().is_none() && w.has("Open file"));
    // An executable that is not there.
    w.app().kinescope = PathBuf::from("/no/such/kinescope");
    w.run("run-program");
    w.click("Run the program");
    assert!(w.app().last_error().unwrap().contains("sh was not started"));
    w.run("run-program");
    w.press(key(Key::Escape).unwrap());
    assert!(w.app().program_sheet.is_none());
}

#[test]
fn end_of_the_window_ends_the_program() {
    let mut w = Window::empty();
    let folder = w.folder.path().to_owned();
    let (ready, ended) = (folder.join("ready"), folder.join("ended"));
    let script = format!(
        "trap ': > \"{}\"; exit 0' TERM; : > '{}'; while :; do sleep 0.01; done",
        ended.display(),
        ready.display()
    );
    w.app().kinescope = stand_in(&folder, &script);
    w.fill_program_sheet("sh", "");
    w.click("Run the program");
    w.wait_until("the program", |_| ready.exists());
    w.app().stop_following();
    let since = Instant::now();
    let Window { harness, folder, .. } = w;
    drop(harness);
    while !ended.exists() {
        assert!(since.elapsed() < HANG_LIMIT, "the program goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(folder);
}
