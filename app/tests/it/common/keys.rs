//! Key input as a keyboard sends it (press, text and release in one frame), and the commands that it runs.

use super::Window;
use egui::{Event, Key, Modifiers};
use kinescope::window::shortcut::Shortcut;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Log lines that the program wrote while an action ran.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the commands that ran during `act`, in order, from the program's own log.
pub fn record_commands(act: impl FnOnce()) -> Vec<String> {
    let report = LogBuffer::default();
    let to = report.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || to.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let text = String::from_utf8(report.0.lock().unwrap().clone()).unwrap();
    text.lines()
        .filter_map(|l| Some(l.split_once(" command ")?.1.to_owned()))
        .collect()
}

fn key_of(c: char) -> Option<Key> {
    match c {
        '\n' => Some(Key::Enter),
        '\t' => Some(Key::Tab),
        '\u{1b}' => Some(Key::Escape),
        ' ' => Some(Key::Space),
        c => Key::from_name(&c.to_uppercase().to_string()),
    }
}

impl Window {
    /// Presses and releases a key and its modifiers in one frame.
    pub fn stroke(&mut self, modifiers: Modifiers, key: Key, text: Option<char>) {
        let event = |pressed| Event::Key {
            key,
            physical_key: None,
            pressed,
            repeat: false,
            modifiers,
        };
        let mut events = vec![Event::ModifiersChanged(modifiers), event(true)];
        events.extend(text.map(|c| Event::Text(c.to_string())));
        events.extend([event(false), Event::ModifiersChanged(Modifiers::NONE)]);
        self.harness.input_mut().events.extend(events);
        self.harness.step();
    }

    /// Presses a shortcut and waits until the window is idle. Returns the commands that ran.
    pub fn press(&mut self, s: Shortcut) -> Vec<String> {
        let text = s.is_plain().then(|| s.key.symbol_or_name().to_lowercase());
        let text = text.filter(|t| t.chars().count() == 1).and_then(|t| t.chars().next());
        record_commands(|| {
            self.stroke(s.modifiers(), s.key, text);
            self.settle();
        })
    }

    /// Types a text as a user does, one frame per key; `\n` is Enter, `\t` is Tab, `\x1b` is Escape. Returns the
    /// commands that ran.
    pub fn type_text(&mut self, text: &str) -> Vec<String> {
        record_commands(|| {
            for c in text.chars() {
                let key = key_of(c).unwrap_or_else(|| panic!("no key for {c:?}"));
                let shift = if c.is_uppercase() {
                    Modifiers::SHIFT
                } else {
                    Modifiers::NONE
                };
                self.stroke(shift, key, (!c.is_control()).then_some(c));
            }
            self.settle();
        })
    }
}
