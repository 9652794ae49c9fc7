//! Client of QEMU's monitor protocol over a Unix socket: each command has one answer.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time after which QEMU counts as hung: it creates its socket and answers at once.
const LIMIT: Duration = Duration::from_secs(60);

/// A connection to a running QEMU.
#[derive(Debug)]
pub struct Monitor {
    lines: BufReader<UnixStream>,
}

/// Connects to a socket that another process is about to create.
pub(crate) fn connect(socket: &Path) -> Result<UnixStream, String> {
    let by = Instant::now() + LIMIT;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(e) if Instant::now() > by => return Err(format!("{}: {e}", socket.display())),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

impl Monitor {
    /// Connects and completes QEMU's greeting.
    ///
    /// # Errors
    /// Returns an error if there is no QEMU at the socket in time.
    pub fn connect(socket: &Path) -> Result<Self, String> {
        let stream = connect(socket)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(|e| e.to_string())?;
        let mut monitor = Self {
            lines: BufReader::new(stream),
        };
        monitor.line()?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).map_err(|e| e.to_string())?;
        if read == 0 {
            return Err("QEMU has closed its monitor".into());
        }
        serde_json::from_str(&line).map_err(|e| format!("{e}: {line}"))
    }

    /// Executes a command and returns its result. Events in between are ignored.
    ///
    /// # Errors
    /// Returns QEMU's message if it refuses the command.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, String> {
        let text = json!({"execute": command, "arguments": arguments}).to_string();
        let stream = self.lines.get_mut();
        stream.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                return Err(format!("{command}: {error}"));
            }
            if answer.get("return").is_some() {
                return Ok(answer["return"].take());
            }
        }
    }

    /// Executes a command of the human monitor and returns its output.
    ///
    /// # Errors
    /// Returns QEMU's message if it refuses the command.
    pub fn execute_human(&mut self, line: &str) -> Result<String, String> {
        let parsed_json = self.execute("human-monitor-command", &json!({"command-line": line}))?;
        Ok(parsed_json.as_str().unwrap_or_default().to_owned())
    }
}
