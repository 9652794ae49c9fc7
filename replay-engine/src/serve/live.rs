//! Live programs of clients: shares of devices, the worker's start, frames both ways.

use super::live_end::{ProgramEnd, describe_end};
use super::live_service::{LivePlace, LiveProgram, LiveService};
use super::session::{Event, Session, SessionEnd, TICK, wait_for_lease};
use super::slot::{Share, ShareHolder, panic_text};
use super::wasm::format_for_log;
use crate::live::{
    LiveEnd, LiveGrant, LiveRequest, LiveSender, LiveSession, LiveStart, MAX_DEVICES, MAX_PREFACE_BYTES,
    MAX_PROGRAM_BYTES,
};
use crate::wire::live_message::{LIVE_VERSION, LiveCommand, LiveRefusal, LiveReply};
use crate::wire::message::LeaseReply;
use crate::wire::{Frame, ReaderMessage, Topic, WireError, pairing_code};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Instant;

/// A program that started.
struct StartedProgram {
    place: LivePlace,
    session: Arc<dyn LiveSession>,
    shares: Vec<Share>,
    sender: LiveSender,
    grant: LiveGrant,
}

impl Session {
    /// Answers a request about live programs. A program occupies the session to the end of its connection.
    pub(super) fn answer_live(&mut self, frame: &Frame) -> Result<(), SessionEnd> {
        if self.version < LIVE_VERSION {
            return Err(SessionEnd::protocol("a live program in this protocol version"));
        }
        let command = frame.message()?;
        if self.hold.is_some() {
            return Err(SessionEnd::protocol("a live program on a connection with a lease"));
        }
        match command {
            LiveCommand::Start(request) => {
                self.look_up()?;
                match self.start_live(&request)? {
                    Ok(program) => Err(self.run_live(program, &request)),
                    Err(refusal) => {
                        tracing::info!(
                            "live program of client {}: {} on {} is refused: {}",
                            self.name,
                            format_for_log(&request.program),
                            format_for_log(&request.devices.join(", ")),
                            format_for_log(&refusal.to_string())
                        );
                        self.reply_live(&LiveReply::Refused(refusal))
                    }
                }
            }
            LiveCommand::Join { token } => {
                self.look_up()?;
                self.join_live(&token)
            }
            LiveCommand::Describe => {
                self.look_up()?;
                let reply = self.describe_live();
                self.reply_live(&reply)
            }
            LiveCommand::Finish => Err(SessionEnd::protocol("the end of a live program without a program")),
        }
    }

    pub(super) fn reply_live(&self, reply: &LiveReply) -> Result<(), SessionEnd> {
        Ok(self.sender.send(Topic::Live, reply)?)
    }

    /// Returns what programs can use.
    fn describe_live(&self) -> LiveReply {
        let Some(service) = self.shared.live.get() else {
            return LiveReply::Refused(LiveRefusal::NotOffered);
        };
        let names = self.shared.slots.iter().map(|slot| slot.info().name.clone());
        LiveReply::Offer {
            devices: names.filter(|name| service.runner.serves(name)).collect(),
            limits: self.options().live.limits(),
        }
    }

    /// Checks a request, takes the shares and starts the worker.
    fn start_live(&mut self, request: &LiveRequest) -> Result<Result<StartedProgram, LiveRefusal>, SessionEnd> {
        let Some(service) = self.shared.live.get().cloned() else {
            return Ok(Err(LiveRefusal::NotOffered));
        };
        if let Err(why) = check_request(request) {
            return Ok(Err(LiveRefusal::Limit(why)));
        }
        let token = match pairing_code::nonce() {
            Ok(token) => token,
            Err(e) => return Ok(Err(LiveRefusal::Failed(e.to_string()))),
        };
        let name = format_for_log(&request.program);
        let place = match service.enter(self.client, token, name, &self.options().live) {
            Ok(place) => place,
            Err(why) => return Ok(Err(LiveRefusal::Limit(why))),
        };
        let shares = match self.take_shares(&service, request, &place.program) {
            Ok(shares) => shares,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let start = LiveStart {
            client: self.name.clone(),
            key: self.client,
            request: request.clone(),
            limits: self.options().live.limits(),
        };
        let sender = LiveSender::closed(self.sender.clone(), place.program.report.clone());
        let max_lanes = self.options().live.lanes;
        let (of, to_client) = (Arc::clone(&place.program), sender.clone());
        // A session that starts after the client is gone ends with the place.
        let started = self.watched(move |_| {
            let started = catch_unwind(AssertUnwindSafe(|| {
                let session = service.runner.start(start, to_client)?;
                Ok((
                    Arc::clone(of.session.get_or_init(|| Arc::clone(&session))),
                    session.preface(),
                ))
            }));
            started.unwrap_or_else(|panic| Err(panic_text(&*panic)))
        })?;
        let started = started.ok_or_else(|| SessionEnd::protocol("a withdrawn plan instead of a live program"))?;
        let (session, (local, preface)) = match started {
            Ok(started) => started,
            Err(why) => return Ok(Err(LiveRefusal::Failed(why))),
        };
        if preface.len() > MAX_PREFACE_BYTES {
            place.program.end();
            let bytes = preface.len();
            let why = format!("the worker has {bytes} bytes for the client's relay; {MAX_PREFACE_BYTES} are allowed");
            return Ok(Err(LiveRefusal::Failed(why)));
        }
        let grant = LiveGrant {
            token,
            max_lanes,
            limits: self.options().live.limits(),
            local,
            preface,
        };
        Ok(Ok(StartedProgram {
            place,
            session,
            shares,
            sender,
            grant,
        }))
    }

    /// Takes a share of each device, or of none.
    fn take_shares(
        &self,
        service: &LiveService,
        request: &LiveRequest,
        program: &Arc<LiveProgram>,
    ) -> Result<Vec<Share>, LiveRefusal> {
        let slots = &self.shared.slots;
        let mut shares = Vec::new();
        for device in &request.devices {
            let slot = slots.iter().find(|s| s.info().name == *device);
            let Some(slot) = slot.filter(|_| service.runner.serves(device)) else {
                let names = slots.iter().map(|s| s.info().name.clone());
                let known = names.filter(|name| service.runner.serves(name)).collect();
                return Err(LiveRefusal::NoDevice { known });
            };
            let program = Arc::clone(program);
            let holder = ShareHolder {
                client: self.name.clone(),
                describe: Arc::new(move || program.describe()),
            };
            let device = device.clone();
            let taken = wait_for_lease(
                || slot.share(holder.clone()),
                |why| matches!(**why, LeaseReply::Busy { .. }),
            );
            match taken.map_err(|reply| *reply) {
                Ok(share) => shares.push(share),
                Err(LeaseReply::Busy { holder, since_s }) => {
                    return Err(LiveRefusal::Busy {
                        device,
                        holder,
                        since_s,
                    });
                }
                Err(LeaseReply::OutOfOrder(reason)) => return Err(LiveRefusal::OutOfOrder { device, reason }),
                Err(_) => {
                    let reason = "it cannot be shared".to_owned();
                    return Err(LiveRefusal::OutOfOrder { device, reason });
                }
            }
        }
        Ok(shares)
    }

    /// Serves a program to its end, and logs a line for its start and one for its end. Returns why the session ends.
    fn run_live(&mut self, program: StartedProgram, request: &LiveRequest) -> SessionEnd {
        let begin = Instant::now();
        let title = format!(
            "live program of client {}: {} (process {}) on {}",
            self.name,
            format_for_log(&request.program),
            request.process,
            format_for_log(&request.devices.join(", "))
        );
        tracing::info!("{title}: started");
        let StartedProgram {
            place,
            session,
            shares,
            sender,
            grant,
        } = program;
        self.calls.allow_long_writes();
        self.calls.set_handler(handler_of(&session, 0));
        let started = self.reply_live(&LiveReply::Started(Box::new(grant)));
        let started = started.and_then(|()| Ok(sender.open()?));
        let end = match started {
            Ok(()) => self.monitor_live(&place.program, &session),
            Err(quit) => ProgramEnd::Quit(quit),
        };
        // The worker ends before anything is sent: a client that does not read delays nothing but its own messages.
        place.program.end();
        drop(shares);
        tracing::info!(
            "{title}: {:.3} s, {}",
            begin.elapsed().as_secs_f64(),
            format_for_log(&describe_end(&end))
        );
        let end = self.end_live(end);
        drop(place);
        if let SessionEnd(WireError::Closed) = end {
            self.await_close();
        }
        end
    }

    /// Watches a program until it ends.
    fn monitor_live(&mut self, program: &LiveProgram, session: &Arc<dyn LiveSession>) -> ProgramEnd {
        let begin = Instant::now();
        let mut is_finishing = false;
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::LiveFinished(end)) => {
                    let error = end.error.or_else(|| program.report.error());
                    return ProgramEnd::Finished(LiveEnd { error, ..end });
                }
                Ok(Event::Arrived(ReaderMessage::Frame(frame))) => {
                    let is_finish = frame.concern == Topic::Live && matches!(frame.message(), Ok(LiveCommand::Finish));
                    if !is_finish || is_finishing {
                        return ProgramEnd::Quit(SessionEnd::protocol("a frame other than calls or one end"));
                    }
                    is_finishing = true;
                    if let Err(e) = self.spawn_finish(session) {
                        return ProgramEnd::Failed(format!("its end cannot be awaited: {e}"));
                    }
                }
                Ok(Event::Arrived(ReaderMessage::Ended(WireError::CallsRejected(why)))) => {
                    return ProgramEnd::Failed(program.report.error().unwrap_or(why));
                }
                Ok(Event::Arrived(ReaderMessage::Ended(e))) => return ProgramEnd::Quit(SessionEnd(e)),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return ProgramEnd::Quit(SessionEnd(WireError::Closed)),
            }
            if !is_finishing && let Some(error) = program.report.error() {
                return ProgramEnd::Failed(error);
            }
            if self.is_forgotten() {
                return ProgramEnd::Forgotten;
            }
            // The reading thread does not notice it while it waits in the worker.
            if self.sender.has_ended() {
                return ProgramEnd::Quit(SessionEnd(WireError::Closed));
            }
            if self.shared.stopping.load(Ordering::SeqCst) {
                return ProgramEnd::Failed("the agent is being stopped".to_owned());
            }
            if let Some(longest) = self.options().live.longest
                && begin.elapsed() > longest
            {
                return ProgramEnd::Failed(format!(
                    "the agent ended the program: it ran longer than {} s, which is the agent's limit (--live-time)",
                    longest.as_secs_f32()
                ));
            }
        }
    }

    /// Ends the worker in order, in a thread.
    fn spawn_finish(&self, session: &Arc<dyn LiveSession>) -> Result<(), std::io::Error> {
        let (session, to_self) = (Arc::clone(session), self.to_self.clone());
        let work = move || {
            let end = catch_unwind(AssertUnwindSafe(|| session.finish()));
            let end = end.unwrap_or_else(|panic| LiveEnd {
                error: Some(panic_text(&*panic)),
                ..LiveEnd::default()
            });
            // A session that is over does not wait for it.
            let _ = to_self.send(Event::LiveFinished(end));
        };
        let thread = thread::Builder::new().name("kinescope-live".into());
        thread.spawn(work).map(drop)
    }

    /// Makes this connection a lane of a program, until either ends.
    fn join_live(&mut self, token: &[u8; 32]) -> Result<(), SessionEnd> {
        let refuse = |refusal| self.reply_live(&LiveReply::Refused(refusal));
        let Some(service) = self.shared.live.get() else {
            return refuse(LiveRefusal::NotOffered);
        };
        let Some(program) = service.find(token, &self.client) else {
            return refuse(LiveRefusal::UnknownToken);
        };
        let Some(session) = program.session.get().cloned() else {
            return refuse(LiveRefusal::UnknownToken);
        };
        let max = self.options().live.lanes;
        let Some(lane) = program.add_lane(&self.sender, max) else {
            let why = format!("the program has {max} further connections, which is the maximum, or it has ended");
            return refuse(LiveRefusal::Limit(why));
        };
        let sender = LiveSender::closed(self.sender.clone(), program.report.clone());
        let added = catch_unwind(AssertUnwindSafe(|| session.add_lane(lane, sender.clone())));
        if let Err(why) = added.unwrap_or_else(|panic| Err(panic_text(&*panic))) {
            program.remove_lane(lane);
            return refuse(LiveRefusal::Failed(why));
        }
        let _lane = LaneGuard {
            program: &program,
            session: &session,
            lane,
        };
        self.calls.allow_long_writes();
        self.calls.set_handler(handler_of(&session, lane));
        self.reply_live(&LiveReply::Joined { lane })?;
        sender.open()?;
        Err(self.monitor_lane(&program))
    }

    /// Watches a lane until it ends, and returns why.
    fn monitor_lane(&self, program: &LiveProgram) -> SessionEnd {
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Arrived(ReaderMessage::Frame(_))) => {
                    return SessionEnd::protocol("a frame other than calls on a lane");
                }
                Ok(Event::Arrived(ReaderMessage::Ended(WireError::CallsRejected(why)))) => {
                    program.report.report(&why);
                    return SessionEnd(WireError::CallsRejected(why));
                }
                Ok(Event::Arrived(ReaderMessage::Ended(e))) => return SessionEnd(e),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return SessionEnd(WireError::Closed),
            }
            if let Err(quit) = self.still_known() {
                return quit;
            }
            if program.has_ended() || self.sender.has_ended() || self.shared.stopping.load(Ordering::SeqCst) {
                return SessionEnd(WireError::Closed);
            }
        }
    }
}

/// Removes a lane when its connection ends.
struct LaneGuard<'a> {
    program: &'a LiveProgram,
    session: &'a Arc<dyn LiveSession>,
    lane: u32,
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        self.program.remove_lane(self.lane);
        self.session.remove_lane(self.lane);
    }
}

/// Returns what passes the frames of a lane to the worker.
fn handler_of(session: &Arc<dyn LiveSession>, lane: u32) -> crate::wire::CallsHandler {
    let session = Arc::clone(session);
    Box::new(move |frame| {
        let taken = catch_unwind(AssertUnwindSafe(|| session.take_frame(lane, frame)));
        taken.unwrap_or_else(|panic| Err(panic_text(&*panic)))
    })
}

/// Checks the form of a request.
fn check_request(request: &LiveRequest) -> Result<(), String> {
    let count = request.devices.len();
    if !(1..=MAX_DEVICES).contains(&count) {
        return Err(format!("{count} devices; a program has 1 to {MAX_DEVICES}"));
    }
    if request.devices.iter().collect::<BTreeSet<_>>().len() != count {
        return Err("a device is named twice; a program has each device once".to_owned());
    }
    let bytes = request.program.len();
    if bytes > MAX_PROGRAM_BYTES {
        return Err(format!(
            "the program's name has {bytes} bytes; {MAX_PROGRAM_BYTES} are allowed"
        ));
    }
    Ok(())
}
