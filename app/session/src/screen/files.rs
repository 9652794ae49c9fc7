//! Screen pictures as files: PNG, animated PNG (APNG), PPM.

use super::{FormatSource, NotDrawable, Screen};
use std::io::Write;
use trace_core::progress::Progress;

/// Display time of each picture of a sequence, milliseconds.
pub const FRAME_MS: u16 = 100;

/// Why a picture was not written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no picture.
    #[error("{0}")]
    NoScreen(NotDrawable),
    /// The picture could not be encoded.
    #[error(transparent)]
    Png(#[from] png::EncodingError),
    /// The file could not be written.
    #[error(transparent)]
    Output(#[from] kinescope_files::output::OutputError),
    /// The operation was cancelled.
    #[error("stopped")]
    Stopped,
}

/// Encodes a picture as PNG. `rgba` has red, green, blue and opacity of each pixel.
///
/// # Errors
/// Returns an error if the picture has no pixels.
pub fn png(width: u32, height: u32, rgba: &[u8]) -> Result<Vec<u8>, FileError> {
    let mut out = Vec::new();
    let mut writer = encoder(&mut out, width, height).write_header()?;
    writer.write_image_data(rgba)?;
    writer.finish()?;
    Ok(out)
}

/// Writes the screen at these events as one animated PNG. Unknown pixels are transparent. Programs without APNG support
/// show the first picture.
///
/// # Errors
/// Returns an error if the screen cannot be drawn at the last event, writing fails, or the operation was cancelled.
pub fn film(
    screen: &Screen,
    source: FormatSource,
    events: &[u64],
    to: &mut dyn Write,
    progress: &Progress,
) -> Result<(), FileError> {
    let last = events.last().copied().unwrap_or_default();
    let format = screen
        .screen_settings(source, last)
        .map_err(FileError::NoScreen)?
        .format;
    let mut e = encoder(to, format.width, format.height);
    e.set_animated(u32::try_from(events.len()).unwrap_or(u32::MAX), 0)?;
    e.set_frame_delay(FRAME_MS, 1000)?;
    let mut writer = e.write_header()?;
    let mut failed = None;
    progress.set_total(events.len() as u64);
    let all = screen.frames(source, events, |_, rgba| {
        let done = writer.write_image_data(&rgba).map_err(FileError::from);
        let go_on = progress.advance(1).map_err(|_| FileError::Stopped);
        failed = done.and(go_on).err();
        failed.is_none()
    });
    all.map_err(FileError::NoScreen)?;
    match failed {
        Some(e) => Err(e),
        None => Ok(writer.finish()?),
    }
}

fn encoder<'a, W: Write>(to: W, width: u32, height: u32) -> png::Encoder<'a, W> {
    let mut e = png::Encoder::new(to, width, height);
    e.set_color(png::ColorType::Rgba);
    e.set_depth(png::BitDepth::Eight);
    e
}
