//! Links to an event of a recording: `kinescope:///home/ann/alexnet.kine?event=1200&select=register:0x24&show=memory`.
//!
//! A link is untrusted text. Parsing a link opens nothing: it returns a path and a scene, and the caller checks both.

use crate::scene::{Scene, Selection};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use trace_core::{GpuVa, RegOffset};

/// Name of the scheme (RFC 3986, 3.1).
pub const SCHEME: &str = "kinescope";
/// Maximum size of a link that is read, bytes.
pub const MAX_BYTES: usize = 8192;
/// Maximum number of panels that a link opens.
const MAX_PANELS: usize = 32;

/// Characters that are not escaped in a path: the unreserved characters of RFC 3986 and the separator.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/');
/// Characters that are not escaped in a name: the same without the separator.
const NAME: &AsciiSet = &PATH.add(b'/');

/// A link to a scene of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Path of the recording; a bare name if the link has no folder.
    pub file: PathBuf,
    /// Number of events of the recording that the link was made from; `None` if the link does not state it.
    pub events: Option<u64>,
    /// The scene to open; `None` for the initial scene.
    pub scene: Option<Scene>,
}

/// Why a text is not a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The text has another scheme, or none.
    #[error("the text is not a link to a recording (expected {SCHEME}:///FOLDER/FILE.kine?event=N)")]
    Scheme,
    /// The text is too long.
    #[error("the link has {0} bytes; the maximum is {MAX_BYTES}")]
    TooLong(usize),
    /// The link names a machine.
    #[error(
        "the link names the machine '{0}', but only recordings on this machine can be opened (expected three slashes: \
         {SCHEME}:///…)"
    )]
    Host(String),
    /// The link names no file.
    #[error("the link names no file")]
    NoFile,
    /// A part of the link has an invalid value.
    #[error("at character {at}, '{text}' is not a valid {expected}")]
    Part {
        /// Number of characters before the part.
        at: usize,
        /// Text of the part.
        text: String,
        /// Expected value.
        expected: &'static str,
    },
}

/// Whether a text starts like a link.
#[must_use]
pub fn is_link(text: &str) -> bool {
    rest(text).is_some()
}

/// Returns the path in a `file:` URL of this machine (RFC 8089), which is how desktops pass a file; `None` for other
/// text.
#[must_use]
pub fn file_url_path(text: &str) -> Option<PathBuf> {
    let (scheme, rest) = text.split_at_checked("file:".len())?;
    let rest = scheme.eq_ignore_ascii_case("file:").then_some(rest)?;
    let path = match rest.strip_prefix("//") {
        Some(after) => after.strip_prefix("localhost").unwrap_or(after),
        None => rest,
    };
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let is_sound = decoded.starts_with(b"/") && !decoded.contains(&0);
    is_sound.then(|| OsString::from_vec(decoded).into())
}

fn rest(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked(SCHEME.len())?;
    // Schemes are case-insensitive.
    scheme.eq_ignore_ascii_case(SCHEME).then(|| rest.strip_prefix(':'))?
}

impl Link {
    /// Parses a link. Unknown parts are ignored, so that links of later versions also open.
    ///
    /// # Errors
    /// [`LinkError`] with the position in the text.
    pub fn parse(text: &str) -> Result<Self, LinkError> {
        let rest = rest(text).ok_or(LinkError::Scheme)?;
        if text.len() > MAX_BYTES {
            return Err(LinkError::TooLong(text.len()));
        }
        let whole = rest.split('#').next().unwrap_or_default();
        let (path, query) = whole.split_once('?').unwrap_or((whole, ""));
        let path = match path.strip_prefix("//") {
            Some(after) => match after.find('/') {
                Some(0) => after,
                slash => {
                    return Err(LinkError::Host(
                        after.get(..slash.unwrap_or(after.len())).unwrap_or_default().to_owned(),
                    ));
                }
            },
            None => path,
        };
        let decoded: Vec<u8> = percent_decode_str(path).collect();
        if decoded.is_empty() || decoded.ends_with(b"/") || decoded.contains(&0) {
            return Err(LinkError::NoFile);
        }
        let mut link = Self {
            file: OsString::from_vec(decoded).into(),
            events: None,
            scene: None,
        };
        let mut at = text.len() - rest.len() + whole.len() - query.len();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = at + pair.len() - value.len();
            link.take(key, value).map_err(|expected| LinkError::Part {
                at: text.get(..place).map_or(0, |t| t.chars().count()),
                text: value.to_owned(),
                expected,
            })?;
            at += pair.len() + 1;
        }
        Ok(link)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "event" => self.scene.get_or_insert_default().event = number(value).ok_or("event number")?,
            "events" => self.events = Some(number(value).ok_or("event count")?),
            "select" => self.scene.get_or_insert_default().selection = parse_selection(value)?,
            "show" => {
                let names = value.split(',').filter(|n| !n.is_empty());
                let panels: Vec<String> = names.map(str::to_owned).collect();
                let sound = |n: &String| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
                if panels.len() > MAX_PANELS || !panels.iter().all(sound) {
                    return Err("panel list");
                }
                self.scene.get_or_insert_default().panels = panels;
            }
            _ => {}
        }
        Ok(())
    }

    /// Creates a link to a scene of the recording `file`, which has `events` events.
    #[must_use]
    pub fn new(file: &Path, events: u64, scene: Scene) -> Self {
        Self {
            file: file.to_owned(),
            events: Some(events),
            scene: Some(scene),
        }
    }
}

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let slashes = if self.file.is_absolute() { "//" } else { "" };
        let path = percent_encode(self.file.as_os_str().as_bytes(), PATH);
        write!(f, "{SCHEME}:{slashes}{path}")?;
        let mut query = String::new();
        if let Some(s) = &self.scene {
            write!(query, "&event={}", s.event)?;
            if let Some(message) = format_selection(&s.selection) {
                write!(query, "&select={message}")?;
            }
            if !s.panels.is_empty() {
                write!(query, "&show={}", s.panels.join(","))?;
            }
        }
        if let Some(n) = self.events {
            write!(query, "&events={n}")?;
        }
        match query.get(1..) {
            Some(q) => write!(f, "?{q}"),
            None => Ok(()),
        }
    }
}

/// Formats a selection for a link. Returns `None` if the selection is only the event, or belongs to one run of the
/// program.
fn format_selection(selection: &Selection) -> Option<String> {
    Some(match selection {
        Selection::Register(r) => format!("register:{r:#x}"),
        Selection::Job(j) => format!("job:{j}"),
        Selection::Buffer(b) => format!("buffer:{}", percent_encode(b.as_bytes(), NAME)),
        Selection::Memory { space, va, bytes } => format!("memory:{space}:{va:#x}:{bytes}"),
        Selection::Entry { space, va, level } => format!("entry:{space}:{va:#x}:{level}"),
        Selection::Framebuffer { space, offset, bytes } => format!("framebuffer:{space}:{offset:#x}:{bytes}"),
        Selection::Finding(i) => format!("finding:{i}"),
        Selection::Note(e) => format!("note:{e}"),
        Selection::Event | Selection::Divergence(_) | Selection::Fault(_) => return None,
    })
}

/// Parses a selection of a link: a word, a colon, and an id.
///
/// # Errors
/// A description of what was expected.
pub fn parse_selection(text: &str) -> Result<Selection, &'static str> {
    let small = |t: &str| u32::try_from(number(t)?).ok();
    let (what, which) = text.split_once(':').unwrap_or((text, ""));
    match what {
        "event" => Ok(Selection::Event),
        "register" => small(which)
            .map(|r| Selection::Register(RegOffset::new(r)))
            .ok_or("register offset"),
        "job" => small(which).map(Selection::Job).ok_or("job number"),
        "buffer" => {
            let name = percent_decode_str(which).decode_utf8();
            let name = name.ok().filter(|n| !n.is_empty());
            name.map(|n| Selection::Buffer(n.into_owned())).ok_or("buffer name")
        }
        "memory" => {
            let mut parts = which.split(':');
            let mut next = || number(parts.next()?);
            let read = (|| {
                let (space, va, bytes) = (u32::try_from(next()?).ok()?, next()?, next()?);
                va.checked_add(bytes).filter(|_| bytes > 0)?;
                Some(Selection::Memory {
                    space,
                    va: GpuVa::new(va),
                    bytes,
                })
            })();
            read.ok_or("memory range (expected memory:SPACE:ADDRESS:BYTES)")
        }
        "entry" => {
            let mut parts = which.split(':');
            let mut next = || number(parts.next()?);
            let read = (|| {
                let (space, va, level) = (u32::try_from(next()?).ok()?, next()?, u8::try_from(next()?).ok()?);
                (level <= 3).then_some(Selection::Entry {
                    space,
                    va: GpuVa::new(va),
                    level,
                })
            })();
            read.ok_or("page-table entry (expected entry:SPACE:ADDRESS:LEVEL, with a level of 0 to 3)")
        }
        "framebuffer" => {
            let mut parts = which.split(':');
            let mut next = || number(parts.next()?);
            let read = (|| {
                let (space, offset, bytes) = (u8::try_from(next()?).ok()?, next()?, next()?);
                offset.checked_add(bytes).filter(|_| bytes > 0)?;
                Some(Selection::Framebuffer { space, offset, bytes })
            })();
            read.ok_or("framebuffer range (expected framebuffer:SPACE:OFFSET:BYTES)")
        }
        "finding" => small(which).map(Selection::Finding).ok_or("finding number"),
        "note" => number(which).map(Selection::Note).ok_or("note event"),
        _ => Err(
            "selection (expected event, register:, job:, buffer:, memory:, entry:, framebuffer:, finding: or note:)",
        ),
    }
}

/// Parses a number, decimal or hexadecimal with the prefix `0x`.
fn number(text: &str) -> Option<u64> {
    let digits = |t: &str, radix| {
        let sound = !t.is_empty() && t.chars().all(|c| c.is_digit(radix));
        sound.then(|| u64::from_str_radix(t, radix).ok())?
    };
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => digits(hex, 16),
        None => digits(text, 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::{GpuVa, RegOffset};

    fn scene(selection: Selection) -> Scene {
        Scene {
            event: 1200,
            selection,
            panels: vec!["timeline".into(), "page-tables".into()],
        }
    }

    #[test]
    fn local_file_url_becomes_its_path() {
        for url in [
            "file:///a/b%20%C3%BC.kine",
            "FILE://localhost/a/b%20%C3%BC.kine",
            "file:/a/b%20%C3%BC.kine",
        ] {
            assert_eq!(file_url_path(url), Some("/a/b ü.kine".into()), "{url}");
        }
        for other in [
            "a.kine",
            "/a.kine",
            "file:a.kine",
            "file://elsewhere/a.kine",
            "file:///a%00b",
            "kinescope:/a",
        ] {
            assert_eq!(file_url_path(other), None, "{other}");
        }
    }

    #[test]
    fn link_round_trips() {
        let selections = [
            Selection::Event,
            Selection::Register(RegOffset::new(0x24)),
            Selection::Job(3),
            Selection::Buffer("in & out=50%/ü".into()),
            Selection::Memory {
                space: 1,
                va: GpuVa::new(0x7f_0000_0000),
                bytes: 64,
            },
            Selection::Entry {
                space: 0,
                va: GpuVa::new(0x7f_0000_1000),
                level: 3,
            },
            Selection::Framebuffer {
                space: 2,
                offset: 0x1f40,
                bytes: 4,
            },
            Selection::Finding(7),
            Selection::Note(9),
        ];
        for selection in selections {
            for file in ["/home/ann/a b?#&%.kine", "alexnet.kine", "/ä/ü.kine"] {
                let link = Link::new(Path::new(file), 2130, scene(selection.clone()));
                assert_eq!(Link::parse(&link.to_string()), Ok(link.clone()), "{link}");
            }
        }
        let bytes = PathBuf::from(OsString::from_vec(b"/tmp/\xff\xfe.kine".to_vec()));
        let link = Link::new(&bytes, 1, scene(Selection::Event));
        assert_eq!(Link::parse(&link.to_string()), Ok(link));
    }

    #[test]
    fn run_specific_selections_link_only_to_the_event() {
        let link = Link::new(Path::new("/a.kine"), 5, scene(Selection::Divergence(1)));
        let back = Link::parse(&link.to_string()).unwrap();
        assert_eq!(back.scene.unwrap().selection, Selection::Event);
    }

    #[test]
    fn link_without_scene_has_only_a_file() {
        let link = Link::parse("KINESCOPE:///home/ann/alexnet.kine?later=yes#part").unwrap();
        assert_eq!(
            (link.file.to_str(), link.scene, link.events),
            (Some("/home/ann/alexnet.kine"), None, None)
        );
        assert_eq!(
            Link::parse("kinescope:alexnet.kine").unwrap().file,
            Path::new("alexnet.kine")
        );
    }

    #[test]
    fn invalid_links_are_refused_with_a_reason() {
        let wrong = |text: &str| Link::parse(text).unwrap_err();
        assert_eq!(wrong("https://a/b"), LinkError::Scheme);
        assert_eq!(wrong("kinescope"), LinkError::Scheme);
        assert_eq!(wrong("kinescope://lab3/a.kine"), LinkError::Host("lab3".into()));
        assert_eq!(wrong("kinescope://"), LinkError::Host(String::new()));
        assert_eq!(wrong("kinescope:///"), LinkError::NoFile);
        assert_eq!(wrong("kinescope:///a%00b"), LinkError::NoFile);
        assert_eq!(wrong("kinescope:?event=1"), LinkError::NoFile);
        assert!(matches!(
            wrong(&format!("kinescope:///{}", "a".repeat(9000))),
            LinkError::TooLong(_)
        ));
        let e = wrong("kinescope:///ü.kine?event=12x");
        assert_eq!(e.to_string(), "at character 26, '12x' is not a valid event number");
        for bad in [
            "event=",
            "event=-1",
            "event=+1",
            "events=0x",
            "select=register:",
            "select=memory:0:0xffffffffffffffff:1",
            "select=memory:0:1:0",
            "select=buffer:",
            "select=pixel:1",
            "select=entry:0:0x1000:4",
            "select=entry:0:0x1000",
            "select=framebuffer:0:1:0",
            "select=framebuffer:256:1:4",
            "show=a/b",
        ] {
            assert!(
                matches!(wrong(&format!("kinescope:///a?{bad}")), LinkError::Part { .. }),
                "{bad}"
            );
        }
    }
}
