//! Asks the person at the agent's terminal whether two pairing codes are the same.

use replay_engine::serve::{PairingRequest, PairingWindow};
use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::Sender;

/// Shows a request and reads the answer from standard input; anything but `y` or `yes` declines, the end of input too.
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
    let mut answer = String::new();
    if std::io::stdin().lock().read_line(&mut answer).is_err() {
        return false;
    }
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
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
