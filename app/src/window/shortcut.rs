//! Keys of commands.

use egui::{Event, Key, Modifiers};

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

    /// Whether an event is the press of this shortcut, with these modifiers and no others. They are the event's own: the
    /// keys may be up again by the end of the frame.
    #[must_use]
    pub fn is(self, event: &Event) -> bool {
        let Event::Key {
            key,
            pressed: true,
            modifiers,
            ..
        } = event
        else {
            return false;
        };
        let exactly = |s: Self| *key == s.key && modifiers.matches_exact(s.modifiers());
        match self.key {
            // A question mark needs Shift on some keyboards and arrives as a key of its own on others.
            Key::Questionmark => {
                let mark = *key == Key::Questionmark || (*key == Key::Slash && modifiers.shift);
                mark && !modifiers.alt && !modifiers.command && !modifiers.ctrl
            }
            // What was undone is done again with Ctrl Y in as many programs as with Ctrl Shift Z.
            Key::Z if self.ctrl && self.shift => exactly(self) || ctrl(Key::Y).is_some_and(exactly),
            _ => exactly(self),
        }
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
