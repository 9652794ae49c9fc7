//! The lanes of the timeline: register blocks, framebuffers, other accesses, other events; for API traces streams,
//! memory and other calls; for driver traces channels, objects and requests.

mod driver;

use crate::families::{Family, find_family_with};
use crate::recording::{AllocationKind, CopyKind, EventKind, Events, OrderRow, Recording, SpaceKind};
use crate::registers::{Register, RegisterMap, register_space};
use driver::DriverLanes;
use std::ops::{ControlFlow, Range};

/// Lane of accesses to registers that the map does not know.
const UNKNOWN: &str = "unknown";
/// Lane of accesses to spaces that are neither the device's registers nor a framebuffer.
const ELSEWHERE: &str = "elsewhere";
/// Lane of the recorder's notes, and of events of unknown kinds.
const MARKS: &str = "marks";
/// An event in no lane: an interrupt or a submit, which have their own lanes.
const NONE: u8 = u8::MAX;
/// Rank of the lanes of blocks, after those that a family ranks.
const LAST_RANK: u8 = 5;
/// Maximum number of lanes of blocks.
const MAX_BLOCK_LANES: usize = 100;
/// Maximum number of lanes of framebuffers; a card has one.
const MAX_FRAMEBUFFERS: usize = 16;
/// Maximum number of streams with their own lanes; the others share those of the last one.
const MAX_STREAMS: usize = 32;
/// Lane of allocations and releases of device memory, and its snapshots.
const MEMORY: &str = "memory";
/// Lane of calls without a stream.
const CALLS: &str = "other calls";

/// The lanes of a recording, and the lane of each register.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lanes {
    /// Names in display order. After the map's lanes come those of the framebuffers, then [`UNKNOWN`], [`ELSEWHERE`],
    /// [`MARKS`].
    pub names: Vec<String>,
    /// Lane of each location, a word or a byte.
    places: Vec<u8>,
    /// Shift from an offset to its location: 2 if only words are accessed, else 0.
    shift: u32,
    unknown: u8,
    elsewhere: u8,
    marks: u8,
    /// The space of the device's registers.
    space: u8,
    /// Lanes of other spaces with their own lane: framebuffers.
    spaces: Vec<(u8, u8)>,
    /// Lanes of calls, if the recording is an API trace.
    calls: Option<CallLanes>,
    /// Lanes of requests to the kernel driver, if they were recorded.
    driver: Option<DriverLanes>,
}

/// The lanes of an API trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CallLanes {
    /// For each stream: its lane of copies and fills, where writes go to the device; and its lane of launches, which
    /// count as writes, and of orders.
    streams: Vec<[u8; 2]>,
    memory: u8,
    calls: u8,
}

/// Lanes of a stream in a [`super::Pyramid`], if it has events of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLanes {
    /// Copies and fills: reads of device memory, and writes to it.
    pub copies: Option<usize>,
    /// Orders as reads, launches as writes.
    pub launches: Option<usize>,
}

impl CallLanes {
    /// Returns the lane of an event that is a call, and whether it counts as a write.
    fn lane_of(&self, events: &Events, kind: EventKind, payload: u32) -> (u8, bool) {
        let row = payload as usize;
        let stream = |stream: Option<u32>, which: usize| {
            let n = stream.filter(|s| *s != OrderRow::NONE).map(|s| s as usize);
            let lanes = n.and_then(|n| self.streams.get(n.min(self.streams.len().saturating_sub(1))));
            lanes.and_then(|l| l.get(which)).copied()
        };
        match kind {
            EventKind::Launch => {
                let lane = stream(events.launches.get(row).map(|l| l.stream), 1);
                (lane.unwrap_or(self.calls), true)
            }
            EventKind::Copy => {
                let copy = events.copies.get(row);
                let to_host = copy.is_some_and(|c| CopyKind::from_raw(c.kind) == Some(CopyKind::DeviceToHost));
                (stream(copy.map(|c| c.stream), 0).unwrap_or(self.memory), !to_host)
            }
            EventKind::Fill => {
                let lane = stream(events.fills.get(row).map(|f| f.stream), 0);
                (lane.unwrap_or(self.calls), true)
            }
            EventKind::Order => {
                let lane = stream(events.orders.get(row).map(|o| o.stream), 1);
                (lane.unwrap_or(self.calls), false)
            }
            EventKind::Allocation => {
                let kind = events
                    .allocations
                    .get(row)
                    .and_then(|a| AllocationKind::from_raw(a.kind));
                (self.memory, kind.is_some_and(AllocationKind::takes_device))
            }
            _ => (self.calls, false),
        }
    }
}

/// Whether a recording has calls, and none of these names is a lane of calls.
fn needs_call_lanes(recording: &Recording, names: &[String]) -> bool {
    let e = &recording.events;
    let calls = [
        e.launches.len(),
        e.copies.len(),
        e.fills.len(),
        e.orders.len(),
        e.allocations.len(),
        e.calls.len(),
    ];
    let of_calls = |n: &String| n.starts_with("stream ") || n.starts_with("launches ") || n == MEMORY || n == CALLS;
    recording.api().is_some() && calls.iter().any(|n| *n > 0) && !names.iter().any(of_calls)
}

/// Whether names of lanes of a file are those of an earlier version of the program.
pub(super) fn is_outdated(recording: &Recording, names: &[String]) -> bool {
    needs_call_lanes(recording, names) || driver::has_handle_lanes(recording, names)
}

/// Cuts a name to its maximum size in a file.
fn short(mut name: String) -> String {
    let max = (0..=super::pyramid_store::NAME_BYTES)
        .rev()
        .find(|n| name.is_char_boundary(*n));
    name.truncate(max.unwrap_or(0));
    name
}

/// Returns the rank and the name of a register's lane: those of its family, else the name of its block.
fn lane_of(family: &dyn Family, r: &Register) -> (u8, String) {
    let (rank, name) = family.lane_of(r).unwrap_or_else(|| {
        let block = r.block.to_lowercase().replace('_', " ");
        let name = r.index.map(|i| format!("{block} {i}"));
        (LAST_RANK, name.unwrap_or(block))
    });
    (rank, short(name))
}

impl Lanes {
    pub fn new(recording: &Recording, map: Option<&RegisterMap>) -> Self {
        let family = find_family_with(recording, map);
        let mut found: Vec<((u8, u8), String)> = Vec::new();
        let _ = map.map(|m| {
            m.visit(|r| {
                let (rank, name) = lane_of(family, r);
                let key = ((rank, r.index.unwrap_or(0)), name);
                if let Err(at) = found.binary_search(&key) {
                    found.insert(at, key);
                }
                ControlFlow::<()>::Continue(())
            })
        });
        // A map has a handful of blocks; if it has too many, the rest share the lane of unknown registers.
        found.truncate(MAX_BLOCK_LANES);
        let mut names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
        let space = register_space(recording, map);
        let mut spaces = Vec::new();
        for (s, number) in recording.metadata.spaces.iter().zip(0u8..) {
            if s.kind == SpaceKind::Framebuffer && number != space && spaces.len() < MAX_FRAMEBUFFERS {
                spaces.push((number, names.len() as u8));
                names.push(short(s.name.clone()));
            }
        }
        let unknown = names.len() as u8;
        let shift = if map.is_some_and(RegisterMap::is_aligned_only) {
            2
        } else {
            0
        };
        let end = map.map(RegisterMap::end).unwrap_or_default();
        let mut places = vec![unknown; (end.get() as usize).div_ceil(1 << shift)];
        let _ = map.map(|m| {
            m.visit(|r| {
                let (_, lane) = lane_of(family, r);
                let lane = names.iter().position(|n| *n == lane).and_then(|l| u8::try_from(l).ok());
                let own = (r.offset.get() >> shift) as usize..(r.end().get() >> shift) as usize;
                if let (Some(places), Some(lane)) = (places.get_mut(own), lane) {
                    places.fill(lane);
                }
                ControlFlow::<()>::Continue(())
            })
        });
        names.extend([UNKNOWN, ELSEWHERE, MARKS].map(str::to_owned));
        let api_trace = recording.api().map(|metadata| {
            let streams = metadata.streams.len().clamp(1, MAX_STREAMS);
            let mut next = || {
                names.push(String::new());
                (names.len() - 1) as u8
            };
            let lanes = CallLanes {
                streams: (0..streams).map(|_| [next(), next()]).collect(),
                memory: next(),
                calls: next(),
            };
            for (n, [copies, launches]) in lanes.streams.iter().enumerate() {
                for (lane, name) in [(copies, "stream"), (launches, "launches")] {
                    if let Some(to) = names.get_mut(usize::from(*lane)) {
                        *to = format!("{name} {n}");
                    }
                }
            }
            for (lane, name) in [(lanes.memory, MEMORY), (lanes.calls, CALLS)] {
                if let Some(to) = names.get_mut(usize::from(lane)) {
                    name.clone_into(to);
                }
            }
            lanes
        });
        let driver = recording
            .driver_trace()
            .map(|_| DriverLanes::new(recording, &mut names));
        Self {
            calls: api_trace,
            driver,
            names,
            places,
            shift,
            unknown,
            elsewhere: unknown + 1,
            marks: unknown + 2,
            space,
            spaces,
        }
    }

    /// Returns the same lanes with the numbers in a file or a count; lanes that it lacks are left out.
    pub fn with_lane_names(mut self, names: Vec<String>) -> Self {
        let of = |lane: u8, old: &[String]| {
            let at = old
                .get(usize::from(lane))
                .and_then(|n| names.iter().position(|x| x == n));
            at.and_then(|l| u8::try_from(l).ok()).unwrap_or(NONE)
        };
        let new: Vec<u8> = (0..self.names.len() as u8).map(|l| of(l, &self.names)).collect();
        let get = |l: u8| new.get(usize::from(l)).copied().unwrap_or(NONE);
        self.places.iter_mut().for_each(|p| *p = get(*p));
        self.spaces.iter_mut().for_each(|(_, lane)| *lane = get(*lane));
        self.unknown = get(self.unknown);
        self.elsewhere = get(self.elsewhere);
        self.marks = get(self.marks);
        if let Some(calls) = &mut self.calls {
            calls.streams.iter_mut().flatten().for_each(|lane| *lane = get(*lane));
            calls.memory = get(calls.memory);
            calls.calls = get(calls.calls);
        }
        if let Some(driver) = &mut self.driver {
            driver.lanes_mut().for_each(|lane| *lane = get(*lane));
        }
        self.names = names;
        self
    }

    /// Returns the lanes of each stream, of memory, and of other calls, or `None` if it is no API trace.
    pub fn call_lanes(&self) -> Option<(Vec<StreamLanes>, Option<usize>, Option<usize>)> {
        let calls = self.calls.as_ref()?;
        let lane = |l: u8| (l != NONE).then_some(usize::from(l));
        let of = |[copies, launches]: &[u8; 2]| StreamLanes {
            copies: lane(*copies),
            launches: lane(*launches),
        };
        let streams = calls.streams.iter().map(of).collect();
        Some((streams, lane(calls.memory), lane(calls.calls)))
    }

    /// Returns the lane of accesses to a space that does not hold the registers.
    fn other(&self, space: u8) -> u8 {
        let own = self.spaces.iter().find(|(s, _)| *s == space);
        own.map_or(self.elsewhere, |(_, lane)| *lane)
    }

    /// Calls back with each event of a range, its lane, and whether it is a write. Events in no lane are left out.
    pub fn each(&self, events: &Events, range: Range<usize>, mut call: impl FnMut(usize, usize, bool)) {
        let mut kinds = events.kind.iter_range(range.clone());
        let mut spaces = events.space.iter_range(range.clone());
        let mut payloads = events.payload.iter_range(range.clone());
        // Rows of accesses are usually consecutive: then their column is iterated, not searched.
        let mut row = usize::MAX;
        let mut offsets = events.offset.iter_range(0..0);
        for event in range {
            let (Some(kind), Some(space), Some(payload)) = (kinds.next(), spaces.next(), payloads.next()) else {
                return;
            };
            let mut write = kind == EventKind::Write as u8;
            let lane = if !write && kind != EventKind::Read as u8 {
                let of_driver = |kind| self.driver.as_ref()?.lane_of(events, kind, payload);
                match (EventKind::from_raw(kind), &self.calls) {
                    (Some(kind), Some(calls)) if kind.is_call() => {
                        let (lane, writes) = calls.lane_of(events, kind, payload);
                        write = writes;
                        lane
                    }
                    (Some(kind), _) if let Some((lane, writes)) = of_driver(kind) => {
                        write = writes;
                        lane.unwrap_or(NONE)
                    }
                    (Some(EventKind::Interrupt | EventKind::Submit), _) => continue,
                    // Without its value it shows little of a register: it is in the lane of unknown registers.
                    (Some(EventKind::Undecoded), _) if space == self.space => self.unknown,
                    (Some(EventKind::Undecoded), _) => self.other(space),
                    _ => self.marks,
                }
            } else if space != self.space {
                self.other(space)
            } else {
                if payload as usize != row {
                    row = payload as usize;
                    offsets = events.offset.iter_range(row..events.offset.len());
                }
                row = row.saturating_add(1);
                let known = offsets.next().filter(|o| o.trailing_zeros() >= self.shift);
                let place = known.and_then(|o| self.places.get((o >> self.shift) as usize).copied());
                place.unwrap_or(self.unknown)
            };
            if lane != NONE {
                call(event, usize::from(lane), write);
            }
        }
    }
}
