//! What panels ask the window for: commands, work apart from the interface thread, files.

use super::App;
use crate::commands;
use crate::document::tasks::Done;
use crate::theme::palette;
use egui::{Context, RichText, Ui};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use trace_core::progress::Progress;

/// What a file is chosen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A recording file to open.
    Recording,
    /// A folder that holds a recording.
    Folder,
    /// Content for a buffer.
    Buffer,
    /// A place to save, with the name that is proposed.
    Save(String),
}

/// Asks a person for a path; blocks until they answer. Runs apart from the interface thread.
pub type Chooser = Arc<dyn Fn(&Pick) -> Option<PathBuf> + Send + Sync>;

/// Two persons comparing a pairing code.
pub struct Pairing {
    /// The code.
    pub code: String,
    /// Takes the answer.
    pub answer: Sender<bool>,
}

type Deferred = Box<dyn FnOnce(&mut App, &Context)>;

/// What panels asked for in this frame.
#[derive(Default)]
pub struct Asks {
    commands: Vec<&'static str>,
    deferred: Vec<Deferred>,
    focus: Option<&'static str>,
    /// The pairing that is going on.
    pub pairing: Arc<Mutex<Option<Pairing>>>,
}

impl Asks {
    /// Asks for a command of the table.
    pub fn command(&mut self, id: &'static str) {
        self.commands.push(id);
    }

    /// Asks for something that needs the whole window.
    pub fn then(&mut self, act: impl FnOnce(&mut App, &Context) + 'static) {
        self.deferred.push(Box::new(act));
    }

    /// Asks for work apart from the interface thread.
    pub fn task(&mut self, title: &'static str, work: impl FnOnce(&Progress) -> Done + Send + 'static) {
        self.then(move |app, ctx| {
            app.tasks.spawn(ctx, title, work);
        });
    }

    /// Asks the person for a path, then acts on it.
    pub fn pick(&mut self, what: Pick, act: impl FnOnce(&mut App, &Context, PathBuf) + Send + 'static) {
        self.then(move |app, ctx| app.pick(ctx, what, act));
    }

    /// A command of the table as an item of a menu.
    pub fn menu_item(&mut self, ui: &mut Ui, id: &'static str) {
        let Some(c) = commands::by_id(id) else { return };
        let keys = c.shortcut.map(|s| s.text()).unwrap_or_default();
        let quiet = palette(ui).quiet;
        let button = egui::Button::new(c.title).shortcut_text(RichText::new(keys).color(quiet));
        if ui.add(button).clicked() {
            self.command(id);
        }
    }

    /// Wants a field of this name to take the keyboard.
    pub fn give_focus(&mut self, name: &'static str) {
        self.focus = Some(name);
    }

    /// Whether the field of this name should take the keyboard now.
    pub fn take_focus(&mut self, name: &str) -> bool {
        let mine = self.focus == Some(name);
        if mine {
            self.focus = None;
        }
        mine
    }

    /// Shows the pairing code and asks whether the agent shows the same.
    pub fn pairing_ui(&mut self, ui: &mut Ui) {
        let Ok(mut pairing) = self.pairing.lock() else { return };
        let Some(now) = pairing.as_ref() else { return };
        ui.label("Does the agent show this code?");
        ui.label(RichText::new(&now.code).font(crate::theme::mono()).size(18.0));
        let mut answer = None;
        ui.horizontal(|ui| {
            if ui.button("Codes are the same").clicked() {
                answer = Some(true);
            }
            if ui.button("They differ").clicked() {
                answer = Some(false);
            }
        });
        if let Some(a) = answer {
            let _ = now.answer.send(a);
            *pairing = None;
        }
    }

    /// What was asked for, in order; what remains is empty.
    pub fn take(&mut self) -> (Vec<&'static str>, Vec<Deferred>) {
        (std::mem::take(&mut self.commands), std::mem::take(&mut self.deferred))
    }
}
