//! Errors of the GPU in the kernel log: faults and engine errors that nouveau reports, and `Xid` lines of NVIDIA's own
//! driver.

use super::scan::{LabelledWord, after, hex, labelled, leading_hex, number, number_after, process};
use nvidia_channel::rm::class_name;

/// Start of an error message of NVIDIA's driver.
pub(super) const XID: &str = "NVRM: Xid ";
/// Start of a message of nouveau about a device.
pub(super) const NOUVEAU: &str = "nouveau ";

/// Returns the part of the GPU that a message of nouveau is about, and the message: `fifo` and the text after it.
pub(super) fn split_nouveau(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix(NOUVEAU)?;
    // Until Linux 4.2: `nouveau E[   PFIFO][0000:01:00.0] text`.
    if let Some((_, rest)) = rest.split_once('[').filter(|(level, _)| level.len() == 1) {
        let (part, rest) = rest.split_once("][")?;
        let (device, message) = rest.split_once("] ")?;
        return is_pci_address(device).then_some((part.trim(), message));
    }
    let (device, rest) = rest.split_once(": ")?;
    if !is_pci_address(device) {
        return None;
    }
    // `fifo: text`, or `fifo:c00000:0017: text`.
    let (part, message) = rest.split_once(':')?;
    Some((part, message.trim_start()))
}

/// Whether a text has the form `0000:01:00.0`.
fn is_pci_address(text: &str) -> bool {
    let mut fields = text.split([':', '.']);
    let lengths: Vec<usize> = fields.by_ref().map(str::len).take(5).collect();
    lengths == [4, 2, 2, 1] && text.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
}

/// Describes the error that a message of the kernel log reports, or returns `None` if it reports none.
pub(super) fn describe_error(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix(XID) {
        return describe_xid(rest);
    }
    let (part, message) = split_nouveau(text)?;
    if let Some(fault) = describe_fault(message) {
        return Some(fault);
    }
    let is_error = match part {
        "fifo" => ["SCHED_ERROR", "CHSW_ERROR", "PBDMA"]
            .iter()
            .any(|e| message.starts_with(e)),
        "gr" => {
            ["DATA_ERROR", "ILLEGAL_", "TRAP", "DISPATCH ", "FE ", "FECS "]
                .iter()
                .any(|e| message.starts_with(e))
                || message.contains(" trap: ")
        }
        "bus" => message.starts_with("MMIO ") && message.contains("FAULT"),
        "gsp" => message.starts_with("xid:") || message.starts_with("rc "),
        _ => false,
    };
    is_error.then(|| {
        let class = labelled(message, "class ").and_then(|class| class_label(class.word));
        format!(
            "{part}: {message}{}",
            class.map(|c| format!(" ({c})")).unwrap_or_default()
        )
    })
}

/// Returns the name of a class that a message has as a hexadecimal number.
fn class_label(word: &str) -> Option<&'static str> {
    class_name(u32::try_from(leading_hex(word)?).ok()?)
}

/// Describes a fault of nouveau: `fault 00 [READ] at 1000 engine 40 [gr] ... on channel 2 [...]`.
fn describe_fault(message: &str) -> Option<String> {
    let (access, rest) = match message.strip_prefix("fault ") {
        Some(rest) => (labelled(message, "fault ")?.name(), rest),
        // Up to Linux 4.x: `read fault at 0x1000 engine ...`.
        None => message
            .split_once(" fault at ")
            .filter(|(access, _)| matches!(*access, "read" | "write"))?,
    };
    let address = match message.strip_prefix("fault ") {
        Some(_) => labelled(rest, "at ")?.word,
        None => rest.split_whitespace().next()?,
    };
    let mut text = format!("MMU fault: {} at {:#x}", access.to_uppercase(), hex(address)?);
    for (key, title) in [("engine ", "engine"), ("client ", "client"), ("reason ", "reason")] {
        if let Some(found) = labelled(rest, key) {
            text += &format!(", {title} {}", found.name());
        }
    }
    if let Some(channel) = labelled(rest, "channel ") {
        text += &describe_channel(channel);
    }
    Some(text)
}

/// Describes `23 [05fe930000 name[pid]]`.
fn describe_channel(channel: LabelledWord<'_>) -> String {
    let mut text = match channel.word.parse::<u32>() {
        Ok(number) => format!(", channel {number}"),
        Err(_) => ", no channel".to_owned(),
    };
    let owner = channel
        .label
        .and_then(|label| label.split_once(' '))
        .map(|(_, owner)| owner);
    match owner.map(|owner| (owner, process(owner))) {
        Some((_, Some((name, pid)))) => text += &format!(" of {name} (process {pid})"),
        Some((owner, None)) if owner != "unknown" => text += &format!(" of {owner}"),
        _ => {}
    }
    text
}

/// Describes an error of NVIDIA's driver: `(PCI:0000:01:00): 31, pid=7, name=x, ...`.
fn describe_xid(rest: &str) -> Option<String> {
    let (_, rest) = rest.strip_prefix('(')?.split_once("): ")?;
    let (code, rest) = rest.split_once(", ").unwrap_or((rest, ""));
    let code: u32 = code.trim().parse().ok()?;
    let mut message = rest;
    let mut owner = String::new();
    if let Some((pid, after_pid)) = rest.strip_prefix("pid=").and_then(|r| r.split_once(", ")) {
        message = after_pid;
        let name = after_pid.strip_prefix("name=").and_then(|r| r.split_once(", "));
        owner = match name {
            Some((name, after_name)) => {
                message = after_name;
                format!(" of {name} (process {pid})")
            }
            None => format!(" of process {pid}"),
        };
    }
    if let Some(fault) = after(message, "MMU Fault: ") {
        return Some(format!(
            "Xid {code}, MMU fault: {}",
            describe_xid_fault(fault, message, &owner)
        ));
    }
    let class = labelled(message, "Class ").and_then(|class| class_label(class.word));
    let class = class.map(|c| format!(" ({c})")).unwrap_or_default();
    let owner = if owner.is_empty() {
        owner
    } else {
        format!(", channel{owner}")
    };
    Some(format!("Xid {code}: {message}{class}{owner}"))
}

/// Describes `ENGINE GRAPHICS GPC1 CLIENT faulted @ 0x7f_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_READ`.
fn describe_xid_fault(fault: &str, message: &str, owner: &str) -> String {
    let mut parts = Vec::new();
    if let Some((unit, rest)) = fault.split_once(" faulted @ ") {
        let end = rest.find(". ").unwrap_or(rest.len());
        let address = rest.get(..end).unwrap_or_default().replace('_', "");
        let kind = after(rest, "Fault is of type ").unwrap_or_default();
        let (reason, access) = kind.split_once(' ').unwrap_or((kind, ""));
        let access = access.strip_prefix("ACCESS_TYPE_").unwrap_or(access);
        match hex(&address) {
            Some(address) => parts.push(format!("{access} at {address:#x}").trim_start().to_owned()),
            None => parts.push(format!("{access} at {address}").trim_start().to_owned()),
        }
        let unit = unit.strip_prefix("ENGINE ").unwrap_or(unit);
        let (engine, client) = unit.split_once(' ').unwrap_or((unit, ""));
        parts.push(format!("engine {engine}"));
        if !client.is_empty() {
            parts.push(format!("client {client}"));
        }
        if !reason.is_empty() {
            parts.push(format!("reason {}", reason.strip_prefix("FAULT_").unwrap_or(reason)));
        }
    } else {
        parts.push(fault.to_owned());
    }
    let channel = number_after(message, "channel ").or_else(|| number_after(message, "Ch "));
    match channel {
        Some(channel) => parts.push(format!("channel {channel:#x}{owner}")),
        None if !owner.is_empty() => parts.push(format!("channel{owner}")),
        None => {}
    }
    parts.join(", ")
}

/// Returns the version of NVIDIA's driver in the message that it prints when it is loaded.
pub(super) fn driver_version(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("NVRM: loading NVIDIA UNIX ")?;
    let is_version = |word: &&str| word.contains('.') && number(word).is_some();
    rest.split_whitespace().find(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_channel_engine_address_reason_and_process() {
        for (line, expected) in [
            (
                "nouveau 0000:01:00.0: fifo: fault 01 [WRITE] at 0000000012345000 engine 00 [gr] client 0f [GPC0/PROP] \
                 reason 02 [PTE] on channel 4 [00fe123000 game[77]]",
                "MMU fault: WRITE at 0x12345000, engine gr, client GPC0/PROP, reason PTE, channel 4 of game (process 77)",
            ),
            (
                "nouveau 0000:01:00.0: fifo: fault 00 [READ] at 0000000000001000 engine 05 [BAR2] client 08 [] reason 02 \
                 [PDE] on channel -1 [007fd38000 unknown]",
                "MMU fault: READ at 0x1000, engine BAR2, client 08, reason PDE, no channel",
            ),
            (
                "nouveau 0000:01:00.0: fifo: write fault at 00012ab000 engine 07 [PFIFO] client 04 [BAR_WRITE] reason 02 \
                 [PAGE_NOT_PRESENT] on channel 2 [001fc91000 X[12]]",
                "MMU fault: WRITE at 0x12ab000, engine PFIFO, client BAR_WRITE, reason PAGE_NOT_PRESENT, channel 2 of X \
                 (process 12)",
            ),
            (
                "nouveau E[   PFIFO][0000:01:00.0] read fault at 0x0000020000 [PAGE_NOT_PRESENT] from PGRAPH/PE",
                "MMU fault: READ at 0x20000",
            ),
            (
                "nouveau 0000:01:00.0: gr: DATA_ERROR 0000009c [x] ch 3 [00bf9c2000 a[5]] subc 1 class c3c0 mthd 02b4 \
                 data 00000001",
                "gr: DATA_ERROR 0000009c [x] ch 3 [00bf9c2000 a[5]] subc 1 class c3c0 mthd 02b4 data 00000001 \
                 (VOLTA_COMPUTE_A)",
            ),
            (
                "nouveau 0000:01:00.0: gr: GPC0/TPC1/MP trap: global 00000004 [MULTIPLE_WARP_ERRORS] warp 0000 []",
                "gr: GPC0/TPC1/MP trap: global 00000004 [MULTIPLE_WARP_ERRORS] warp 0000 []",
            ),
            (
                "nouveau 0000:01:00.0: bus: MMIO read of 00000000 FAULT at 409800 [ TIMEOUT ]",
                "bus: MMIO read of 00000000 FAULT at 409800 [ TIMEOUT ]",
            ),
            (
                "nouveau 0000:01:00.0: fifo: SCHED_ERROR 0a [CTXSW_TIMEOUT]",
                "fifo: SCHED_ERROR 0a [CTXSW_TIMEOUT]",
            ),
            (
                "NVRM: Xid (PCI:0000:65:00): 31, pid=9, name=train, channel 0x00000010, intr 00000000. MMU Fault: ENGINE \
                 COPY2 HUBCLIENT_CE0 faulted @ 0x7a_12340000. Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_READ",
                "Xid 31, MMU fault: VIRT_READ at 0x7a12340000, engine COPY2, client HUBCLIENT_CE0, reason PTE, channel \
                 0x10 of train (process 9)",
            ),
            (
                "NVRM: Xid (PCI:0000:65:00): 13, pid=9, name=train, Graphics Exception: channel 0x00000003, Class \
                 0000c6c0, Offset 00000510, Data 00000001",
                "Xid 13: Graphics Exception: channel 0x00000003, Class 0000c6c0, Offset 00000510, Data 00000001 \
                 (AMPERE_COMPUTE_A), channel of train (process 9)",
            ),
            (
                "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.",
                "Xid 79: GPU has fallen off the bus.",
            ),
            ("NVRM: Xid (PCI:0000:65:00): 62", "Xid 62: "),
        ] {
            assert_eq!(describe_error(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_messages_are_no_errors() {
        for line in [
            "nouveau 0000:01:00.0: fifo: channel 1: killed",
            "nouveau 0000:01:00.0: fifo:c00000:0017:[a[5]] rc scheduled",
            "nouveau 0000:01:00.0: a[5]: channel 23 killed!",
            "nouveau 0000:01:00.0: DRM: VRAM: 2048 MiB",
            "nouveau 0000:01:00.0: fifo: fault",
            "nouveau 0000:01:00.0: fifo: fault 00 at nothing",
            "nouveau E[",
            "nouveau: kernel rejected pushbuf: x",
            "NVRM: Xid (PCI:0000:65:00",
            "NVRM: Xid (PCI): x, y",
            "NVRM: GPU at PCI:0000:65:00: GPU-0",
            "usb 1-1: fault",
            "",
        ] {
            assert_eq!(describe_error(line), None, "{line}");
        }
    }

    #[test]
    fn version_is_that_of_the_loaded_module() {
        let version = |module: &str| {
            let line = format!("NVRM: loading NVIDIA UNIX {module}  580.65.06  Release Build  (builder@host)");
            driver_version(&line).map(str::to_owned)
        };
        assert_eq!(version("x86_64 Kernel Module").as_deref(), Some("580.65.06"));
        assert_eq!(version("Open Kernel Module for x86_64").as_deref(), Some("580.65.06"));
    }
}
