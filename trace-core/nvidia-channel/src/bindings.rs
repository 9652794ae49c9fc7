//! Classes that a channel's subchannels are bound to.

use crate::header::SUBCHANNELS;

/// The method that binds a class to a subchannel.
pub const SET_OBJECT: u16 = 0;
/// First method that belongs to the class of the subchannel. Lower ones belong to the channel's own class.
pub const FIRST_ENGINE_METHOD: u16 = 0x100;

/// Classes of a channel: its own, and those of its subchannels. They last from push buffer to push buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bindings {
    host: u16,
    subchannels: [Option<u16>; SUBCHANNELS as usize],
}

impl Bindings {
    /// Returns the bindings of a new channel of a class, such as `0xc86f`: no subchannel has a class.
    #[must_use]
    pub fn new(host: u16) -> Self {
        Self {
            host,
            subchannels: [None; SUBCHANNELS as usize],
        }
    }

    /// Returns the bindings with a class on a subchannel, for a recording that begins after the method that bound it.
    #[must_use]
    pub fn with(mut self, subchannel: u8, class: u16) -> Self {
        self.bind(subchannel, class);
        self
    }

    /// Binds a class to a subchannel. Does nothing for a subchannel beyond the last one.
    pub fn bind(&mut self, subchannel: u8, class: u16) {
        if let Some(slot) = self.subchannels.get_mut(usize::from(subchannel)) {
            *slot = Some(class);
        }
    }

    /// Binds an engine's class to the subchannel on which drivers have engines of its kind: nouveau's and CUDA's are the
    /// same. Does nothing for a class of another kind.
    pub fn bind_engine(&mut self, class: u16) {
        // The last byte of a class says what it is for.
        let subchannel = match class & 0xff {
            0x97 => 0,
            0xc0 => 1,
            0x40 => 2,
            0x2d => 3,
            0xb5 => 4,
            _ => return,
        };
        self.bind(subchannel, class);
    }

    /// Returns the bindings with an engine's class, as [`Self::bind_engine`] binds it.
    #[must_use]
    pub fn with_engine(mut self, class: u16) -> Self {
        self.bind_engine(class);
        self
    }

    /// Returns the class of the channel.
    #[must_use]
    pub fn host(&self) -> u16 {
        self.host
    }

    /// Returns the class that is bound to a subchannel.
    #[must_use]
    pub fn class_of(&self, subchannel: u8) -> Option<u16> {
        *self.subchannels.get(usize::from(subchannel))?
    }

    /// Returns the class that a method belongs to, or `None` if its subchannel has none.
    #[must_use]
    pub fn class_of_method(&self, subchannel: u8, method: u16) -> Option<u16> {
        if method < FIRST_ENGINE_METHOD {
            Some(self.host)
        } else {
            self.class_of(subchannel)
        }
    }
}
