//! Texts of the objects of a driver trace, and the choice of those that a list shows.

use super::DriverData;
use crate::text;
use std::collections::HashSet;
use trace_core::driver_trace::{DriverObject, DriverTrace};
use trace_core::families::find_family;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{ObjectKind, ObjectRow, Recording};

/// Number of objects between two checks for cancellation.
const CHECK_INTERVAL: usize = 4096;

/// The texts of an object.
pub struct ObjectText<'a> {
    recording: &'a Recording,
    object: &'a DriverObject,
    index: usize,
}

impl<'a> ObjectText<'a> {
    /// Creates the texts of an object, or returns `None` if the trace has no object of this index.
    #[must_use]
    pub fn new(recording: &'a Recording, trace: &'a DriverTrace, index: usize) -> Option<Self> {
        let object = trace.objects().get(index)?;
        Some(Self {
            recording,
            object,
            index,
        })
    }

    /// Returns its kind in words: `address space`.
    #[must_use]
    pub fn kind(&self) -> String {
        self.object.kind.map_or("object", ObjectKind::name).replace('-', " ")
    }

    /// Returns its handle, or its number if the source states no handles: `0xcaf00005`, `#3`.
    #[must_use]
    pub fn id(&self) -> String {
        let number = || format!("#{}", self.index);
        self.object.handle.map_or_else(number, |h| format!("{h:#x}"))
    }

    /// Returns kind and handle: `buffer 0xcaf00005`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.kind(), self.id())
    }

    /// Returns the name of its class, or the number of an unknown one; empty if the source states no class.
    #[must_use]
    pub fn class(&self) -> String {
        let Some(class) = self.object.class else {
            return String::new();
        };
        let name = find_family(self.recording).class_name(class);
        name.map_or_else(|| format!("{class:#x}"), str::to_owned)
    }

    /// Returns its size as the source writes sizes: `0x40000`; empty if unknown.
    #[must_use]
    pub fn size(&self) -> String {
        self.object.bytes.map_or_else(String::new, |b| format!("{b:#x}"))
    }

    /// Returns where its memory is: `video`, `host`; empty if unknown.
    #[must_use]
    pub fn place(&self) -> &'static str {
        match self.object.flags {
            f if f & ObjectRow::VIDEO_MEMORY != 0 => "video",
            f if f & ObjectRow::HOST_MEMORY != 0 => "host",
            _ => "",
        }
    }

    /// Returns its GPU address, for a channel also that of its ring; empty if unknown.
    #[must_use]
    pub fn address(&self) -> String {
        match (self.object.address, self.object.ring) {
            (Some(at), Some(ring)) => format!("{at}, ring {ring}"),
            (None, Some(ring)) => format!("ring {ring}"),
            (at, None) => at.map_or_else(String::new, |at| at.to_string()),
        }
    }

    /// Returns the function or request that asked for it; empty if unknown.
    #[must_use]
    pub fn caller(&self) -> &'a str {
        let name = |c| self.recording.driver_trace()?.name(c);
        self.object.caller.and_then(name).unwrap_or_default()
    }

    /// Returns all texts that a filter searches, in lower case.
    fn search_text(&self) -> String {
        let o = self.object;
        let mut all = format!(
            "{} {} {} {} {}",
            self.name(),
            self.class(),
            self.size(),
            self.place(),
            self.address()
        );
        all.push_str(&format!(" {}", self.caller()));
        if let Some(class) = o.class {
            all.push_str(&format!(" {class:#x}"));
        }
        if let Some(bytes) = o.bytes {
            all.push_str(&format!(" {bytes} {}", text::bytes(bytes)));
        }
        all.to_lowercase()
    }
}

/// What a list of objects shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    /// Words that an object must contain, separated by spaces.
    pub text: String,
    /// The event after which an object must exist; `None` shows the objects of all time.
    pub at: Option<u64>,
}

/// Returns the rows of the tree that pass a filter, in tree order, without those below a folded object. An object above
/// one that passes the text is shown too.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn select_objects(
    data: &DriverData,
    recording: &Recording,
    filter: &ObjectFilter,
    folded: &HashSet<u32>,
    progress: &Progress,
) -> Result<Vec<u32>, Cancelled> {
    let needle = filter.text.to_lowercase();
    let words: Vec<&str> = needle.split_whitespace().collect();
    let mut passes = vec![words.is_empty(); data.tree.len()];
    // The rows above the current one.
    let mut above: Vec<usize> = Vec::new();
    for (n, row) in data.tree.iter().enumerate() {
        if n % CHECK_INTERVAL == 0 {
            progress.check()?;
        }
        if words.is_empty() {
            break;
        }
        above.truncate(usize::from(row.depth));
        let text = ObjectText::new(recording, &data.trace, row.object as usize).map(|t| t.search_text());
        if text.is_some_and(|t| words.iter().all(|w| t.contains(w))) {
            for at in above.iter().copied().chain([n]) {
                if let Some(passes) = passes.get_mut(at) {
                    *passes = true;
                }
            }
        }
        above.push(n);
    }
    let exists = |object: u32| {
        let object = data.trace.objects().get(object as usize);
        filter
            .at
            .is_none_or(|event| object.is_some_and(|o| o.exists_at(event.saturating_add(1))))
    };
    let mut rows = Vec::new();
    let mut n = 0;
    while let Some(row) = data.tree.get(n) {
        if n % CHECK_INTERVAL == 0 {
            progress.check()?;
        }
        let shown = passes.get(n).copied().unwrap_or(false) && exists(row.object);
        if shown {
            rows.push(n as u32);
        }
        // A filter looks below folded objects too.
        n = match words.is_empty() && folded.contains(&row.object) {
            true => (row.end as usize).max(n + 1),
            false => n + 1,
        };
    }
    Ok(rows)
}
