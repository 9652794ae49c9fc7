//! What the Screen panel shows: the form, the zoom, the pixel, which picture.

use crate::document::Document;
use crate::document::screen::{FormatSource, ManualFormat, NotDrawable, Screen, ScreenSettings};
use crate::theme::rows::Rows;
use egui::{Pos2, TextureHandle};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::screen::{Comparison, FramebufferState, Picture, PixelCounts, RenderedScreen, Stores};

/// Which picture is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PictureKind {
    /// What the stores left.
    #[default]
    Stores,
    /// What the device showed when it was recorded.
    Recorded,
    /// What the device showed after the replay.
    Replayed,
    /// Where two of them differ.
    Difference,
}

/// What is known of stores and registers.
#[derive(Clone, Default)]
pub enum ScreenLoad {
    /// Nothing yet.
    #[default]
    NotStarted,
    /// They are being read.
    Loading(Progress),
    /// All of it.
    Loaded(Arc<Screen>),
    /// They were not read, and why.
    Failed(String),
}

/// Stores to a pixel.
#[derive(Clone)]
pub struct PixelStores {
    /// The bytes of the pixel in the framebuffer.
    pub bytes: std::ops::Range<u64>,
    /// What was found; `None` while it is looked for.
    pub found: Option<Arc<Stores>>,
    /// Stops looking.
    pub progress: Progress,
}

/// The picture from the stores, and what it was made of.
#[derive(Clone)]
pub(super) struct StorePicture {
    pub source: FormatSource,
    pub event: u64,
    pub stores: u64,
    pub look: Result<Arc<ScreenSettings>, NotDrawable>,
    pub drawn: Option<Arc<RenderedScreen>>,
    pub counts: PixelCounts,
    /// Moves with every change of the picture.
    pub number: u64,
}

/// What a texture was made of: which picture, its number, the ground of the theme that it is for, its pixels.
pub(super) type TextureKey = (PictureKind, u64, egui::Color32, [usize; 2]);

/// A comparison of two pictures, and what it was made of.
#[derive(Clone)]
pub(super) struct PictureComparison {
    pub with: PictureKind,
    pub number: u64,
    pub result: Result<Arc<Comparison>, String>,
}

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// What is known of stores and registers.
    pub load: ScreenLoad,
    /// The form that a person says, and the fields for it; `None`: the registers tell it.
    pub manual: Option<ManualFormat>,
    /// What is wrong with the fields.
    pub wrong: Option<String>,
    /// The form that the fields said last.
    pub(super) manual_format: Option<trace_core::screen::ScreenFormat>,
    /// Which picture is shown.
    pub picture_kind: PictureKind,
    /// Pixels of the display that a pixel of the picture takes; `None`: as many as fit.
    pub zoom: Option<f32>,
    /// Place in the picture that is in the middle, pixels.
    pub(super) middle: Option<Pos2>,
    /// Zoom that was drawn last.
    pub(super) drawn_zoom: f32,
    /// The pixel that was chosen.
    pub pixel: Option<[u32; 2]>,
    /// Stores to it.
    pub stores: Option<PixelStores>,
    pub(super) list: Rows,
    pub(super) seen_moment: u64,
    pub(super) seen_jump: u64,
    pub(super) state: FramebufferState,
    pub(super) store_picture: Option<StorePicture>,
    /// The picture is being drawn apart from the interface thread, for this event.
    pub(super) drawing: Option<(u64, FormatSource, Progress)>,
    pub(super) texture: Option<(TextureKey, TextureHandle)>,
    pub(super) compared: Option<PictureComparison>,
    /// The picture after the last replay, and the outcome's fingerprint.
    pub(super) replayed: Option<(u64, Option<Arc<Picture>>)>,
    pub(super) hovered: Option<([u32; 2], u64, String)>,
}

impl View {
    /// Where the form comes from.
    #[must_use]
    pub fn source(&self) -> FormatSource {
        match (&self.manual, self.manual_format) {
            (Some(_), Some(f)) => FormatSource::Manual(f),
            _ => FormatSource::Registers,
        }
    }

    /// What is known of stores and registers, when it is.
    #[must_use]
    pub fn screen(&self) -> Option<&Arc<Screen>> {
        match &self.load {
            ScreenLoad::Loaded(s) => Some(s),
            _ => None,
        }
    }

    /// The picture that is shown from the stores.
    #[must_use]
    pub fn drawn(&self) -> Option<&Arc<RenderedScreen>> {
        self.store_picture.as_ref()?.drawn.as_ref()
    }

    /// How it is drawn, or why it is not.
    #[must_use]
    pub fn look(&self) -> Option<Result<&ScreenSettings, &NotDrawable>> {
        Some(self.store_picture.as_ref()?.look.as_ref().map(|l| &**l))
    }

    /// How the two pictures differ, while that is shown.
    #[must_use]
    pub fn comparison(&self) -> Option<&Comparison> {
        self.compared.as_ref()?.result.as_ref().ok().map(|c| &**c)
    }

    /// The store to the chosen pixel after the moment, or the one before it.
    #[must_use]
    pub fn find_next_store(&self, doc: &Document, forward: bool) -> Option<u64> {
        let list = &self.stores.as_ref()?.found.as_ref()?.list;
        let m = doc.moment();
        let at = match forward {
            true => list.partition_point(|s| s.event <= m),
            false => list.partition_point(|s| s.event < m).checked_sub(1)?,
        };
        list.get(at).map(|s| s.event)
    }

    /// The pixel that begins at an offset of a space, as the screen is drawn now.
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

    /// Bytes of the chosen pixel in the framebuffer.
    pub(super) fn pixel_bytes(&self) -> Option<std::ops::Range<u64>> {
        let [x, y] = self.pixel?;
        let format = self.look()?.ok()?.format;
        let at = format.offset(x, y)?;
        Some(at..at.saturating_add(u64::from(format.pixel.bytes())))
    }
}
