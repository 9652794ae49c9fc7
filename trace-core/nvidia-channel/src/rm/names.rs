//! Names of classes, control commands and status codes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static CLASSES: LazyLock<BTreeMap<u32, &'static str>> = LazyLock::new(|| {
    let lines = include_str!("../../../../assets/registers/nvidia/classes.txt").lines();
    lines.filter_map(parse_line).collect()
});

static STATUSES: LazyLock<BTreeMap<u32, Status>> = LazyLock::new(|| {
    let lines = include_str!("../../../../assets/registers/nvidia/status.txt").lines();
    let statuses = lines.filter_map(|line| {
        let (code, text) = parse_line(line)?;
        let (name, meaning) = text.split_once(' ')?;
        Some((code, Status { code, name, meaning }))
    });
    statuses.collect()
});

/// Commands with the prefix and the rest of their names.
static CONTROLS: LazyLock<BTreeMap<u32, (&'static str, &'static str)>> = LazyLock::new(|| {
    let mut commands = BTreeMap::new();
    let mut section = None;
    for line in include_str!("../../../../assets/registers/nvidia/controls.txt").lines() {
        // `of CLASS PREFIX`, followed by the commands of the class.
        if let Some(head) = line.strip_prefix("of ") {
            section = parse_line(head);
        } else if let (Some((class, prefix)), Some((low, name))) = (section, parse_line(line)) {
            commands.insert(class << 16 | low, (prefix, name));
        }
    }
    commands
});

/// A status code of the resource manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: u32,
    /// Name, such as `NV_ERR_INVALID_CLASS`.
    pub name: &'static str,
    /// Meaning in a few words.
    pub meaning: &'static str,
}

/// Splits a line into its hexadecimal number and the rest.
fn parse_line(line: &'static str) -> Option<(u32, &'static str)> {
    let (number, rest) = line.split_once(' ')?;
    Some((u32::from_str_radix(number, 16).ok()?, rest))
}

/// Returns the name of a class, such as `HOPPER_COMPUTE_A`.
#[must_use]
pub fn class_name(class: u32) -> Option<&'static str> {
    CLASSES.get(&class).copied()
}

/// Returns the name of a control command, such as `NV2080_CTRL_CMD_GPU_GET_NAME_STRING`.
#[must_use]
pub fn control_name(command: u32) -> Option<String> {
    let (prefix, name) = CONTROLS.get(&command)?;
    Some(format!("{prefix}_CTRL_CMD_{name}"))
}

/// Returns what a status code means.
#[must_use]
pub fn find_status(code: u32) -> Option<&'static Status> {
    STATUSES.get(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_read() {
        let lines = |text: &str| text.lines().filter(|l| !l.starts_with("of ")).count();
        assert_eq!(
            CLASSES.len(),
            lines(include_str!("../../../../assets/registers/nvidia/classes.txt"))
        );
        assert_eq!(
            STATUSES.len(),
            lines(include_str!("../../../../assets/registers/nvidia/status.txt"))
        );
        assert_eq!(
            CONTROLS.len(),
            lines(include_str!("../../../../assets/registers/nvidia/controls.txt"))
        );
    }

    #[test]
    fn names_are_those_of_the_headers() {
        for (class, name) in [
            (0x3e, "NV01_MEMORY_SYSTEM"),
            (0x41, "NV01_ROOT_CLIENT"),
            (0x70, "NV01_MEMORY_VIRTUAL"),
            (0x71, "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR"),
            (0x80, "NV01_DEVICE_0"),
            (0x83de, "GT200_DEBUGGER"),
            (0x90f1, "FERMI_VASPACE_A"),
            (0xa06c, "KEPLER_CHANNEL_GROUP_A"),
            (0xc661, "HOPPER_USERMODE_A"),
            (0xc86f, "HOPPER_CHANNEL_GPFIFO_A"),
            (0xcbc0, "HOPPER_COMPUTE_A"),
        ] {
            assert_eq!(class_name(class), Some(name));
        }
        for (command, name) in [
            (0x205, "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2"),
            (0x0080_0292, "NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2"),
            (0x2080_1201, "NV2080_CTRL_CMD_GR_GET_INFO"),
            (0xc36f_0108, "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN"),
            (0xcb33_0101, "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES"),
            (0x83de_0328, "NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO"),
        ] {
            assert_eq!(control_name(command).as_deref(), Some(name));
        }
        for (code, name) in [
            (0, "NV_OK"),
            (0x1b, "NV_ERR_INSUFFICIENT_PERMISSIONS"),
            (0x22, "NV_ERR_INVALID_CLASS"),
            (0x3a, "NV_ERR_INVALID_PARAM_STRUCT"),
            (0x65, "NV_ERR_TIMEOUT"),
        ] {
            assert_eq!(find_status(code).map(|s| s.name), Some(name));
        }
        assert_eq!(find_status(0x56).map(|s| s.meaning), Some("Call not supported"));
        assert_eq!(
            (class_name(0x1234), control_name(1), find_status(0x1234)),
            (None, None, None)
        );
    }
}
