//! A program that runs with its device elsewhere, as a child process of the window: `kinescope run`, its output, its end.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of kept lines of output: the first ones go.
pub const MAX_LINES: usize = 2000;
/// Maximum length of a line, bytes. A longer one is cut.
const MAX_LINE_BYTES: usize = 4096;
/// Interval at which the end of the process is looked for.
const TICK: Duration = Duration::from_millis(50);
/// Time that the last output of a process may take after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRequest {
    /// Target, as `run --on` takes it.
    pub target: String,
    /// The program.
    pub program: String,
    /// Its arguments, as a shell reads them.
    pub arguments: String,
    /// Folder of the recording.
    pub folder: PathBuf,
}

/// A request that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRequest {
    /// Target.
    pub target: String,
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// The recording, which does not exist yet.
    pub recording: PathBuf,
}

impl CheckedRequest {
    /// Returns the name of the program.
    #[must_use]
    pub fn name(&self) -> String {
        let program = self.words.first().map(Path::new).and_then(Path::file_name);
        program.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the program and its arguments on one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }
}

impl ProgramRequest {
    /// Checks the request, and finds a name for the recording.
    ///
    /// # Errors
    /// What is missing or wrong, for the user.
    pub fn check(&self) -> Result<CheckedRequest, String> {
        let (target, program) = (self.target.trim(), self.program.trim());
        if target.is_empty() {
            return Err("Name a target, such as agent:lab/cuda0 or cuda:0.".to_owned());
        }
        if program.is_empty() {
            return Err("Name a program.".to_owned());
        }
        if find_program(program).is_none() {
            return Err(format!("There is no program {program} that can be run."));
        }
        if !self.folder.is_dir() {
            return Err(format!("{} is no folder.", self.folder.display()));
        }
        let mut words = vec![OsString::from(program)];
        words.extend(split_arguments(&self.arguments)?.into_iter().map(OsString::from));
        let name = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
        let recording = |number: u32| match number {
            1 => self.folder.join(format!("{name}.kine")),
            number => self.folder.join(format!("{name}-{number}.kine")),
        };
        let free = (1..=u32::MAX).map(recording).find(|path| !path.exists());
        Ok(CheckedRequest {
            target: target.to_owned(),
            words,
            recording: free.ok_or("The folder has no free name for the recording.")?,
        })
    }
}

/// Returns the file of a program: a path, or a name that is looked up as shells do.
fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|path| path.is_file())
}

/// Splits arguments at spaces. Quotes and backslashes keep spaces in an argument, as in a shell; nothing is expanded.
///
/// # Errors
/// If a quote is not closed.
pub fn split_arguments(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("The quote {open} in the arguments has no end.")),
        None => Ok(words),
    }
}

/// Where a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// Its stream.
    pub stream: OutputStream,
    /// The text, without control characters.
    pub text: String,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// What is known of a run.
#[derive(Clone, Debug, Default)]
pub struct RunState {
    /// The last lines of output.
    pub lines: VecDeque<OutputLine>,
    /// Number of lines that were dropped.
    pub dropped: u64,
    /// How it ended, once it has.
    pub end: Option<RunEnd>,
}

/// A program that runs, or has run. Dropping it stops the program.
#[derive(Debug)]
pub struct ProgramRun {
    request: CheckedRequest,
    begun: Instant,
    ended: Arc<Mutex<Option<Instant>>>,
    state: Arc<Mutex<RunState>>,
    child: Arc<Mutex<Child>>,
    stops: u32,
}

impl ProgramRun {
    /// Starts `kinescope run` for a request. `kinescope` is the executable; `notify` is called after each change.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        kinescope: &Path,
        request: CheckedRequest,
        notify: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let mut child = Command::new(kinescope)
            .args(["run", "--on", &request.target, "--record"])
            .arg(&request.recording)
            .arg("--")
            .args(&request.words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // An interrupt of the window's terminal is for the window, which then stops the program.
            .process_group(0)
            .spawn()?;
        let state: Arc<Mutex<RunState>> = Arc::default();
        let mut readers = Vec::new();
        let streams: [(OutputStream, Option<Box<dyn Read + Send>>); 2] = [
            (OutputStream::Output, child.stdout.take().map(|s| Box::new(s) as _)),
            (OutputStream::Error, child.stderr.take().map(|s| Box::new(s) as _)),
        ];
        for (stream, from) in streams {
            let (state, notify) = (Arc::clone(&state), notify.clone());
            let read = move || {
                if let Some(from) = from {
                    read_lines(from, |text| {
                        lock(&state).add(OutputLine { stream, text });
                        notify();
                    });
                }
            };
            readers.push(
                thread::Builder::new()
                    .name("output of a program".to_owned())
                    .spawn(read)?,
            );
        }
        let run = Self {
            request,
            begun: Instant::now(),
            ended: Arc::default(),
            state,
            child: Arc::new(Mutex::new(child)),
            stops: 0,
        };
        let (child, state, ended) = (Arc::clone(&run.child), Arc::clone(&run.state), Arc::clone(&run.ended));
        let wait = move || {
            let end = loop {
                match lock(&child).try_wait() {
                    Ok(Some(status)) => break end_of(status),
                    Ok(None) => {}
                    Err(_) => break RunEnd::Code(-1),
                }
                thread::sleep(TICK);
            };
            // A process that the program left behind may keep the streams open.
            let by = Instant::now() + LAST_OUTPUT;
            while Instant::now() < by && !readers.iter().all(thread::JoinHandle::is_finished) {
                thread::sleep(Duration::from_millis(5));
            }
            *lock(&ended) = Some(Instant::now());
            lock(&state).end = Some(end);
            notify();
        };
        thread::Builder::new().name("end of a program".to_owned()).spawn(wait)?;
        Ok(run)
    }

    /// Returns what was requested.
    #[must_use]
    pub fn request(&self) -> &CheckedRequest {
        &self.request
    }

    /// Calls `look` with the state.
    pub fn with_state<T>(&self, look: impl FnOnce(&RunState) -> T) -> T {
        look(&lock(&self.state))
    }

    /// Returns how the program ended, or `None` while it runs.
    #[must_use]
    pub fn end(&self) -> Option<RunEnd> {
        lock(&self.state).end
    }

    /// Returns the time of the run so far.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let end = lock(&self.ended).unwrap_or_else(Instant::now);
        end.saturating_duration_since(self.begun)
    }

    /// Returns whether the program was asked to end.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.stops > 0
    }

    /// Asks the program to end; a second call ends it at once, with its recording as far as it was written.
    pub fn stop(&mut self) {
        if self.end().is_some() {
            return;
        }
        let mut child = lock(&self.child);
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        // The process may have ended meanwhile.
        match (self.stops, pid) {
            (0, Some(pid)) => drop(rustix::process::kill_process(pid, rustix::process::Signal::TERM)),
            (_, Some(pid)) => drop(rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)),
            (_, None) => drop(child.kill()),
        }
        self.stops += 1;
    }

    /// Returns the last lines on the standard error stream, for an error message.
    #[must_use]
    pub fn last_errors(&self) -> String {
        const MAX_SHOWN: usize = 3;
        self.with_state(|state| {
            let errors = state.lines.iter().filter(|line| line.stream == OutputStream::Error);
            let mut last: Vec<&str> = errors.rev().take(MAX_SHOWN).map(|line| line.text.as_str()).collect();
            last.reverse();
            last.join("; ")
        })
    }
}

impl Drop for ProgramRun {
    fn drop(&mut self) {
        if self.stops == 0 {
            self.stop();
        }
    }
}

impl RunState {
    fn add(&mut self, line: OutputLine) {
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line);
    }
}

impl RunEnd {
    /// Describes the end in words.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Code(code) => format!("exit code {code}"),
            Self::Signal(signal) => format!("ended by signal {signal}"),
        }
    }
}

fn end_of(status: ExitStatus) -> RunEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => RunEnd::Code(code),
        (None, Some(signal)) => RunEnd::Signal(signal),
        (None, None) => RunEnd::Code(-1),
    }
}

/// Passes on each line of a stream to its end, cut to [`MAX_LINE_BYTES`].
fn read_lines(mut from: impl Read, mut take: impl FnMut(String)) {
    let (mut line, mut buffer) = (Vec::new(), [0u8; 4096]);
    let mut end = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        take(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        line.clear();
    };
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        for byte in buffer.get(..count).unwrap_or_default() {
            match byte {
                b'\n' => end(&mut line),
                b'\r' => {}
                byte if line.len() < MAX_LINE_BYTES => line.push(*byte),
                _ => {}
            }
        }
    }
    if !line.is_empty() {
        end(&mut line);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_in_a_shell() {
        let split = |text| split_arguments(text).unwrap();
        assert_eq!(split(""), Vec::<String>::new());
        assert_eq!(split("  a  b\tc "), ["a", "b", "c"]);
        assert_eq!(split(r#"'a b' "c \" d" e\ f ''"#), ["a b", "c \" d", "e f", ""]);
        assert_eq!(split(r"'\n' $HOME *"), [r"\n", "$HOME", "*"]);
        assert!(split_arguments("a 'b").unwrap_err().contains('\''));
    }

    #[test]
    fn requests_say_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let good = ProgramRequest {
            target: "agent:lab/cuda0".to_owned(),
            program: "sh".to_owned(),
            arguments: "-c 'exit 3'".to_owned(),
            folder: folder.path().to_owned(),
        };
        let checked = good.check().unwrap();
        assert_eq!(checked.words, ["sh", "-c", "exit 3"]);
        assert_eq!(checked.recording, folder.path().join("sh.kine"));
        std::fs::write(&checked.recording, "").unwrap();
        assert_eq!(good.check().unwrap().recording, folder.path().join("sh-2.kine"));
        let with = |change: fn(&mut ProgramRequest)| {
            let mut request = good.clone();
            change(&mut request);
            request.check().unwrap_err()
        };
        assert!(with(|r| r.target.clear()).contains("target"));
        assert!(with(|r| r.program = " ".to_owned()).contains("Name a program"));
        assert!(with(|r| r.program = "no-such-program".to_owned()).contains("no-such-program"));
        assert!(with(|r| r.folder = "/no/such/folder".into()).contains("is no folder"));
        assert!(with(|r| r.arguments = "\"".to_owned()).contains("quote"));
    }

    #[test]
    fn lines_are_cut_and_cleaned() {
        let long = vec![b'x'; MAX_LINE_BYTES + 10];
        let text = [b"a\r\n\x1b[1mb\n", &long[..]].concat();
        let mut lines = Vec::new();
        read_lines(&text[..], |line| lines.push(line));
        assert_eq!(lines[..2], ["a", " [1mb"]);
        assert_eq!((lines.len(), lines[2].len()), (3, MAX_LINE_BYTES));
        let mut state = RunState::default();
        for n in 0..MAX_LINES + 5 {
            state.add(OutputLine {
                stream: OutputStream::Output,
                text: n.to_string(),
            });
        }
        assert_eq!((state.lines.len(), state.dropped), (MAX_LINES, 5));
        assert_eq!(state.lines[0].text, "5");
    }
}
