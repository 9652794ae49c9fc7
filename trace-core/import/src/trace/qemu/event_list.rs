//! The list of QEMU's trace events, `trace-events-all` of a build. Trace files of older versions number their events by
//! it.
//!
//! ```text
//! # A comment
//! disable memory_region_ops_read(void *mr, uint64_t addr, uint64_t value, unsigned size) "mr %p addr %#"PRIx64
//! ```
//!
//! Each line that is no comment declares an event, also one that the build disables. Words before the name are
//! properties. Source: QEMU's `docs/devel/tracing.rst` and `scripts/tracetool/__init__.py`.

use super::super::text;
use std::path::Path;

/// Maximum size of a list, bytes, and maximum number of its events.
const MAX_BYTES: u64 = 8 << 20;
const MAX_EVENTS: usize = 1 << 16;
/// Names of a list in the folder of a trace file.
const NAMES: [&str; 2] = ["trace-events-all", "trace-events"];

/// A declared event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredEvent {
    pub(super) name: Vec<u8>,
    /// Name of the first argument, or nothing.
    pub(super) first_argument: Vec<u8>,
}

/// Returns the name of the file that the list is read from, or the first possible one.
pub(super) fn list_path(trace: &Path) -> std::path::PathBuf {
    let paths = NAMES.map(|name| trace.with_file_name(name));
    let [first, _] = &paths;
    paths.iter().find(|p| p.is_file()).unwrap_or(first).clone()
}

/// Reads the list in the folder of a trace file: the events by their numbers. Returns `None` if there is none.
pub(super) fn read_list(trace: &Path) -> Option<Vec<DeclaredEvent>> {
    let bytes = super::super::source::read_file(&list_path(trace), MAX_BYTES).ok()??;
    let events = parse_list(&bytes);
    (!events.is_empty()).then_some(events)
}

fn parse_list(bytes: &[u8]) -> Vec<DeclaredEvent> {
    let lines = text::lines(bytes).map(<[u8]>::trim_ascii);
    let lines = lines.filter(|l| !l.is_empty() && !l.starts_with(b"#"));
    // A line that is no declaration keeps its number: the numbers of the others stay right.
    lines.take(MAX_EVENTS).map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> DeclaredEvent {
    let open = memchr::memchr(b'(', line).unwrap_or(line.len());
    let (before, after) = line.split_at_checked(open).unwrap_or((line, &[]));
    let last_word = |text: &[u8]| {
        let text = text.trim_ascii();
        let at = text.iter().rposition(|b| matches!(b, b' ' | b'\t' | b'*'));
        text.get(at.map_or(0, |at| at + 1)..).unwrap_or_default().to_vec()
    };
    let argument = after.get(1..).unwrap_or_default();
    let argument = argument.split(|b| matches!(b, b',' | b')')).next().unwrap_or_default();
    DeclaredEvent {
        name: last_word(before),
        first_argument: last_word(argument),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_by_their_lines() {
        let text = b"# See docs/tracing.txt\n\n\
            disable bdrv_open(void *bs) \"bs %p\"\n\
            memory_region_ops_read(int cpu_index, void *mr, uint64_t addr) \"cpu %d\"\n\
            vcpu tcg guest(const char *name) \"%s\"\n\
            odd line\n\
            last(void) \"\"\n";
        let list = parse_list(text);
        let names: Vec<_> = list
            .iter()
            .map(|e| {
                (
                    String::from_utf8_lossy(&e.name),
                    String::from_utf8_lossy(&e.first_argument),
                )
            })
            .collect();
        let expected = [
            ("bdrv_open", "bs"),
            ("memory_region_ops_read", "cpu_index"),
            ("guest", "name"),
            ("line", ""),
            ("last", "void"),
        ];
        assert_eq!(names, expected.map(|(a, b)| (a.into(), b.into())));
        assert!(parse_list(b"# only a comment\n").is_empty());
    }
}
