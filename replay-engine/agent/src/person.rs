//! Asks the person at the agent's terminal whether two pairing codes are the same.

use replay_engine::serve::{ANSWER_LIMIT, PairingRequest, PairingWindow};
use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Shows a request and reads the answer from standard input; anything but `y` or `yes` declines, the end of input and
/// silence too.
#[must_use]
pub fn confirm(request: &PairingRequest) -> bool {
    let mut out = std::io::stdout().lock();
    let told = write!(
        out,
        "\nclient `{}` at {} wants to pair (its key is {})\npairing code: {}\nDoes the client show the same code? [y/N] ",
        request.name,
        request.peer,
        request.key.fingerprint(),
        request.code
    )
    .and_then(|()| out.flush());
    drop(out);
    // Whoever cannot see the code cannot confirm it.
    if told.is_err() {
        return false;
    }
    let Some(answer) = line(ANSWER_LIMIT) else {
        return false;
    };
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Lines of standard input as they come, from a thread that reads them for the whole program.
fn lines() -> &'static Mutex<Receiver<String>> {
    static LINES: OnceLock<Mutex<Receiver<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (to, lines) = channel();
        let read = move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        };
        // Without the thread nobody answers.
        let _ = thread::Builder::new().name("kinescope-terminal".into()).spawn(read);
        Mutex::new(lines)
    })
}

/// The next line, within `limit`; `None` at the end of input too. An answer that came too late for the question
/// before is not one to this question.
fn line(limit: Duration) -> Option<String> {
    static LATE: AtomicBool = AtomicBool::new(false);
    let lines = lines().lock().unwrap_or_else(PoisonError::into_inner);
    if LATE.swap(false, Ordering::SeqCst) {
        for _ in lines.try_iter() {}
    }
    let answer = lines.recv_timeout(limit);
    LATE.store(matches!(answer, Err(RecvTimeoutError::Timeout)), Ordering::SeqCst);
    answer.ok()
}

/// A pairing window that asks at the terminal. `done` hears of the end of each attempt.
#[must_use]
pub fn window(service_port: Option<u16>, done: Sender<Result<String, String>>) -> PairingWindow {
    PairingWindow::new(
        confirm,
        move |result| {
            // The program may have ended its wait: then nobody needs to know.
            let _ = done.send(result.clone());
        },
        service_port,
    )
}
