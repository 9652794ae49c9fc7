//! The worker process: it plays one plan as a client of the kernel driver. Damage by recorded kernels stays in it.

use crate::driver::{DriverState, check_driver};
use crate::early_maps::EarlyMaps;
use crate::kernel::LibraryKernel;
use crate::plan_runs::{PlanRuns, RunError};
use crate::sealed_file::SealedMap;
use crate::worker_images::ReceivedImages;
use crate::worker_protocol::{Answer, FaultAnswer, ParentMessage, PlayReport, Request, monotonic_ns};
use crate::worker_socket::{limit_wait, receive_message};
use nvidia_client::{Client, Control, Memory, PlayError, PlayFault, Player};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Maximum number of ranges of memory.
const MAX_RANGES: usize = 4096;
/// Maximum time that a worker waits for its request, and for the page images. It occupies memory of the GPU meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Serves a parent: the whole life of a worker process. It opens the GPU, waits for a request, and answers it. It ends
/// without an answer if its input ends, or no request comes within two minutes.
///
/// The process is to end then, without a close of the GPU: the driver takes everything back.
///
/// # Errors
/// If `from` is not a socket of a parent, a message cannot be read, or the answer cannot be written.
pub fn serve_request(from: impl AsFd, mut to: impl Write) -> std::io::Result<()> {
    replay_engine::worker::end_with_parent();
    let from = from.as_fd();
    limit_wait(from, Some(MAX_WAIT))?;
    let Some(answer) = answer_request(from)? else {
        return Ok(());
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Returns the next message with its file, mapped, or `None` if no message comes.
fn next_message(from: BorrowedFd<'_>) -> std::io::Result<Option<(ParentMessage, Option<SealedMap>)>> {
    match receive_message(from) {
        Ok(Some((message, file))) => Ok(Some((message, file.map(SealedMap::new).transpose()?))),
        Ok(None) => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the answer to the request of a parent, or `None` if there is no request.
fn answer_request(from: BorrowedFd<'_>) -> std::io::Result<Option<Answer>> {
    let Some((ParentMessage::Open { gpu, control }, _)) = next_message(from)? else {
        return Ok(None);
    };
    let mut memories: Vec<Option<Memory>> = std::iter::repeat_with(|| None).take(MAX_RANGES).collect();
    let mut opened = open_player(gpu, control, &mut memories);
    let mut early = None;
    let (request, steps) = loop {
        match next_message(from)? {
            Some((ParentMessage::Play(request), Some(steps))) => break (request, steps),
            Some((ParentMessage::Map { control: wanted }, Some(steps))) => {
                // A player with its memory elsewhere is opened by the request.
                if let (Ok(player), None, true) = (&mut opened, &early, wanted == control) {
                    early = Some(EarlyMaps::new(player, steps));
                }
            }
            _ => return Ok(None),
        }
    };
    let early = early.unwrap_or_default();
    let is_usable = control == request.control && steps.starts_with(early.steps());
    let (opened, early) = match (opened, is_usable) {
        (Ok(player), false) => {
            let reopened = match player.close() {
                Ok(()) => open_player(gpu, request.control, &mut memories),
                Err(e) => Err(e.to_string()),
            };
            (reopened, EarlyMaps::default())
        }
        (opened, _) => (opened, early),
    };
    let played = opened.and_then(|mut player| {
        player.set_limit(request.limit_ns);
        play(&mut player, &request, &steps, &early, &ReceivedImages::new(from))
    });
    Ok(Some(played.unwrap_or_else(Answer::Failed)))
}

/// Opens a GPU, and creates channels with their own memory.
fn open_player(gpu: u32, control: u64, memories: &mut [Option<Memory>]) -> Result<Player<'_, LibraryKernel>, String> {
    let branch = match check_driver() {
        DriverState::Supported { branch, .. } => branch,
        other => return Err(other.to_string()),
    };
    let client = Client::open(LibraryKernel::default(), branch, gpu).map_err(|e| e.to_string())?;
    // The request has the limit.
    Player::new(client, Control { va: control }, 0, memories).map_err(|e| e.to_string())
}

fn play(
    player: &mut Player<'_, LibraryKernel>,
    request: &Request,
    steps: &[u8],
    early: &EarlyMaps,
    images: &ReceivedImages<'_>,
) -> Result<Answer, String> {
    if let Some(e) = &early.failure {
        return Err(e.clone());
    }
    let info = player.client().info();
    let (name, class) = (info.name().to_owned(), info.classes.compute);
    if class != request.compute_class {
        return Err(format!(
            "the push buffers are for a GPU with compute class {:#x}; {name} has {class:#x}",
            request.compute_class
        ));
    }
    let mut report = PlayReport {
        gpu: name,
        ready_ns: monotonic_ns().saturating_sub(request.sent_ns),
        memory_ns: u64::try_from(early.time.as_nanos()).unwrap_or(u64::MAX),
        mapped: early.bytes,
        ..PlayReport::default()
    };
    let count = request.repeat.max(1);
    let mut runs = PlanRuns::new(steps, request.compute_class, count, images).with_mapped(early.ranges);
    let store = |number: u32, data: &[u8]| {
        let path = request.outputs.join(format!("{number}.bin"));
        std::fs::write(&path, data).map_err(|e| format!("{}: {e}", path.display()))
    };
    for _ in 0..count {
        let ran = runs.play_next(player, store);
        // Only the first run waits for images: the second one needs all of them before it begins.
        let wait = images.take_wait();
        match ran {
            Ok(run) => report.add(&run, wait),
            Err(RunError::Play(PlayError::Fault { .. })) => return Ok(Answer::Stopped(describe_fault(player))),
            Err(e) => return Err(images.failure().unwrap_or_else(|| e.to_string())),
        }
    }
    Ok(Answer::Played(report))
}

/// Describes the last fault, after new channels were created.
fn describe_fault(player: &mut Player<'_, LibraryKernel>) -> FaultAnswer {
    let fault: Option<PlayFault> = player.fault().copied();
    let before = Instant::now();
    let recovered = player.recover().is_ok();
    let Some(fault) = fault else {
        return FaultAnswer::default();
    };
    FaultAnswer {
        event: fault.event,
        code: fault.notifier.map(|n| n.code),
        after_ns: fault.after_ns,
        mmu_faults: fault
            .mmu_faults
            .iter()
            .flatten()
            .map(|m| (m.va, m.kind, m.access))
            .collect(),
        sm_errors: fault
            .sm_errors
            .iter()
            .flatten()
            .map(|s| (s.sm, s.global, s.warp, s.pc, s.address))
            .collect(),
        refused: fault
            .refused
            .or(fault.scheduler_refusal)
            .map_or_else(String::new, |e| e.to_string()),
        fetched: fault.fetched,
        recovered_ns: recovered.then(|| elapsed_ns(before)),
    }
}

fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_file::create_sealed;
    use crate::worker_socket::{create_socket_pair, send_message};

    const OPEN: ParentMessage = ParentMessage::Open { gpu: 99, control: 0 };

    /// Sends messages, closes the parent's end, and returns what the worker does.
    fn serve(messages: &[(ParentMessage, Option<BorrowedFd<'_>>)]) -> std::io::Result<Vec<u8>> {
        let (parent, worker) = create_socket_pair().unwrap();
        for (message, file) in messages {
            send_message(&parent, message, *file).unwrap();
        }
        drop(parent);
        let mut out = Vec::new();
        serve_request(worker, &mut out).map(|()| out)
    }

    #[test]
    fn a_worker_without_a_request_ends_without_an_answer() {
        assert!(serve(&[]).unwrap().is_empty());
        assert!(serve(&[(OPEN, None)]).unwrap().is_empty());
        let no_steps = ParentMessage::Play(Request::default());
        assert!(serve(&[(OPEN, None), (no_steps, None)]).unwrap().is_empty());
        assert!(serve_request(std::fs::File::open("/dev/null").unwrap(), Vec::new()).is_err());
    }

    #[test]
    fn steps_in_a_file_that_can_change_are_refused() {
        let file = tempfile::tempfile().unwrap();
        let request = ParentMessage::Play(Request::default());
        let refused = serve(&[(OPEN, None), (request, Some(file.as_fd()))]).unwrap_err();
        assert!(refused.to_string().contains("not sealed"), "{refused}");
    }

    #[test]
    fn a_gpu_that_cannot_be_opened_is_the_answer() {
        let steps = create_sealed(|_| Ok::<_, std::io::Error>(())).unwrap();
        let request = ParentMessage::Play(Request::default());
        let map = ParentMessage::Map { control: 0 };
        let file = Some(steps.as_fd());
        for messages in [
            [(OPEN, None), (request.clone(), file)].as_slice(),
            &[(OPEN, None), (map.clone(), file), (request, file)],
        ] {
            let answer = serve(messages).unwrap();
            let answer: Answer = serde_json::from_slice(&answer).unwrap();
            assert!(matches!(answer, Answer::Failed(_)), "there is no GPU 99: {answer:?}");
        }
        assert!(
            serve(&[(OPEN, None), (map, file)]).unwrap().is_empty(),
            "no request comes"
        );
    }
}
