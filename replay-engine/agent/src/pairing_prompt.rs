//! Terminal prompt that asks the user at the agent whether two pairing codes match.

use crate::print_line;
use replay_engine::question::{Answer, ask};
use replay_engine::serve::{ANSWER_LIMIT, PairingRequest, PairingWindow};
use replay_engine::wire::NamedKey;
use std::io::Write as _;
use std::sync::mpsc::Sender;

/// Shows a request and reads the answer from standard input. Any answer except `y` or `yes` declines; so do end of
/// input and no answer within the time limit.
#[must_use]
pub fn confirm_pairing(request: &PairingRequest) -> bool {
    let show = || {
        let mut out = std::io::stdout().lock();
        out.write_all(format_prompt(request).as_bytes())?;
        out.flush()
    };
    // A user who cannot see the code cannot confirm it.
    let answer = ask(show, ANSWER_LIMIT, || request.is_withdrawn()).unwrap_or(Answer::Ended);
    // The prompt has no newline yet. A write error is ignored: nobody reads this terminal then.
    let _ = match answer {
        Answer::Yes | Answer::No => Ok(()),
        Answer::Late | Answer::Withdrawn => print_line(""),
        Answer::Ended => print_line(&format!(
            "\ncannot ask: standard input has no answer. To pair without a question: --accept {}",
            request.key.fingerprint()
        )),
    };
    answer == Answer::Yes
}

/// Formats the question for the user.
fn format_prompt(request: &PairingRequest) -> String {
    let PairingRequest {
        code,
        name,
        kept_as,
        known_as,
        peer,
        ..
    } = request;
    let key = request.key.fingerprint();
    let mut text = format!("\nclient `{name}` at {peer} wants to pair (its key is {key})\n");
    if kept_as != name {
        text += &format!("the name `{name}` belongs to another client: this one would be stored as `{kept_as}`\n");
    }
    match known_as {
        Some(known) if known == kept_as => text += &format!("this key is paired already, as `{known}`\n"),
        Some(known) => {
            text += &format!("this key is paired already, as `{known}`: it would be stored as `{kept_as}` instead\n")
        }
        None => {}
    }
    text + &format!("pairing code: {code}\nDoes the client show the same code? [y/N] ")
}

/// Returns a pairing window that asks at the terminal, or accepts the client with one given key without asking. `done`
/// receives the result of each attempt.
#[must_use]
pub fn pairing_window(
    service_port: Option<u16>,
    accept: Option<&NamedKey>,
    done: Sender<Result<String, String>>,
) -> PairingWindow {
    let finished = move |result: &Result<String, String>| {
        // The program may have stopped waiting; then nobody needs the result.
        let _ = done.send(result.clone());
    };
    match accept {
        Some(key) => PairingWindow::accepting(key.clone(), finished, service_port),
        None => PairingWindow::new(confirm_pairing, finished, service_port),
    }
}
