//! Command line options of the programs.

use std::path::PathBuf;
use std::str::FromStr;

/// The way in which a program looks up the driver's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupMode {
    /// Like CUDA's runtime: by the driver's own `cuGetProcAddress`.
    Driver,
    /// By the loader's `dlsym`.
    Loader,
    /// Like CUDA's current runtime: by the driver, with code as libraries whose kernels the program launches.
    Library,
    /// By the driver, with stream 0 as each thread's own.
    PerThread,
}

/// The way in which a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitMode {
    /// By a return from its main function.
    Return,
    /// By `_exit`.
    Exit,
    /// By a signal that it raises.
    Abort,
    /// By a signal that another process sends.
    Terminated,
    /// By executing another program, `true`.
    Exec,
}

impl ExitMode {
    /// Ends the process with an exit code. A mode without an exit code ignores it.
    pub fn now(self, code: i32) -> ! {
        match self {
            Self::Return => std::process::exit(code),
            // SAFETY: the call ends the process.
            Self::Exit => unsafe { libc::_exit(code) },
            Self::Abort => std::process::abort(),
            Self::Terminated => loop {
                // SAFETY: the call sends a signal to this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
                std::thread::sleep(std::time::Duration::from_millis(100));
            },
            Self::Exec => {
                let error = std::os::unix::process::CommandExt::exec(&mut std::process::Command::new("true"));
                eprintln!("cuda-client: true: {error}");
                std::process::exit(127)
            }
        }
    }
}

/// Options of all programs; each program reads only its own.
#[derive(Clone, Debug)]
pub struct Options {
    pub program: String,
    /// Amount of work in the program's own unit, or `None` for the program's default.
    pub size: Option<u32>,
    /// File for all bytes that were copied back from the device.
    pub out: Option<PathBuf>,
    pub lookup: LookupMode,
    pub end: ExitMode,
    /// Seed of the inputs.
    pub seed: u32,
    pub block: Option<u32>,
    pub grid: Option<u32>,
    /// Whether to send the marks `begin` and `end` to a recorder around the second half.
    pub marks: bool,
    /// Options that only some programs have, such as `--bad` and `--hang`.
    pub words: Vec<String>,
}

impl Options {
    /// Parses `PROGRAM [SIZE] [--out FILE] …`.
    pub fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments;
        let program = arguments
            .next()
            .ok_or("no program is named: see the table in tests/cuda/README.md")?;
        let mut o = Self {
            program,
            size: None,
            out: None,
            lookup: LookupMode::Driver,
            end: ExitMode::Return,
            seed: 0,
            block: None,
            grid: None,
            marks: false,
            words: Vec::new(),
        };
        while let Some(word) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--out" => o.out = Some(value()?.into()),
                "--via" => {
                    o.lookup = match value()?.as_str() {
                        "driver" => LookupMode::Driver,
                        "dlsym" => LookupMode::Loader,
                        "library" => LookupMode::Library,
                        "per-thread" => LookupMode::PerThread,
                        other => return Err(format!("--via {other} (expected driver, dlsym, library or per-thread)")),
                    }
                }
                "--end" => {
                    o.end = match value()?.as_str() {
                        "return" => ExitMode::Return,
                        "_exit" => ExitMode::Exit,
                        "abort" => ExitMode::Abort,
                        "term" => ExitMode::Terminated,
                        "exec" => ExitMode::Exec,
                        other => return Err(format!("--end {other} (expected return, _exit, abort, term or exec)")),
                    }
                }
                "--seed" => o.seed = number(&value()?)?,
                "--block" => o.block = Some(number(&value()?)?),
                "--grid" => o.grid = Some(number(&value()?)?),
                "--marks" => o.marks = true,
                _ if word.starts_with("--") => o.words.push(word),
                _ => o.size = Some(number(&word)?),
            }
        }
        Ok(o)
    }

    /// Returns whether an option of the program was given.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}
