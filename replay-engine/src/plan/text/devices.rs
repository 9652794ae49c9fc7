//! The device lines of a plan's text: bus identity, windows, expected effects; and the lines about the source
//! recording.

use super::content::Contents;
use super::lines::{Fields, TextError, quote};
use crate::device::Window;
use crate::plan::{Effect, Expectation, Plan, PlanBuffer};
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use trace_core::recording::SpaceKind;

const KINDS: [(SpaceKind, &str); 5] = [
    (SpaceKind::Registers, "registers"),
    (SpaceKind::Framebuffer, "framebuffer"),
    (SpaceKind::Ports, "ports"),
    (SpaceKind::Config, "configuration"),
    (SpaceKind::Memory, "memory"),
];

pub(super) fn print(plan: &Plan, out: &mut String) -> std::fmt::Result {
    // It always has a JSON form: string keys, numbers and strings.
    if let Some(mmio) = plan.mmio() {
        if let Ok(json) = serde_json::to_string(&mmio.hardware) {
            writeln!(out, "hardware {}", quote(&json))?;
        }
        if mmio.masters {
            writeln!(out, "bus-mastering")?;
        }
        for w in &mmio.windows {
            let kind = KINDS.iter().find(|(k, _)| *k == w.kind).map_or("", |(_, name)| name);
            writeln!(out, "window {} {} {kind} bytes {}", w.number, quote(&w.name), w.bytes)?;
        }
    }
    let Some(accesses) = plan.accesses() else {
        return Ok(());
    };
    let hex = |d| blake3::Hash::from_bytes(d).to_hex();
    for e in &accesses.expectations {
        write!(out, "expect {} ", e.effect.name())?;
        match &e.effect {
            Effect::Screen { width, height, rgb } => write!(out, "{width} {height} {}", hex(*rgb))?,
            Effect::Interrupts { count } => write!(out, "{count}")?,
            Effect::Window {
                number,
                offset,
                bytes,
                digest,
            } => write!(out, "{number} {offset:#x} {bytes} {}", hex(*digest))?,
            Effect::Memory { offset, bytes, digest } => write!(out, "{offset:#x} {bytes} {}", hex(*digest))?,
            Effect::Output { name, digest } => write!(out, "{} {}", quote(name), hex(*digest))?,
        }
        writeln!(out, " from {}", quote(&e.source))?;
    }
    if let Some(json) = accesses.origin.as_ref().and_then(|o| serde_json::to_string(o).ok()) {
        writeln!(out, "origin {}", quote(&json))?;
    }
    Ok(())
}

/// Parses a value that the text has as JSON in quotes.
pub(super) fn parse_json<T: DeserializeOwned>(what: &str, f: &mut Fields<'_>) -> Result<T, TextError> {
    let json = f.text(what)?;
    serde_json::from_str(&json).map_err(|e| f.error(format!("{what}: {e}")))
}

pub(super) fn parse_window(f: &mut Fields<'_>) -> Result<Window, TextError> {
    let number = f.number("the number")?;
    let name = f.text("the name")?;
    let word = f.any("the kind")?;
    let kind = KINDS.iter().find(|(_, name)| *name == word).map(|(k, _)| *k);
    let kind = kind.ok_or_else(|| f.error(format!("`{word}` is not a kind of window")))?;
    Ok(Window {
        number,
        name,
        kind,
        bytes: f.named("bytes")?,
    })
}

pub(super) fn parse_expectation(
    f: &mut Fields<'_>,
    outputs: &[PlanBuffer],
    contents: &Contents,
) -> Result<Expectation, TextError> {
    let effect = match f.any("the effect")?.as_str() {
        "screen" => Effect::Screen {
            width: f.number("the width")?,
            height: f.number("the height")?,
            rgb: contents.digest(f)?,
        },
        "interrupts" => Effect::Interrupts {
            count: f.number("the count")?,
        },
        "window" => {
            let (number, offset) = (f.number("the window")?, f.number("the offset")?);
            let bytes = f.number("the bytes")?;
            Effect::Window {
                number,
                offset,
                bytes,
                digest: contents.digest_of(f, bytes)?,
            }
        }
        "memory" => {
            let (offset, bytes) = (f.offset("the offset")?, f.number("the bytes")?);
            Effect::Memory {
                offset,
                bytes,
                digest: contents.digest_of(f, bytes)?,
            }
        }
        "output" => {
            let name = f.text("the name")?;
            let bytes = outputs.iter().find(|o| o.name == name).map_or(0, |o| o.bytes);
            Effect::Output {
                name,
                digest: contents.digest_of(f, bytes)?,
            }
        }
        other => return Err(f.error(format!("`{other}` is not an effect"))),
    };
    f.word("from")?;
    Ok(Expectation {
        effect,
        source: f.text("the source")?,
    })
}
