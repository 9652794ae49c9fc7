//! The display controller's state at any event: its registers are followed through the recording.
//!
//! The register maps give the device, the location of its registers, and their screen facts (`screen` in
//! `docs/register-map.md`). A map that gives a size and the bits of a pixel needs no code. Behaviour that no map can
//! express, such as the start of a drawing engine, is a file here and a line in [`CONTROLLERS`]. A register is known
//! from the first access that shows its value, a write or a read. A mode that was set before the recording is known as
//! far as the driver read it back.

mod ati;
mod bochs;
mod controller;
mod live;
mod mapped;
mod registers;
#[cfg(test)]
mod tests;

pub use controller::{Mode, ModeError};
pub use live::{LiveDisplay, LiveError};

use super::format::{Palette, ScreenFormat};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Hardware, Recording, SpaceKind};
use crate::registers::RegisterMap;
use controller::{Controller, Effect};
use mapped::MapScreen;

/// Maximum number of mode changes, colour changes, or drawing commands.
const MAX_CHANGES: usize = 1 << 22;
/// Number of colour changes between two stored palettes.
const COLORS: usize = 512;
/// Events between two checks for cancellation.
const STEP: usize = 1 << 14;

/// A constructor of a controller from a map.
type Make = fn(&'static RegisterMap) -> Box<dyn Controller + Send>;

/// The display controller of a device.
struct ControllerKind {
    map: &'static RegisterMap,
    name: &'static str,
    /// Name of the space that it shows.
    framebuffer: &'static str,
    make: Make,
}

impl ControllerKind {
    /// Returns the controller of a device, if its register map describes one.
    fn for_hardware(hardware: &Hardware) -> Option<Self> {
        let map = RegisterMap::for_hardware(hardware).filter(|m| MapScreen::is_whole(m))?;
        let plain: Make = |map| Box::new(MapScreen::new(map, &[]));
        let known = CONTROLLERS.iter().find(|(of, ..)| *of == map.name());
        Some(Self {
            map,
            name: known.map_or_else(|| map.hardware_name(hardware).unwrap_or_default(), |k| k.1),
            framebuffer: map.framebuffers().first()?,
            make: known.map_or(plain, |k| k.2),
        })
    }

    fn controller(&self) -> Box<dyn Controller + Send> {
        (self.make)(self.map)
    }
}

/// Maps whose controllers need code: name of the map, display name of the controller, and the code.
static CONTROLLERS: &[(&str, &str, Make)] = &[
    ("rage128", "Rage 128 Pro", |map| Box::new(ati::Ati::new(map))),
    ("rv100", "Radeon RV100", |map| Box::new(ati::Ati::new(map))),
    ("bochs-display", "Bochs display", |map| Box::new(bochs::Bochs::new(map))),
];

/// The reason why the display registers were not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisplayError {
    /// A limit was exceeded.
    #[error("event {event}: more than {MAX_CHANGES} {what}")]
    TooMany {
        /// The event that exceeded it.
        event: u64,
        /// What exceeded it.
        what: &'static str,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// The display controller's states through a recording.
#[derive(Clone, Debug)]
pub struct Display {
    name: &'static str,
    space: Option<u8>,
    /// Modes, each from an event on, in order.
    modes: Vec<(u64, Mode)>,
    /// Colour changes in order, and the palette before each group of [`COLORS`] changes.
    colors: Vec<(u64, u8, [u8; 3])>,
    palettes: Vec<Palette>,
    /// Events at which something other than a store drew.
    draws: Vec<u64>,
}

/// The display controller's state at an event.
#[derive(Clone, Debug)]
pub struct DisplayState {
    /// The mode.
    pub mode: Mode,
    /// The event that set it; `None`: none so far.
    pub since: Option<u64>,
    /// The palette.
    pub palette: Palette,
}

impl Display {
    /// Follows the registers of a recording's display controller. Returns `None` if the recording does not name its
    /// device, or its controller is unknown.
    ///
    /// # Errors
    ///
    /// [`DisplayError`] if a limit is exceeded, or the work was cancelled.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Option<Self>, DisplayError> {
        let Some(kind) = recording.hardware().and_then(ControllerKind::for_hardware) else {
            return Ok(None);
        };
        let space = |name: &str, kind: SpaceKind| {
            let spaces = recording.metadata.spaces.iter().zip(0..=u8::MAX);
            spaces
                .filter(|(s, _)| s.name == name && s.kind == kind)
                .map(|(_, i)| i)
                .next()
        };
        let mut display = Self {
            name: kind.name,
            space: space(kind.framebuffer, SpaceKind::Framebuffer),
            modes: Vec::new(),
            colors: Vec::new(),
            palettes: Vec::new(),
            draws: Vec::new(),
        };
        let mut controller = kind.controller();
        display.modes.push((0, controller.mode()));
        if let Some(registers) = space(kind.map.space(), SpaceKind::Registers) {
            display.follow(recording, registers, &mut *controller, progress)?;
        }
        Ok(Some(display))
    }

    fn follow(
        &mut self,
        recording: &Recording,
        registers: u8,
        controller: &mut dyn Controller,
        progress: &Progress,
    ) -> Result<(), DisplayError> {
        let mut palette = Palette::default();
        let n = recording.events.len();
        progress.set_total(n as u64);
        for from in (0..n).step_by(STEP) {
            for (event, a) in recording.events.accesses(from..(from + STEP).min(n)) {
                if a.space != registers {
                    continue;
                }
                let event = event as u64;
                let effect = match a.write {
                    true => controller.write(a.offset.get(), a.width, a.value),
                    false => controller.read(a.offset.get(), a.width, a.value),
                };
                match effect {
                    Effect::None => {}
                    Effect::Mode => {
                        let mode = controller.mode();
                        if self.modes.last().is_none_or(|(_, m)| *m != mode) {
                            check_room(&self.modes, event, "mode changes")?;
                            self.modes.push((event, mode));
                        }
                    }
                    Effect::Color(index, color) => {
                        check_room(&self.colors, event, "colour changes")?;
                        if self.colors.len().is_multiple_of(COLORS) {
                            self.palettes.push(palette.clone());
                        }
                        palette.set(index, color);
                        self.colors.push((event, index, color));
                    }
                    Effect::Draws => {
                        check_room(&self.draws, event, "drawing commands")?;
                        self.draws.push(event);
                    }
                }
            }
            progress.advance(STEP as u64)?;
        }
        Ok(())
    }

    /// Returns the name of the controller for display.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the space that it shows, if the recording has it.
    #[must_use]
    pub fn framebuffer(&self) -> Option<u8> {
        self.space
    }

    /// Returns the state after an event and all earlier ones.
    #[must_use]
    pub fn after(&self, event: u64) -> DisplayState {
        let at = self.modes.partition_point(|(e, _)| *e <= event).saturating_sub(1);
        let (since, mode) = self.modes.get(at).copied().unwrap_or((
            0,
            Mode {
                screen: Err(ModeError::Off("no mode is known")),
                cursor: false,
            },
        ));
        DisplayState {
            mode,
            since: (at > 0).then_some(since),
            palette: self.palette(event),
        }
    }

    fn palette(&self, event: u64) -> Palette {
        let end = self.colors.partition_point(|(e, ..)| *e <= event);
        let kept = (end / COLORS).min(self.palettes.len().saturating_sub(1));
        let mut palette = self.palettes.get(kept).cloned().unwrap_or_default();
        for (_, index, color) in self.colors.get(kept * COLORS..end).unwrap_or_default() {
            palette.set(*index, *color);
        }
        palette
    }

    /// Returns the last screen up to an event, even if the controller was turned off since.
    #[must_use]
    pub fn last_screen(&self, event: u64) -> Option<ScreenFormat> {
        let end = self.modes.partition_point(|(e, _)| *e <= event);
        self.modes.get(..end)?.iter().rev().find_map(|(_, m)| m.screen.ok())
    }

    /// Returns the first event with a screen.
    #[must_use]
    pub fn first_screen(&self) -> Option<u64> {
        self.modes.iter().find(|(_, m)| m.screen.is_ok()).map(|(e, _)| *e)
    }

    /// Returns the events at which the mode changed, in order.
    #[must_use]
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (u64, Mode)> + '_ {
        self.modes.iter().skip(1).copied()
    }

    /// Returns how often something other than a store drew, up to and including an event: the drawing engine, its
    /// command processor, or the aperture behind an index register. The picture contains none of it.
    #[must_use]
    pub fn engine_runs(&self, event: u64) -> usize {
        self.draws.partition_point(|e| *e <= event)
    }
}

fn check_room<T>(list: &[T], event: u64, what: &'static str) -> Result<(), DisplayError> {
    match list.len() < MAX_CHANGES {
        true => Ok(()),
        false => Err(DisplayError::TooMany { event, what }),
    }
}
