//! Description of how a recording was captured, for `info` and the outline, if its recorder stored that.

use trace_core::recording::{AppliedEdit, Capture};

/// Returns labels and descriptions of a capture, most important first. Leaves out what the recorder did not store.
#[must_use]
pub fn describe_capture(capture: &Capture) -> Vec<(&'static str, String)> {
    let known = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    let machine = match (known(&capture.kernel), known(&capture.architecture)) {
        (Some(kernel), Some(arch)) => Some(format!("Linux {kernel} on {arch}")),
        (Some(kernel), None) => Some(format!("Linux {kernel}")),
        (None, arch) => arch,
    };
    let ended = match capture.exit_code {
        Some(0) => ", which ended well".to_owned(),
        Some(code) => format!(", which ended with code {code}"),
        None => String::new(),
    };
    let command = match capture.command.is_empty() {
        true => "none: only the driver was bound".to_owned(),
        false => format!("{}{ended}", line(&capture.command)),
    };
    let mut rows = Vec::new();
    rows.extend(known(&capture.method).map(|m| ("Captured by", m)));
    rows.extend(machine.map(|m| ("Machine", m)));
    rows.extend(known(&capture.driver).map(|d| ("Bound driver", d)));
    rows.push(("Command", command));
    rows.extend(capture.cut.clone().map(|why| ("Cut short", why)));
    rows.extend((capture.lost > 0).then(|| ("Kernel lost", format!("{} events", capture.lost))));
    rows.extend(capture.unobserved.iter().map(|what| ("Not observed", what.clone())));
    rows
}

/// Describes an edit that was saved with the recording.
#[must_use]
pub fn describe_edit(edit: &AppliedEdit) -> (&'static str, String) {
    ("Edited", format!("{}, on {}", edit.buffer, edit.source))
}

/// Formats a command as a shell accepts it.
fn line(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = |a: &String| match !a.is_empty() && a.chars().all(plain) {
        true => a.clone(),
        false => format!("'{}'", a.replace('\'', "'\\''")),
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_description_lists_only_known_rows_in_order() {
        let capture = Capture {
            method: "mmiotrace".into(),
            kernel: "6.1.0-56-amd64".into(),
            architecture: "x86_64".into(),
            driver: "radeonfb".into(),
            command: ["sh", "-c", "echo it's > /dev/tty1"].map(str::to_owned).to_vec(),
            exit_code: Some(3),
            cut: Some("the recorder was killed".into()),
            lost: 7,
            unobserved: vec!["interrupts".into(), "reads of configuration space".into()],
        };
        let rows = describe_capture(&capture);
        assert_eq!(
            rows,
            [
                ("Captured by", "mmiotrace"),
                ("Machine", "Linux 6.1.0-56-amd64 on x86_64"),
                ("Bound driver", "radeonfb"),
                ("Command", r"sh -c 'echo it'\''s > /dev/tty1', which ended with code 3"),
                ("Cut short", "the recorder was killed"),
                ("Kernel lost", "7 events"),
                ("Not observed", "interrupts"),
                ("Not observed", "reads of configuration space"),
            ]
            .map(|(k, v)| (k, v.to_owned()))
        );
        let bare = [("Command", "none: only the driver was bound".to_owned())];
        assert_eq!(describe_capture(&Capture::default()), bare);
    }
}
