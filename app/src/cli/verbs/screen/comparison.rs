//! `screen --compare`: compares the screen with a picture file, the picture that the device showed at the end, or the
//! screen of another recording. It reports the first difference, and the store that set that pixel on each side.

use crate::cli::out::format_count;
use crate::cli::source::Source as Argument;
use crate::cli::{Failure, format_hex, progress_line};
use kinescope_session::screen::{FormatSource, Screen, ScreenSettings};
use serde::Serialize;
use std::io::{Cursor, Read as _};
use std::path::Path;
use trace_core::recording::Recording;
use trace_core::screen::{
    Comparison, MAX_FILE, MAX_SIDE, Picture, PixelBounds, RenderedScreen, StoreState, compare_where,
};

/// The screen of a recording after an event.
pub struct Side {
    pub recording: Recording,
    pub screen: Screen,
    pub look: ScreenSettings,
    pub event: u64,
}

/// The picture that a screen is compared with.
pub struct ScreenReference {
    picture: Picture,
    /// Known state of its pixels; pixels beyond its end are known.
    known: Vec<StoreState>,
    /// The recording side, if it is the screen of a recording.
    side: Option<Side>,
}

/// The comparison with another picture in figures. The engine has the difference of each pixel.
#[derive(Serialize)]
pub struct ScreenDiffReport {
    /// Number of compared pixels, and of those that differ.
    compared: u64,
    pub differing: u64,
    /// Maximum difference of a channel, 0 to 255.
    worst: u8,
    /// The smallest rectangle with all differences; `null` if nothing differs.
    bounds: Option<PixelBounds>,
    /// Event of the other recording after which its screen is compared; absent for a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_event: Option<u64>,
    /// The first pixel that differs, in row order from the top; `null` if nothing differs.
    first: Option<FirstPixel>,
}

/// The first pixel that differs, in row order from the top, which this verb looks for.
#[derive(Serialize)]
struct FirstPixel {
    /// The pixel.
    x: u32,
    y: u32,
    /// The pixel of this recording, and of the other.
    own: PixelState,
    other: PixelState,
}

/// Colour of a pixel as text, and its origin.
#[derive(Serialize)]
struct PixelState {
    /// Colour of the pixel.
    color: String,
    /// The store that set it: its event, time and value; `null` in a picture.
    event: Option<u64>,
    time_ns: Option<u64>,
    value: Option<String>,
}

/// Returns whether a file starts like a supported picture.
fn is_picture(path: &Path) -> bool {
    let mut begin = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut begin));
    read.is_ok() && (begin.starts_with(b"P6") || begin == *b"\x89PNG\r\n\x1a\n")
}

/// Opens the argument of `--compare PATH`: a picture, or a recording with its screen after `event` (default: after the
/// last event).
pub fn open(path: &Path, source: FormatSource, event: Option<u64>) -> Result<ScreenReference, Failure> {
    if is_picture(path) {
        if event.is_some() {
            return Err(Failure::file(path, "a picture has no events: omit --other-event"));
        }
        return read_picture(path);
    }
    let argument = Argument { file: path.to_owned() };
    let opened = argument.open()?;
    let (side, drawn) = read_side(opened.recording, path, source, event)?;
    Ok(ScreenReference {
        picture: drawn.to_picture([0; 3]).map_err(|e| Failure::file(path, e))?,
        known: drawn.known().to_vec(),
        side: Some(side),
    })
}

/// Reads the screen of a recording after `event` (default: after its last event), in the format of `source`.
pub fn read_side(
    recording: Recording,
    file: &Path,
    source: FormatSource,
    event: Option<u64>,
) -> Result<(Side, RenderedScreen), Failure> {
    let fail = |e: &dyn std::fmt::Display| Failure::file(file, e);
    let events = recording.events.len() as u64;
    let event = match event {
        Some(n) if n >= events => {
            let message = format_count(events, "event");
            return Err(fail(&format!(
                "event {n} does not exist (the recording has {message}, counted from 0)"
            )));
        }
        Some(n) => n,
        None => events.saturating_sub(1),
    };
    let screen = progress_line::run_with_progress("reading stores", |progress, _| {
        Screen::read(&recording, progress).map_err(|e| fail(&e))
    })?;
    let (look, drawn) = screen.draw(source, event).map_err(|e| {
        let first = e
            .first
            .filter(|f| *f > event)
            .map(|f| format!("; event {f} is the first with a screen"));
        let hint = match source {
            FormatSource::Registers => "; --format sets the format by hand",
            FormatSource::Manual(_) => "",
        };
        fail(&format!(
            "no screen after event {event}: {e}{}{hint}",
            first.unwrap_or_default()
        ))
    })?;
    let side = Side {
        recording,
        screen,
        look,
        event,
    };
    Ok((side, drawn))
}

fn read_picture(path: &Path) -> Result<ScreenReference, Failure> {
    let fail = |e: &dyn std::fmt::Display| Failure::file(path, e);
    let size = std::fs::metadata(path).map_err(|e| fail(&e))?.len();
    if size > MAX_FILE {
        return Err(fail(&format!(
            "the picture has {size} bytes, more than the maximum of {MAX_FILE}"
        )));
    }
    let bytes = std::fs::read(path).map_err(|e| fail(&e))?;
    if bytes.starts_with(b"P6") {
        return Ok(ScreenReference {
            picture: Picture::from_ppm(&bytes).map_err(|e| fail(&e))?,
            known: Vec::new(),
            side: None,
        });
    }
    let mut reader = image::ImageReader::with_format(Cursor::new(bytes), image::ImageFormat::Png);
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    reader.limits(limits);
    let read = reader.decode().map_err(|e| fail(&e))?.to_rgba8();
    let rgb = read.pixels().flat_map(|p| [p.0[0], p.0[1], p.0[2]]).collect();
    // Transparent pixels of a PNG were unknown to the program that wrote it.
    let known = read.pixels().map(|p| match p.0[3] {
        0 => StoreState::Never,
        _ => StoreState::Stored,
    });
    Ok(ScreenReference {
        known: known.collect(),
        picture: Picture::new(read.width(), read.height(), rgb).map_err(|e| fail(&e))?,
        side: None,
    })
}

/// Returns the picture that the device showed at the end, if the recording has one.
pub fn expected_at_end(screen: &Screen, file: &Path) -> Result<ScreenReference, Failure> {
    match &screen.expected {
        Some(Ok(picture)) => Ok(ScreenReference {
            picture: picture.clone(),
            known: Vec::new(),
            side: None,
        }),
        Some(Err(e)) => Err(Failure::file(file, e)),
        None => {
            let message =
                "the recording has no picture of the screen at its end; name a picture or a recording with --compare";
            Err(Failure::file(file, message))
        }
    }
}

/// Compares the pixels that both sides know. `at` is the file to name if the sizes differ.
pub fn compare(drawn: &RenderedScreen, other: &ScreenReference, file: &Path, at: &Path) -> Result<Comparison, Failure> {
    let own = drawn.to_picture([0; 3]).map_err(|e| Failure::file(file, e))?;
    let theirs = other.known.iter().copied().chain(std::iter::repeat(StoreState::Stored));
    let both: Vec<StoreState> = drawn
        .known()
        .iter()
        .zip(theirs)
        .map(|(a, b)| if b == StoreState::Stored { *a } else { b })
        .collect();
    compare_where(&own, &other.picture, &both).map_err(|e| Failure::file(at, e))
}

/// Builds the report of a comparison with the first pixel that differs.
pub fn build_report(c: &Comparison, own: &Side, drawn: &RenderedScreen, other: &ScreenReference) -> ScreenDiffReport {
    let width = c.width.max(1) as usize;
    let first = c.difference.iter().position(|d| *d != 0);
    let first = first.and_then(|at| {
        let (x, y) = (u32::try_from(at % width).ok()?, u32::try_from(at / width).ok()?);
        Some(FirstPixel {
            x,
            y,
            own: pixel_state(Some(own), drawn.pixel(x, y), (x, y)),
            other: pixel_state(other.side.as_ref(), other.picture.pixel(x, y), (x, y)),
        })
    });
    ScreenDiffReport {
        compared: c.compared,
        differing: c.differing,
        worst: c.worst,
        bounds: c.bounds,
        other_event: other.side.as_ref().map(|s| s.event),
        first,
    }
}

fn pixel_state(side: Option<&Side>, color: Option<[u8; 3]>, (x, y): (u32, u32)) -> PixelState {
    let store = side.and_then(|s| {
        let at = s.look.format.offset(x, y)?;
        let range = at..at.saturating_add(u64::from(s.look.format.pixel.bytes()));
        let event = s.screen.framebuffer.last_store(range, s.event.saturating_add(1))?;
        let row = usize::try_from(event).ok()?;
        let events = &s.recording.events;
        Some((
            event,
            events.time.get(row),
            events.access(row).map(|a| format_hex(a.value)),
        ))
    });
    PixelState {
        color: color.map_or_else(|| "not known".to_owned(), self::color),
        event: store.as_ref().map(|s| s.0),
        time_ns: store.as_ref().and_then(|s| s.1),
        value: store.and_then(|s| s.2),
    }
}

/// Formats a colour: `#rrggbb`.
pub fn color(c: [u8; 3]) -> String {
    format!("#{:02x}{:02x}{:02x}", c[0], c[1], c[2])
}

/// Returns a heat map: black where nothing differs, red to yellow where it does.
pub fn heat_map(c: &Comparison) -> Vec<u8> {
    let pixel = |d: &u8| match d {
        0 => [0, 0, 0, 255],
        d => [255, *d, 0, 255],
    };
    c.difference.iter().flat_map(pixel).collect()
}

impl ScreenDiffReport {
    /// Returns the report as lines of text.
    pub fn describe(&self) -> Vec<String> {
        let of = format_count(self.compared, "pixel");
        let with = self
            .other_event
            .map(|e| format!(" with the screen of the other after event {e}"))
            .unwrap_or_default();
        let mut lines = vec![match &self.bounds {
            None => format!("compared {of}{with}, all the same"),
            Some(b) => format!(
                "compared {of}{with}, {} differ by {} at most, within {},{} to {},{}",
                self.differing, self.worst, b.left, b.top, b.right, b.bottom
            ),
        }];
        if let Some(f) = &self.first {
            let how = |s: &PixelState| match (s.event, &s.value) {
                (Some(event), Some(value)) => format!("{}, stored as {value} by event {event}", s.color),
                (Some(event), None) => format!("{}, stored by event {event}", s.color),
                _ => s.color.clone(),
            };
            lines.push(format!("first    {},{}: {} here", f.x, f.y, how(&f.own)));
            lines.push(format!("         {} in the other", how(&f.other)));
        }
        lines
    }
}
