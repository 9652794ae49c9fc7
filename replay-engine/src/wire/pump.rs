//! The threads of a connection: one reads frames and answers heartbeats, one (on the agent) asks whether the client lives.

use super::channel::{HEARTBEAT, Receiver, Sender, WireError};
use super::frame::{Frame, Topic};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

/// Frames that may wait to be worked on; then the other end has to wait.
pub const WAITING_FRAMES: usize = 8;
const ASK: u8 = 0;
const ANSWER: u8 = 1;

/// What a connection's reader brings.
#[derive(Debug)]
pub enum ReaderMessage {
    /// A frame that is no heartbeat.
    Frame(Frame),
    /// The connection is over; nothing comes after this.
    Ended(WireError),
}

/// Starts the reading thread. It ends with the connection, or when nobody takes what it brings.
///
/// # Errors
/// When the operating system gives no thread.
pub fn start_reader<T: Send + 'static>(
    mut receiver: Receiver,
    sender: Sender,
    to: SyncSender<T>,
    wrap: fn(ReaderMessage) -> T,
) -> Result<(), WireError> {
    let work = move || {
        loop {
            match receiver.receive() {
                Ok(Frame {
                    concern: Topic::Heartbeat,
                    payload,
                }) => {
                    // A failed answer shows as the end of the connection at the next read.
                    if payload == [ASK] && sender.send_bytes(Topic::Heartbeat, &[ANSWER]).is_err() {
                        sender.close();
                    }
                }
                Ok(frame) => {
                    if to.send(wrap(ReaderMessage::Frame(frame))).is_err() {
                        break;
                    }
                }
                Err(e) => {
                    sender.close();
                    // Nobody listens any more: nothing to tell.
                    let _ = to.send(wrap(ReaderMessage::Ended(e)));
                    break;
                }
            }
        }
    };
    thread::Builder::new()
        .name("kinescope-read".into())
        .spawn(work)
        .map(drop)
        .map_err(WireError::from)
}

/// Starts the thread that asks the other end every [`HEARTBEAT`] whether it lives; it ends with the connection.
///
/// # Errors
/// When the operating system gives no thread.
pub fn start_heartbeat(sender: Sender, open: impl Fn() -> bool + Send + 'static) -> Result<(), WireError> {
    let work = move || {
        let mut last = Instant::now();
        while open() {
            thread::sleep(Duration::from_millis(100));
            if last.elapsed() >= HEARTBEAT {
                last = Instant::now();
                if sender.send_bytes(Topic::Heartbeat, &[ASK]).is_err() {
                    sender.close();
                    break;
                }
            }
        }
    };
    thread::Builder::new()
        .name("kinescope-beat".into())
        .spawn(work)
        .map(drop)
        .map_err(WireError::from)
}
