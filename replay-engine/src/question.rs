//! Questions to the user at standard input. Input typed before the question does not count as an answer.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a question checks whether it was withdrawn.
const TICK: Duration = Duration::from_millis(50);
/// Maximum length of an answer, bytes.
const MAX_ANSWER: usize = 4096;
/// Bytes and time after which earlier input is treated as endless.
const MAX_EARLIER: usize = 1 << 20;
const MAX_DISCARD: Duration = Duration::from_secs(1);

/// The result of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `y` or `yes`.
    Yes,
    /// Anything else.
    No,
    /// There was no answer in time.
    Late,
    /// The question was withdrawn.
    Withdrawn,
    /// No answer is possible: the input has ended, or never ends.
    Ended,
}

/// Shows a question with `show`, and waits for its answer, a line at standard input, for at most `limit`. Earlier input
/// is discarded first, so that it cannot answer a question that no user has seen. Questions are asked one at a time:
/// the limit starts when the question is shown.
///
/// # Errors
/// If `show` fails, or standard input cannot be read.
pub fn ask(show: impl FnOnce() -> io::Result<()>, limit: Duration, withdrawn: impl Fn() -> bool) -> io::Result<Answer> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let input = io::stdin();
    if input.is_terminal() {
        flush_terminal(input.as_fd());
    }
    ask_at(input.as_fd(), show, limit, withdrawn)
}

fn ask_at(
    input: BorrowedFd<'_>,
    show: impl FnOnce() -> io::Result<()>,
    limit: Duration,
    withdrawn: impl Fn() -> bool,
) -> io::Result<Answer> {
    if withdrawn() {
        return Ok(Answer::Withdrawn);
    }
    let can_answer = discard(input)?;
    show()?;
    if !can_answer {
        return Ok(Answer::Ended);
    }
    let by = Instant::now() + limit;
    let mut line = Vec::new();
    loop {
        if withdrawn() {
            return Ok(Answer::Withdrawn);
        }
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Answer::Late);
        }
        if !is_readable(input, left.min(TICK))? {
            continue;
        }
        let mut bytes = [0; 256];
        let n = read(input, &mut bytes)?;
        let new = bytes.get(..n).unwrap_or_default();
        line.extend(new.iter().take_while(|b| **b != b'\n'));
        if new.contains(&b'\n') || line.len() > MAX_ANSWER {
            return Ok(meaning(&line));
        }
        if n == 0 {
            return Ok(if line.is_empty() { Answer::Ended } else { meaning(&line) });
        }
    }
}

fn meaning(line: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(line);
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        _ => Answer::No,
    }
}

/// Discards all input that is available. Returns `false` if no answer is possible, because the input has ended or does
/// not end.
fn discard(input: BorrowedFd<'_>) -> io::Result<bool> {
    let begin = Instant::now();
    let mut earlier = 0;
    let mut bytes = [0; 4096];
    while is_readable(input, Duration::ZERO)? {
        match read(input, &mut bytes)? {
            0 => return Ok(false),
            n => earlier += n,
        }
        if earlier > MAX_EARLIER || begin.elapsed() > MAX_DISCARD {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_readable(input: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    let wait = Timespec {
        tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    let mut ends = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut ends, Some(&wait)) {
        // This includes its end and an error: the read then reports it.
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn read(input: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(input, &mut *bytes) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Discards terminal input, including an incomplete line, which is not readable before its end is typed.
#[allow(unsafe_code, reason = "a call of the C library that takes two numbers")]
fn flush_terminal(terminal: BorrowedFd<'_>) {
    // SAFETY: the descriptor is open while it is borrowed, and no memory is passed.
    let done = unsafe { libc::tcflush(terminal.as_raw_fd(), libc::TCIFLUSH) };
    if done != 0 {
        // Complete lines are still read and discarded.
        tracing::debug!("input typed ahead stays: {}", io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    /// A limit that ends only a hung test.
    const LONG: Duration = Duration::from_secs(120);

    /// Asks a question at one end of a socket pair, after writing `early` to the other end. Once the question waits,
    /// the test writes `late`, or closes the socket if it is `None`.
    fn put(early: &[u8], late: Option<&[u8]>) -> Answer {
        let (input, mut person) = UnixStream::pair().unwrap();
        person.write_all(early).unwrap();
        let person = RefCell::new(Some(person));
        let (shown, checks) = (Cell::new(false), Cell::new(0));
        let show = || {
            shown.set(true);
            Ok(())
        };
        let withdrawn = || {
            checks.set(checks.get() + 1);
            // The first check is before the question. The second check is before the first wait.
            if checks.get() == 3 {
                assert!(shown.get());
                match late {
                    Some(late) => person.borrow_mut().as_mut().unwrap().write_all(late).unwrap(),
                    None => drop(person.take()),
                }
            }
            false
        };
        ask_at(input.as_fd(), show, LONG, withdrawn).unwrap()
    }

    #[test]
    fn input_typed_before_a_prompt_is_ignored() {
        for early in [&b""[..], b"y\n", b"y\ny\nyes\n", b"y"] {
            assert_eq!(put(early, Some(b"n\n")), Answer::No);
            assert_eq!(put(early, Some(b"\n")), Answer::No);
            assert_eq!(put(early, Some(b" Yes \ny\n")), Answer::Yes);
            assert_eq!(put(early, None), Answer::Ended);
        }
        assert_eq!(put(b"", Some(b"yesterday\n")), Answer::No);
    }

    #[test]
    fn ended_or_endless_input_gives_no_answer() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("answers");
        std::fs::write(&file, "y\ny\n").unwrap();
        for path in [file.as_path(), "/dev/null".as_ref(), "/dev/zero".as_ref()] {
            let input = std::fs::File::open(path).unwrap();
            let answer = ask_at(input.as_fd(), || Ok(()), LONG, || false).unwrap();
            assert_eq!(answer, Answer::Ended, "{}", path.display());
        }
    }

    #[test]
    fn question_ends_on_timeout_or_withdrawal() {
        let (input, _person) = UnixStream::pair().unwrap();
        let short = Duration::from_millis(200);
        assert_eq!(ask_at(input.as_fd(), || Ok(()), short, || false).unwrap(), Answer::Late);
        let checks = Cell::new(0);
        let is_withdrawn = || {
            checks.set(checks.get() + 1);
            checks.get() == 4
        };
        assert_eq!(
            ask_at(input.as_fd(), || Ok(()), LONG, is_withdrawn).unwrap(),
            Answer::Withdrawn
        );
        assert_eq!(checks.get(), 4);
        // A question that is already withdrawn is not shown.
        let shown = ask_at(input.as_fd(), || panic!("shown"), LONG, || true);
        assert_eq!(shown.unwrap(), Answer::Withdrawn);
    }
}
