//! Looks at the effects that a plan expects, once its body has run.

use super::Outcome;
use crate::device::Board;
use crate::plan::{Effect, EffectSeen, Expectation, Plan, short};
use trace_core::screen::Picture;

/// What was looked at.
#[derive(Default)]
pub(super) struct Looked {
    /// What became of each effect, in the plan's order.
    pub seen: Vec<EffectSeen>,
    /// What the device can show and nothing tells what it should, a sentence each.
    pub unchecked: Vec<String>,
    /// What the screen shows.
    pub screen: Option<Picture>,
}

/// Looks at every effect of a plan. `ran`: whether its body came to its end; otherwise nothing is looked at, and no
/// effect is there.
pub(super) fn look(plan: &Plan, board: &mut dyn Board, outcome: &Outcome, ran: bool) -> Looked {
    let mut looked = Looked::default();
    let screen = if ran { board.screen() } else { Ok(None) };
    for e in &plan.expectations {
        let (expected, got, matched) = match &e.effect {
            _ if !ran => (
                expected(&e.effect),
                "not looked at: the run did not come to its end".to_owned(),
                false,
            ),
            Effect::Screen { width, height, rgb } => match &screen {
                Ok(Some(p)) => {
                    let got = blake3::hash(p.rgb());
                    let same = got.as_bytes() == rgb && (p.width(), p.height()) == (*width, *height);
                    (
                        expected(&e.effect),
                        picture(p.width(), p.height(), got.as_bytes()),
                        same,
                    )
                }
                Ok(None) => (expected(&e.effect), "the device has no screen".to_owned(), false),
                Err(why) => (expected(&e.effect), format!("the screen cannot be read: {why}"), false),
            },
            Effect::Interrupts { count } => (
                expected(&e.effect),
                format!("{} came", outcome.interrupts),
                outcome.interrupts == *count,
            ),
            Effect::Window {
                number,
                offset,
                bytes,
                digest,
            } => {
                let mut data = vec![0; usize::try_from(*bytes).unwrap_or(0)];
                match board.load_window(*number, *offset, &mut data) {
                    Ok(()) => {
                        let got = *blake3::hash(&data).as_bytes();
                        (expected(&e.effect), format!("BLAKE3 {}…", short(&got)), got == *digest)
                    }
                    Err(why) => (expected(&e.effect), format!("they cannot be read: {why}"), false),
                }
            }
        };
        looked.seen.push(EffectSeen {
            kind: e.effect.name().to_owned(),
            source: e.source.clone(),
            expected,
            got,
            matched,
        });
    }
    let of_screen = |e: &Expectation| matches!(e.effect, Effect::Screen { .. });
    looked.screen = screen.ok().flatten();
    if looked.screen.is_some() && !plan.expectations.iter().any(of_screen) {
        looked
            .unchecked
            .push("what the screen shows was not checked: nothing tells what it should show".to_owned());
    }
    looked
}

fn picture(width: u32, height: u32, rgb: &[u8; 32]) -> String {
    format!("{width} by {height} pixels, BLAKE3 {}…", short(rgb))
}

fn expected(effect: &Effect) -> String {
    match effect {
        Effect::Screen { width, height, rgb } => picture(*width, *height, rgb),
        Effect::Interrupts { count } => format!("{count} to come"),
        Effect::Window {
            number,
            offset,
            bytes,
            digest,
        } => format!(
            "{bytes} bytes at {offset:#x} of window {number}, BLAKE3 {}…",
            short(digest)
        ),
    }
}
