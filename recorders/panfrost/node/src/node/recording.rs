//! Recording of the node's work: buffer names, the partial recording while the program runs, the recording at the end.

use super::*;

/// The finding of a recording whose program ended before it was written.
const UNFINISHED: &str = "the program ended before the recording was finished: its last work is missing, and so are \
                          the results of jobs in memory";

impl Node {
    /// Names the bytes of a buffer object at an address of the program, which is a host address.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if the address is in no mapping of a buffer object, [`Errno::INVAL`] if the range
    /// leaves the object, or the name is empty.
    pub fn name_buffer(&mut self, address: u64, bytes: u64, named: BufferName) -> Result<(), Errno> {
        let mapping = memory::find_mapping(address).ok_or(Errno::FAULT)?;
        let mut files = self.files.values_mut();
        let file = files.find(|f| f.inode() == mapping.inode).ok_or(Errno::FAULT)?;
        let at = mapping.offset + (address - mapping.addresses.start);
        let object = file
            .objects
            .values_mut()
            .find(|o| o.range().contains(&at))
            .ok_or(Errno::FAULT)?;
        let inside = at.checked_add(bytes).is_some_and(|end| end <= object.range().end);
        let (Some(space), true, false) = (file.space, inside && bytes > 0, named.name.is_empty()) else {
            return Err(Errno::INVAL);
        };
        let place = GpuRange {
            va: object.va + (at - object.offset),
            space,
            bytes,
        };
        object.named = true;
        if !self.full {
            self.told_of.add_name(named, place);
        }
        Ok(())
    }

    /// Ends the recording after an error that is not the program's; the program continues with chains that do nothing.
    pub(super) fn fail_recording(&mut self, why: String) {
        self.messages.push(format!(
            "{why}; the recording ends here, and further GPU work of the program completes without running"
        ));
        if let Stage::On(gpu) = std::mem::replace(&mut self.stage, Stage::Ended) {
            self.stage = Stage::Broken(gpu);
        }
        self.told_of.error.get_or_insert(why);
    }

    /// Returns whether there is a recording that is not handed over yet.
    #[must_use]
    pub fn has_recording(&self) -> bool {
        matches!(self.stage, Stage::On(_) | Stage::Broken(_))
    }

    /// Ends the recording. From here on chains complete without running. Returns `None` if nothing was recorded.
    ///
    /// # Errors
    /// Returns an error if the device fails during power-off.
    pub fn finish(&mut self) -> Result<Option<Recording>, NodeError> {
        let gpu = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::On(gpu) | Stage::Broken(gpu) => gpu,
            other => {
                self.stage = other;
                return Ok(None);
            }
        };
        self.retain_names(&gpu);
        let labels = self.labels();
        // The file is complete up to its last commit; the caller writes the rest.
        self.journal = None;
        let mut recording = gpu.finish()?;
        let (events, source) = (
            recording.events.len() as u64,
            Provenance::for_program(&self.settings.program),
        );
        self.told_of.write_to(&mut recording.metadata, &source, events, labels);
        Ok(Some(recording))
    }

    /// Removes the names of files whose address space belongs to another file now.
    pub(super) fn retain_names(&mut self, gpu: &Gpu) {
        let current: Vec<SpaceId> = self.files.values().filter_map(|f| f.space).collect();
        self.told_of
            .retain_spaces(|space| current.contains(&space) || gpu.is_free(space));
    }

    fn labels(&self) -> Vec<LabelledObject> {
        if self.full {
            return Vec::new();
        }
        self.files.values().flat_map(OpenFile::labels).collect()
    }

    /// Ends the recording if it has become too large. The program's work continues.
    pub(super) fn check_limit(&mut self) {
        let (Stage::On(gpu), Some(limit), false) = (&mut self.stage, self.settings.limit, self.full) else {
            return;
        };
        if gpu.approximate_bytes() <= limit {
            return;
        }
        let why = format!("it reached its limit of {limit} bytes");
        let labels: Vec<LabelledObject> = self.files.values().flat_map(OpenFile::labels).collect();
        let done = gpu.end_recording();
        self.full = true;
        self.told_of.add_labels(labels);
        match done {
            Ok(()) => {
                self.messages.push(format!(
                    "the recording ends here: {why}; the program continues, but its further work is not recorded"
                ));
                self.told_of.error = Some(why);
            }
            Err(e) => self.fail_recording(format!("{why}, and its memory cannot be stored: {e}")),
        }
    }

    /// Commits new events to the disk if a commit is due, for a program that ends abruptly. A failure becomes a message
    /// and does not affect the program.
    pub fn commit_journal(&mut self) {
        let (Stage::On(gpu) | Stage::Broken(gpu), Some(path)) = (&self.stage, &self.settings.journal) else {
            return;
        };
        let events = gpu.events();
        if self.submits == 0 || self.journal.as_ref().is_some_and(|j| !j.is_due(events)) {
            return;
        }
        if let Err(e) = self.write_journal(&path.clone(), events) {
            let held = self.journal.take().map_or(0, |j| j.events());
            self.settings.journal = None;
            self.messages.push(format!(
                "the recording cannot be written while the program runs: {e}; {held} events are safe, and the others \
                 are written when the program ends, if possible"
            ));
        }
    }

    fn write_journal(&mut self, path: &Path, events: u64) -> Result<(), NodeError> {
        let labels = self.labels();
        let (Stage::On(gpu) | Stage::Broken(gpu)) = &self.stage else {
            return Ok(());
        };
        let journal = match &mut self.journal {
            Some(journal) => journal,
            None => self.journal.insert(Journal::begin(path)?),
        };
        let source = Provenance::for_program(&self.settings.program);
        let recording_metadata = &self.told_of;
        journal.commit(events, |writer| {
            gpu.append_to(writer, |metadata| {
                recording_metadata.write_to(metadata, &source, events, labels);
                if recording_metadata.error.is_none() {
                    metadata.lost.push(LostEvents {
                        before_event: events,
                        count: None,
                        reason: UNFINISHED.to_owned(),
                    });
                }
            })
        })
    }

    /// Returns the file of the partial recording, and its descriptor.
    #[must_use]
    pub fn journal(&self) -> Option<(&Path, i32)> {
        self.journal.as_ref().map(|j| (j.path(), j.descriptor()))
    }

    /// Forgets the partial recording in a forked child: the file on the disk belongs to the parent.
    pub fn forget_journal(&mut self) {
        // An ordinary close would release the parent's lock on it.
        std::mem::forget(self.journal.take());
        self.settings.journal = None;
    }
}
