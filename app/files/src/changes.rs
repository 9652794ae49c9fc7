//! What a person made on top of a recording: edits of buffers, notes, pinned registers. Everything can be undone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace_core::recording::ElementType;

/// One thing that the person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Bytes of a buffer became others.
    Bytes {
        /// The buffer's name.
        buffer: String,
        /// First byte changed.
        offset: u64,
        /// Bytes before, from the recording or an earlier edit.
        #[serde(with = "hex_bytes")]
        old: Vec<u8>,
        /// Bytes after, as many.
        #[serde(with = "hex_bytes")]
        new: Vec<u8>,
    },
    /// The buffer is as recorded again. `old` is what the person had made of it.
    Revert {
        /// The buffer's name.
        buffer: String,
        /// Its whole content before.
        #[serde(with = "hex_bytes")]
        old: Vec<u8>,
    },
    /// A note at an event came, changed or went.
    Note {
        /// The event.
        event: u64,
        /// Text before.
        old: Option<String>,
        /// Text after.
        new: Option<String>,
    },
    /// A register got a lane of its own in the timeline, or lost it.
    Pin {
        /// The register's offset.
        register: u32,
        /// Whether it has one now.
        on: bool,
    },
    /// A buffer is read as elements of another type.
    Element {
        /// The buffer's name.
        buffer: String,
        /// Type before, by name; `None`: as recorded.
        old: Option<String>,
        /// Type after, by name; `None`: as recorded.
        new: Option<String>,
    },
}

impl Change {
    /// What it was, for the undo command.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Bytes { buffer, new, .. } => format!("edit {} bytes of {buffer}", new.len()),
            Self::Revert { buffer, .. } => format!("revert {buffer}"),
            Self::Note {
                event, new: Some(_), ..
            } => format!("note at event {event}"),
            Self::Note { event, .. } => format!("remove the note at event {event}"),
            Self::Pin { on: true, .. } => "pin a register".to_owned(),
            Self::Pin { .. } => "unpin a register".to_owned(),
            Self::Element { buffer, .. } => format!("type of {buffer}"),
        }
    }

    fn inverse(&self) -> Self {
        match self.clone() {
            Self::Bytes {
                buffer,
                offset,
                old,
                new,
            } => Self::Bytes {
                buffer,
                offset,
                old: new,
                new: old,
            },
            Self::Revert { buffer, old } => Self::Bytes {
                buffer,
                offset: 0,
                old: Vec::new(),
                new: old,
            },
            Self::Note { event, old, new } => Self::Note {
                event,
                old: new,
                new: old,
            },
            Self::Pin { register, on } => Self::Pin { register, on: !on },
            Self::Element { buffer, old, new } => Self::Element {
                buffer,
                old: new,
                new: old,
            },
        }
    }
}

/// What the changes come to, and the way back.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    done: Vec<Change>,
    undone: Vec<Change>,
    /// Whole contents of edited buffers.
    inputs: BTreeMap<String, Vec<u8>>,
    /// Contents as recorded of buffers that were edited.
    recorded: BTreeMap<String, Vec<u8>>,
    notes: BTreeMap<u64, String>,
    pins: Vec<u32>,
    elements: BTreeMap<String, ElementType>,
    revision: u64,
}

impl Changes {
    /// Does a change. `recorded` gives a buffer's content as recorded, when it is first edited. `false`: the change
    /// does not fit the buffer, and nothing was done.
    pub fn apply(&mut self, change: Change, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> bool {
        if !self.act(&change, recorded) {
            return false;
        }
        self.done.push(change);
        self.undone.clear();
        true
    }

    fn act(&mut self, change: &Change, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> bool {
        match change {
            Change::Bytes {
                buffer, offset, new, ..
            } => {
                if !self.recorded.contains_key(buffer) {
                    let Some(base) = recorded(buffer) else { return false };
                    self.recorded.insert(buffer.clone(), base);
                }
                let Some(base) = self.recorded.get(buffer) else {
                    return false;
                };
                let mut now = self.inputs.get(buffer).unwrap_or(base).clone();
                let Some(end) = usize::try_from(*offset).ok().and_then(|o| o.checked_add(new.len())) else {
                    return false;
                };
                let Some(part) = now.get_mut(end - new.len()..end) else {
                    return false;
                };
                part.copy_from_slice(new);
                if now == *base {
                    self.inputs.remove(buffer);
                } else {
                    self.inputs.insert(buffer.clone(), now);
                }
            }
            Change::Revert { buffer, .. } => {
                self.inputs.remove(buffer);
            }
            Change::Note { event, new, .. } => match new {
                Some(t) => {
                    self.notes.insert(*event, t.clone());
                }
                None => {
                    self.notes.remove(event);
                }
            },
            Change::Pin { register, on } => {
                self.pins.retain(|r| r != register);
                if *on {
                    self.pins.push(*register);
                }
            }
            Change::Element { buffer, new, .. } => {
                match new
                    .as_deref()
                    .and_then(|n| ElementType::ALL.into_iter().find(|e| e.name() == n))
                {
                    Some(e) => self.elements.insert(buffer.clone(), e),
                    None => self.elements.remove(buffer),
                };
            }
        }
        self.revision += 1;
        true
    }

    /// Takes the last change back.
    pub fn undo(&mut self, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Change> {
        let c = self.done.pop()?;
        self.act(&c.inverse(), recorded);
        self.undone.push(c.clone());
        Some(c)
    }

    /// Does the change again that was taken back last.
    pub fn redo(&mut self, recorded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Change> {
        let c = self.undone.pop()?;
        self.act(&c, recorded);
        self.done.push(c.clone());
        Some(c)
    }

    /// The change that undo would take back.
    #[must_use]
    pub fn last(&self) -> Option<&Change> {
        self.done.last()
    }

    /// The change that redo would do again.
    #[must_use]
    pub fn next(&self) -> Option<&Change> {
        self.undone.last()
    }

    /// Number of changes that hold.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Grows with every change, undo and redo.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whole contents of edited buffers.
    #[must_use]
    pub fn inputs(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.inputs
    }

    /// Notes by event.
    #[must_use]
    pub fn notes(&self) -> &BTreeMap<u64, String> {
        &self.notes
    }

    /// Registers with lanes of their own.
    #[must_use]
    pub fn pins(&self) -> &[u32] {
        &self.pins
    }

    /// Type that the person gave to a buffer's elements.
    #[must_use]
    pub fn element(&self, buffer: &str) -> Option<ElementType> {
        self.elements.get(buffer).copied()
    }
}

mod hex_bytes {
    //! Bytes as a string of hex digits.
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(bytes.len() * 2);
        for b in bytes {
            let _ = write!(text, "{b:02x}");
        }
        s.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        crate::values::parse_hex(&text).ok_or_else(|| D::Error::custom("not a string of hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(_: &str) -> Option<Vec<u8>> {
        Some(vec![1, 2, 3, 4])
    }

    fn bytes(offset: u64, old: &[u8], new: &[u8]) -> Change {
        Change::Bytes {
            buffer: "in".into(),
            offset,
            old: old.into(),
            new: new.into(),
        }
    }

    #[test]
    fn edits_of_every_kind_are_undone_and_done_again() {
        let mut c = Changes::default();
        assert!(c.apply(bytes(1, &[2, 3], &[9, 8]), &base));
        assert!(c.apply(
            Change::Note {
                event: 3,
                old: None,
                new: Some("first".into())
            },
            &base
        ));
        assert!(c.apply(
            Change::Pin {
                register: 0x18c0,
                on: true
            },
            &base
        ));
        assert!(c.apply(
            Change::Element {
                buffer: "in".into(),
                old: None,
                new: Some("f16".into())
            },
            &base
        ));
        assert_eq!(c.inputs()["in"], [1, 9, 8, 4]);
        assert_eq!(c.element("in"), Some(ElementType::F16));
        assert!(c.apply(
            Change::Revert {
                buffer: "in".into(),
                old: vec![1, 9, 8, 4]
            },
            &base
        ));
        assert!(c.inputs().is_empty());
        while c.undo(&base).is_some() {}
        assert!(c.inputs().is_empty() && c.notes().is_empty() && c.pins().is_empty() && c.element("in").is_none());
        for _ in 0..4 {
            c.redo(&base);
        }
        assert_eq!(
            (c.inputs()["in"].as_slice(), c.notes()[&3].as_str(), c.pins()),
            (&[1, 9, 8, 4][..], "first", &[0x18c0][..])
        );
        c.redo(&base);
        assert!(c.inputs().is_empty());
    }

    #[test]
    fn an_edit_past_the_end_is_refused_and_one_that_restores_is_none() {
        let mut c = Changes::default();
        assert!(!c.apply(bytes(3, &[4, 0], &[9, 9]), &base));
        assert!(!c.apply(bytes(u64::MAX, &[], &[9]), &base));
        assert!(c.is_empty());
        assert!(c.apply(bytes(0, &[1], &[7]), &base));
        assert!(c.apply(bytes(0, &[7], &[1]), &base));
        assert!(c.inputs().is_empty(), "as recorded is not an edit");
    }
}
