//! The end of a live program: its last message, its recordings, and the end of its connection.

use super::session::{Session, SessionEnd, TICK};
use super::wasm::format_for_log;
use crate::live::{LiveEnd, MAX_RECORDING_BYTES, MAX_RECORDINGS, MAX_REPORT_BYTES, is_valid_recording_name};
use crate::wire::live_message::LiveReply;
use crate::wire::{BULK, Topic, WRITE_LIMIT, WireError};
use std::fs::File;
use std::io::Read as _;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for a client to close its connection after the last message.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// How a monitored program ended.
pub(super) enum ProgramEnd {
    /// The client said so, and the worker ended in order.
    Finished(LiveEnd),
    /// The agent or the worker ended it, with the reason for the client.
    Failed(String),
    /// The client is gone, or broke the protocol.
    Quit(SessionEnd),
    /// The client's key was removed.
    Forgotten,
}

/// A recording that is ready to be sent.
struct OpenRecording {
    name: String,
    bytes: u64,
    file: File,
}

impl Session {
    /// Waits until the client has closed the connection. A socket that is closed with unread frames in it would make
    /// the system drop what the client has not received.
    pub(super) fn await_close(&self) {
        let by = Instant::now() + CLOSE_LIMIT;
        while Instant::now() < by && !self.sender.has_ended() && !self.is_forgotten() {
            // What the client sent before it knew of the end has no meaning any more.
            let _ = self.events.recv_timeout(TICK);
        }
    }

    /// Sends the last message about a program. A client that takes nothing for [`WRITE_LIMIT`] loses its connection: the
    /// worker's last frame may be before the message.
    fn reply_end(&self, reply: &LiveReply) -> Result<(), SessionEnd> {
        self.calls.set_write_limit(WRITE_LIMIT);
        let (sent, is_sent) = sync_channel::<()>(1);
        let sender = self.sender.clone();
        let watch = move || {
            if is_sent.recv_timeout(WRITE_LIMIT) == Err(RecvTimeoutError::Timeout) {
                sender.close();
            }
        };
        let thread = thread::Builder::new().name("kinescope-last".into());
        thread.spawn(watch).map_err(WireError::from)?;
        let replied = self.reply_live(reply);
        drop(sent);
        replied
    }

    /// Sends the end of a program with its recordings. Returns why the session ends.
    pub(super) fn end_live(&self, end: ProgramEnd) -> SessionEnd {
        let sent = match end {
            ProgramEnd::Finished(end) => self.send_end(end),
            ProgramEnd::Failed(why) => self.reply_end(&LiveReply::Ended {
                error: Some(why),
                report: Vec::new(),
                recordings: Vec::new(),
            }),
            ProgramEnd::Quit(quit) => Err(quit),
            ProgramEnd::Forgotten => self.still_known(),
        };
        sent.err().unwrap_or(SessionEnd(WireError::Closed))
    }

    fn send_end(&self, end: LiveEnd) -> Result<(), SessionEnd> {
        let LiveEnd {
            mut error,
            mut report,
            recordings,
        } = end;
        let mut note = |text: String| {
            tracing::warn!("live program of client {}: {}", self.name, format_for_log(&text));
            error.get_or_insert(text);
        };
        if report.len() > MAX_REPORT_BYTES {
            note(format!(
                "the worker's report has {} bytes, {MAX_REPORT_BYTES} are allowed; it is lost",
                report.len()
            ));
            report.clear();
        }
        if recordings.len() > MAX_RECORDINGS {
            note(format!(
                "the worker has {} recordings, {MAX_RECORDINGS} are sent",
                recordings.len()
            ));
        }
        let mut open = Vec::new();
        let mut total = 0u64;
        for recording in recordings.into_iter().take(MAX_RECORDINGS) {
            let name = recording.name;
            if !is_valid_recording_name(&name) {
                note(format!("a recording has a name that clients do not accept: {name}"));
                continue;
            }
            let opened = File::open(&recording.path).and_then(|file| Ok((file.metadata()?.len(), file)));
            match opened {
                Ok((bytes, file)) if total.saturating_add(bytes) <= MAX_RECORDING_BYTES => {
                    total = total.saturating_add(bytes);
                    open.push(OpenRecording { name, bytes, file });
                }
                Ok(_) => note(format!(
                    "the recording {name} exceeds the {} GiB that are sent",
                    MAX_RECORDING_BYTES >> 30
                )),
                Err(e) => note(format!("the recording {name} cannot be read: {e}")),
            }
        }
        self.reply_end(&LiveReply::Ended {
            error,
            report,
            recordings: open.iter().map(|r| (r.name.clone(), r.bytes)).collect(),
        })?;
        open.into_iter()
            .try_for_each(|recording| self.send_recording(recording))
    }

    /// Sends the announced bytes of a recording. A file that has become shorter ends the connection.
    fn send_recording(&self, recording: OpenRecording) -> Result<(), SessionEnd> {
        let OpenRecording { bytes, mut file, name } = recording;
        let mut part = vec![0; BULK];
        let mut rest = bytes;
        while rest > 0 {
            self.still_known()?;
            let length = usize::try_from(rest).unwrap_or(BULK).min(BULK);
            let part = part.get_mut(..length).unwrap_or_default();
            if let Err(e) = file.read_exact(part) {
                let why = format!("the recording {name} changed while it was sent: {e}");
                return Err(SessionEnd(WireError::Io(why)));
            }
            self.sender.send_bytes(Topic::Bulk, part)?;
            rest -= length as u64;
        }
        Ok(())
    }
}

/// Describes the end of a program for the log.
pub(super) fn describe_end(end: &ProgramEnd) -> String {
    match end {
        ProgramEnd::Finished(LiveEnd { error: None, .. }) => "finished".to_owned(),
        ProgramEnd::Finished(LiveEnd { error: Some(why), .. }) => format!("finished with an error, {why}"),
        ProgramEnd::Failed(why) => format!("failed, {why}"),
        ProgramEnd::Quit(quit) => format!("the connection ended, {}", quit.0),
        ProgramEnd::Forgotten => "the client's key was forgotten".to_owned(),
    }
}
