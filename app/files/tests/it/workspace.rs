//! Tests of damaged workspace files, which anybody can edit: each is read or refused without a panic.
//!
//! The fuzz target `workspace` checks the same for longer. Here the mutations come from a fixed seed, the same in every
//! run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and report in these ways"
)]

use kinescope_files::workspace::{Workspace, WorkspaceError};

fn parse(text: &str) -> Result<Workspace, WorkspaceError> {
    Workspace::parse(text, &|id| ["timeline", "events", "jobs", "memory"].contains(&id))
}

/// A small generator of numbers (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

const SOUND: &str = r#"
version = 1
moment = 95
filter = "job = 1 and not poll"
board = "software:mali-g71"
view = [10.0, 90.5]
keep_gaps = true
calls = { graph = true, no_restore = true }
outline = { shown = false, width = 200.0 }
inspector = { shown = true }
torn = [{ panel = "memory", at = [-40.0, 12.5], size = [720.0, 460.0] }]

[dock]
kind = "column"
shares = [0.6, 0.4]

[[dock.children]]
kind = "panel"
id = "timeline"

[[dock.children]]
kind = "tabs"
active = 1
children = [{ kind = "panel", id = "events" }, { kind = "panel", id = "jobs" }]
"#;

const PIECES: &[&str] = &[
    "=",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "\"",
    "'",
    "\n",
    "-1",
    "1e309",
    "nan",
    "18446744073709551616",
    "kind",
    "panel",
    "\0",
    "é",
];

#[test]
fn a_damaged_workspace_is_read_or_refused() {
    let sound = parse(SOUND).unwrap().text();
    assert_eq!(parse(&sound).unwrap().text(), sound, "a written workspace reads back");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let mut text: Vec<char> = sound.chars().collect();
        for _ in 0..=random.below(6) {
            let at = random.below(text.len());
            match random.below(4) {
                0 => text.truncate(at),
                1 => {
                    let end = (at + random.below(40)).min(text.len());
                    text.drain(at..end);
                }
                2 => {
                    let from = random.below(text.len());
                    let copy: Vec<char> = text[from..(from + 60).min(text.len())].to_vec();
                    text.splice(at..at, copy);
                }
                _ => {
                    text.splice(at..at, PIECES[random.below(PIECES.len())].chars());
                }
            }
            if text.is_empty() {
                break;
            }
        }
        match parse(&text.into_iter().collect::<String>()) {
            Ok(w) => {
                read += 1;
                assert!(
                    parse(&w.text()).is_ok(),
                    "a parsed workspace can be written and read again"
                );
            }
            Err(e) => {
                refused += 1;
                assert!(!e.to_string().is_empty());
            }
        }
    }
    assert!(
        read > 10 && refused > 1_000,
        "{read} read, {refused} refused: the mutations are too tame or too wild"
    );
}

#[test]
fn unbounded_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let deep = format!("version = {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&deep).is_err());
    }
    assert!(parse(&"#".repeat(2 << 20)).is_err(), "a long file is refused");
}
