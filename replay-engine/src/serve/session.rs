//! The session of a known client: its lease, its plan, its runs, until the connection ends.

use super::counters::ServeCounters;
use super::preemption::LeaseClient;
use super::push::PushResult;
use super::runner::{PreparedReplay, RunEnd};
use super::sessions::SessionSlot;
use super::shared::{Options, Shared};
use super::slot::{Hold, Slot};
use crate::lease_options::LeaseOptions;
use crate::live::LiveEnd;
use crate::wasm::{WasmReport, WasmResult, WasmRunError};
use crate::wire::message::{LeaseReply, LeaseRequest, PagesReply, PagesRequest, RunRequest};
use crate::wire::message::{SessionRefusal, SessionReply};
use crate::wire::{CallsRoute, Channel, Frame, PublicKey, ReaderMessage, Sender, Topic, WAITING_FRAMES, WireError};
use crate::wire::{Stream, start_heartbeat, start_reader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Interval at which a run's progress is read.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Interval at which a waiting session checks whether it has to end.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum wait for a client that requests a held device.
const GIVING_BACK: Duration = Duration::from_millis(500);

/// Maximum wait for a client that requests a device whose client is gone: on a slow machine the end of a run and the reset
/// take seconds.
const ENDING: Duration = Duration::from_secs(10);

/// The reason why a session ends.
#[derive(Debug)]
pub(super) struct SessionEnd(pub(super) WireError);

impl SessionEnd {
    pub fn protocol(what: impl Into<String>) -> Self {
        Self(WireError::Unexpected(what.into()))
    }
}

impl From<WireError> for SessionEnd {
    fn from(e: WireError) -> Self {
        Self(e)
    }
}

impl From<trace_core::encode::EncodeError> for SessionEnd {
    fn from(e: trace_core::encode::EncodeError) -> Self {
        Self(e.into())
    }
}

/// An event that a session waits for.
pub(super) enum Event {
    Arrived(ReaderMessage),
    /// The run of this number has ended.
    Ran(u64, RunEnd),
    /// The verification of a plan or of a program has ended.
    Checked,
    /// A result of the WebAssembly run of this number.
    WasmResult(u64, Box<WaitingWasmResult>),
    /// The WebAssembly run of this number has ended.
    WasmEnded(u64, Result<WasmReport, WasmRunError>),
    /// The worker of the live program has ended in order.
    LiveFinished(LiveEnd),
    /// A request of higher priority waits for the device.
    Yield,
}

/// A result of a WebAssembly run that waits to be sent.
pub(super) struct WaitingWasmResult {
    pub result: WasmResult,
    /// Its end tells the sender of the event that the result does not occupy memory any more.
    pub on_sent: Option<SyncSender<()>>,
}

/// One client's session.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) sender: Sender,
    pub(super) client: PublicKey,
    pub(super) name: String,
    place: SessionSlot,
    pub(super) events: Receiver<Event>,
    pub(super) to_self: SyncSender<Event>,
    pub(super) hold: Option<Hold>,
    /// Whether the lease was preempted, and not taken again.
    pub(super) preempted: bool,
    /// Whether the client's user accepts that the device has no containment.
    pub(super) uncontained: bool,
    pub(super) ready: Option<Arc<PreparedReplay>>,
    /// Number of the last run. A run that was abandoned as hanging may still end later.
    pub(super) run: u64,
    /// Protocol version of the connection.
    pub(super) version: u16,
    /// Where frames of calls go.
    pub(super) calls: CallsRoute,
    open: Arc<AtomicBool>,
}

impl Drop for Session {
    /// The client is informed at once when the session ends in any way, including a panic during verification.
    fn drop(&mut self) {
        self.open.store(false, Ordering::Relaxed);
        self.sender.close();
    }
}

impl Session {
    /// Serves a client to the end of its connection, whose socket is `socket` too. Its lease ends with it.
    pub fn serve(
        shared: &Arc<Shared>,
        channel: Channel,
        socket: Stream,
        name: String,
        place: SessionSlot,
    ) -> Result<(), WireError> {
        let Channel {
            sender,
            receiver,
            remote,
            version,
            ..
        } = channel;
        let (to_self, events) = sync_channel(WAITING_FRAMES);
        let welcome = SessionReply::Welcome {
            program: format!("kinescope-agent {}", env!("CARGO_PKG_VERSION")),
            you: name.clone(),
            devices: shared.slots.iter().map(|s| s.describe()).collect(),
        };
        sender.send(Topic::Session, &welcome)?;
        let calls = CallsRoute::new(socket);
        start_reader(receiver, sender.clone(), to_self.clone(), Event::Arrived, &calls)?;
        let open = Arc::new(AtomicBool::new(true));
        let beating = Arc::clone(&open);
        start_heartbeat(sender.clone(), move || beating.load(Ordering::Relaxed))?;
        let mut session = Self {
            shared: Arc::clone(shared),
            sender,
            client: remote,
            name,
            place,
            events,
            to_self,
            hold: None,
            preempted: false,
            uncontained: false,
            ready: None,
            run: 0,
            version,
            calls,
            open,
        };
        // This detects a key that was removed between the key store lookup and the registration of the session.
        let SessionEnd(end) = session.look_up().map_or_else(|quit| quit, |()| session.work());
        match end {
            WireError::Closed => Ok(()),
            other => Err(other),
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.shared.options
    }

    fn work(&mut self) -> SessionEnd {
        loop {
            if let Err(quit) = self.frame().and_then(|f| self.answer(&f)) {
                return quit;
            }
        }
    }

    /// Returns the next frame.
    pub(super) fn frame(&mut self) -> Result<Frame, SessionEnd> {
        loop {
            self.still_known()?;
            self.yield_if_asked();
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Arrived(ReaderMessage::Frame(frame))) => return Ok(frame),
                Ok(Event::Arrived(ReaderMessage::Ended(e))) => return Err(SessionEnd(e)),
                // A run that was abandoned as hanging has ended: its target is already replaced.
                Ok(
                    Event::Ran(..)
                    | Event::Checked
                    | Event::WasmResult(..)
                    | Event::WasmEnded(..)
                    | Event::LiveFinished(..)
                    | Event::Yield,
                ) => {}
                Err(RecvTimeoutError::Timeout) if self.shared.stopping.load(Ordering::SeqCst) => {
                    return Err(SessionEnd(WireError::Closed));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(SessionEnd(WireError::Closed)),
            }
        }
    }

    /// Returns whether the client's key was removed: the session has to end.
    pub(super) fn is_forgotten(&self) -> bool {
        self.place.is_forgotten()
    }

    /// Ends the session, with a message to the client, if the client's key was removed.
    pub(super) fn still_known(&self) -> Result<(), SessionEnd> {
        match self.is_forgotten() {
            true => Err(self.refuse(SessionRefusal::Forgotten)),
            false => Ok(()),
        }
    }

    /// Looks the client's key up in the key store. Every operation that grants something calls this first.
    pub(super) fn look_up(&self) -> Result<(), SessionEnd> {
        self.still_known()?;
        let Some(keys) = self.shared.keys.as_ref().filter(|_| self.place.pinned) else {
            return Ok(());
        };
        match keys.find_by_key(&self.client) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                self.place.note_forgotten();
                Err(self.refuse(SessionRefusal::Forgotten))
            }
            Err(e) => {
                tracing::error!("the key store cannot be read: {e}");
                Err(self.refuse(SessionRefusal::KeysUnreadable))
            }
        }
    }

    /// Sends the final message to the client.
    fn refuse(&self, why: SessionRefusal) -> SessionEnd {
        let end = WireError::Refused(match why {
            SessionRefusal::Forgotten => format!("the key of {} was forgotten", self.name),
            _ => format!("{} is refused while the key store cannot be read", self.name),
        });
        // The client may be gone already.
        let _ = self.sender.send(Topic::Session, &SessionReply::Refused(why));
        SessionEnd(end)
    }

    /// Returns the next frame, which must be bulk.
    pub(super) fn bulk(&mut self) -> Result<Vec<u8>, SessionEnd> {
        let frame = self.frame()?;
        match frame.concern {
            Topic::Bulk => Ok(frame.payload),
            Topic::Pages if self.gives_up(&frame)? => Ok(Vec::new()),
            other => Err(SessionEnd::protocol(format!(
                "a frame about {other:?} in the middle of bulk"
            ))),
        }
    }

    /// Returns whether a frame withdraws the offer. If so, the client has been answered.
    pub(super) fn gives_up(&self, frame: &Frame) -> Result<bool, SessionEnd> {
        let given_up = is_give_up(frame);
        if given_up {
            self.sender.send(Topic::Pages, &PagesReply::GivenUp)?;
        }
        Ok(given_up)
    }

    /// Runs `check` in a separate thread. Its progress is cancelled if the client withdraws or disconnects, or the
    /// agent is stopped. Returns `None` if the client withdrew.
    pub(super) fn watched<T: Send>(
        &mut self,
        check: impl FnOnce(&Progress) -> T + Send,
    ) -> Result<Option<T>, SessionEnd> {
        let progress = Progress::new();
        let drop = OnDrop(self.to_self.clone());
        let (mut quit, mut given_up) = (None, false);
        let result = std::thread::scope(|scope| {
            let checking = scope.spawn(|| {
                let _told = drop;
                check(&progress)
            });
            loop {
                match self.events.recv_timeout(TICK) {
                    Ok(Event::Checked) | Err(RecvTimeoutError::Disconnected) => break,
                    Ok(Event::Yield) => self.yield_if_asked(),
                    Ok(Event::Ran(..) | Event::WasmResult(..) | Event::WasmEnded(..) | Event::LiveFinished(..)) => {}
                    Ok(Event::Arrived(ReaderMessage::Ended(e))) => {
                        quit.get_or_insert(SessionEnd(e));
                    }
                    Ok(Event::Arrived(ReaderMessage::Frame(frame))) if !given_up && is_give_up(&frame) => {
                        given_up = true
                    }
                    Ok(Event::Arrived(ReaderMessage::Frame(_))) => {
                        quit.get_or_insert(SessionEnd::protocol("a frame in the middle of a check"));
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        if self.shared.stopping.load(Ordering::SeqCst) {
                            quit.get_or_insert(SessionEnd(WireError::Closed));
                        }
                    }
                }
                if quit.is_none() {
                    quit = self.still_known().err();
                }
                if quit.is_some() || given_up {
                    progress.cancel();
                }
            }
            checking.join()
        });
        // A panic in a check ends this session and no other.
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Some(quit) = quit {
            return Err(quit);
        }
        if given_up {
            // Not before the check has ended: the next message of the client needs a listening session.
            self.sender.send(Topic::Pages, &PagesReply::GivenUp)?;
            return Ok(None);
        }
        Ok(Some(result))
    }

    /// Gives the device to a waiting request of higher priority. No run is in progress.
    fn yield_if_asked(&mut self) {
        if self.hold.as_ref().is_some_and(Hold::is_to_yield) {
            self.yield_device();
        }
    }

    pub(super) fn yield_device(&mut self) {
        if let Some(hold) = self.hold.take() {
            tracing::info!(client = self.name, device = hold.info().name, "lease preempted");
            ServeCounters::raise(&self.shared.counters.preemptions);
            self.preempted = true;
        }
    }

    fn answer(&mut self, frame: &Frame) -> Result<(), SessionEnd> {
        match frame.concern {
            Topic::Lease => {
                let reply = match frame.message()? {
                    LeaseRequest::Take(device) => {
                        self.look_up()?;
                        self.take(&device, LeaseOptions::default())?
                    }
                    LeaseRequest::TakeAs { device, options } => {
                        self.look_up()?;
                        self.take(&device, options)?
                    }
                    LeaseRequest::WithoutContainment if self.hold.is_some() => {
                        tracing::info!(client = self.name, "accepts that nothing contains the device");
                        self.uncontained = true;
                        LeaseReply::Accepted
                    }
                    // The lease was preempted while this request was in transit. The next lease needs its own acceptance.
                    LeaseRequest::WithoutContainment if self.preempted => LeaseReply::Accepted,
                    LeaseRequest::WithoutContainment => {
                        return Err(SessionEnd::protocol("an acceptance without a lease"));
                    }
                };
                self.sender.send(Topic::Lease, &reply)?;
                let is_granted = matches!(reply, LeaseReply::Granted(_) | LeaseReply::GrantedByPreemption { .. });
                if let (true, Some(hold)) = (is_granted, &mut self.hold) {
                    hold.prestart();
                }
            }
            Topic::Pages => {
                let (head, body) = match frame.message()? {
                    PagesRequest::Offer { head, body } => (head, body),
                    PagesRequest::Parts { .. } => {
                        return Err(SessionEnd::protocol("parts of a plan that were not requested"));
                    }
                    // It crossed the answer in transit.
                    PagesRequest::GiveUp => {
                        self.ready = None;
                        return Ok(self.sender.send(Topic::Pages, &PagesReply::GivenUp)?);
                    }
                };
                let Some((target, api)) = self.hold.as_ref().map(|h| (h.info().clone(), h.api().cloned())) else {
                    if self.preempted {
                        return Ok(self.sender.send(Topic::Pages, &PagesReply::Preempted)?);
                    }
                    return Err(SessionEnd::protocol("a plan without a lease"));
                };
                self.ready = None;
                self.look_up()?;
                match self.push(head, body, &target, api.as_ref())? {
                    PushResult::Ready(ready, verified) => {
                        self.ready = Some(Arc::new(*ready));
                        self.sender
                            .send(Topic::Pages, &PagesReply::Ready(verified.into_report()))?;
                    }
                    PushResult::No(reply) => {
                        tracing::info!(client = self.name, "plan not taken: {reply:?}");
                        self.sender.send(Topic::Pages, &reply)?;
                    }
                    PushResult::GivenUp => {}
                }
            }
            Topic::Run => match frame.message()? {
                RunRequest::Start(request) => {
                    self.look_up()?;
                    self.run(request)?;
                }
                // It crossed the end of its run in transit.
                RunRequest::Cancel => {}
            },
            Topic::Wasm => self.answer_wasm(frame)?,
            Topic::Live => self.answer_live(frame)?,
            other => return Err(SessionEnd::protocol(format!("a frame about {other:?}"))),
        }
        Ok(())
    }

    /// Leases a device. A client that has just released it may still be disconnecting, and one that yields may end a job:
    /// this waits for them for a moment.
    pub(super) fn take_slot(&self, slot: &Arc<Slot>, options: LeaseOptions) -> Result<Hold, Box<LeaseReply>> {
        let to_self = self.to_self.clone();
        let client = LeaseClient {
            name: &self.name,
            session: &self.open,
            options,
            // A full queue wakes the session as well.
            wake: Arc::new(move || drop(to_self.try_send(Event::Yield))),
        };
        let begun = Instant::now();
        loop {
            let known = slot.count_ended_leases();
            let why = match slot.take(&client) {
                Ok(hold) => return Ok(hold),
                Err(why) => why,
            };
            let limit = if slot.is_ending() { ENDING } else { GIVING_BACK };
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() || !matches!(*why, LeaseReply::Busy { .. } | LeaseReply::Yielding { .. }) {
                return Err(why);
            }
            slot.wait_for_end(known, left);
        }
    }

    fn take(&mut self, device: &str, options: LeaseOptions) -> Result<LeaseReply, SessionEnd> {
        if self.hold.is_some() {
            return Err(SessionEnd::protocol("a second lease on one connection"));
        }
        let Some(slot) = self.shared.slots.iter().find(|s| s.info().name == device) else {
            let known = self.shared.slots.iter().map(|s| s.info().name.clone()).collect();
            return Ok(LeaseReply::NoDevice { known });
        };
        Ok(match self.take_slot(slot, options) {
            Ok(hold) => {
                tracing::info!(client = self.name, device, "leased");
                ServeCounters::raise(&self.shared.counters.leases);
                let info = Box::new(hold.info().clone());
                let preempted = hold.preempted().cloned();
                // Plans are verified for a device, and acceptances are for a lease.
                (self.ready, self.uncontained) = (None, false);
                (self.hold, self.preempted) = (Some(hold), false);
                match preempted {
                    Some(preempted) => {
                        let counters = &self.shared.counters;
                        counters.preemption_ns.fetch_add(preempted.waited_ns, Ordering::Relaxed);
                        LeaseReply::GrantedByPreemption { info, preempted }
                    }
                    None => LeaseReply::Granted(info),
                }
            }
            Err(reply) => *reply,
        })
    }
}

fn is_give_up(frame: &Frame) -> bool {
    frame.concern == Topic::Pages && matches!(frame.message(), Ok(PagesRequest::GiveUp))
}

/// Calls `take` until it grants a lease, or refuses for another reason than `is_busy`, at most for [`GIVING_BACK`].
pub(super) fn wait_for_lease<T, E>(
    mut take: impl FnMut() -> Result<T, E>,
    is_busy: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let by = Instant::now() + GIVING_BACK;
    loop {
        match take() {
            Err(why) if is_busy(&why) && Instant::now() < by => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
}

/// Reports the end of a check, however it ended.
struct OnDrop(SyncSender<Event>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        // A session that is over does not wait for it.
        let _ = self.0.send(Event::Checked);
    }
}
