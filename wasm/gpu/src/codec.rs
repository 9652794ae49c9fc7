//! Bytes of the values in the messages between a worker process and its parent.

use std::time::Duration;
use wasm_run::{
    BlockProfile, Input, Limits, ProgramRun, RunEnd, RunOptions, Trap, TrapKind, TrapPlace, to_nanoseconds,
};
use wasm_system::SystemCall;

/// A message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a damaged message: {0}")]
pub struct CodecError(pub &'static str);

/// Appends values to a message.
#[derive(Debug, Default)]
pub struct Encoder(pub Vec<u8>);

impl Encoder {
    /// Appends a number.
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a number.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a truth value.
    pub fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// Appends bytes with their length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Appends a number that may be missing.
    pub fn option(&mut self, value: Option<u64>) {
        self.flag(value.is_some());
        self.u64(value.unwrap_or(0));
    }

    /// Appends a duration, cut to nanoseconds in 64 bits.
    pub fn duration(&mut self, value: Duration) {
        self.u64(to_nanoseconds(value));
    }

    /// Appends a list.
    pub fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.u64(items.len() as u64);
        for one in items {
            item(self, one);
        }
    }
}

/// Takes values from a message.
#[derive(Debug)]
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], CodecError> {
        let (first, rest) = self.0.split_at_checked(bytes).ok_or(CodecError("it is truncated"))?;
        self.0 = rest;
        Ok(first)
    }

    /// Takes a number.
    ///
    /// # Errors
    /// When the message is too short.
    pub fn u32(&mut self) -> Result<u32, CodecError> {
        let bytes = self.take(4)?.first_chunk().copied();
        bytes.map(u32::from_le_bytes).ok_or(CodecError("it is truncated"))
    }

    /// Takes a number.
    ///
    /// # Errors
    /// When the message is too short.
    pub fn u64(&mut self) -> Result<u64, CodecError> {
        let bytes = self.take(8)?.first_chunk().copied();
        bytes.map(u64::from_le_bytes).ok_or(CodecError("it is truncated"))
    }

    /// Takes a truth value.
    ///
    /// # Errors
    /// When the message is too short, or the byte is neither 0 nor 1.
    pub fn flag(&mut self) -> Result<bool, CodecError> {
        match self.take(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(CodecError("a truth value is neither 0 nor 1")),
        }
    }

    /// Takes bytes with their length.
    ///
    /// # Errors
    /// When the message is too short.
    pub fn bytes(&mut self) -> Result<Vec<u8>, CodecError> {
        let length = usize::try_from(self.u64()?).map_err(|_| CodecError("a length is too large"))?;
        Ok(self.take(length)?.to_vec())
    }

    /// Takes a text.
    ///
    /// # Errors
    /// When the message is too short, or the text is not UTF-8.
    pub fn text(&mut self) -> Result<String, CodecError> {
        String::from_utf8(self.bytes()?).map_err(|_| CodecError("a text is not UTF-8"))
    }

    /// Takes a number that may be missing.
    ///
    /// # Errors
    /// When the message is too short.
    pub fn option(&mut self) -> Result<Option<u64>, CodecError> {
        let is_there = self.flag()?;
        let value = self.u64()?;
        Ok(is_there.then_some(value))
    }

    /// Takes a duration.
    ///
    /// # Errors
    /// When the message is too short.
    pub fn duration(&mut self) -> Result<Duration, CodecError> {
        self.u64().map(Duration::from_nanos)
    }

    /// Takes a list.
    ///
    /// # Errors
    /// When the message is too short, or an item is damaged.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, CodecError>) -> Result<Vec<T>, CodecError> {
        let count = self.u64()?;
        // Each item has at least one byte.
        if count > self.0.len() as u64 {
            return Err(CodecError("a list is longer than the message"));
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// When bytes are left.
    pub fn end(&self) -> Result<(), CodecError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(CodecError("bytes are left at its end"))
        }
    }
}

/// Appends the options of a run.
pub fn encode_options(to: &mut Encoder, options: &RunOptions) {
    to.bytes(options.function.as_bytes());
    to.list(&options.arguments, |to, argument| to.bytes(argument));
    to.list(&options.environment, |to, (name, value)| {
        to.bytes(name);
        to.bytes(value);
    });
    to.u64(options.seed);
    to.u64(options.clock_start);
    to.u64(options.clock_step);
    let limits = &options.limits;
    to.u32(limits.memory_pages);
    to.u32(limits.call_depth);
    to.option(limits.fuel);
    to.option(limits.time.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)));
    to.u64(limits.output_bytes);
    to.u32(limits.log_entries);
    to.option(options.copies.map(u64::from));
}

/// Takes the options of a run.
///
/// # Errors
/// When the message is damaged.
pub fn decode_options(from: &mut Decoder<'_>) -> Result<RunOptions, CodecError> {
    Ok(RunOptions {
        function: from.text()?,
        arguments: from.list(Decoder::bytes)?,
        environment: from.list(|from| Ok((from.bytes()?, from.bytes()?)))?,
        seed: from.u64()?,
        clock_start: from.u64()?,
        clock_step: from.u64()?,
        limits: Limits {
            memory_pages: from.u32()?,
            call_depth: from.u32()?,
            fuel: from.option()?,
            time: from.option()?.map(Duration::from_nanos),
            output_bytes: from.u64()?,
            log_entries: from.u32()?,
        },
        copies: match from.option()? {
            None => None,
            Some(copies) => Some(u32::try_from(copies).map_err(|_| CodecError("too many copies"))?),
        },
    })
}

/// Appends an input.
pub fn encode_input(to: &mut Encoder, input: &Input) {
    to.bytes(input.name.as_bytes());
    to.bytes(&input.bytes);
    to.list(&input.more_requests, |to, request| to.bytes(request));
}

/// Takes an input.
///
/// # Errors
/// When the message is damaged.
pub fn decode_input(from: &mut Decoder<'_>) -> Result<Input, CodecError> {
    Ok(Input {
        name: from.text()?,
        bytes: from.bytes()?,
        more_requests: from.list(Decoder::bytes)?,
    })
}

/// Appends a result.
pub fn encode_run(to: &mut Encoder, run: &ProgramRun) {
    match &run.end {
        RunEnd::Exit(code) => {
            to.flag(false);
            to.u32(*code);
        }
        RunEnd::Trap(trap) => {
            to.flag(true);
            to.u32(trap.kind.number());
            to.flag(trap.place.is_some());
            if let Some(place) = &trap.place {
                to.bytes(place.function.as_bytes());
                to.u32(place.function_index);
                to.u64(place.offset);
            }
        }
    }
    to.bytes(&run.standard_output);
    to.bytes(&run.standard_error);
    to.list(&run.calls, |to, call| {
        to.u32(call.function);
        to.u32(call.result.cast_unsigned());
        call.arguments.iter().for_each(|a| to.u32(*a));
        to.u64(call.time);
        to.u32(call.bytes);
    });
    to.u64(run.lost_calls);
}

/// Takes a result.
///
/// # Errors
/// When the message is damaged.
pub fn decode_run(from: &mut Decoder<'_>) -> Result<ProgramRun, CodecError> {
    let end = if from.flag()? {
        let kind = TrapKind::from_number(from.u32()?).ok_or(CodecError("an unknown trap"))?;
        let place = if from.flag()? {
            Some(TrapPlace {
                function: from.text()?,
                function_index: from.u32()?,
                offset: from.u64()?,
            })
        } else {
            None
        };
        RunEnd::Trap(Trap { kind, place })
    } else {
        RunEnd::Exit(from.u32()?)
    };
    Ok(ProgramRun {
        end,
        standard_output: from.bytes()?,
        standard_error: from.bytes()?,
        calls: from.list(|from| {
            Ok(SystemCall {
                function: from.u32()?,
                result: from.u32()?.cast_signed(),
                arguments: [from.u32()?, from.u32()?],
                time: from.u64()?,
                bytes: from.u32()?,
            })
        })?,
        lost_calls: from.u64()?,
    })
}

/// Appends a profile that may be missing.
pub fn encode_profile(to: &mut Encoder, profile: Option<&[BlockProfile]>) {
    to.flag(profile.is_some());
    to.list(profile.unwrap_or_default(), |to, block| {
        to.u64(block.offset);
        to.u64(block.executions);
        to.u64(block.active_lanes);
    });
}

/// Takes a profile that may be missing.
///
/// # Errors
/// When the message is damaged.
pub fn decode_profile(from: &mut Decoder<'_>) -> Result<Option<Vec<BlockProfile>>, CodecError> {
    let is_there = from.flag()?;
    let blocks = from.list(|from| {
        Ok(BlockProfile {
            offset: from.u64()?,
            executions: from.u64()?,
            active_lanes: from.u64()?,
        })
    })?;
    Ok(is_there.then_some(blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> ProgramRun {
        ProgramRun {
            end: RunEnd::Trap(Trap {
                kind: TrapKind::OutputLimit,
                place: Some(TrapPlace {
                    function: "main".into(),
                    function_index: 7,
                    offset: 1 << 40,
                }),
            }),
            standard_output: b"out".to_vec(),
            standard_error: Vec::new(),
            calls: vec![SystemCall {
                function: 3,
                result: -28,
                arguments: [1, 2],
                time: 99,
                bytes: 5,
            }],
            lost_calls: 4,
        }
    }

    #[test]
    fn values_come_back() {
        let options = RunOptions {
            arguments: vec![b"a".to_vec(), Vec::new()],
            environment: vec![(b"N".to_vec(), b"v".to_vec())],
            copies: Some(9),
            ..RunOptions::default()
        };
        let input = Input {
            name: "in".into(),
            bytes: b"first".to_vec(),
            more_requests: vec![Vec::new(), b"x".to_vec()],
        };
        let mut to = Encoder::default();
        encode_options(&mut to, &options);
        encode_input(&mut to, &input);
        encode_run(&mut to, &run());
        let mut from = Decoder(&to.0);
        assert_eq!(decode_options(&mut from).unwrap(), options);
        assert_eq!(decode_input(&mut from).unwrap(), input);
        assert_eq!(decode_run(&mut from).unwrap(), run());
        from.end().unwrap();
    }

    #[test]
    fn truncated_and_damaged_messages_are_errors() {
        let mut to = Encoder::default();
        encode_run(&mut to, &run());
        for length in 0..to.0.len() {
            assert!(decode_run(&mut Decoder(&to.0[..length])).is_err(), "{length}");
        }
        let mut flag = to.0.clone();
        flag[0] = 2;
        assert_eq!(
            decode_run(&mut Decoder(&flag)),
            Err(CodecError("a truth value is neither 0 nor 1"))
        );
        let mut long = Encoder::default();
        long.u64(u64::MAX);
        assert_eq!(
            Decoder(&long.0).list(Decoder::bytes),
            Err(CodecError("a list is longer than the message"))
        );
        assert!(Decoder(&[1]).end().is_err());
    }
}
