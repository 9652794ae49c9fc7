//! A field for a path, where the desktop has no dialog for files: what is typed, what lies there, and what becomes of it.

use super::app::{App, Pick};
use crate::theme::{body, mono, palette, small, strong, text, widgets};
use egui::{Context, Key, Modifiers, RichText, vec2};
use std::path::{Path, PathBuf};

/// Most entries of a folder that are shown.
const MOST: usize = 10;

/// Most entries of a folder that are looked at.
const LOOKED_AT: usize = 5000;

/// What is done with the path.
type Act = Box<dyn FnOnce(&mut App, &Context, PathBuf) + Send>;

/// The field while it is open.
pub struct Typed {
    what: Pick,
    /// What was typed.
    pub text: String,
    /// What lies in the folder that is typed, and the text that it was looked up for.
    found: (String, Vec<Found>),
    act: Act,
    focused: bool,
}

/// Something that the text may become.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    name: String,
    path: PathBuf,
    folder: bool,
}

/// What can be done with the text as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Can {
    /// Nothing, and why.
    Nothing(&'static str),
    /// The path is what is asked for.
    Take,
    /// The path is there and would be written over.
    Replace,
}

impl Typed {
    /// A field that begins in a folder.
    pub(super) fn new(what: Pick, folder: &Path, act: Act) -> Self {
        let start = match &what {
            Pick::Save(name) => folder.join(name),
            Pick::Recording | Pick::Folder | Pick::Buffer => folder.join(""),
        };
        Self {
            what,
            text: start.to_string_lossy().into_owned(),
            found: (String::new(), Vec::new()),
            act,
            focused: false,
        }
    }

    fn path(&self) -> PathBuf {
        match self.text.strip_prefix("~/").zip(directories::BaseDirs::new()) {
            Some((rest, home)) => home.home_dir().join(rest),
            None => PathBuf::from(&self.text),
        }
    }

    fn can(&self) -> Can {
        let path = self.path();
        if !path.is_absolute() {
            return Can::Nothing("Begin with / or ~/.");
        }
        match &self.what {
            Pick::Recording if path.is_file() || is_recording(&path) => Can::Take,
            Pick::Recording => Can::Nothing("No recording has this name."),
            Pick::Folder if path.is_dir() => Can::Take,
            Pick::Folder => Can::Nothing("No folder has this name."),
            Pick::Buffer if path.is_file() => Can::Take,
            Pick::Buffer => Can::Nothing("No file has this name."),
            Pick::Save(_) if path.is_dir() => Can::Nothing("This is a folder: add a name."),
            Pick::Save(_) if path.is_file() => Can::Replace,
            Pick::Save(_) if path.parent().is_some_and(Path::is_dir) => Can::Take,
            Pick::Save(_) => Can::Nothing("There is no such folder."),
        }
    }

    /// Looks up what lies there, once for each text.
    fn look(&mut self) {
        if self.found.0 == self.text {
            return;
        }
        let path = self.path();
        let (folder, begin) = if self.text.ends_with('/') {
            (path.as_path(), String::new())
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            (path.parent().unwrap_or(&path), name)
        };
        let entries = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .take(LOOKED_AT)
            .flatten();
        let mut found: Vec<Found> = entries
            .map(|e| Found {
                name: e.file_name().to_string_lossy().into_owned(),
                path: e.path(),
                folder: e.path().is_dir(),
            })
            .filter(|f| f.name.to_lowercase().starts_with(&begin) && (!begin.is_empty() || !f.name.starts_with('.')))
            .collect();
        found.sort_by(|a, b| (!a.folder, &a.name).cmp(&(!b.folder, &b.name)));
        found.truncate(MOST);
        self.found = (self.text.clone(), found);
    }

    fn title(&self) -> &'static str {
        match self.what {
            Pick::Recording => "Open recording",
            Pick::Folder => "Open folder of a recording",
            Pick::Buffer => "Load into buffer",
            Pick::Save(_) => "Save",
        }
    }

    fn complete(&mut self, found: &Found) {
        self.text = found.path.to_string_lossy().into_owned();
        if found.folder {
            self.text.push('/');
        }
    }
}

/// Whether a folder is one that an importer knows.
fn is_recording(path: &Path) -> bool {
    path.is_dir() && path.join("gr_io_history").is_file()
}

/// Puts the caret of a field behind its text.
fn at_the_end(ctx: &Context, id: egui::Id, text: &str) {
    let mut state = egui::TextEdit::load_state(ctx, id).unwrap_or_default();
    let end = egui::text::CCursor::new(text.chars().count());
    state.cursor.set_char_range(Some(egui::text::CCursorRange::one(end)));
    state.store(ctx, id);
}

/// Draws the field when it is open.
pub(super) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.typed.take() else { return };
    open.look();
    let (tab, enter, escape) = ctx.input_mut(|i| {
        (
            i.consume_key(Modifiers::NONE, Key::Tab),
            i.consume_key(Modifiers::NONE, Key::Enter),
            i.consume_key(Modifiers::NONE, Key::Escape),
        )
    });
    if let Some(first) = open.found.1.first().cloned().filter(|_| tab) {
        open.complete(&first);
        open.look();
    }
    let can = open.can();
    let mut done = enter && can == Can::Take;
    let mut keep = !escape;
    let width = 560.0_f32.min(ctx.content_rect().width() - 40.0);
    egui::Window::new(open.title())
        .collapsible(false)
        .resizable(false)
        .default_pos(egui::pos2((ctx.content_rect().width() - width) / 2.0, 60.0))
        .fixed_size(vec2(width, 0.0))
        .show(ctx, |ui| {
            let p = palette(ui);
            let why = "This desktop has no file dialog for programs (neither a portal nor zenity), so type the path.";
            ui.label(RichText::new(why).font(small()).color(p.quiet));
            ui.add_space(6.0);
            let edit = egui::TextEdit::singleline(&mut open.text)
                .id(egui::Id::unique("typed-path"))
                .font(mono())
                .desired_width(f32::INFINITY)
                .margin(vec2(8.0, 6.0));
            let r = ui.add(edit).accessible_name("Path");
            if !open.focused || tab || enter {
                at_the_end(ui.ctx(), r.id, &open.text);
                r.request_focus();
                open.focused = true;
            }
            ui.add_space(4.0);
            for found in open.found.1.clone() {
                let shown = if found.folder {
                    format!("{}/", found.name)
                } else {
                    found.name.clone()
                };
                let shown = text::middle(&shown, 60);
                let link = egui::Button::new(RichText::new(shown).font(body())).frame(false);
                if ui.add(link).clicked() {
                    open.complete(&found);
                    open.focused = false;
                }
            }
            if open.found.1.is_empty() {
                ui.label(RichText::new("nothing lies there").font(small()).color(p.quiet));
            }
            ui.add_space(8.0);
            ui.horizontal(|ui| {
                let (label, name) = match (&open.what, can) {
                    (_, Can::Replace) => ("Replace", "Replace the file"),
                    (Pick::Save(_), _) => ("Save", "Save there"),
                    (Pick::Buffer, _) => ("Load", "Load this file"),
                    _ => ("Open", "Open this path"),
                };
                let enabled = !matches!(can, Can::Nothing(_));
                done |= widgets::primary_button(ui, label, name, enabled).clicked();
                keep &= !ui.button("Cancel").clicked();
                match can {
                    Can::Nothing(why) => drop(ui.label(RichText::new(why).font(small()).color(p.quiet))),
                    Can::Replace => {
                        let what = RichText::new("! The file is there already.")
                            .font(strong())
                            .color(p.warning);
                        ui.label(what);
                    }
                    Can::Take => {}
                }
            });
        });
    if done {
        let path = open.path();
        (open.act)(app, ctx, path);
    } else if keep {
        app.typed = Some(open);
    }
}
