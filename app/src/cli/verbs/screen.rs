//! `screen`: renders the picture that the stores of a recording produced at any event, lists the stores to a pixel, and
//! compares it with another picture.

mod comparison;

use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::source::{Source as Argument, number};
use crate::cli::{Exit, Failure, Out, Verb, format_hex, progress_line};
use clap::{Args, FromArgMatches as _};
use comparison::{ScreenDiffReport, Side, color};
use kinescope_files::output;
use kinescope_session::screen::{FormatSource, Screen, ScreenSettings, files, parse};
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace_core::recording::Recording;
use trace_core::screen::{ByteOrder, PixelCounts, RenderedScreen, ScreenFormat, Store, StoreState};

pub const VERB: Verb = Verb {
    name: "screen",
    about: "Draw the screen that the stores of a recording left",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Maximum number of stores to a pixel in text output; JSON lists all.
const MAX_LISTED_STORES: usize = 40;
/// Maximum number of stores to a pixel in JSON output.
const MAX_STORES: usize = 1_000_000;
/// Maximum number of frames of an animation.
const MAX_FRAMES: u32 = 10_000;

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Argument,
    /// Draw the screen after this event [default: the last event]
    #[arg(long, value_name = "EVENT", value_parser = number)]
    event: Option<u64>,
    /// Write the picture to this file: .png, where unknown pixels are transparent, or .ppm, where they are grey
    #[arg(short = 'o', value_name = "OUT")]
    to: Option<PathBuf>,
    /// Write this number of frames up to the event as an animated PNG
    #[arg(long, value_name = "N", requires = "to", value_parser = clap::value_parser!(u32).range(2..=i64::from(MAX_FRAMES)))]
    frames: Option<u32>,
    /// Format of the screen [default: that of the display registers]: WIDTHxHEIGHT,PIXEL[,pitch=BYTES]
    /// [,base=OFFSET][,big-endian]; PIXEL is indexed8, rgb555, rgb565, rgb888, bgr888, xrgb8888 or xbgr8888
    #[arg(long, value_name = "FORMAT", value_parser = parse)]
    format: Option<ScreenFormat>,
    /// List the stores to this pixel, counted from the upper left
    #[arg(long, value_name = "X,Y", value_parser = pixel)]
    pixel: Option<(u32, u32)>,
    /// Compare with this picture (binary PPM, PNG), with the screen of this recording, or by default with what the
    /// device showed at the end; exit 1 if a pixel differs
    #[arg(long, value_name = "OTHER", num_args = 0..=1)]
    compare: Option<Option<PathBuf>>,
    /// Compare with the screen of the other recording after this event [default: the last event]
    #[arg(long, value_name = "EVENT", value_parser = number, requires = "compare")]
    other_event: Option<u64>,
    /// Write a heat map of the differences as PNG: larger differences are brighter
    #[arg(long, value_name = "OUT.png", requires = "compare")]
    heat: Option<PathBuf>,
}

fn pixel(text: &str) -> Result<(u32, u32), String> {
    let both = text.split_once(',');
    let both = both.and_then(|(x, y)| Some((x.trim().parse().ok()?, y.trim().parse().ok()?)));
    both.ok_or_else(|| format!("'{text}' is not a pixel (expected X,Y)"))
}

/// The screen of a recording in figures. The session has the pixels.
#[derive(Serialize)]
struct Report {
    /// Event after which the screen is shown.
    event: u64,
    /// Space of the framebuffer.
    space: String,
    /// Number of stores to the framebuffer up to the event.
    stores: u64,
    /// Format of the screen.
    format: Form,
    /// Access to a display register that set the format; `null` if it was given by hand.
    since_event: Option<u64>,
    /// Pixels whose bytes are all known.
    known_pixels: u64,
    /// Pixels that hold content from before the recording.
    never_stored_pixels: u64,
    /// Pixels that were stored by instructions that the recorder could not read.
    lost_pixels: u64,
    /// Number of commands to the device's drawing engine so far; the picture lacks what they drew.
    engine_runs: usize,
    /// Whether the controller lays a cursor over the picture, which is not drawn.
    cursor: bool,
    /// Whether the colours of indices are known; otherwise indices are greys.
    palette: bool,
    /// With `--pixel`: the pixel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pixel: Option<Pixel>,
    /// With `--compare`: the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<ScreenDiffReport>,
}

/// The format of the screen, with the names of its parts and where it comes from.
#[derive(Serialize)]
struct Form {
    /// Size, pixels.
    width: u32,
    height: u32,
    /// Bytes from row to row.
    pitch: u32,
    /// Offset of the first pixel.
    base: String,
    /// `indexed8`, `rgb555`, `rgb565`, `rgb888`, `bgr888`, `xrgb8888` or `xbgr8888`.
    pixel_form: &'static str,
    /// Whether the bytes of a pixel are in big-endian order.
    big_endian: bool,
    /// Whether the format was given by `--format`, not by the display registers.
    by_hand: bool,
}

/// A pixel, and the stores to it, with colours as text.
#[derive(Serialize)]
struct Pixel {
    /// The pixel, counted from the upper left.
    x: u32,
    y: u32,
    /// Its offset in the space.
    offset: String,
    /// Its colour, `#rrggbb`; `null` if unknown.
    color: Option<String>,
    /// `yes`, `never stored` or `stored without its value`.
    known: &'static str,
    /// The stores to the pixel.
    stores: Vec<StoreRow>,
    /// Whether there are more than a million.
    more: bool,
}

/// A store to a pixel, with the colour that it left.
#[derive(Serialize)]
struct StoreRow {
    /// The store, and its time.
    event: u64,
    time_ns: u64,
    /// Offset of the first byte, and number of bytes.
    offset: String,
    width: u8,
    /// The value; `null` if the recording does not have it.
    value: Option<String>,
    /// Colour of the pixel after it.
    color: Option<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let mut files = CommandFiles::for_recording(&arguments.source.file);
    if let Some(Some(other)) = &arguments.compare {
        files = files.with_input("--compare", other);
    }
    files
        .with_output("-o", arguments.to.as_deref())
        .with_output("--heat", arguments.heat.as_deref())
        .check()?;
    let form = arguments.to.as_deref().map(parse_file_form).transpose()?;
    if form == Some(FileForm::Ppm) && arguments.frames.is_some() {
        return Err(Failure::usage(
            "--frames writes an animated PNG: give -o a name that ends in .png",
        ));
    }
    if arguments.other_event.is_some() && !matches!(arguments.compare, Some(Some(_))) {
        return Err(Failure::usage(
            "--other-event is an event of another recording: name the recording with --compare",
        ));
    }
    let opened = arguments.source.open()?;
    let file = &arguments.source.file;
    let fail = |e: &dyn std::fmt::Display| Failure::file(file, e);
    let source = arguments.format.map_or(FormatSource::Registers, FormatSource::Manual);
    let (side, drawn) = comparison::read_side(opened.recording, file, source, arguments.event)?;
    let Side {
        recording,
        screen,
        look,
        event,
    } = &side;
    let event = *event;
    if let (Some(to), Some(form)) = (&arguments.to, form) {
        write(screen, source, event, &drawn, (to, form), arguments.frames)?;
    }
    let pixel = match arguments.pixel {
        Some(at) => Some(stores(recording, screen, look, &drawn, at, out.is_json()).map_err(|e| fail(&e))?),
        None => None,
    };
    let other = match &arguments.compare {
        Some(Some(path)) => Some((comparison::open(path, source, arguments.other_event)?, path)),
        Some(None) => Some((comparison::expected_at_end(screen, file)?, file)),
        None => None,
    };
    let comparison = match &other {
        Some((other, at)) => {
            let c = comparison::compare(&drawn, other, file, at)?;
            if let Some(to) = &arguments.heat {
                let png = files::png(c.width, c.height, &comparison::heat_map(&c)).map_err(|e| Failure::file(to, e))?;
                output::write(to, &png)?;
            }
            Some(comparison::build_report(&c, &side, &drawn, other))
        }
        None => None,
    };
    let differs = comparison.as_ref().is_some_and(|c| c.differing > 0);
    let counts = drawn.counts();
    let report = Report {
        event,
        space: screen.space.clone(),
        stores: screen.framebuffer.after(event).stores(),
        format: form_row(&look.format, source),
        since_event: look.since,
        known_pixels: counts.known,
        never_stored_pixels: counts.never,
        lost_pixels: counts.lost,
        engine_runs: screen.engine_runs(event),
        cursor: look.cursor,
        palette: !look.grey,
        pixel,
        comparison,
    };
    if out.is_json() {
        out.value(&report)?;
    } else {
        text(&report, look, counts, out)?;
    }
    Ok(Exit::differs_if(differs))
}

/// A picture file format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileForm {
    Png,
    Ppm,
}

fn parse_file_form(path: &Path) -> Result<FileForm, Failure> {
    match path.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
        Some("png" | "apng") => Ok(FileForm::Png),
        Some("ppm") => Ok(FileForm::Ppm),
        _ => Err(Failure::file(
            path,
            "the file name does not select a format (expected .png or .ppm)",
        )),
    }
}

fn write(
    screen: &Screen,
    source: FormatSource,
    event: u64,
    drawn: &RenderedScreen,
    (to, form): (&Path, FileForm),
    frames: Option<u32>,
) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::file(to, e);
    match (form, frames) {
        (FileForm::Png, Some(n)) => progress_line::run_with_progress("drawing", |progress, _| {
            let events = screen.frame_events(event, n);
            let done: Result<(), files::FileError> =
                output::write_with(to, |mut file| files::film(screen, source, &events, &mut file, progress));
            done.map_err(|e| failed(&e))
        }),
        (FileForm::Png, None) => {
            let png = files::png(drawn.width(), drawn.height(), &drawn.to_rgba()).map_err(|e| failed(&e))?;
            Ok(output::write(to, &png)?)
        }
        (FileForm::Ppm, _) => {
            let picture = drawn.to_picture([128; 3]).map_err(|e| failed(&e))?;
            Ok(output::write(to, &picture.to_ppm())?)
        }
    }
}

fn form_row(f: &ScreenFormat, source: FormatSource) -> Form {
    Form {
        width: f.width,
        height: f.height,
        pitch: f.pitch,
        base: format_hex(f.base),
        pixel_form: f.pixel.name(),
        big_endian: f.order == ByteOrder::Big,
        by_hand: source != FormatSource::Registers,
    }
}

fn known_name(k: StoreState) -> &'static str {
    match k {
        StoreState::Stored => "yes",
        StoreState::Never => "never stored",
        StoreState::Lost => "stored without its value",
    }
}

fn stores(
    recording: &Recording,
    screen: &Screen,
    look: &ScreenSettings,
    drawn: &RenderedScreen,
    (x, y): (u32, u32),
    all: bool,
) -> Result<Pixel, String> {
    let f = look.format;
    let at = f.offset(x, y).ok_or_else(|| {
        format!(
            "pixel {x},{y} is outside the screen, which has {} by {}",
            f.width, f.height
        )
    })?;
    let size = f.pixel.bytes();
    let max = if all { MAX_STORES } else { MAX_LISTED_STORES };
    let found = progress_line::run_with_progress("finding stores", |progress, _| {
        let range = at..at + u64::from(size);
        screen
            .framebuffer
            .stores_to(range, max, progress)
            .map_err(|e| Failure::usage(e.to_string()))
    });
    let found = found.map_err(|e| e.to_string())?;
    let row = |s: &Store| {
        let bytes = s.bytes.get(..size as usize).unwrap_or_default();
        let is_reported = s.known.iter().take(size as usize).all(|k| *k == StoreState::Stored);
        StoreRow {
            event: s.event,
            time_ns: usize::try_from(s.event)
                .ok()
                .and_then(|e| recording.events.time.get(e))
                .unwrap_or(0),
            offset: format_hex(u64::from(s.offset)),
            width: s.width,
            value: s.value.map(format_hex),
            color: is_reported
                .then(|| f.color(f.value(bytes), &look.palette))
                .flatten()
                .map(color),
        }
    };
    Ok(Pixel {
        x,
        y,
        offset: format_hex(at),
        color: drawn.pixel(x, y).map(color),
        known: known_name(drawn.known_at(x, y).unwrap_or(StoreState::Never)),
        stores: found.list.iter().map(row).collect(),
        more: found.more,
    })
}

fn text(r: &Report, look: &ScreenSettings, counts: PixelCounts, out: &mut Out) -> Result<(), Failure> {
    let since = match r.since_event {
        Some(e) => format!(" (registers, since event {e})"),
        None => " (by hand)".to_owned(),
    };
    out.line(format!("screen   {}{since}", look.format))?;
    let stores = format_count(r.stores, "store");
    out.line(format!("after    event {}, {stores} to {}", r.event, r.space))?;
    let mut messages = vec![format!("{} known", format_count(counts.known, "pixel"))];
    if counts.never > 0 {
        messages.push(format!("{} never stored", counts.never));
    }
    if counts.lost > 0 {
        messages.push(format!("{} stored without their value", counts.lost));
    }
    out.line(format!("known    {}", messages.join(", ")))?;
    if r.engine_runs > 0 {
        let n = format_count(r.engine_runs as u64, "command");
        out.line(format!(
            "missing  the drawing of {n} to the drawing engine, which the recording has no stores for"
        ))?;
    }
    if r.cursor {
        out.line("missing  the cursor that the controller lays over the picture")?;
    }
    if look.grey && look.format.pixel == trace_core::screen::PixelFormat::Indexed8 {
        out.line("palette  unknown: indices are drawn as greys")?;
    }
    if let Some(p) = &r.pixel {
        let color = p.color.as_deref().unwrap_or(p.known);
        out.line(format!("pixel    {},{} at {}: {color}", p.x, p.y, p.offset))?;
        let mut table = vec![
            ["Event", "Offset", "Width", "Value", "Colour"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for s in &p.stores {
            table.push(vec![
                s.event.to_string(),
                s.offset.clone(),
                s.width.to_string(),
                s.value.clone().unwrap_or_else(|| "unknown".into()),
                s.color.clone().unwrap_or_else(|| "unknown".into()),
            ]);
        }
        out.table(&table)?;
        if p.more {
            out.line("… and more; --json lists all")?;
        }
    }
    for line in r.comparison.iter().flat_map(ScreenDiffReport::describe) {
        out.line(line)?;
    }
    Ok(())
}
