//! The threads of a connection: one reads frames and answers heartbeats, one (on the agent) sends heartbeats.

use super::channel::{HEARTBEAT, Receiver, Sender, WireError};
use super::frame::{Frame, Topic};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of queued frames. If the queue is full, the other end has to wait.
pub const WAITING_FRAMES: usize = 8;
const ASK: u8 = 0;
const ANSWER: u8 = 1;

/// A message from a connection's reading thread.
#[derive(Debug)]
pub enum ReaderMessage {
    /// A frame other than a heartbeat.
    Frame(Frame),
    /// The connection has ended. This is the last message.
    Ended(WireError),
}

/// Starts the reading thread. It ends with the connection, or when its receiver is dropped.
///
/// # Errors
/// If the operating system cannot start a thread.
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
                    // The receiver is gone, so the message can be lost.
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

/// Starts the thread that sends a heartbeat every [`HEARTBEAT`]. It ends with the connection.
///
/// # Errors
/// If the operating system cannot start a thread.
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
