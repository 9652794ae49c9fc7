//! Checks of the effects that a plan expects: at its check actions, and after its body.

use crate::device::{RegisterTarget, ReplayDeviceError};
use crate::plan::{Effect, EffectResult, Expectation, PlannedAccesses, short_digest};
use crate::run::OutputBuffer;
use replay_core::{Action, Actions};
use std::collections::HashMap;
use trace_core::PhysAddr;
use trace_core::recording::{Digest, ZERO_PAGE};
use trace_core::screen::Picture;

/// The results of the checks.
#[derive(Default)]
pub(super) struct EffectReport {
    /// The result of each effect, in the plan's order.
    pub seen: Vec<EffectResult>,
    /// Properties that the device can show but that have no expectation, one sentence each.
    pub unchecked: Vec<String>,
    /// The screen's picture.
    pub screen: Option<Picture>,
}

/// The result of one check.
#[derive(Clone, Debug)]
pub(super) struct EffectReading {
    /// The actual value, as a message.
    got: String,
    /// Whether it equals the expected value, or `None` if this device cannot check it.
    matched: Option<bool>,
    /// BLAKE3 of the actual contents.
    digest: Option<Digest>,
}

impl EffectReading {
    /// Returns the result for an effect that could not be checked, with the reason.
    fn none(why: String) -> Self {
        Self {
            got: why,
            matched: Some(false),
            digest: None,
        }
    }

    /// Compares the digest of bytes with the expected digest.
    fn digest(got: Digest, expected: &Digest) -> Self {
        Self {
            got: format!("BLAKE3 {}…", short_digest(&got)),
            matched: Some(got == *expected),
            digest: Some(got),
        }
    }
}

/// Bytes of a window that are read at a time, because a target has little memory.
const PIECE: usize = 64 << 10;

/// The data for checks other than the device.
pub(super) struct EffectContext<'a> {
    /// Number of interrupts that were waited for and occurred.
    pub interrupts: u64,
    /// Outputs, at the end.
    pub outputs: &'a [OutputBuffer],
}

/// How far the body of a plan ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// To its end.
    Complete,
    /// To a stop of the request.
    Stopped,
    /// To a failure.
    Failed,
}

/// Checks every effect of a plan that was not checked yet. If the body did not run to its end, nothing is checked. After
/// a failure no effect counts as present.
pub(super) fn check_effects(
    plan: PlannedAccesses<'_>,
    device: &mut dyn RegisterTarget,
    there: &EffectContext<'_>,
    end: BodyEnd,
    before: &HashMap<u32, EffectReading>,
) -> EffectReport {
    let mut looked = EffectReport::default();
    let screen = match end {
        BodyEnd::Complete => device.screen(),
        BodyEnd::Stopped | BodyEnd::Failed => Ok(None),
    };
    let checks: HashMap<u32, u64> = Actions::new(&plan.accesses.body)
        .filter_map(|a| match a {
            Ok(Action::Check { event, expectation }) => Some((expectation, u64::from(event))),
            _ => None,
        })
        .collect();
    for (number, e) in (0..).zip(&plan.accesses.expectations) {
        let EffectReading { got, matched, digest } = match (before.get(&number), &e.effect) {
            (Some(look), _) => look.clone(),
            _ if end == BodyEnd::Stopped => EffectReading {
                got: "not checked: the run was stopped before its end".to_owned(),
                matched: None,
                digest: None,
            },
            _ if end == BodyEnd::Failed => EffectReading::none("not checked: the run did not reach its end".to_owned()),
            (None, Effect::Screen { .. }) => check_screen(&e.effect, &screen),
            (None, effect) => check_effect(plan, effect, device, there),
        };
        looked.seen.push(EffectResult {
            kind: e.effect.name().to_owned(),
            source: e.source.clone(),
            expected: describe_expected(&e.effect),
            got,
            matched,
            event: checks.get(&number).copied(),
            digest,
        });
    }
    let of_screen = |e: &Expectation| matches!(e.effect, Effect::Screen { .. });
    looked.screen = screen.ok().flatten();
    if looked.screen.is_some() && !plan.accesses.expectations.iter().any(of_screen) {
        looked
            .unchecked
            .push("the screen was not checked: there is no expected picture".to_owned());
    }
    looked
}

/// Checks one effect now.
pub(super) fn check_effect(
    plan: PlannedAccesses<'_>,
    effect: &Effect,
    device: &mut dyn RegisterTarget,
    there: &EffectContext<'_>,
) -> EffectReading {
    let held = |read: Result<Digest, ReplayDeviceError>, expected: &Digest| match read {
        Ok(digest) => EffectReading::digest(digest, expected),
        Err(why) => EffectReading::none(format!("the bytes cannot be read: {why}")),
    };
    match effect {
        Effect::Screen { .. } => check_screen(effect, &device.screen()),
        Effect::Interrupts { count } => EffectReading {
            got: format!("{} came", there.interrupts),
            matched: Some(there.interrupts == *count),
            digest: None,
        },
        Effect::Window {
            number,
            offset,
            bytes,
            digest,
        } => held(window(device, *number, *offset, *bytes), digest),
        Effect::Memory { offset, bytes, digest } => {
            let from = plan.accesses.arena.base.get().saturating_add(*offset);
            held(memory(device, PhysAddr::new(from), *bytes), digest)
        }
        Effect::Output { name, digest } => match there.outputs.iter().find(|o| o.name == *name) {
            Some(o) => EffectReading::digest(o.blake3, digest),
            None => EffectReading::none("the run has no such output".to_owned()),
        },
    }
}

/// Returns BLAKE3 of bytes of a window.
fn window(device: &mut dyn RegisterTarget, number: u8, offset: u64, bytes: u64) -> Result<Digest, ReplayDeviceError> {
    let mut hash = blake3::Hasher::new();
    let mut piece = vec![0; PIECE];
    let mut done = 0;
    while done < bytes {
        let now = usize::try_from(bytes - done).map_or(PIECE, |left| left.min(PIECE));
        let piece = piece.get_mut(..now).unwrap_or_default();
        device.load_window(number, offset.saturating_add(done), piece)?;
        hash.update(piece);
        done += now as u64;
    }
    Ok(*hash.finalize().as_bytes())
}

/// Returns BLAKE3 of bytes of the arena, by their physical address.
fn memory(device: &mut dyn RegisterTarget, from: PhysAddr, bytes: u64) -> Result<Digest, ReplayDeviceError> {
    let mut hash = blake3::Hasher::new();
    pieces(device, from, bytes, |piece| {
        hash.update(piece);
    })?;
    Ok(*hash.finalize().as_bytes())
}

fn check_screen(effect: &Effect, screen: &Result<Option<Picture>, ReplayDeviceError>) -> EffectReading {
    match (effect, screen) {
        (Effect::Screen { width, height, rgb }, Ok(Some(p))) => {
            let got = blake3::hash(p.rgb());
            EffectReading {
                got: picture(p.width(), p.height(), got.as_bytes()),
                matched: Some(got.as_bytes() == rgb && (p.width(), p.height()) == (*width, *height)),
                digest: Some(*got.as_bytes()),
            }
        }
        (_, Err(why)) => EffectReading::none(format!("the screen cannot be read: {why}")),
        // The device may have this effect, but it cannot be read here. That does not count against the run.
        _ => EffectReading {
            got: "not checked: the screen of this device cannot be read".to_owned(),
            matched: None,
            digest: None,
        },
    }
}

/// Returns bytes of the arena, by their physical address.
pub(super) fn load(device: &mut dyn RegisterTarget, from: PhysAddr, bytes: u64) -> Result<Vec<u8>, ReplayDeviceError> {
    let mut out = Vec::new();
    pieces(device, from, bytes, |piece| out.extend_from_slice(piece))?;
    Ok(out)
}

/// Reads bytes of the arena page by page.
fn pieces(
    device: &mut dyn RegisterTarget,
    from: PhysAddr,
    bytes: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<(), ReplayDeviceError> {
    let mut page = ZERO_PAGE;
    let mut done = 0;
    while done < bytes {
        let at = from.saturating_add(done);
        device.load_page(at.frame(), &mut page)?;
        let rest = page.get(at.in_page()..).unwrap_or_default();
        let part = usize::try_from(bytes - done).map_or(rest.len(), |left| left.min(rest.len()));
        take(rest.get(..part).unwrap_or_default());
        done += part as u64;
    }
    Ok(())
}

fn picture(width: u32, height: u32, rgb: &[u8; 32]) -> String {
    format!("{width} by {height} pixels, BLAKE3 {}…", short_digest(rgb))
}

fn describe_expected(effect: &Effect) -> String {
    match effect {
        Effect::Screen { width, height, rgb } => picture(*width, *height, rgb),
        Effect::Interrupts { count } => format!("{count} to come"),
        Effect::Window {
            number,
            offset,
            bytes,
            digest,
        } => format!(
            "{bytes} bytes at {offset:#x} of MMIO region {number}, BLAKE3 {}…",
            short_digest(digest)
        ),
        Effect::Memory { offset, bytes, digest } => {
            format!(
                "{bytes} bytes at {offset:#x} of the arena, BLAKE3 {}…",
                short_digest(digest)
            )
        }
        Effect::Output { name, digest } => format!("`{name}`, BLAKE3 {}…", short_digest(digest)),
    }
}
