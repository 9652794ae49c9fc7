//! The combination of dumps of one ring. A driver prints the last accesses of its ring on request or after an error.
//! The head of a dump gives the total number of accesses, so each access has its own number, and accesses of two dumps
//! appear once.

use super::base::Entry;
use super::line::{Access, Head};

/// Maximum number of characters of a device's name.
const MAX_NAME: usize = 64;

/// Accesses of a ring between two resets.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// By ascending number.
    pub(super) entries: Vec<(u64, Entry)>,
    /// Where dumps start to add accesses: index in the entries, time, and device.
    pub(super) dumps: Vec<(usize, Option<u64>, String)>,
    /// Total number of accesses at the last dump, if a head gave it.
    pub(super) total: Option<u64>,
}

/// A dump that is being read.
#[derive(Debug)]
struct Dump {
    last: Option<u64>,
    total: Option<u64>,
    time: Option<u64>,
    entries: Vec<(u64, Entry)>,
}

impl Dump {
    /// Returns the number of the dump's first access minus its index.
    fn first(&self) -> u64 {
        self.total
            .zip(self.last)
            .map_or(0, |(total, last)| total.saturating_sub(last))
    }
}

/// The combined dumps of a log.
#[derive(Debug, Default)]
pub(super) struct Stitch {
    pub(super) runs: Vec<Run>,
    dump: Option<Dump>,
    /// The device that the first head names.
    pub(super) device: Option<String>,
    /// Number of dumps, and of skipped dumps of another device.
    pub(super) dumps: u64,
    pub(super) other_devices: u64,
    leaving_out: bool,
    /// Number of accesses with an address that the kernel hid.
    pub(super) hidden: u64,
    /// Number of accesses whose number does not follow the previous one, or exceeds the total of the head.
    pub(super) disordered: u64,
    /// Number of accesses that an earlier dump had.
    pub(super) again: u64,
}

impl Stitch {
    /// Handles a head: a new dump follows.
    pub(super) fn head(&mut self, head: &Head<'_>) {
        self.close();
        self.dumps += 1;
        let name = String::from_utf8_lossy(head.device);
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        self.leaving_out = *self.device.get_or_insert_with(|| name.clone()) != name;
        if self.leaving_out {
            self.other_devices += 1;
            return;
        }
        self.dump = Some(Dump {
            last: Some(head.last),
            total: Some(head.total),
            time: head.time,
            entries: Vec::new(),
        });
    }

    /// Handles an access.
    pub(super) fn access(&mut self, access: &Access) {
        if self.leaving_out {
            return;
        }
        let Some(address) = access.address else {
            self.hidden += 1;
            return;
        };
        // A log may start in the middle of a dump.
        let dump = self.dump.get_or_insert_with(|| {
            self.dumps += 1;
            Dump {
                last: None,
                total: None,
                time: None,
                entries: Vec::new(),
            }
        });
        let behind = dump.entries.last().is_none_or(|(before, _)| access.index > *before);
        if !behind || dump.last.is_some_and(|last| access.index >= last) {
            self.disordered += 1;
            return;
        }
        let entry = Entry {
            address,
            value: access.value,
            write: access.write,
        };
        dump.entries.push((access.index, entry));
    }

    /// Completes the current dump.
    pub(super) fn close(&mut self) {
        let Some(mut dump) = self.dump.take() else { return };
        let first = dump.first();
        for (number, _) in &mut dump.entries {
            // An index is below the printed number, and its sum with the first number is at most the total.
            *number = number.saturating_add(first);
        }
        let follows = self.runs.last().is_some_and(|run| follows(run, &dump));
        if !follows && !dump.entries.is_empty() {
            self.runs.push(Run::default());
        }
        let Some(run) = self.runs.last_mut().filter(|_| follows || !dump.entries.is_empty()) else {
            return;
        };
        let from = run.entries.last().map_or(0, |(number, _)| number.saturating_add(1));
        let known = dump.entries.partition_point(|(number, _)| *number < from);
        self.again += known as u64;
        let name = match (dump.last, dump.total) {
            (Some(last), Some(total)) => format!("the last {last} of {total} register accesses"),
            _ => "register accesses of which the head is missing".to_owned(),
        };
        if known < dump.entries.len() {
            run.dumps.push((run.entries.len(), dump.time, name));
        }
        run.entries.extend(dump.entries.into_iter().skip(known));
        run.total = dump.total;
    }
}

/// Whether a dump continues a run: the ring's count did not decrease, and the common accesses are equal.
fn follows(run: &Run, dump: &Dump) -> bool {
    let (Some(before), Some(now)) = (run.total, dump.total) else {
        return false;
    };
    let known = |number: u64| {
        let at = run.entries.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        run.entries.get(at).map(|(_, e)| *e)
    };
    now >= before && dump.entries.iter().all(|(n, e)| known(*n).is_none_or(|k| k == *e))
}
