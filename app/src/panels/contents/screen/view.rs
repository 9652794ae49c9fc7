//! State of the Screen panel: the format, the zoom, the pixel, the kind of picture.

use crate::theme::rows::Rows;
use egui::{Pos2, TextureHandle};
use kinescope_session::Document;
use kinescope_session::screen::{FormatSource, ManualFormat, NotDrawable, Screen, ScreenSettings};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::screen::{Comparison, FramebufferState, Picture, PixelCounts, RenderedScreen, Stores};

/// Kind of picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PictureKind {
    /// The content that the stores left.
    #[default]
    Stores,
    /// The content that the device showed when it was recorded.
    Recorded,
    /// The content that the device showed after the replay.
    Replayed,
    /// The differences between two of them.
    Difference,
}

/// State of the stores and registers.
#[derive(Clone, Default)]
pub enum ScreenLoad {
    /// Reading has not started.
    #[default]
    NotStarted,
    /// They are being read.
    Loading(Progress),
    /// All of it.
    Loaded(Arc<Screen>),
    /// Reading failed, with the reason.
    Failed(String),
}

/// Stores to a pixel.
#[derive(Clone)]
pub struct PixelStores {
    /// The bytes of the pixel in the framebuffer.
    pub bytes: std::ops::Range<u64>,
    /// The stores; `None` while the search runs.
    pub found: Option<Arc<Stores>>,
    /// Cancels the search.
    pub progress: Progress,
}

/// The picture from the stores, and its inputs.
#[derive(Clone)]
pub(super) struct StorePicture {
    pub source: FormatSource,
    pub event: u64,
    pub stores: u64,
    pub look: Result<Arc<ScreenSettings>, NotDrawable>,
    pub drawn: Option<Arc<RenderedScreen>>,
    pub counts: PixelCounts,
    /// Changes with every change of the picture.
    pub number: u64,
}

/// The inputs of a texture: the kind of picture, its number, the background of its theme, its pixels.
pub(super) type TextureKey = (PictureKind, u64, egui::Color32, [usize; 2]);

/// A comparison of two pictures, and its inputs.
#[derive(Clone)]
pub(super) struct PictureComparison {
    pub with: PictureKind,
    pub number: u64,
    pub result: Result<Arc<Comparison>, String>,
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// State of the stores and registers.
    pub load: ScreenLoad,
    /// The format that the user entered, and its fields; `None`: the registers give it.
    pub manual: Option<ManualFormat>,
    /// The error in the fields.
    pub wrong: Option<String>,
    /// The last valid format of the fields.
    pub(super) manual_format: Option<trace_core::screen::ScreenFormat>,
    /// The kind of picture that is shown.
    pub picture_kind: PictureKind,
    /// Display pixels for one pixel of the picture; `None`: as many as fit.
    pub zoom: Option<f32>,
    /// Position in the picture that is in the middle, pixels.
    pub(super) middle: Option<Pos2>,
    /// Zoom of the last frame.
    pub(super) drawn_zoom: f32,
    /// The chosen pixel.
    pub pixel: Option<[u32; 2]>,
    /// Stores to it.
    pub stores: Option<PixelStores>,
    pub(super) list: Rows,
    pub(super) seen_event: u64,
    pub(super) seen_jump: u64,
    pub(super) state: FramebufferState,
    pub(super) store_picture: Option<StorePicture>,
    /// The running drawing off the interface thread, for this event.
    pub(super) drawing: Option<(u64, FormatSource, Progress)>,
    pub(super) texture: Option<(TextureKey, TextureHandle)>,
    pub(super) compared: Option<PictureComparison>,
    /// The picture after the last replay, and the outcome's fingerprint.
    pub(super) replayed: Option<(u64, Option<Arc<Picture>>)>,
    pub(super) hovered: Option<([u32; 2], u64, String)>,
}

impl View {
    /// Returns the source of the format.
    #[must_use]
    pub fn source(&self) -> FormatSource {
        match (&self.manual, self.manual_format) {
            (Some(_), Some(f)) => FormatSource::Manual(f),
            _ => FormatSource::Registers,
        }
    }

    /// Returns the stores and registers, once they are read.
    #[must_use]
    pub fn screen(&self) -> Option<&Arc<Screen>> {
        match &self.load {
            ScreenLoad::Loaded(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the picture that is shown from the stores.
    #[must_use]
    pub fn drawn(&self) -> Option<&Arc<RenderedScreen>> {
        self.store_picture.as_ref()?.drawn.as_ref()
    }

    /// Returns the settings for drawing, or why it cannot be drawn.
    #[must_use]
    pub fn look(&self) -> Option<Result<&ScreenSettings, &NotDrawable>> {
        Some(self.store_picture.as_ref()?.look.as_ref().map(|l| &**l))
    }

    /// Returns the comparison of the two pictures, while it is shown.
    #[must_use]
    pub fn comparison(&self) -> Option<&Comparison> {
        self.compared.as_ref()?.result.as_ref().ok().map(|c| &**c)
    }

    /// Returns the store to the chosen pixel after the current event, or the one before it.
    #[must_use]
    pub fn find_next_store(&self, doc: &Document, forward: bool) -> Option<u64> {
        let list = &self.stores.as_ref()?.found.as_ref()?.list;
        let m = doc.current_event();
        let at = match forward {
            true => list.partition_point(|s| s.event <= m),
            false => list.partition_point(|s| s.event < m).checked_sub(1)?,
        };
        list.get(at).map(|s| s.event)
    }

    /// Returns the pixel that starts at an offset of a space, as the screen is drawn now.
    #[must_use]
    pub fn pixel_at(&self, space: u8, offset: u64) -> Option<[u32; 2]> {
        self.screen().filter(|s| s.framebuffer.space() == space)?;
        let format = self.look()?.ok()?.format;
        let inside = offset.checked_sub(format.base)?;
        let pitch = u64::from(format.pitch.max(1));
        let x = u32::try_from(inside % pitch / u64::from(format.pixel.bytes())).ok()?;
        let y = u32::try_from(inside / pitch).ok()?;
        (format.offset(x, y) == Some(offset)).then_some([x, y])
    }

    /// Returns the bytes of the chosen pixel in the framebuffer.
    pub(super) fn pixel_bytes(&self) -> Option<std::ops::Range<u64>> {
        let [x, y] = self.pixel?;
        let format = self.look()?.ok()?.format;
        let at = format.offset(x, y)?;
        Some(at..at.saturating_add(u64::from(format.pixel.bytes())))
    }
}
