//! The sheet for naming a register with its fields or a memory range, and the updates of the user's map files.
//!
//! The file is authoritative, so manual changes are never lost. The change journal stores the previous entry. Undo
//! writes that entry back to the file, unless the entry was changed there meanwhile.

mod bits;
mod sheet;

pub(super) use sheet::draw;

use super::app::App;
use super::name_form::{Form, NameSubject};
use super::name_queue::{NameJob, NameSheet, Target, key_from_named, named_from_key};
use egui::Context;
use kinescope_files::changes::Change;
use kinescope_files::scene::Selection;
use kinescope_session::{Document, register_map_files};
use register_maps::naming::{EditedNames, NameEntry};
use std::path::{Path, PathBuf};
use trace_core::registers::RegisterMap;

/// Returns what would be named: the selection, or the register of the current event.
fn find_subject(doc: &Document) -> Option<NameSubject> {
    let buffer = |name: &str| doc.recording.metadata.buffers.iter().find(|b| b.name == name);
    match doc.selection() {
        Selection::Memory { space, va, bytes } => Some(NameSubject::Memory {
            space: *space,
            address: *va,
            bytes: (*bytes).max(1),
        }),
        Selection::Buffer(name) => buffer(name).map(|b| NameSubject::Memory {
            space: b.address_space,
            address: b.va,
            bytes: b.bytes.max(1),
        }),
        _ => doc.current_register().map(NameSubject::Register),
    }
}

impl App {
    /// Returns whether the selection can be named.
    #[must_use]
    pub fn can_name_selection(&self) -> bool {
        self.doc.as_ref().is_some_and(|d| find_subject(d).is_some())
    }

    /// Opens the naming sheet for the selection.
    pub fn begin_naming(&mut self) {
        let Some(doc) = &self.doc else { return };
        let Some(what) = find_subject(doc) else { return };
        let form = Form::for_subject(doc, what);
        let own = self.user_maps.as_ref().map_or(&[][..], |w| w.maps());
        let (targets, target) = targets(doc, own, form.subject);
        self.name_sheet = Some(NameSheet {
            form,
            targets,
            target,
            error: None,
            busy: false,
            focused: false,
            dragged: None,
        });
    }

    /// Writes the form to the selected file. The sheet shows errors.
    pub fn submit_name(&mut self, ctx: &Context) {
        let Some(open) = self.name_sheet.as_mut().filter(|n| !n.busy) else {
            return;
        };
        let Some(target) = open.targets.get(open.target).cloned() else {
            return;
        };
        match open.form.parse() {
            Err(e) => open.error = Some(e),
            Ok(mut said) => {
                // Fields that the underlying map defines stay there, so that they are not written twice.
                let own = self.user_maps.as_ref().map_or(&[][..], |w| w.maps());
                let own = own
                    .iter()
                    .find(|f| f.path == target.path)
                    .and_then(|f| f.map.as_ref().ok());
                let has = |r: &trace_core::registers::Register| !r.layout.fields.is_empty();
                if let NameEntry::Register(r) = &mut said
                    && open.form.fields == open.form.known
                    && !own.and_then(|m| m.at(r.offset)).is_some_and(has)
                {
                    r.fields.clear();
                }
                (open.busy, open.error) = (true, None);
                self.write_name(ctx, NameJob::Say(Box::new(said), target));
            }
        }
    }

    /// Writes the previous entry back to the file when a name is undone, or the new one when it is redone.
    pub fn revert_name(&mut self, ctx: &Context, change: &Change, back: bool) {
        let Change::Name { file, of, old, new, .. } = change else {
            return;
        };
        let (from, to) = if back { (new, old) } else { (old, new) };
        let head = self.doc.as_ref().map(|d| register_map_files::head(&d.recording, true));
        let job = NameJob::Put {
            path: PathBuf::from(file),
            head: head.unwrap_or_default(),
            key: key_from_named(*of),
            old: from.clone(),
            new: to.clone(),
        };
        self.write_name(ctx, job);
    }

    fn write_name(&mut self, ctx: &Context, job: NameJob) {
        self.name_queue.waiting.push_back(job);
        self.write_next(ctx);
    }

    /// Starts the next job if none is running: jobs change files one at a time.
    fn write_next(&mut self, ctx: &Context) {
        if self.name_queue.busy {
            return;
        }
        let Some(job) = self.name_queue.waiting.pop_front() else {
            return;
        };
        self.name_queue.busy = true;
        let again = ctx.clone();
        self.tasks.spawn(ctx, "writing a name", move |_| {
            let done = job.run();
            Box::new(move |app| {
                app.name_queue.busy = false;
                app.finish_write_name(&again, job, done);
                app.write_next(&again);
            })
        });
    }

    fn finish_write_name(&mut self, ctx: &Context, job: NameJob, done: Result<Option<EditedNames>, String>) {
        match (job, done) {
            (NameJob::Say(said, target), Ok(Some(written))) => {
                self.name_sheet = None;
                if written.old != written.new
                    && let Some(doc) = &mut self.doc
                {
                    doc.change(Change::Name {
                        file: target.path.display().to_string(),
                        of: named_from_key(said.key()),
                        name: said.name().to_owned(),
                        old: written.old,
                        new: written.new,
                    });
                    self.info(format!("{} is named in {}", said.name(), target.path.display()));
                }
                self.read_names(ctx);
            }
            (NameJob::Say(..), Err(e)) => match &mut self.name_sheet {
                Some(open) => (open.busy, open.error) = (false, Some(e)),
                None => self.error("the name was not written", &e),
            },
            (NameJob::Put { .. }, Err(e)) => self.error("the register map file was not changed", &e),
            (_, Ok(_)) => self.read_names(ctx),
        }
    }
}

/// Returns the files that a name can be written to, and the index of the default. The default already names the
/// location, or else is in the folder of the recording.
fn targets(doc: &Document, own: &[register_maps::UserMap], what: NameSubject) -> (Vec<Target>, usize) {
    let mut list = vec![Target {
        path: register_maps::sibling_map_path(&doc.path),
        description: "this recording".to_owned(),
        head: register_map_files::head(&doc.recording, false),
    }];
    let layers = RegisterMap::list_for_recording(&doc.recording);
    let in_use = own.iter().filter(|f| !f.beside).find(|f| {
        let map = f.map.as_ref().ok();
        map.is_some_and(|m| layers.iter().any(|l| std::ptr::eq(*l, *m)))
    });
    let head = register_map_files::head(&doc.recording, true);
    let of_device = match in_use {
        // The user chose the layout of a map with several files, so no name is added to it.
        Some(f) => f.path.is_file().then(|| f.path.clone()),
        None if head.pci.is_none() && head.compatible.is_none() && head.gpu.is_none() => None,
        None => register_map_files::folder().map(|f| f.join(register_map_files::file_name(&head))),
    };
    if let Some(path) = of_device {
        list.push(Target {
            description: format!("all recordings of {}", head.name),
            path,
            head,
        });
    }
    let says = |path: &Path| {
        let map = own.iter().find(|f| f.path == path).and_then(|f| f.map.as_ref().ok());
        map.is_some_and(|m| match what {
            NameSubject::Register(offset) => m.at(offset).is_some(),
            NameSubject::Memory { space, address, .. } => m.memory_at(space, address).is_some_and(|f| f.1 == 0),
        })
    };
    let at = list.iter().position(|t| says(&t.path)).unwrap_or(0);
    (list, at)
}
