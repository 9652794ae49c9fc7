//! Fuzz targets for the user's files: workspace, journal, buffer contents.

use crate::folder::in_folder;
use kinescope_files::buffers::npy;
use kinescope_files::changes::{Changes, RecordedContents};
use kinescope_files::journal::{self, JournalKey};
use kinescope_files::keys::KeysFile;
use kinescope_files::link::Link;
use kinescope_files::values;
use kinescope_files::workspace::Workspace;
use trace_core::GpuVa;
use trace_core::diff::Rules;
use trace_core::recording::{Buffer, BufferRole, ElementType};
use trace_core::screen::Picture;

/// Fuzzes an NPY file: an accepted file has as much data as its shape says.
pub fn npy_file(data: &[u8]) -> bool {
    let Ok(file) = npy::Npy::read(data) else { return false };
    let rewritten = npy::write(file.element, &file.shape, file.data);
    assert_eq!(
        npy::Npy::read(&rewritten).map(|n| (n.element, n.data)),
        Ok((file.element, file.data))
    );
    true
}

/// Fuzzes a PPM picture: an accepted picture can be written and reads back as the same picture.
pub fn ppm(data: &[u8]) -> bool {
    let Ok(picture) = Picture::from_ppm(data) else {
        return false;
    };
    assert_eq!(Picture::from_ppm(&picture.to_ppm()), Ok(picture));
    true
}

/// Fuzzes comparison rules: accepted rules are written as rules that read back the same. An error's location is in the
/// text.
pub fn diff_rules(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    match text.parse::<Rules>() {
        Ok(rules) => {
            assert_eq!(rules.to_string().parse().as_ref(), Ok(&rules));
            !rules.list.is_empty()
        }
        Err(e) => {
            assert!(e.line >= 1 && e.line <= text.lines().count() && e.column >= 1);
            false
        }
    }
}

/// Fuzzes a link: an accepted link can be written and reads back as the same link.
pub fn link(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(read) = Link::parse(text) else { return false };
    let written = read.to_string();
    // The written form can be longer than the input: `é` becomes six characters.
    if written.len() <= kinescope_files::link::MAX_BYTES {
        assert_eq!(Link::parse(&written).as_ref(), Ok(&read), "{written}");
    }
    true
}

/// Fuzzes a workspace: an accepted workspace can be written and reads back as the same workspace.
pub fn workspace(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let known = |id: &str| ["timeline", "events", "jobs", "memory", "page-tables"].contains(&id);
    let Ok(read) = Workspace::parse(text, &known) else {
        return false;
    };
    assert_eq!(Workspace::parse(&read.text(), &known).as_ref(), Ok(&read));
    true
}

/// Fuzzes key bindings: accepted bindings can be written and read back as the same bindings.
pub fn keys(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(mut read) = KeysFile::parse(text) else {
        return false;
    };
    // Ignored entries are not written.
    read.problems.clear();
    assert_eq!(KeysFile::parse(&read.text()).as_ref(), Ok(&read));
    true
}

/// Two buffers, one of which starts two bytes before the end of a page.
struct TwoBuffers;

impl RecordedContents for TwoBuffers {
    fn extent(&self, buffer: &str) -> Option<(u64, u64)> {
        match buffer {
            "in" => Some((0x1ffe, 64)),
            "out" => Some((0x3000, 5000)),
            _ => None,
        }
    }

    fn read(&self, _: &str, offset: u64, out: &mut [u8]) {
        for (b, i) in out.iter_mut().zip(offset..) {
            *b = i as u8;
        }
    }
}

/// Fuzzes a journal of changes to a recording with two buffers. An input without a journal's first line gets that line.
/// Undoing every change restores the recorded contents.
pub fn journal(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let key = JournalKey {
        events: 10,
        gpu: 1,
        source: "x".into(),
    };
    let complete = if text.starts_with("{\"of\"") {
        text.to_owned()
    } else {
        format!("{{\"of\":{{\"events\":10,\"gpu\":1,\"source\":\"x\"}}}}\n{text}")
    };
    let Some(found) = journal::parse(&complete, &key, &TwoBuffers) else {
        return false;
    };
    let sound = found.unusable == 0;
    let mut changes = found.changes;
    let same_size = |c: &Changes| {
        for (name, edited) in c.inputs() {
            let size = TwoBuffers.extent(name).map(|e| e.1);
            assert_eq!(Some(edited.len()), size, "an edit changed a buffer's size");
            for r in edited.ranges() {
                assert!(
                    r.start < r.end && Some(r.end) <= size,
                    "an edit lies outside its buffer"
                );
            }
        }
    };
    same_size(&changes);
    let count = changes.len();
    let mut undone = 0;
    while changes.undo().is_some() {
        undone += 1;
    }
    assert_eq!((undone, changes.len()), (count, 0));
    assert!(changes.inputs().is_empty(), "undo left an edit behind");
    while changes.redo(&TwoBuffers).is_some() {}
    assert!(changes.len() >= count);
    same_size(&changes);
    sound
}

/// Fuzzes a file that the user loads into a buffer. The first two bytes give extension and element type, the third
/// gives the buffer's length.
pub fn buffer_file(data: &[u8]) -> bool {
    let &[kind, element, elements, ref file @ ..] = data else {
        return false;
    };
    let mut accepted = false;
    let element = ElementType::ALL
        .get(usize::from(element) % ElementType::ALL.len())
        .copied()
        .unwrap_or(ElementType::U8);
    let buffer = Buffer {
        name: "in".into(),
        role: BufferRole::Input,
        address_space: 0,
        va: GpuVa::ZERO,
        bytes: u64::from(elements) * element.bytes() as u64,
        element,
    };
    let name = match kind % 4 {
        0 => "fuzz.csv",
        1 | 2 => "fuzz.png",
        _ => "fuzz.npy",
    };
    in_folder(|folder| {
        let path = folder.join(name);
        std::fs::write(&path, file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Ok(bytes) = values::load(&path, &buffer, kind & 4 != 0) {
            accepted = true;
            assert_eq!(bytes.len() as u64, buffer.bytes);
            for one in bytes.chunks(element.bytes()).take(64) {
                let text = values::format_element(element, one);
                assert!(values::element_f64(element, one).is_some() && !text.is_empty());
            }
        }
        let _ = std::fs::remove_file(&path);
    });
    accepted
}
