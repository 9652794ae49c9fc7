//! Names of signals that every waveform reader accepts.

use crate::changes::{Key, RegisterSignal};
use crate::locations::Location;
use std::collections::{HashMap, HashSet};
use trace_core::recording::InterruptLine;
use trace_core::registers::RecordedRegisters;
use trace_core::{Recording, RegOffset};

/// Maximum number of characters of a name in a file.
const MAX_NAME: usize = 200;

/// A signal with its scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signal {
    pub key: Key,
    pub scopes: Vec<String>,
    pub name: String,
    /// 1 to 64.
    pub bits: u32,
}

/// Returns a word of letters, digits and `_` only, not empty and without a leading digit: an identifier in VCD.
pub(crate) fn identifier(text: &str) -> String {
    let sound = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    // FST readers accept names of 512 bytes; a number may follow to distinguish equal names.
    let mut name: String = text.chars().map(sound).take(MAX_NAME).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

/// Returns the signals by scope, each with a unique name in its scope.
pub(crate) fn signals(recording: &Recording, keys: impl Iterator<Item = (Key, u32)>) -> Vec<Signal> {
    let device = RecordedRegisters::new(recording);
    let mut all: Vec<Signal> = keys
        .map(|(key, bits)| {
            let (scopes, name) = place(recording, device, key);
            Signal {
                key,
                scopes: scopes.iter().map(|s| identifier(s)).collect(),
                name: identifier(&name),
                bits: bits.clamp(1, 64),
            }
        })
        .collect();
    all.sort_by(|a, b| (&a.scopes, a.key).cmp(&(&b.scopes, b.key)));
    // Signals of one scope are adjacent. The search for a free name continues where the last one stopped.
    let mut taken: HashSet<String> = HashSet::new();
    let mut next: HashMap<String, u32> = HashMap::new();
    let mut scope: Option<Vec<String>> = None;
    for s in &mut all {
        if scope.as_ref() != Some(&s.scopes) {
            (taken, next) = (HashSet::new(), HashMap::new());
            scope = Some(s.scopes.clone());
        }
        if taken.contains(&s.name) {
            let plain = s.name.clone();
            let n = next.entry(plain.clone()).or_insert(1);
            while taken.contains(&s.name) {
                *n = n.saturating_add(1);
                s.name = format!("{plain}_{n}");
            }
        }
        taken.insert(s.name.clone());
    }
    all
}

fn place(recording: &Recording, device: Option<RecordedRegisters>, key: Key) -> (Vec<String>, String) {
    let line = |raw: u32| InterruptLine::from_raw(raw).map_or_else(|| format!("line{raw}"), |l| l.name().to_owned());
    let top = |scope: &str, name: String| (vec!["kinescope".to_owned(), scope.to_owned()], name);
    match key {
        Key::Event => (vec!["kinescope".to_owned()], "event".to_owned()),
        Key::Marks => (vec!["kinescope".to_owned()], "marks".to_owned()),
        Key::Running(slot) => top("jobs", format!("slot{slot}_running")),
        Key::Job(slot) => top("jobs", format!("slot{slot}_job")),
        Key::Head(slot) => top("jobs", format!("slot{slot}_submitted_head")),
        Key::Submits(slot) => top("jobs", format!("slot{slot}_submits")),
        Key::Status(raw) => top("interrupts", format!("{}_status", line(raw))),
        Key::Interrupts(raw) => top("interrupts", format!("{}_count", line(raw))),
        Key::HostWriteAt => top("memory", "cpu_write_address".to_owned()),
        Key::HostWriteBytes => top("memory", "cpu_write_bytes".to_owned()),
        Key::DmaBus => top("memory", "dma_address".to_owned()),
        Key::DmaBytes => top("memory", "dma_bytes".to_owned()),
        Key::Register { at, of } => {
            let Location { space, offset, known } = at;
            let named = recording.metadata.spaces.get(usize::from(space));
            let mut scopes = vec!["kinescope".to_owned()];
            scopes.push(named.map_or_else(|| format!("space{space}"), |s| s.name.clone()));
            let register = device
                .filter(|_| known)
                .and_then(|d| d.map().at(RegOffset::new(offset)));
            let name = match register {
                Some(r) => {
                    scopes.push(match r.index {
                        Some(n) => format!("{}{n}", r.block),
                        None => r.block.clone(),
                    });
                    r.name.clone()
                }
                None => {
                    scopes.push("unnamed".to_owned());
                    format!("at_{offset:x}")
                }
            };
            let name = match of {
                RegisterSignal::Value => name,
                RegisterSignal::Reads => format!("{name}_reads"),
                RegisterSignal::Writes => format!("{name}_writes"),
            };
            (scopes, name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{Space, SpaceKind};

    #[test]
    fn many_signals_of_one_name_are_numbered_in_linear_time() {
        let mut r = Recording::default();
        for _ in 0..200 {
            r.metadata.spaces.push(Space {
                name: "s".into(),
                kind: SpaceKind::Registers,
                bytes: 1 << 20,
            });
        }
        let keys = (0..60_000u32).map(|n| {
            let at = Location {
                space: (n % 200) as u8,
                offset: n / 200,
                known: false,
            };
            let of = RegisterSignal::Value;
            let key = Key::Register { at, of };
            (key, 32)
        });
        let all = signals(&r, keys);
        let names: HashSet<&str> = all.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), 60_000);
        assert!(names.contains("at_0") && names.contains("at_0_2") && names.contains("at_0_200"));
    }

    #[test]
    fn an_identifier_has_letters_digits_and_underscores() {
        for (text, name) in [
            ("JS1_COMMAND", "JS1_COMMAND"),
            ("bar 0: $end", "bar_0___end"),
            ("9é\n", "_9__"),
            ("", "_"),
        ] {
            assert_eq!(identifier(text), name);
        }
    }
}
