//! Fuzz targets for messages of a peer and for the files that decide which peer is trusted.

use crate::folder::in_folder;
use replay_engine::client::targets::{self, TargetName};
use replay_engine::plan::{Plan, PlanBody, RegisterPlan};
use replay_engine::run::{ArtifactsHeader, CheckpointRecord, ReceivedArtifacts};
use replay_engine::wire::delta::{Step, join, new_bytes, resolve};
use replay_engine::wire::live_message::{LiveCommand, LiveReply};
use replay_engine::wire::message::{
    LeaseReply, LeaseRequest, PagesReply, PagesRequest, PairMessage, RunReply, RunRequest, SessionReply,
};
use replay_engine::wire::wasm_message::{WasmReply, WasmRequest};
use replay_engine::wire::{KEY_FILE, KeyStore, Limits, PREAMBLE_BYTES, Pieces, Preamble, PublicKey, is_valid_name};
use std::os::unix::fs::PermissionsExt as _;

/// Fuzzes what a peer sends. The first byte selects whether the rest is a preamble, a message of some kind, or pieces
/// of frames. A piece has its length before it, as the encrypted channel delivers it.
pub fn wire(data: &[u8]) -> bool {
    let Some((kind, rest)) = data.split_first() else {
        return false;
    };
    match kind % 14 {
        0 => {
            let Some(Ok(preamble)) = rest.first_chunk::<PREAMBLE_BYTES>().map(Preamble::from_bytes) else {
                return false;
            };
            let local = Preamble::new(replay_engine::wire::PreambleWord::Session);
            let _ = (
                local.common_version(&preamble),
                replay_engine::wire::describe_mismatch(&local, &preamble),
                preamble.known_word(),
            );
            true
        }
        1 => check_round_trip::<SessionReply>(rest),
        2 => check_round_trip::<PairMessage>(rest),
        3 => check_round_trip::<LeaseRequest>(rest),
        4 => check_round_trip::<LeaseReply>(rest),
        5 => {
            parts(rest);
            check_round_trip::<PagesRequest>(rest)
        }
        6 => {
            outlines(rest);
            check_round_trip::<PagesReply>(rest)
        }
        7 => check_round_trip::<RunRequest>(rest),
        8 => check_round_trip::<RunReply>(rest),
        10 => check_round_trip::<WasmRequest>(rest),
        11 => check_round_trip::<WasmReply>(rest),
        12 => check_round_trip::<LiveCommand>(rest),
        13 => check_round_trip::<LiveReply>(rest),
        _ => pieces(
            rest,
            if kind & 0x80 == 0 {
                Limits::FromClient
            } else {
                Limits::FromAgent
            },
        ),
    }
}

/// Fuzzes the record of a checkpoint, without its digest: it is read as it was written, or refused.
pub fn checkpoint(data: &[u8]) -> bool {
    let _ = CheckpointRecord::from_bytes(data);
    let Ok(record) = CheckpointRecord::from_record(data) else {
        return false;
    };
    let again = record.to_bytes().ok();
    let again = again.and_then(|bytes| CheckpointRecord::from_bytes(&bytes).ok());
    assert_eq!(again.as_ref(), Some(&record));
    true
}

/// Fuzzes what an agent sends about a run. The input is a header and the events, each after its length in four bytes,
/// and page images to the end. A recording made of it can be written and read.
pub fn outcome(data: &[u8]) -> bool {
    let piece = |data: &[u8]| -> Option<(Vec<u8>, usize)> {
        let length = u32::from_le_bytes(*data.first_chunk::<4>()?) as usize;
        let bytes = data.get(4..)?.get(..length)?;
        Some((bytes.to_vec(), 4 + length))
    };
    let Some((header, end)) = piece(data) else {
        return false;
    };
    let rest = data.get(end..).unwrap_or_default();
    let (Ok(header), Some((events, end))) = (trace_core::encode::from_bytes::<ArtifactsHeader>(&header), piece(rest))
    else {
        return false;
    };
    let images = rest.get(end..).unwrap_or_default();
    let pixels = header.screen.map_or(0, |(w, h)| u64::from(w) * u64::from(h) * 3);
    if pixels > 1 << 20 {
        return false;
    }
    let Ok(artifacts) = ReceivedArtifacts::new(header, events, images, vec![0x80; pixels as usize]) else {
        return false;
    };
    let info = crate::plans::device();
    let mut plan = RegisterPlan::default();
    plan.accesses.arena = info.arena;
    plan.accesses.used_pages = info.arena.pages.min(0x200);
    let plan = Plan::new(PlanBody::Registers(plan));
    let Some(plan) = plan.planned_accesses() else {
        return false;
    };
    let none = std::collections::BTreeMap::new();
    let Ok(recording) = artifacts.recording(plan, &none, &info, None) else {
        return false;
    };
    let bytes =
        trace_core::container::to_bytes(&recording).unwrap_or_else(|e| panic!("the recording cannot be written: {e}"));
    let reread = trace_core::container::from_bytes(bytes)
        .unwrap_or_else(|e| panic!("the written recording cannot be read: {e}"));
    assert_eq!(reread.events.len(), recording.events.len());
    true
}

/// Checks that a decoded message has the same bytes after another decode and encode. Messages themselves are not
/// compared, because some hold floating-point numbers, and NaN differs from itself.
fn check_round_trip<T>(data: &[u8]) -> bool
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let Ok(message) = trace_core::encode::from_bytes::<T>(data) else {
        return false;
    };
    let encode =
        |m: &T| trace_core::encode::to_bytes(m).unwrap_or_else(|e| panic!("a decoded message does not encode: {e}"));
    let encoded = encode(&message);
    let decoded = trace_core::encode::from_bytes::<T>(&encoded)
        .unwrap_or_else(|e| panic!("an encoded message does not decode: {e}"));
    assert_eq!(encode(&decoded), encoded);
    true
}

/// The agent's copy of a plan, for a client that sends differences from it.
const BASE: &[u8] = include_bytes!("messages.rs");

/// Checks that a client's delta makes exactly what the client sent, or is refused.
fn parts(data: &[u8]) {
    let Ok(PagesRequest::Parts { head, body }) = trace_core::encode::from_bytes(data) else {
        return;
    };
    let new = vec![0x5a; 4096];
    for steps in [head, body] {
        for reported in [0, 100, 5000, BASE.len() as u64] {
            if new_bytes(&steps) <= new.len() as u64
                && let Ok(sources) = resolve(BASE, &steps, reported)
            {
                assert_eq!(
                    join(BASE, &sources, new.clone()).len() as u64,
                    reported,
                    "the length differs from the announced length"
                );
            }
        }
    }
}

/// Checks pieces that an agent lists: the delta over them sends or keeps each byte exactly once, in order.
fn outlines(data: &[u8]) {
    let Ok(PagesReply::LackParts { head, body }) = trace_core::encode::from_bytes(data) else {
        return;
    };
    for outline in [head, body].into_iter().flatten() {
        let (steps, new) = outline.steps_to(BASE);
        assert_eq!(new_bytes(&steps), new.iter().map(|n| n.len() as u64).sum::<u64>());
        for step in steps {
            if let Step::Keep { first, count } = step {
                let end = u64::from(first) + u64::from(count);
                assert!(end <= outline.digests.len() as u64, "a kept piece was not announced");
            }
        }
    }
}

fn pieces(data: &[u8], limits: Limits) -> bool {
    let mut has_frame = false;
    let mut pieces = Pieces::new(limits);
    let mut rest = data;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (piece, after) = after.split_at(length);
        rest = after;
        match pieces.push(piece) {
            Ok(Some(frame)) => {
                has_frame = true;
                assert!(
                    frame.payload.len() <= limits.max_bytes(frame.concern),
                    "a frame exceeds its limit"
                );
                let _ = frame.message::<RunReply>();
                let _ = frame.message::<PagesRequest>();
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    has_frame
}

/// Fuzzes the key store's file, and names of targets and peers.
pub fn key_store(data: &[u8]) -> bool {
    let mut accepted = false;
    if let Ok(text) = std::str::from_utf8(data) {
        accepted = targets::parse(text).is_ok();
        let _ = PublicKey::from_hex(text);
        if let Ok(TargetName::Paired { agent, .. }) = targets::parse(text) {
            assert!(!agent.is_empty(), "an agent without a name");
        }
        let _ = is_valid_name(text);
    }
    in_folder(|folder| {
        let path = folder.join(KEY_FILE);
        std::fs::write(&path, data).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap_or_else(|e| panic!("{e}"));
        if let Ok(store) = KeyStore::open(folder)
            && let Ok(peers) = store.peers()
        {
            accepted = true;
            for peer in peers.iter().take(4) {
                let found = store.find_by_key(&peer.key);
                assert!(found.is_ok_and(|f| f.is_some()), "a listed peer is not found");
            }
            if let Some(last) = peers.last() {
                let _ = store.forget(&last.name);
                assert!(store.peers().is_ok_and(|p| p.iter().all(|q| q.name != last.name)));
            }
        }
        let _ = std::fs::remove_file(&path);
    });
    accepted
}
