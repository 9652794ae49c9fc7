//! Keyboard shortcuts of commands.

use egui::{Event, Key, Modifiers};
use kinescope_files::keys::Chord;

/// A key with modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shortcut {
    /// With Ctrl (Cmd on macOS).
    pub ctrl: bool,
    /// With Shift.
    pub shift: bool,
    /// With Alt.
    pub alt: bool,
    /// The key.
    pub key: Key,
}

impl Shortcut {
    /// Returns the modifiers as egui expects them.
    #[must_use]
    pub fn modifiers(self) -> Modifiers {
        Modifiers {
            alt: self.alt,
            shift: self.shift,
            command: self.ctrl,
            ..Modifiers::NONE
        }
    }

    /// Returns the shortcut as display text.
    #[must_use]
    pub fn text(self) -> String {
        self.format_with_key(match self.key {
            Key::ArrowLeft => "←",
            Key::ArrowRight => "→",
            Key::ArrowUp => "↑",
            Key::ArrowDown => "↓",
            k => key_symbol(k).unwrap_or(k.name()),
        })
    }

    fn format_with_key(self, key: &str) -> String {
        let mut out = String::new();
        for (on, word) in [(self.ctrl, "Ctrl "), (self.shift, "Shift "), (self.alt, "Alt ")] {
            if on {
                out += word;
            }
        }
        out + key
    }

    /// Returns the shortcut as a file stores it.
    #[must_use]
    pub fn chord(self) -> Chord {
        Chord {
            ctrl: self.ctrl,
            shift: self.shift,
            alt: self.alt,
            key: key_symbol(self.key).unwrap_or(self.key.name()).to_owned(),
        }
    }

    /// Returns the shortcut that a file names; `None`: there is no such key.
    #[must_use]
    pub fn from_chord(chord: &Chord) -> Option<Self> {
        let shortcut = Self {
            ctrl: chord.ctrl,
            shift: chord.shift,
            alt: chord.alt,
            key: match chord.key.as_str() {
                "←" => Key::ArrowLeft,
                "→" => Key::ArrowRight,
                "↑" => Key::ArrowUp,
                "↓" => Key::ArrowDown,
                name => Key::from_name(name).or_else(|| Key::from_name(&capitalize(name)))?,
            },
        };
        Some(shortcut.canonical())
    }

    /// Returns the shortcut of a key and its modifiers.
    #[must_use]
    pub fn from_press(key: Key, modifiers: Modifiers) -> Self {
        let shortcut = Self {
            ctrl: modifiers.ctrl || modifiers.command || modifiers.mac_cmd,
            shift: modifiers.shift,
            alt: modifiers.alt,
            key,
        };
        shortcut.canonical()
    }

    /// Normalises a shortcut that has several forms for the same character. A question mark needs Shift on some
    /// keyboards and is a separate key on others. A plus is an equals sign with or without Shift.
    fn canonical(mut self) -> Self {
        self.key = match self.key {
            Key::Slash if self.shift => Key::Questionmark,
            Key::Equals if self.shift || self.ctrl => Key::Plus,
            k => k,
        };
        if matches!(
            self.key,
            Key::Questionmark
                | Key::Plus
                | Key::Colon
                | Key::Pipe
                | Key::Exclamationmark
                | Key::OpenCurlyBracket
                | Key::CloseCurlyBracket
        ) {
            self.shift = false;
        }
        self
    }

    /// Returns whether an event presses this shortcut with exactly these modifiers. The modifiers are those of the
    /// event, because the keys may be released before the end of the frame.
    #[must_use]
    pub fn matches_event(self, event: &Event) -> bool {
        Self::from_event(event).is_some_and(|s| s == self.canonical())
    }

    /// Returns the shortcut that an event presses.
    #[must_use]
    pub fn from_event(event: &Event) -> Option<Self> {
        match event {
            Event::Key {
                key,
                pressed: true,
                modifiers,
                ..
            } => Some(Self::from_press(*key, *modifiers)),
            _ => None,
        }
    }

    /// Returns whether it is a key without modifiers, which a text field needs.
    #[must_use]
    pub fn is_plain(self) -> bool {
        !self.ctrl && !self.alt
    }

    /// Returns whether a text field uses the shortcut: letters, and keys that move the caret or edit text.
    #[must_use]
    pub fn is_text_editing(self) -> bool {
        self.is_plain()
            || (self.ctrl
                && matches!(
                    self.key,
                    Key::A
                        | Key::ArrowLeft
                        | Key::ArrowRight
                        | Key::ArrowUp
                        | Key::ArrowDown
                        | Key::Home
                        | Key::End
                        | Key::Backspace
                        | Key::Delete
                ))
    }

    /// Returns why no command can have the shortcut; `None`: it is free.
    #[must_use]
    pub fn reserved_reason(self) -> Option<&'static str> {
        if is_modifier(self.key) {
            return Some("holds other keys and is none by itself");
        }
        match self.key {
            Key::Copy | Key::Cut | Key::Paste => Some("is for the clipboard"),
            Key::C | Key::X | Key::V if self.ctrl && !self.shift && !self.alt => Some("is for the clipboard"),
            Key::Escape if self.is_plain() => Some("stops and closes things"),
            Key::Tab => Some("goes from field to field"),
            Key::Enter | Key::Space | Key::Backspace | Key::Delete if self.is_plain() => {
                Some("is for buttons, lists and fields")
            }
            Key::ArrowUp | Key::ArrowDown | Key::ArrowLeft | Key::ArrowRight | Key::PageUp | Key::PageDown
                if self.is_plain() =>
            {
                Some("goes along lists and fields")
            }
            Key::CapsLock | Key::NumLock | Key::ScrollLock | Key::Power | Key::Sleep => Some("is for the machine"),
            _ => None,
        }
    }
}

/// Returns whether a key is a modifier.
#[must_use]
pub fn is_modifier(key: Key) -> bool {
    matches!(
        key,
        Key::ShiftLeft
            | Key::ShiftRight
            | Key::ControlLeft
            | Key::ControlRight
            | Key::AltLeft
            | Key::AltRight
            | Key::SuperLeft
            | Key::SuperRight
            | Key::Fn
    )
}

/// Returns the symbol of a key whose name is a word.
fn key_symbol(key: Key) -> Option<&'static str> {
    Some(match key {
        Key::Period => ".",
        Key::Comma => ",",
        Key::OpenBracket => "[",
        Key::CloseBracket => "]",
        Key::OpenCurlyBracket => "{",
        Key::CloseCurlyBracket => "}",
        Key::Questionmark => "?",
        Key::Exclamationmark => "!",
        Key::Plus => "+",
        Key::Minus => "-",
        Key::Equals => "=",
        Key::Colon => ":",
        Key::Semicolon => ";",
        Key::Slash => "/",
        Key::Backslash => "\\",
        Key::Pipe => "|",
        Key::Backtick => "`",
        Key::Quote => "'",
        _ => return None,
    })
}

/// Capitalises a word.
fn capitalize(word: &str) -> String {
    let mut all = word.chars();
    all.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(all.flat_map(char::to_lowercase)).collect()
    })
}

/// Creates a shortcut of a key without modifiers.
pub const fn key(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: false,
        alt: false,
        key,
    })
}

/// Creates a shortcut with Ctrl.
pub const fn ctrl(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: true,
        shift: false,
        alt: false,
        key,
    })
}

/// Creates a shortcut with Ctrl and Shift.
pub const fn ctrl_shift(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: true,
        shift: true,
        alt: false,
        key,
    })
}

/// Creates a shortcut with Alt.
pub const fn alt(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: false,
        alt: true,
        key,
    })
}

/// Creates a shortcut with Shift.
pub const fn shift(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: true,
        alt: false,
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_round_trips_as_text() {
        for k in Key::ALL {
            for ctrl in [false, true] {
                let s = Shortcut::from_press(*k, if ctrl { Modifiers::COMMAND } else { Modifiers::NONE });
                let written = s.chord().to_string();
                let back = Chord::parse(&written).and_then(|c| Shortcut::from_chord(&c));
                assert_eq!(back, Some(s), "{written}");
            }
        }
        let normalize = |t: &str| Shortcut::from_chord(&Chord::parse(t).unwrap()).map(Shortcut::text);
        assert_eq!(normalize("ctrl+shift+left").as_deref(), Some("Ctrl Shift ←"));
        assert_eq!(normalize("Alt PageUp").as_deref(), Some("Alt PageUp"));
        assert_eq!(normalize("Alt ↑").as_deref(), Some("Alt ↑"));
        assert_eq!(normalize("Shift /").as_deref(), Some("?"));
        assert_eq!((normalize("Ctrl Foo"), normalize("Ctrl")), (None, None));
    }

    #[test]
    fn a_plus_and_a_question_mark_are_one_key_on_every_keyboard() {
        let ctrl_plus = ctrl(Key::Plus).unwrap();
        for (key, shift) in [
            (Key::Plus, false),
            (Key::Plus, true),
            (Key::Equals, false),
            (Key::Equals, true),
        ] {
            let modifiers = Modifiers {
                shift,
                ..Modifiers::COMMAND
            };
            assert_eq!(Shortcut::from_press(key, modifiers), ctrl_plus, "{key:?}");
        }
        for (key, shift) in [
            (Key::Questionmark, false),
            (Key::Questionmark, true),
            (Key::Slash, true),
        ] {
            let modifiers = Modifiers {
                shift,
                ..Modifiers::NONE
            };
            assert_eq!(Shortcut::from_press(key, modifiers).text(), "?");
        }
        assert_eq!(Shortcut::from_press(Key::Equals, Modifiers::NONE).text(), "=");
    }
}
