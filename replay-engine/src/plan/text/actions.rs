//! The action lines of a plan's text.

use super::lines::{Fields, TextError};
use replay_core::{Action, ReadClass};
use std::fmt::Write as _;

pub(super) fn print_action(action: &Action, out: &mut String) -> std::fmt::Result {
    match *action {
        Action::Write {
            event,
            space,
            offset,
            width,
            value,
        } => {
            writeln!(out, "{event} write {space} {offset:#x} {width} {value:#x}")
        }
        Action::WriteSlot {
            event,
            space,
            offset,
            width,
            slot,
        } => {
            writeln!(out, "{event} write-slot {space} {offset:#x} {width} slot {slot}")
        }
        Action::Read {
            event,
            space,
            offset,
            width,
            class,
            expected,
        } => {
            let (name, more) = match class {
                ReadClass::Equal => ("equal", String::new()),
                ReadClass::Masked(mask) => ("masked", format!(" mask {mask:#x}")),
                ReadClass::Before(mask) => ("before", format!(" mask {mask:#x}")),
                ReadClass::Any => ("any", String::new()),
                ReadClass::Feeds(slot) => ("feeds", format!(" slot {slot}")),
            };
            writeln!(out, "{event} {name} {space} {offset:#x} {width} {expected:#x}{more}")
        }
        Action::Until {
            event,
            reads,
            space,
            offset,
            width,
            mask,
            expected,
            limit_ns,
        } => writeln!(
            out,
            "{event} until {space} {offset:#x} {width} {expected:#x} mask {mask:#x} reads {reads} limit {limit_ns}"
        ),
        Action::WaitInterrupt { event, lines, limit_ns } => writeln!(out, "{event} wait {lines:#x} {limit_ns}"),
        Action::Put {
            event,
            offset,
            width,
            value,
        } => writeln!(out, "{event} put {offset:#x} {width} {value:#x}"),
        Action::Copy {
            event,
            offset,
            bytes,
            image,
        } => writeln!(out, "{event} copy {offset:#x} {bytes} image {image}"),
        Action::Check { event, expectation } => writeln!(out, "{event} check {expectation}"),
        Action::Pause { event, ns } => writeln!(out, "{event} pause {ns}"),
    }
}

/// The keywords of operations.
const OPERATIONS: [&str; 13] = [
    "write",
    "write-slot",
    "equal",
    "masked",
    "any",
    "feeds",
    "before",
    "until",
    "wait",
    "pause",
    "put",
    "copy",
    "check",
];

pub(super) fn parse_action(event: &str, f: &mut Fields<'_>) -> Result<Action, TextError> {
    let event: u32 = event
        .parse()
        .map_err(|_| f.error(format!("`{event}` is not an event")))?;
    let word = f.any("the operation")?;
    if !OPERATIONS.contains(&word.as_str()) {
        return Err(f.error(format!("`{word}` is not an operation")));
    }
    match word.as_str() {
        "wait" => {
            return Ok(Action::WaitInterrupt {
                event,
                lines: f.number("lines")?,
                limit_ns: f.number("limit")?,
            });
        }
        "put" => {
            return Ok(Action::Put {
                event,
                offset: f.offset("the offset")?,
                width: f.number("the width")?,
                value: f.address("the value")?,
            });
        }
        "copy" => {
            return Ok(Action::Copy {
                event,
                offset: f.offset("the offset")?,
                bytes: f.number("the bytes")?,
                image: f.named("image")?,
            });
        }
        "check" => {
            return Ok(Action::Check {
                event,
                expectation: f.number("the expectation")?,
            });
        }
        "pause" => {
            return Ok(Action::Pause {
                event,
                ns: f.number("nanoseconds")?,
            });
        }
        _ => {}
    }
    let space = f.number("the space")?;
    let offset = f.offset("the offset")?;
    let width = f.number("the width")?;
    if word == "write-slot" {
        return Ok(Action::WriteSlot {
            event,
            space,
            offset,
            width,
            slot: f.named("slot")?,
        });
    }
    let value = f.address("the value")?;
    let class = match word.as_str() {
        "write" => {
            return Ok(Action::Write {
                event,
                space,
                offset,
                width,
                value,
            });
        }
        "until" => {
            let mask = f.named("mask")?;
            let reads = f.named("reads")?;
            let limit_ns = f.named("limit")?;
            return Ok(Action::Until {
                event,
                reads,
                space,
                offset,
                width,
                mask,
                expected: value,
                limit_ns,
            });
        }
        "equal" => ReadClass::Equal,
        "any" => ReadClass::Any,
        "before" => ReadClass::Before(f.named("mask")?),
        "masked" => ReadClass::Masked(f.named("mask")?),
        "feeds" => ReadClass::Feeds(f.named("slot")?),
        other => return Err(f.error(format!("`{other}` is not an operation"))),
    };
    Ok(Action::Read {
        event,
        space,
        offset,
        width,
        class,
        expected: value,
    })
}
