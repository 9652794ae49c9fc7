//! Messages between a worker process and its parent: a kind, a length, and a payload.

use crate::codec::{
    CodecError, Decoder, Encoder, decode_input, decode_options, decode_profile, decode_run, encode_input,
    encode_options, encode_profile, encode_run,
};
use crate::device::CompiledProgram;
use crate::scheduler::RunStatistics;
use crate::translation::TranslationOptions;
use std::io::{Read, Write};
use wasm_ptx::CellSize;
use wasm_run::{Input, LaunchRecord, ProgramRun, RunEnd, RunOptions};

/// Maximum size of a payload in bytes.
const MAX_PAYLOAD_BYTES: u64 = 2 << 30;

/// What a worker runs the program on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerTarget {
    /// The GPU of this number.
    Gpu(u32),
    /// The interpreter of translated programs.
    Interpreter,
    /// All cores.
    Cpu,
}

impl WorkerTarget {
    /// Returns the code of the kind, and the number of a GPU.
    fn to_codes(self) -> (u32, u32) {
        match self {
            Self::Gpu(number) => (0, number),
            Self::Interpreter => (1, 0),
            Self::Cpu => (2, 0),
        }
    }

    fn from_codes(kind: u32, number: u32) -> Result<Self, CodecError> {
        match (kind, number) {
            (0, number) => Ok(Self::Gpu(number)),
            (1, 0) => Ok(Self::Interpreter),
            (2, 0) => Ok(Self::Cpu),
            _ => Err(CodecError("an unknown target")),
        }
    }
}

/// What a worker has to run. The inputs follow in messages of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRequest {
    /// The target.
    pub target: WorkerTarget,
    /// The program, in binary form. The worker validates and translates it.
    pub program: Vec<u8>,
    /// Options of the run.
    pub options: RunOptions,
    /// Choices of the translation.
    pub translation: TranslationOptions,
    /// Large inputs start first.
    pub sort: bool,
    /// Compiled programs are kept in the user's cache.
    pub use_cache: bool,
    /// Number of inputs.
    pub inputs: u64,
}

/// A message to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message.
    Start(Box<StartRequest>),
    /// The next input.
    Input(Input),
}

/// Why a worker gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The parent cancelled the run.
    Cancelled,
    /// The target failed, or the program cannot run.
    Target,
}

/// A message of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The program is compiled.
    Compiled(CompiledProgram),
    /// The copies start: their number.
    Started(u32),
    /// The device is alive.
    Alive,
    /// The copy of the input at a position starts.
    InputStarted(u64),
    /// The result of the input at a position.
    Result(u64, Box<ProgramRun>),
    /// All inputs have results.
    Finished(RunStatistics),
    /// The run failed.
    Failed(FailureKind, String),
    /// A launch has ended.
    Launched(LaunchRecord),
}

/// A message cannot be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The stream failed or ended.
    #[error(transparent)]
    Stream(#[from] std::io::Error),
    /// The message is damaged.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The message is too long.
    #[error("a message of {0} bytes (maximum {MAX_PAYLOAD_BYTES})")]
    TooLong(u64),
    /// The kind of the message is unknown.
    #[error("a message of the unknown kind {0}")]
    Kind(u8),
}

fn write_message(to: &mut dyn Write, kind: u8, payload: &[u8]) -> Result<(), ProtocolError> {
    let length = payload.len() as u64;
    if length > MAX_PAYLOAD_BYTES {
        return Err(ProtocolError::TooLong(length));
    }
    to.write_all(&[kind])?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(payload)?;
    Ok(())
}

/// Reads a message, or returns `None` at the end of the stream.
fn read_message(from: &mut dyn Read) -> Result<Option<(u8, Vec<u8>)>, ProtocolError> {
    let mut kind = [0];
    if from.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_PAYLOAD_BYTES {
        return Err(ProtocolError::TooLong(length));
    }
    // The memory grows with the bytes that arrive, not with the length that the message claims.
    let mut payload = Vec::new();
    from.take(length).read_to_end(&mut payload)?;
    if payload.len() as u64 != length {
        return Err(CodecError("it is truncated").into());
    }
    Ok(Some((kind[0], payload)))
}

fn encode_cell(cell: Option<CellSize>) -> u32 {
    cell.map_or(0, CellSize::bytes)
}

/// Returns the cell size with a number of bytes: 4, 8 or 16; 0 is the default.
fn decode_cell(bytes: u32) -> Result<Option<CellSize>, CodecError> {
    match bytes {
        0 => Ok(None),
        4 => Ok(Some(CellSize::Four)),
        8 => Ok(Some(CellSize::Eight)),
        16 => Ok(Some(CellSize::Sixteen)),
        _ => Err(CodecError("an unknown cell size")),
    }
}

impl Request {
    /// Writes the message of an input.
    ///
    /// # Errors
    /// As [`Request::write`].
    pub fn write_input(input: &Input, to: &mut dyn Write) -> Result<(), ProtocolError> {
        let mut payload = Encoder::default();
        encode_input(&mut payload, input);
        write_message(to, 2, &payload.0)
    }

    /// Writes the message.
    ///
    /// # Errors
    /// When the stream fails, or the message is too long.
    pub fn write(&self, to: &mut dyn Write) -> Result<(), ProtocolError> {
        let mut payload = Encoder::default();
        let kind = match self {
            Self::Start(start) => {
                let (kind, number) = start.target.to_codes();
                payload.u32(kind);
                payload.u32(number);
                payload.bytes(&start.program);
                encode_options(&mut payload, &start.options);
                payload.u32(encode_cell(start.translation.cell));
                payload.flag(start.translation.strict);
                payload.flag(start.translation.counters);
                payload.flag(start.sort);
                payload.flag(start.use_cache);
                payload.u64(start.inputs);
                1
            }
            Self::Input(input) => return Self::write_input(input, to),
        };
        write_message(to, kind, &payload.0)
    }

    /// Reads a message, or returns `None` at the end of the stream.
    ///
    /// # Errors
    /// When the stream fails or the message is damaged.
    pub fn read(from: &mut dyn Read) -> Result<Option<Self>, ProtocolError> {
        let Some((kind, payload)) = read_message(from)? else {
            return Ok(None);
        };
        let mut payload = Decoder(&payload);
        let message = match kind {
            1 => Self::Start(Box::new(StartRequest {
                target: WorkerTarget::from_codes(payload.u32()?, payload.u32()?)?,
                program: payload.bytes()?,
                options: decode_options(&mut payload)?,
                translation: TranslationOptions {
                    cell: decode_cell(payload.u32()?)?,
                    strict: payload.flag()?,
                    counters: payload.flag()?,
                },
                sort: payload.flag()?,
                use_cache: payload.flag()?,
                inputs: payload.u64()?,
            })),
            2 => Self::Input(decode_input(&mut payload)?),
            kind => return Err(ProtocolError::Kind(kind)),
        };
        payload.end()?;
        Ok(Some(message))
    }
}

/// Bytes that a system call of a log counts with.
const CALL_BYTES: usize = 32;

impl Answer {
    /// Returns about how much memory a result has, bytes. Other answers are small: 0.
    pub(crate) fn content_bytes(&self) -> usize {
        let Self::Result(_, run) = self else { return 0 };
        let place = match &run.end {
            RunEnd::Trap(trap) => trap.place.as_ref().map_or(0, |place| place.function.len()),
            RunEnd::Exit(_) => 0,
        };
        run.standard_output.len() + run.standard_error.len() + CALL_BYTES * run.calls.len() + place
    }

    /// Writes the message.
    ///
    /// # Errors
    /// When the stream fails, or the message is too long.
    pub fn write(&self, to: &mut dyn Write) -> Result<(), ProtocolError> {
        let mut payload = Encoder::default();
        let kind = match self {
            Self::Compiled(compiled) => {
                payload.duration(compiled.time);
                payload.duration(compiled.stack_time);
                payload.flag(compiled.cached);
                payload.u32(compiled.registers);
                payload.u64(compiled.stack_bytes);
                payload.u32(compiled.depth_limit);
                1
            }
            Self::Started(copies) => {
                payload.u32(*copies);
                2
            }
            Self::Alive => 3,
            Self::Result(index, run) => {
                payload.u64(*index);
                encode_run(&mut payload, run);
                4
            }
            Self::Finished(statistics) => {
                payload.u64(statistics.launches);
                payload.duration(statistics.device_time);
                payload.duration(statistics.run_time);
                payload.u64(statistics.area_bytes);
                payload.u64(statistics.restarts);
                payload.flag(statistics.lowered_call_depth.is_some());
                payload.u32(statistics.lowered_call_depth.unwrap_or(0));
                let mut phases = statistics.phases;
                for phase in phases.values_mut() {
                    payload.duration(*phase);
                }
                encode_profile(&mut payload, statistics.profile.as_deref());
                5
            }
            Self::Failed(kind, text) => {
                payload.flag(*kind == FailureKind::Cancelled);
                payload.bytes(text.as_bytes());
                6
            }
            Self::Launched(launch) => {
                payload.u64(launch.start);
                payload.u64(launch.duration);
                payload.u32(launch.copies);
                payload.u32(launch.slice);
                7
            }
            Self::InputStarted(index) => {
                payload.u64(*index);
                8
            }
        };
        write_message(to, kind, &payload.0)
    }

    /// Reads a message, or returns `None` at the end of the stream.
    ///
    /// # Errors
    /// When the stream fails or the message is damaged.
    pub fn read(from: &mut dyn Read) -> Result<Option<Self>, ProtocolError> {
        let Some((kind, payload)) = read_message(from)? else {
            return Ok(None);
        };
        let mut payload = Decoder(&payload);
        let message = match kind {
            1 => Self::Compiled(CompiledProgram {
                time: payload.duration()?,
                stack_time: payload.duration()?,
                cached: payload.flag()?,
                registers: payload.u32()?,
                stack_bytes: payload.u64()?,
                depth_limit: payload.u32()?,
            }),
            2 => Self::Started(payload.u32()?),
            3 => Self::Alive,
            4 => Self::Result(payload.u64()?, Box::new(decode_run(&mut payload)?)),
            5 => {
                let mut statistics = RunStatistics {
                    launches: payload.u64()?,
                    device_time: payload.duration()?,
                    run_time: payload.duration()?,
                    area_bytes: payload.u64()?,
                    restarts: payload.u64()?,
                    lowered_call_depth: {
                        let is_lowered = payload.flag()?;
                        Some(payload.u32()?).filter(|_| is_lowered)
                    },
                    ..RunStatistics::default()
                };
                for phase in statistics.phases.values_mut() {
                    *phase = payload.duration()?;
                }
                statistics.profile = decode_profile(&mut payload)?;
                Self::Finished(statistics)
            }
            6 => {
                let kind = if payload.flag()? {
                    FailureKind::Cancelled
                } else {
                    FailureKind::Target
                };
                Self::Failed(kind, payload.text()?)
            }
            7 => Self::Launched(LaunchRecord {
                start: payload.u64()?,
                duration: payload.u64()?,
                copies: payload.u32()?,
                slice: payload.u32()?,
            }),
            8 => Self::InputStarted(payload.u64()?),
            kind => return Err(ProtocolError::Kind(kind)),
        };
        payload.end()?;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wasm_run::{BlockProfile, RunEnd, RunPhases};

    #[test]
    fn messages_come_back() {
        let start = Request::Start(Box::new(StartRequest {
            target: WorkerTarget::Gpu(1),
            program: b"\0asm".to_vec(),
            options: RunOptions::default(),
            translation: TranslationOptions {
                cell: Some(CellSize::Sixteen),
                strict: true,
                counters: false,
            },
            sort: true,
            use_cache: false,
            inputs: 3,
        }));
        let mut stream = Vec::new();
        start.write(&mut stream).unwrap();
        Request::Input(Input::default()).write(&mut stream).unwrap();
        let mut from = stream.as_slice();
        assert_eq!(Request::read(&mut from).unwrap(), Some(start));
        assert_eq!(
            Request::read(&mut from).unwrap(),
            Some(Request::Input(Input::default()))
        );
        assert_eq!(Request::read(&mut from).unwrap(), None);
        let run = ProgramRun {
            end: RunEnd::Exit(3),
            standard_output: b"out".to_vec(),
            standard_error: Vec::new(),
            calls: Vec::new(),
            lost_calls: 0,
        };
        let statistics = RunStatistics {
            launches: 7,
            device_time: Duration::from_millis(3),
            run_time: Duration::from_millis(5),
            area_bytes: 1 << 33,
            restarts: 2,
            lowered_call_depth: Some(90),
            phases: RunPhases {
                open: Duration::from_millis(11),
                collect: Duration::from_micros(13),
                ..RunPhases::default()
            },
            profile: Some(vec![BlockProfile {
                offset: 0x42,
                executions: 7,
                active_lanes: 9,
            }]),
        };
        for answer in [
            Answer::Compiled(CompiledProgram {
                time: Duration::from_secs(1),
                stack_time: Duration::from_millis(2),
                cached: true,
                registers: 64,
                stack_bytes: 2048,
                depth_limit: 300,
            }),
            Answer::Started(96),
            Answer::Alive,
            Answer::InputStarted(70_000),
            Answer::Result(5, Box::new(run)),
            Answer::Finished(RunStatistics::default()),
            Answer::Finished(statistics),
            Answer::Failed(FailureKind::Target, "why".into()),
            Answer::Launched(LaunchRecord {
                start: 1 << 40,
                duration: 5,
                copies: 64,
                slice: 1000,
            }),
        ] {
            let mut stream = Vec::new();
            answer.write(&mut stream).unwrap();
            assert_eq!(Answer::read(&mut stream.as_slice()).unwrap(), Some(answer));
            for length in 1..stream.len() {
                assert!(Answer::read(&mut &stream[..length]).is_err());
            }
        }
    }

    #[test]
    fn targets_come_back() {
        for target in [WorkerTarget::Gpu(7), WorkerTarget::Interpreter, WorkerTarget::Cpu] {
            let (kind, number) = target.to_codes();
            assert_eq!(WorkerTarget::from_codes(kind, number), Ok(target));
        }
        assert!(WorkerTarget::from_codes(1, 5).is_err());
        assert!(WorkerTarget::from_codes(3, 0).is_err());
    }

    #[test]
    fn hostile_messages_are_errors() {
        let mut long = vec![1];
        long.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(
            Request::read(&mut long.as_slice()),
            Err(ProtocolError::TooLong(u64::MAX))
        ));
        let unknown = [99, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(
            Request::read(&mut unknown.as_slice()),
            Err(ProtocolError::Kind(99))
        ));
        assert!(matches!(
            Answer::read(&mut unknown.as_slice()),
            Err(ProtocolError::Kind(99))
        ));
    }
}
