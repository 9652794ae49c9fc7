//! The reader of the events of a run: they follow each other in one order, which it checks.

use crate::call_names::CallName;
use crate::copy::RecordedCopy;
use crate::{CopyEnd, CopyStream, LAUNCH_STREAM, MAX_FUNCTION_NAME, WasmRecordingError};
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, CallRow, LaunchRow, Recording, StoredContent};
use wasm_run::{LaunchRecord, RunEnd, Trap, TrapPlace};

/// Number of events between two checks for cancellation.
const STEP: u64 = 4096;
/// Bytes of the arguments of a system call.
const CALL_BYTES: u32 = 40;
/// Bytes of the arguments of a launch.
const LAUNCH_BYTES: u32 = 32;
/// Maximum number of bytes of the arguments of an event: two numbers, and the name of a function.
const MAX_ARGUMENT_BYTES: usize = 16 + MAX_FUNCTION_NAME;

/// Returns the numbers of an argument list, or `None` if there are fewer.
pub(crate) fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let chunks = bytes.as_chunks::<8>().0.first_chunk::<N>()?;
    Some(chunks.map(u64::from_le_bytes))
}

/// Reads the events in their order.
pub(crate) struct EventReader<'a> {
    recording: &'a Recording,
    names: Vec<Option<CallName>>,
    next: u64,
    end: u64,
    progress: &'a Progress,
}

impl<'a> EventReader<'a> {
    /// Creates a reader at the first event. `names` are the meanings of the recording's names.
    pub fn new(recording: &'a Recording, names: Vec<Option<CallName>>, progress: &'a Progress) -> Self {
        let end = recording.events.len() as u64;
        progress.set_total(end);
        Self {
            recording,
            names,
            next: 0,
            end,
            progress,
        }
    }

    /// Returns the meanings of the recording's names.
    pub fn into_names(self) -> Vec<Option<CallName>> {
        self.names
    }

    fn error(&self, reason: impl Into<String>) -> WasmRecordingError {
        WasmRecordingError::Event {
            event: self.next,
            reason: reason.into(),
        }
    }

    /// Returns the next event without its removal.
    fn peek(&self) -> Result<Option<CallEvent>, WasmRecordingError> {
        if self.next >= self.end {
            return Ok(None);
        }
        let at = usize::try_from(self.next).map_err(|_| self.error("too many events"))?;
        let call = self.recording.events.call(at);
        call.map(Some).ok_or_else(|| self.error("it is damaged, or no call"))
    }

    fn advance(&mut self) -> Result<(), WasmRecordingError> {
        self.next = self.next.saturating_add(1);
        if self.next.is_multiple_of(STEP) {
            self.progress.advance(STEP)?;
        }
        Ok(())
    }

    fn name(&self, row: &CallRow) -> Result<CallName, WasmRecordingError> {
        let name = self.names.get(row.name as usize).copied().flatten();
        name.ok_or_else(|| self.error("a call with an unknown name"))
    }

    fn bytes(&self, row: &CallRow) -> Result<Vec<u8>, WasmRecordingError> {
        // Arguments of many events can be the same bytes: a small file must not name gigabytes.
        if row.arguments as usize > MAX_ARGUMENT_BYTES {
            return Err(self.error("its arguments are too long"));
        }
        let bytes = self.recording.events.call_arguments(row.arguments_at, row.arguments);
        bytes.ok_or_else(|| self.error("its arguments are missing"))
    }

    fn number(&self, row: &CallRow) -> Result<u64, WasmRecordingError> {
        let [number] = numbers(&self.bytes(row)?).ok_or_else(|| self.error("its argument is missing"))?;
        Ok(number)
    }

    /// Takes the next event, which must be a call of this name, and returns its first argument.
    fn take_number(&mut self, expected: CallName, what: &str) -> Result<u64, WasmRecordingError> {
        match self.peek()? {
            Some(CallEvent::Call(row)) if self.name(&row)? == expected => {
                let number = self.number(&row)?;
                self.advance()?;
                Ok(number)
            }
            Some(_) => Err(self.error(format!("another event than {what}"))),
            None => Err(self.error(format!("the recording ends before {what}"))),
        }
    }

    /// Reads the first event, which states the number of copies.
    pub fn read_start(&mut self, inputs: u64) -> Result<(), WasmRecordingError> {
        let copies = self.take_number(CallName::Run, "the start of the run")?;
        if copies != inputs {
            return Err(WasmRecordingError::Results {
                inputs,
                results: copies,
            });
        }
        Ok(())
    }

    /// Reads all events of a copy.
    pub fn read_copy(&mut self, number: u64, name: String) -> Result<RecordedCopy, WasmRecordingError> {
        let start = self.next;
        if self.take_number(CallName::Start, "the start of a copy")? != number {
            return Err(self.error(format!("the copy before it is not number {number}")));
        }
        let mut copy = RecordedCopy {
            name,
            events: start..start,
            call_events: start..start,
            lost_calls: 0,
            stream_bytes: [0; 3],
            end: CopyEnd::Waiting,
            rows: [None; 3],
            row_events: [0; 3],
        };
        self.take_stream(CopyStream::Input, &mut copy)?;
        let first_call = self.next;
        while let Some(CallEvent::Call(row)) = self.peek()? {
            if !matches!(self.name(&row)?, CallName::System(_)) {
                break;
            }
            if row.arguments != CALL_BYTES {
                return Err(self.error("a system call with another number of arguments"));
            }
            self.advance()?;
        }
        copy.call_events = first_call..self.next;
        if let Some(CallEvent::Call(row)) = self.peek()?
            && self.name(&row)? == CallName::LostCalls
        {
            copy.lost_calls = self.number(&row)?;
            self.advance()?;
        }
        self.take_stream(CopyStream::Output, &mut copy)?;
        self.take_stream(CopyStream::Error, &mut copy)?;
        copy.end = self.take_end()?;
        copy.events.end = self.next;
        Ok(copy)
    }

    /// Takes the bytes of a stream, if the next event has them.
    fn take_stream(&mut self, stream: CopyStream, copy: &mut RecordedCopy) -> Result<(), WasmRecordingError> {
        let Some(CallEvent::Copy(row)) = self.peek()? else {
            return Ok(());
        };
        if row.stream != stream as u32 {
            return Ok(());
        }
        let bytes = row.stored().map(|s: StoredContent| s.bytes);
        let bytes = bytes.filter(|_| row.rows == 1 && self.recording.has_copy_content(&row));
        let bytes = bytes.ok_or_else(|| self.error("the bytes of a stream are missing"))?;
        let number = stream as usize;
        if let (Some(to), Some(size), Some(event)) = (
            copy.rows.get_mut(number),
            copy.stream_bytes.get_mut(number),
            copy.row_events.get_mut(number),
        ) {
            (*to, *size, *event) = (Some(row), bytes, self.next);
        }
        self.advance()
    }

    fn take_end(&mut self) -> Result<CopyEnd, WasmRecordingError> {
        let Some(CallEvent::Call(row)) = self.peek()? else {
            return Err(self.error("the end of the copy is missing"));
        };
        let end = match self.name(&row)? {
            CallName::Running => CopyEnd::Running,
            CallName::Waiting => CopyEnd::Waiting,
            CallName::Exit => {
                let code = self.number(&row)?;
                let code = u32::try_from(code).map_err(|_| self.error("an exit code above 32 bits"))?;
                CopyEnd::Ended(RunEnd::Exit(code))
            }
            CallName::Trap(kind) => CopyEnd::Ended(RunEnd::Trap(Trap {
                kind,
                place: self.place(&self.bytes(&row)?)?,
            })),
            _ => return Err(self.error("another call than the end of the copy")),
        };
        self.advance()?;
        Ok(end)
    }

    fn place(&self, bytes: &[u8]) -> Result<Option<TrapPlace>, WasmRecordingError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let damaged = || self.error("the place of the trap is damaged");
        let [function, offset] = numbers(bytes).ok_or_else(damaged)?;
        let name = bytes.get(16..).and_then(|b| std::str::from_utf8(b).ok());
        Ok(Some(TrapPlace {
            function: name.ok_or_else(damaged)?.to_owned(),
            function_index: u32::try_from(function).map_err(|_| damaged())?,
            offset,
        }))
    }

    /// Reads the launches up to the end.
    pub fn read_launches(&mut self) -> Result<Vec<LaunchRecord>, WasmRecordingError> {
        let mut launches = Vec::new();
        while let Some(event) = self.peek()? {
            let CallEvent::Launch(row) = event else {
                return Err(self.error("another event than a launch after the copies"));
            };
            launches.push(self.launch(&row)?);
            self.advance()?;
        }
        Ok(launches)
    }

    fn launch(&self, row: &LaunchRow) -> Result<LaunchRecord, WasmRecordingError> {
        let bytes = self
            .recording
            .events
            .call_arguments(row.arguments_at, row.arguments.min(LAUNCH_BYTES));
        let values = bytes.filter(|_| row.stream == LAUNCH_STREAM).and_then(|b| numbers(&b));
        let [start, duration, copies, slice] = values.ok_or_else(|| self.error("a damaged launch"))?;
        let small = |n: u64| u32::try_from(n).map_err(|_| self.error("a damaged launch"));
        Ok(LaunchRecord {
            start,
            duration,
            copies: small(copies)?,
            slice: small(slice)?,
        })
    }
}
