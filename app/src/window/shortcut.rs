//! Keys of commands.

use egui::{Key, Modifiers};

/// A key with modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The modifiers as egui wants them.
    #[must_use]
    pub fn modifiers(self) -> Modifiers {
        Modifiers {
            alt: self.alt,
            shift: self.shift,
            command: self.ctrl,
            ..Modifiers::NONE
        }
    }

    /// The shortcut as a person reads it.
    #[must_use]
    pub fn text(self) -> String {
        let mut out = String::new();
        for (on, word) in [(self.ctrl, "Ctrl "), (self.shift, "Shift "), (self.alt, "Alt ")] {
            if on {
                out += word;
            }
        }
        let key = match self.key {
            Key::ArrowLeft => "←",
            Key::ArrowRight => "→",
            Key::Period => ".",
            Key::Comma => ",",
            Key::OpenBracket => "[",
            Key::CloseBracket => "]",
            Key::Questionmark => "?",
            k => k.name(),
        };
        out + key
    }

    /// Whether it is a key alone, which a text field needs for itself.
    #[must_use]
    pub fn plain(self) -> bool {
        !self.ctrl && !self.alt
    }
}

/// A key alone.
pub const fn key(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: false,
        alt: false,
        key,
    })
}

/// A key with Ctrl.
pub const fn ctrl(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: true,
        shift: false,
        alt: false,
        key,
    })
}

/// A key with Ctrl and Shift.
pub const fn ctrl_shift(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: true,
        shift: true,
        alt: false,
        key,
    })
}

/// A key with Alt.
pub const fn alt(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: false,
        alt: true,
        key,
    })
}

/// A key with Shift.
pub const fn shift(key: Key) -> Option<Shortcut> {
    Some(Shortcut {
        ctrl: false,
        shift: true,
        alt: false,
        key,
    })
}
