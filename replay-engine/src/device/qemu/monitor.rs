//! QEMU's monitor (QMP): one command at a time, as JSON lines. Events are skipped.

use super::error::QemuError;
use super::lines::Lines;
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum length of a line, bytes. A memory listing has some ten thousand bytes.
const LONGEST: usize = 4 << 20;

/// A connection to the monitor.
pub(super) struct Monitor {
    lines: Lines,
    /// QEMU's version, `10.0.2`.
    version: String,
}

impl Monitor {
    /// Reads the greeting and ends the negotiation.
    pub fn new(stream: UnixStream) -> Result<Self, QemuError> {
        let mut monitor = Self {
            lines: Lines::new(stream, LONGEST)?,
            version: String::new(),
        };
        let greeting = monitor.message("the greeting")?;
        let version = greeting.pointer("/QMP/version/qemu");
        let part = |name| version.and_then(|v| v.get(name)).and_then(Value::as_u64);
        monitor.version = match (part("major"), part("minor"), part("micro")) {
            (Some(major), Some(minor), Some(micro)) => format!("{major}.{minor}.{micro}"),
            _ => {
                return Err(QemuError::Monitor {
                    command: "the greeting",
                    reason: "it reports no version".to_owned(),
                });
            }
        };
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Returns QEMU's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Sets the maximum wait for an answer.
    pub fn set_answer_limit(&mut self, limit: Duration) {
        self.lines.answer_limit = limit;
    }

    /// Executes a command and returns its result.
    pub fn execute(&mut self, command: &'static str, arguments: &Value) -> Result<Value, QemuError> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.lines.send(line.as_bytes())?;
        let started = Instant::now();
        loop {
            let mut message = self.message(command)?;
            if let Some(value) = message.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = message.get("error") {
                let reason = error.get("desc").and_then(Value::as_str).unwrap_or("without a reason");
                return Err(QemuError::Monitor {
                    command,
                    reason: reason.chars().take(300).collect(),
                });
            }
            let limit = self.lines.answer_limit;
            if started.elapsed() > limit {
                return Err(QemuError::Silent { limit });
            }
        }
    }

    fn message(&mut self, command: &'static str) -> Result<Value, QemuError> {
        self.lines.answer()?;
        serde_json::from_slice(self.lines.line()).map_err(|e| QemuError::Monitor {
            command,
            reason: format!("its answer is not JSON: {e}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const GREETING: &str =
        "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 2, \"minor\": 0, \"major\": 10}}}}\n{\"return\": {}}\n";

    #[test]
    fn monitor_skips_events_and_reports_errors() {
        let (here, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(GREETING.as_bytes()).unwrap();
        let mut monitor = Monitor::new(here).unwrap();
        assert_eq!(monitor.version(), "10.0.2");
        peer.write_all(b"{\"event\": \"STOP\"}\r\n{\"return\": 5}\r\n").unwrap();
        assert_eq!(monitor.execute("stop", &json!({})).unwrap(), 5);
        peer.write_all(b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no console\"}}\n")
            .unwrap();
        let e = monitor.execute("screendump", &json!({})).unwrap_err().to_string();
        assert_eq!(e, "QEMU's monitor refused screendump: no console");
        peer.write_all(b"{\n").unwrap();
        let e = monitor.execute("stop", &json!({})).unwrap_err().to_string();
        assert!(e.contains("not JSON"), "{e}");
        drop(peer);
        assert!(monitor.execute("stop", &json!({})).is_err());
    }

    #[test]
    fn monitor_requires_the_qmp_greeting() {
        let (here, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(b"{\"hello\": 1}\n").unwrap();
        assert!(matches!(Monitor::new(here), Err(QemuError::Monitor { .. })));
    }
}
