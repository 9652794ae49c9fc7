//! Which lane of the timeline an event is in: the blocks of registers, what is no register, what is no access.

use crate::recording::{EventKind, Events, Recording, SpaceKind};
use crate::registers::{Register, RegisterMap, Role};
use std::ops::Range;

/// Accesses to registers that the map does not know.
const UNKNOWN: &str = "unknown";
/// Accesses to spaces that are no GPU registers.
const ELSEWHERE: &str = "elsewhere";
/// Notes that the recorder left, and events of kinds that nobody knows.
const MARKS: &str = "marks";
/// An event in no lane: an interrupt or a submit, which have lanes of their own.
const NONE: u8 = u8::MAX;
/// Most lanes.
const MOST: usize = 120;

/// Lanes of a recording, and the lane of each register.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lanes {
    /// Names, in the order in which they are shown. Behind those of the map come [`UNKNOWN`], [`ELSEWHERE`], [`MARKS`].
    pub names: Vec<String>,
    /// Lane of each register, by word.
    words: Vec<u8>,
    unknown: u8,
    elsewhere: u8,
    marks: u8,
    /// The space whose accesses are the GPU's registers.
    space: u8,
}

/// What a register's lane is called: job slots and address spaces by number, power apart from the rest of the GPU.
fn name(r: &Register) -> String {
    let mut name = whole_name(r);
    // A file has room for so much.
    let most = (0..=super::pyramid_store::NAME_BYTES)
        .rev()
        .find(|n| name.is_char_boundary(*n));
    name.truncate(most.unwrap_or(0));
    name
}

fn whole_name(r: &Register) -> String {
    let power = matches!(
        r.replay.role,
        Some(Role::PowerOn | Role::PowerOff | Role::PowerReady | Role::PowerTransition)
    ) || ["PWR", "READY", "PRESENT", "ACTIVE"].iter().any(|k| r.name.contains(k));
    match (r.block.as_str(), r.index) {
        ("JOB_SLOT" | "JS", Some(i)) => format!("JS{i}"),
        ("AS", Some(i)) => format!("AS{i}"),
        ("GPU_CONTROL", _) if power => "power".to_owned(),
        ("GPU_CONTROL", _) => "GPU".to_owned(),
        (other, Some(i)) => format!("{} {i}", other.to_lowercase().replace('_', " ")),
        (other, None) => other.to_lowercase().replace('_', " "),
    }
}

/// Where a lane stands among the others: what starts work first.
fn rank(r: &Register, name: &str) -> (u8, u8) {
    let kind = match (r.block.as_str(), name) {
        ("JOB_SLOT" | "JS", _) => 0,
        ("AS", _) => 1,
        (_, "power") => 2,
        ("JOB_CONTROL", _) => 3,
        ("GPU_CONTROL", _) => 4,
        _ => 5,
    };
    (kind, r.index.unwrap_or(0))
}

impl Lanes {
    pub fn new(recording: &Recording, map: Option<&RegisterMap>) -> Self {
        let mut found: Vec<((u8, u8), String)> = Vec::new();
        for r in map.into_iter().flat_map(RegisterMap::registers) {
            let name = name(r);
            let key = (rank(r, &name), name);
            if let Err(at) = found.binary_search(&key) {
                found.insert(at, key);
            }
        }
        // A map has a handful of blocks; should it have more than fit, the rest share the lane of the unknown.
        found.truncate(MOST);
        let mut names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
        let unknown = names.len() as u8;
        let bytes = map.map_or(0, RegisterMap::window_bytes);
        let mut words = vec![unknown; (bytes / 4) as usize];
        for r in map.into_iter().flat_map(RegisterMap::registers) {
            let lane = name(r);
            let lane = names.iter().position(|n| *n == lane).and_then(|l| u8::try_from(l).ok());
            if let (Some(word), Some(lane)) = (words.get_mut((r.offset / 4) as usize), lane) {
                *word = lane;
            }
        }
        names.extend([UNKNOWN, ELSEWHERE, MARKS].map(str::to_owned));
        let space = recording
            .facts
            .spaces
            .iter()
            .position(|s| s.kind == SpaceKind::Registers);
        Self {
            names,
            words,
            unknown,
            elsewhere: unknown + 1,
            marks: unknown + 2,
            space: space.and_then(|s| u8::try_from(s).ok()).unwrap_or(0),
        }
    }

    /// The same lanes with numbers that a file or a count gave them; those that it does not have are left out.
    pub fn renumbered(mut self, names: Vec<String>) -> Self {
        let of = |lane: u8, old: &[String]| {
            let at = old
                .get(usize::from(lane))
                .and_then(|n| names.iter().position(|x| x == n));
            at.and_then(|l| u8::try_from(l).ok()).unwrap_or(NONE)
        };
        let new: Vec<u8> = (0..self.names.len() as u8).map(|l| of(l, &self.names)).collect();
        let get = |l: u8| new.get(usize::from(l)).copied().unwrap_or(NONE);
        self.words.iter_mut().for_each(|w| *w = get(*w));
        self.unknown = get(self.unknown);
        self.elsewhere = get(self.elsewhere);
        self.marks = get(self.marks);
        self.names = names;
        self
    }

    /// Calls back with each event of a range, its lane, and whether it writes. Events that are in no lane are left out.
    pub fn each(&self, events: &Events, range: Range<usize>, mut call: impl FnMut(usize, usize, bool)) {
        let mut kinds = events.kind.iter_range(range.clone());
        let mut spaces = events.space.iter_range(range.clone());
        let mut payloads = events.payload.iter_range(range.clone());
        // Rows of accesses usually follow one another: then their column is walked rather than searched.
        let mut row = usize::MAX;
        let mut offsets = events.offset.iter_range(0..0);
        for event in range {
            let (Some(kind), Some(space), Some(payload)) = (kinds.next(), spaces.next(), payloads.next()) else {
                return;
            };
            let write = kind == EventKind::Write as u8;
            let lane = if !write && kind != EventKind::Read as u8 {
                match EventKind::from_raw(kind) {
                    Some(EventKind::Interrupt | EventKind::Submit) => continue,
                    // Without its value it says little of a register: it stands with those that are not known.
                    Some(EventKind::Undecoded) if space == self.space => self.unknown,
                    Some(EventKind::Undecoded) => self.elsewhere,
                    _ => self.marks,
                }
            } else if space != self.space {
                self.elsewhere
            } else {
                if payload as usize != row {
                    row = payload as usize;
                    offsets = events.offset.iter_range(row..events.offset.len());
                }
                row = row.saturating_add(1);
                let known = offsets.next().filter(|o| o % 4 == 0);
                let word = known.and_then(|o| self.words.get((o / 4) as usize).copied());
                word.unwrap_or(self.unknown)
            };
            if lane != NONE {
                call(event, usize::from(lane), write);
            }
        }
    }
}
