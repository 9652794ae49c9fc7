//! Looks at the effects that a plan expects: at its checks, and once its body has run.

use crate::device::{Board, BoardError};
use crate::plan::{Effect, EffectSeen, Expectation, Plan, short};
use crate::run::OutputBuffer;
use replay_core::{Action, Actions};
use std::collections::HashMap;
use trace_core::recording::{Page, ZERO_PAGE};
use trace_core::screen::Picture;
use trace_core::{PAGE_SIZE, PhysAddr};

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

/// What a look gives: what was there, in words, and whether it is what was expected.
pub(super) type Look = (String, bool);

/// What there is to look at, beside the device.
pub(super) struct There<'a> {
    /// Interrupts that were waited for and came.
    pub interrupts: u64,
    /// Outputs, at the end.
    pub outputs: &'a [OutputBuffer],
}

/// Looks at every effect of a plan that was not looked at by then. `ran`: whether its body came to its end; otherwise
/// nothing is looked at, and no effect is there.
pub(super) fn look(
    plan: &Plan,
    board: &mut dyn Board,
    there: &There<'_>,
    ran: bool,
    before: &HashMap<u32, Look>,
) -> Looked {
    let mut looked = Looked::default();
    let screen = if ran { board.screen() } else { Ok(None) };
    let checks: HashMap<u32, u64> = Actions::new(&plan.body)
        .filter_map(|a| match a {
            Ok(Action::Check { event, expectation }) => Some((expectation, u64::from(event))),
            _ => None,
        })
        .collect();
    for (number, e) in (0..).zip(&plan.expectations) {
        let (got, matched) = match (before.get(&number), &e.effect) {
            (Some(look), _) => look.clone(),
            _ if !ran => ("not looked at: the run did not come to its end".to_owned(), false),
            (None, Effect::Screen { .. }) => shown(&e.effect, &screen),
            (None, effect) => at(plan, effect, board, there),
        };
        looked.seen.push(EffectSeen {
            kind: e.effect.name().to_owned(),
            source: e.source.clone(),
            expected: expected(&e.effect),
            got,
            matched,
            event: checks.get(&number).copied(),
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

/// Looks at one effect now.
pub(super) fn at(plan: &Plan, effect: &Effect, board: &mut dyn Board, there: &There<'_>) -> Look {
    let digested = |read: Result<Vec<u8>, BoardError>, digest: &[u8; 32]| match read {
        Ok(data) => {
            let got = *blake3::hash(&data).as_bytes();
            (format!("BLAKE3 {}…", short(&got)), got == *digest)
        }
        Err(why) => (format!("they cannot be read: {why}"), false),
    };
    match effect {
        Effect::Screen { .. } => shown(effect, &board.screen()),
        Effect::Interrupts { count } => (format!("{} came", there.interrupts), there.interrupts == *count),
        Effect::Window {
            number,
            offset,
            bytes,
            digest,
        } => {
            let mut data = vec![0; usize::try_from(*bytes).unwrap_or(0)];
            let read = board.load_window(*number, *offset, &mut data).map(|()| data);
            digested(read, digest)
        }
        Effect::Memory { offset, bytes, digest } => {
            let read = load(board, plan.arena.base.0.saturating_add(*offset), *bytes);
            digested(read, digest)
        }
        Effect::Output { name, digest } => match there.outputs.iter().find(|o| o.name == *name) {
            Some(o) => (format!("BLAKE3 {}…", short(&o.blake3)), o.blake3 == *digest),
            None => ("the run left no such output".to_owned(), false),
        },
    }
}

fn shown(effect: &Effect, screen: &Result<Option<Picture>, BoardError>) -> Look {
    match (effect, screen) {
        (Effect::Screen { width, height, rgb }, Ok(Some(p))) => {
            let got = blake3::hash(p.rgb());
            let same = got.as_bytes() == rgb && (p.width(), p.height()) == (*width, *height);
            (picture(p.width(), p.height(), got.as_bytes()), same)
        }
        (_, Err(why)) => (format!("the screen cannot be read: {why}"), false),
        _ => ("the device has no screen".to_owned(), false),
    }
}

/// Bytes of the arena, by their physical address.
pub(super) fn load(board: &mut dyn Board, from: u64, bytes: u64) -> Result<Vec<u8>, BoardError> {
    let size = usize::try_from(bytes).unwrap_or(0);
    let (mut out, mut page): (Vec<u8>, Page) = (Vec::new(), ZERO_PAGE);
    while out.len() < size {
        let at = PhysAddr(from.saturating_add(out.len() as u64));
        board.load_page(at.frame(), &mut page)?;
        let part = (PAGE_SIZE - at.in_page()).min(size - out.len());
        out.extend(page.iter().skip(at.in_page()).take(part));
    }
    Ok(out)
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
        Effect::Memory { offset, bytes, digest } => {
            format!("{bytes} bytes at {offset:#x} of the arena, BLAKE3 {}…", short(digest))
        }
        Effect::Output { name, digest } => format!("`{name}`, BLAKE3 {}…", short(digest)),
    }
}
