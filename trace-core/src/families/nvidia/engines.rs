//! The engines of channels: graphics and compute, or a copy engine.

use super::requests::for_each_request;
use crate::driver_trace::{ChannelEngine, ChannelKind};
use crate::recording::{ObjectAction, ObjectKind, Recording};
use std::collections::HashMap;

/// Number of the first copy engine among the types of engines.
const FIRST_COPY_ENGINE: u64 = 9;
/// Maximum number of copy engines.
const MAX_COPY_ENGINES: u64 = 20;
/// Last byte of the classes of copy engines.
const COPY_CLASS: u32 = 0xb5;
/// Last byte of the classes of compute engines.
const COMPUTE_CLASS: u32 = 0xc0;
/// Last byte of the classes of 3D engines.
const DRAW_CLASS: u32 = 0x97;

/// Returns the engine of each channel by client and handle. The engine type of the group or the channel decides; without
/// it, the classes of the engine objects do.
pub(super) fn find_engines(recording: &Recording) -> HashMap<(u32, u32), ChannelEngine> {
    let types = find_engine_types(recording);
    let mut engines: HashMap<(u32, u32), ChannelEngine> = HashMap::new();
    for row in recording.events.objects.iter() {
        if row.result != 0 || row.action != ObjectAction::Create as u32 {
            continue;
        }
        match ObjectKind::from_raw(row.kind) {
            Some(ObjectKind::Channel) => {
                let of = |handle| types.get(&(row.client, handle)).copied();
                if let Some(engine) = of(row.handle).or_else(|| of(row.parent)) {
                    engines.insert((row.client, row.handle), engine);
                }
            }
            Some(ObjectKind::Engine) => {
                let key = (row.client, row.parent);
                let class = row.class & 0xff;
                if [COMPUTE_CLASS, DRAW_CLASS].contains(&class) {
                    engines.insert(key, ChannelEngine::Graphics);
                } else if class == COPY_CLASS {
                    engines.entry(key).or_insert(ChannelEngine::Copy(None));
                }
            }
            _ => {}
        }
    }
    engines
}

/// Returns the kind of each channel by client and handle, and its engine. The classes of the engine objects decide; without
/// objects, the engine does.
pub(super) fn find_kinds(recording: &Recording) -> HashMap<(u32, u32), (ChannelKind, Option<ChannelEngine>)> {
    let of_engine = |engine: ChannelEngine| match engine {
        ChannelEngine::Graphics => ChannelKind::Graphics,
        ChannelEngine::Copy(_) => ChannelKind::Copy,
    };
    let engines = find_engines(recording).into_iter();
    let mut kinds: HashMap<_, _> = engines.map(|(key, e)| (key, (of_engine(e), Some(e)))).collect();
    let mut classes: HashMap<(u32, u32), ChannelKind> = HashMap::new();
    for row in recording.events.objects.iter() {
        let is_new = row.result == 0 && row.action == ObjectAction::Create as u32;
        if !is_new || row.kind != ObjectKind::Engine as u32 {
            continue;
        }
        let kind = match row.class & 0xff {
            DRAW_CLASS => ChannelKind::Graphics,
            COMPUTE_CLASS => ChannelKind::Compute,
            COPY_CLASS => ChannelKind::Copy,
            _ => continue,
        };
        // The kinds are in the order of what they say: a channel that computes may copy too.
        let known = classes.entry((row.client, row.parent)).or_insert(kind);
        *known = kind.min(*known);
    }
    for (key, kind) in classes {
        if let Some((known, _)) = kinds.get_mut(&key) {
            *known = kind;
        }
    }
    kinds
}

/// Returns the engines that the parameters of channel groups and channels state, by client and handle.
fn find_engine_types(recording: &Recording) -> HashMap<(u32, u32), ChannelEngine> {
    let version = recording.driver_trace().map_or("", |d| d.driver_version.as_str());
    let mut types = HashMap::new();
    for_each_request(recording, |request| {
        let Some(allocation) = request.allocation(version) else {
            return;
        };
        let engine = match allocation.parameters.number("engineType") {
            Some(1) => ChannelEngine::Graphics,
            Some(n @ FIRST_COPY_ENGINE..) if n - FIRST_COPY_ENGINE < MAX_COPY_ENGINES => {
                ChannelEngine::Copy(Some((n - FIRST_COPY_ENGINE) as u32))
            }
            _ => return,
        };
        // The parameters of a copy object have an engine type too, of another numbering.
        if allocation.class & 0xff != COPY_CLASS {
            types.insert((allocation.client, allocation.handle), engine);
        }
    });
    types
}
