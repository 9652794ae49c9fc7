//! Delivery of a run's results to the client that requested it.

use super::runner::RunResult;
use crate::run::RunArtifacts;
use crate::wire::message::RunReply;
use crate::wire::{BULK, Sender, Topic, WireError};

/// Sends an outcome: the record, then its bulk data, which is freed piece by piece.
pub(super) fn deliver(sender: &Sender, ran: RunResult) -> Result<(), WireError> {
    let RunResult { mut outcome, material } = ran;
    let outputs: Vec<Vec<u8>> = outcome
        .outputs
        .iter_mut()
        .map(|o| std::mem::take(&mut o.data))
        .collect();
    let large = material.as_ref().map_or([0; 3], RunArtifacts::lengths);
    let lengths = large.into_iter().chain(outputs.iter().map(|o| o.len() as u64));
    let done = RunReply::Done {
        outcome: Box::new(outcome),
        left: material.as_ref().map(|m| Box::new(m.header.clone())),
        bulk: lengths.collect(),
    };
    sender.send(Topic::Run, &done)?;
    drop(done);
    let send = |bytes: &[u8]| {
        let mut parts = bytes.chunks(BULK);
        parts.try_for_each(|part| sender.send_bytes(Topic::Bulk, part))
    };
    if let Some(RunArtifacts {
        events, images, screen, ..
    }) = material
    {
        for block in events.into_blocks() {
            send(&block)?;
        }
        for page in images.iter() {
            send(page)?;
        }
        if let Some(picture) = screen {
            send(picture.rgb())?;
        }
    }
    for output in outputs {
        send(&output)?;
    }
    Ok(())
}
