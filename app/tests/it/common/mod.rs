//! Shared helpers for window tests: the sample, and a window driven without a screen.
// Every test file uses only some of these helpers.
#![allow(dead_code)]

pub mod cuda;
pub mod growing;
pub mod keys;
pub mod long;
#[path = "../../../../trace-core/tests/it/calls/net.rs"]
pub mod net;
pub mod screen_recording;
pub mod wasm_run;

use egui_kittest::kittest::Queryable as _;
use egui_kittest::{Harness, LazyRenderer, TestRenderer};
use kinescope::commands::COMMANDS;
use kinescope::panels::views::Views;
use kinescope::theme::{Palette, ThemeChoice};
use kinescope::window::offscreen::gl::OffscreenPainter;
use kinescope::window::{App, Pick, PickResult, Setup, layout};
use kinescope_files::journal;
use kinescope_session::axis::AxisKind;
use kinescope_session::targets::Targets;
use kinescope_session::{Document, derive};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, EventsBuilder, Recording};
use trace_core::{GpuVa, RegOffset};
use trace_import::{OpenOptions, Opened};

/// Time after which a test counts as hung.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Returns the folder of the project's own recordings.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("sample-traces")
}

/// Returns the sample that most tests open.
pub fn sample() -> PathBuf {
    let mut list: Vec<PathBuf> = std::fs::read_dir(samples())
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "kine"))
        .collect();
    list.sort();
    list.iter()
        .find(|p| p.to_string_lossy().contains("write"))
        .unwrap_or(&list[0])
        .clone()
}

/// Writes the sample to `folder` with one bit changed in up to `max` reads of feature registers. Returns the file, and
/// the events of these reads.
pub fn write_diverging_sample(folder: &Path, max: usize) -> (PathBuf, Vec<u64>) {
    let mut r = trace_core::container::open(&sample()).unwrap();
    let map = trace_core::registers::RegisterMap::for_gpu(r.metadata.identity.gpu_id).unwrap();
    let mut changed = Vec::new();
    let mut b = EventsBuilder::new();
    for at in 0..r.events.len() {
        let time = r.events.time.get(at).unwrap();
        match r.events.kind(at).unwrap() {
            EventKind::Read | EventKind::Write => {
                let mut a = r.events.access(at).unwrap();
                let feature = map.at(a.offset).is_some_and(|r| r.name.contains("FEATURES"));
                if !a.write && feature && changed.len() < max {
                    changed.push(at as u64);
                    a.value ^= 0x10;
                }
                b.access(time, 0, a);
            }
            EventKind::Interrupt => b.interrupt(time, r.events.interrupt(at).unwrap()),
            EventKind::HostWrite => b.host_write(time, 0, r.events.host_write(at).unwrap()),
            _ => {}
        }
    }
    assert_eq!(changed.len(), max);
    r.events = b.finish();
    let path = folder.join("diverging.kine");
    trace_core::container::write(&r, &path, &Progress::new()).unwrap();
    (path, changed)
}

/// Writes the sample to `folder` with its first read repeated many times. Ten thousand runs of it take minutes, so that
/// a test can interrupt the run on any machine.
pub fn busy(folder: &Path) -> PathBuf {
    let mut r = trace_core::container::open(&sample()).unwrap();
    let mut b = EventsBuilder::new();
    let mut again = None;
    for at in 0..r.events.len() {
        let time = r.events.time.get(at).unwrap();
        match r.events.kind(at).unwrap() {
            EventKind::Read | EventKind::Write => {
                let a = r.events.access(at).unwrap();
                let first = *again.get_or_insert(a);
                assert!(!first.write, "the sample begins with a read");
                b.access(time, 0, a);
                if at == 0 {
                    for _ in 0..20_000 {
                        b.access(time, 0, first);
                    }
                }
            }
            EventKind::Interrupt => b.interrupt(time, r.events.interrupt(at).unwrap()),
            EventKind::HostWrite => b.host_write(time, 0, r.events.host_write(at).unwrap()),
            _ => {}
        }
    }
    r.events = b.finish();
    let path = folder.join("busy.kine");
    trace_core::container::write(&r, &path, &Progress::new()).unwrap();
    path
}

/// Returns the events that write a register, in order.
pub fn writes(doc: &Document, register: u32) -> Vec<u64> {
    let events = doc.derived.registers[&RegOffset::new(register)].accesses.all().iter();
    events
        .filter(|e| doc.recording.events.access(*e as usize).is_some_and(|a| a.write))
        .collect()
}

/// Returns the register with the most writes.
pub fn find_busiest_register(doc: &Document) -> u32 {
    let all = doc.derived.registers.keys().copied();
    all.max_by_key(|r| writes(doc, r.get()).len()).unwrap().get()
}

/// Text that a window paints.
#[derive(Clone, Debug)]
pub struct PaintedText {
    /// The whole text, even if its end is clipped.
    pub text: String,
    /// Its position in the window, points.
    pub rect: egui::Rect,
    /// Its colour; the first one of several.
    pub ink: egui::Color32,
}

/// Checks that themes differ only in colours: each paints the same texts at the same positions, in its own colours.
pub fn assert_themes_differ_only_in_colours(make: impl Fn(ThemeChoice) -> Window) {
    let mut first: Option<Vec<(String, [i32; 2])>> = None;
    for theme in ThemeChoice::ALL {
        let texts = make(theme).painted_texts();
        for other in ThemeChoice::ALL {
            let (p, own) = (Palette::for_theme(other), other == theme);
            let quiet = texts.iter().find(|t| t.ink == p.quiet);
            assert_eq!(quiet.is_some(), own, "{other:?} in {theme:?}: {quiet:?}");
            assert!(!own || texts.iter().any(|t| t.ink == p.text), "{theme:?}");
        }
        let corner = |t: &PaintedText| [t.rect.left().round() as i32, t.rect.top().round() as i32];
        let placed: Vec<_> = texts.iter().map(|t| (t.text.clone(), corner(t))).collect();
        assert_eq!(*first.get_or_insert_with(|| placed.clone()), placed, "{theme:?}");
    }
}

/// Draws the pictures of a test as the program draws off-screen.
struct Pictures(OffscreenPainter);

impl TestRenderer for Pictures {
    fn handle_delta(&mut self, delta: &mut egui::TexturesDelta) {
        self.0.update_textures(delta);
    }

    fn render(&mut self, ctx: &egui::Context, output: &egui::FullOutput) -> Result<image::RgbaImage, String> {
        let ppp = ctx.pixels_per_point();
        let size = ctx.content_rect().size() * ppp;
        let shapes = ctx.tessellate(output.shapes.clone(), ppp);
        self.0
            .draw([size.x.round() as u32, size.y.round() as u32], ppp, &shapes)
    }
}

/// A window without a screen, with the state that tests need.
pub struct Window {
    /// Runs the frames of the window.
    pub harness: Harness<'static, Option<App>>,
    /// Folder for settings and copies of recordings.
    pub folder: tempfile::TempDir,
    /// The next answer to a file dialog.
    answer: Arc<Mutex<PickResult>>,
}

impl Window {
    /// Creates a window without a recording.
    pub fn empty() -> Self {
        Self::sized(ThemeChoice::Dark, 1.0)
    }

    /// Creates a window without a recording, with a theme and a scale.
    pub fn sized(theme: ThemeChoice, scale: f32) -> Self {
        Self::with_size(theme, [1280.0, 800.0], scale)
    }

    /// Creates a window of a size in points without a recording, with a theme and a scale.
    fn with_size(theme: ThemeChoice, size: [f32; 2], scale: f32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let answer = Arc::new(Mutex::new(PickResult::Cancelled));
        let (settings, next_answer) = (folder.path().join("settings"), Arc::clone(&answer));
        let keys = folder.path().join("client-keys");
        let mut harness = Harness::builder()
            .with_size(egui::Vec2::from(size))
            .with_pixels_per_point(scale)
            .with_max_steps(64)
            .with_step_dt(0.25)
            .allow_missing_glyphs()
            .renderer(LazyRenderer::new(|| Pictures(OffscreenPainter::new().unwrap())))
            .build_ui_state(
                move |ui, app: &mut Option<App>| {
                    let app = app.get_or_insert_with(|| {
                        let next_answer = Arc::clone(&next_answer);
                        let chooser = Arc::new(move |_: &Pick| next_answer.lock().unwrap().clone());
                        let setup = Setup {
                            settings: Some(settings.clone()),
                            theme: Some(theme),
                            target: None,
                            chooser,
                            commands: COMMANDS,
                        };
                        let mut app = App::new(ui.ctx(), setup);
                        // Tests must not use the keys of the user who runs them.
                        app.set_targets(Targets::new(Some(keys.clone())));
                        app
                    });
                    app.ui(ui);
                },
                None,
            );
        harness.run_steps(2);
        Self {
            harness,
            folder,
            answer,
        }
    }

    /// Creates a window with the sample.
    pub fn open() -> Self {
        Self::open_with(ThemeChoice::Dark, 1.0)
    }

    /// Creates a window with the sample, a theme and a scale.
    pub fn open_with(theme: ThemeChoice, scale: f32) -> Self {
        Self::open_file(&sample(), theme, scale)
    }

    /// Opens a file or a folder, as one that is named on the command line.
    pub fn open_like_a_recording(&mut self, path: &Path) {
        let ctx = self.harness.ctx.clone();
        self.app().open(&ctx, path.to_owned());
        self.settle();
    }

    /// Creates a window with the sample of this name, for example `vecadd.kine`.
    pub fn open_sample(name: &str) -> Self {
        Self::open_file(&samples().join(name), ThemeChoice::Dark, 1.0)
    }

    /// Creates a window with a recording whose repeated runs take long.
    pub fn busy() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::open_file(&busy(folder.path()), ThemeChoice::Dark, 1.0)
    }

    /// Creates a window with a `.kine` file, a theme and a scale.
    pub fn open_file(file: &Path, theme: ThemeChoice, scale: f32) -> Self {
        Self::open_file_sized(file, theme, [1280.0, 800.0], scale)
    }

    /// Creates a window of a size in points with a `.kine` file, a theme and a scale.
    pub fn open_file_sized(file: &Path, theme: ThemeChoice, size: [f32; 2], scale: f32) -> Self {
        let mut w = Self::with_size(theme, size, scale);
        // The window opens a copy, so that it writes no journal next to the samples.
        let copy = w.folder.path().join("sample.kine");
        std::fs::copy(file, &copy).unwrap();
        w.start(&copy);
        w
    }

    /// Opens a recording as a newly started program does.
    pub fn start(&mut self, path: &Path) {
        let opened = trace_import::open(path, &OpenOptions::default(), &Progress::new()).unwrap();
        let Opened::Recording(opened) = opened else {
            panic!("{} holds job chains", path.display());
        };
        let recording = opened.recording;
        let derived = derive::derive(&recording, &Progress::new()).unwrap();
        let doc = Document::new(path.to_owned(), Arc::new(recording), Arc::new(derived));
        self.app().show_document(doc);
        self.settle();
    }

    /// Simulates a crash after every change is in the journal, and a restart.
    pub fn crash_and_restart(&mut self) {
        let path = self.doc().path.clone();
        let file = journal::path_for(&path);
        let expected = self.doc().changes().len();
        let key = journal::JournalKey {
            events: self.doc().len(),
            gpu: self.doc().recording.metadata.identity.gpu_id,
            source: self.doc().recording.metadata.identity.source.clone(),
        };
        let buffers = Arc::clone(&self.doc().buffers);
        let since = Instant::now();
        while journal::read(&file, &key, &*buffers)
            .ok()
            .flatten()
            .is_none_or(|f| f.changes.len() < expected)
        {
            assert!(since.elapsed() < HANG_LIMIT, "the journal was not written");
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = std::fs::read(&file).unwrap();
        self.run("close");
        std::fs::write(&file, text).unwrap();
        self.start(&path);
    }

    /// Makes the targets independent of this machine: QEMU counts as installed, and no CUDA driver is found.
    pub fn fix_targets(&mut self) {
        let keys = self.folder.path().join("client-keys");
        let targets = Targets::new(Some(keys)).with_qemu_installed(true);
        self.app().set_targets(targets.with_worker(|| Command::new("false")));
        self.settle();
    }

    /// Creates a window with a synthetic recording.
    pub fn from_recording(recording: Recording) -> Self {
        Self::from_recording_themed(recording, ThemeChoice::Dark)
    }

    /// Creates a window with a synthetic recording and a theme.
    pub fn from_recording_themed(recording: Recording, theme: ThemeChoice) -> Self {
        let mut w = Self::sized(theme, 1.0);
        let derived = derive::derive(&recording, &Progress::new()).unwrap();
        let path = w.folder.path().join("made-up.kine");
        w.app()
            .show_document(Document::new(path, Arc::new(recording), Arc::new(derived)));
        w.settle();
        w
    }

    /// Returns the application.
    pub fn app(&mut self) -> &mut App {
        self.harness.state_mut().as_mut().unwrap()
    }

    /// Returns the open document.
    pub fn doc(&mut self) -> &mut Document {
        self.app().doc.as_mut().expect("a recording is open")
    }

    /// Returns the view state of the panels.
    pub fn views(&mut self) -> &mut Views {
        &mut self.app().views
    }

    /// Returns the visible range of the timeline axis.
    pub fn timeline_part(&mut self) -> (f64, f64) {
        let context = self.app().panel_context().expect("a recording is open");
        context.views.timeline.visible_range(context.doc)
    }

    /// Sets the timeline axis.
    pub fn timeline_axis(&mut self, axis: AxisKind) {
        let context = self.app().panel_context().expect("a recording is open");
        context.views.timeline.set_axis(context.doc, axis);
    }

    /// Shows an address in Memory and selects bytes there.
    pub fn show_memory(&mut self, space: u32, va: u64, bytes: u64) {
        let context = self.app().panel_context().expect("a recording is open");
        context.views.memory.show(context.doc, space, GpuVa::new(va), bytes);
    }

    /// Runs frames until no task is running.
    pub fn settle(&mut self) {
        let since = Instant::now();
        let mut quiet = 0;
        while quiet < 3 {
            self.harness.step();
            if self.app().tasks.running().is_empty() {
                quiet += 1;
            } else {
                quiet = 0;
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(since.elapsed() < HANG_LIMIT, "tasks are still running");
        }
    }

    /// Clicks the widget with this label.
    pub fn click(&mut self, label: &str) {
        self.harness.get_by_label(label).click();
        self.settle();
    }

    /// Runs a command of the table. Returns `false` if it cannot run now.
    pub fn run(&mut self, id: &str) -> bool {
        let ctx = self.harness.ctx.clone();
        let done = self.app().run(&ctx, id);
        self.settle();
        done
    }

    /// Runs a copy command and returns the clipboard text.
    pub fn run_and_copy(&mut self, id: &str) -> String {
        let ctx = self.harness.ctx.clone();
        assert!(self.app().run(&ctx, id), "{id} cannot run here");
        self.harness.step();
        let commands = &self.harness.output().platform_output.commands;
        let text = commands.iter().find_map(|c| match c {
            egui::OutputCommand::CopyText(t) => Some(t.clone()),
            _ => None,
        });
        text.expect("the command copies a text")
    }

    /// Returns whether a panel is the active tab of its group.
    pub fn is_panel_active(&mut self, panel: &str) -> bool {
        layout::active_panels(&self.app().dock).contains(&panel)
    }

    /// Returns whether a widget has this label.
    pub fn has(&self, label: &str) -> bool {
        self.harness.query_all_by_label(label).next().is_some()
    }

    /// Returns whether a widget has a label that contains this text.
    pub fn has_part(&self, part: &str) -> bool {
        self.harness.query_all_by_label_contains(part).next().is_some()
    }

    /// Returns the visible texts in the order in which they are painted.
    pub fn painted_texts(&self) -> Vec<PaintedText> {
        let shapes = self.harness.output().shapes.iter();
        let texts = shapes.filter_map(|s| match &s.shape {
            egui::Shape::Text(t) => {
                let sections = &t.galley.job.sections;
                let colour = t.override_text_color.or(sections.first().map(|s| s.format.color));
                let text = PaintedText {
                    text: t.galley.text().to_owned(),
                    rect: t.galley.rect.translate(t.pos.to_vec2()),
                    ink: colour
                        .filter(|c| *c != egui::Color32::PLACEHOLDER)
                        .unwrap_or(t.fallback_color),
                };
                s.clip_rect.intersects(text.rect).then_some(text)
            }
            _ => None,
        });
        texts.collect()
    }

    /// Returns the cells of the table row with this label, from left to right, and checks that no two overlap.
    pub fn row_texts(&self, label: &str) -> Vec<String> {
        let row = self.harness.get_by_label(label).rect();
        let mut cells = self.painted_texts();
        cells.retain(|t| !t.text.is_empty() && row.contains(t.rect.center()));
        cells.sort_by(|a, b| a.rect.left().total_cmp(&b.rect.left()));
        for pair in cells.windows(2) {
            assert!(pair[0].rect.right() <= pair[1].rect.left() + 0.5, "{pair:?}");
        }
        cells.into_iter().map(|t| t.text).collect()
    }

    /// Types a text into the field with this label, then Enter.
    pub fn enter(&mut self, label: &str, text: &str) {
        self.harness.get_by_label(label).focus();
        self.settle();
        self.harness.get_by_label(label).type_text(text);
        self.settle();
        self.harness.key_press(egui::Key::Enter);
        self.settle();
    }

    /// Sets the path that the user chooses next.
    pub fn will_choose(&self, path: &Path) {
        *self.answer.lock().unwrap() = PickResult::Path(path.to_owned());
    }

    /// Makes the desktop report that it has no file dialog, from now on.
    pub fn disable_dialogs(&self) {
        *self.answer.lock().unwrap() = PickResult::NoDialog;
    }

    /// Returns the name of the selected buffer.
    pub fn input(&mut self) -> String {
        let app = self.app();
        let buffer = app
            .views
            .inputs
            .current_buffer(app.doc.as_ref().expect("a recording is open"));
        buffer.expect("the sample names a buffer").name
    }

    /// Edits the first byte of the selected buffer and returns the name of the buffer.
    pub fn edit(&mut self) -> String {
        let name = self.input();
        let (now, _) = self.doc().buffer_now(&name).unwrap();
        let byte = !now[0];
        assert!(self.doc().edit(&name, 0, vec![byte]));
        self.settle();
        name
    }
}
