//! Waveforms in two passes: the first finds the signals, the second writes their changes.

use crate::changes::{ChangeSink, Key, Value, walk};
use crate::names::{Signal, signals};
use crate::{ExportSummary, MAX_SIGNALS, Source, WavesError};
use std::collections::{BTreeMap, HashMap};
use trace_core::progress::Progress;

/// The writer of a waveform's body, after its signals are declared.
pub(crate) trait Body {
    fn time(&mut self, time: u64) -> Result<(), WavesError>;
    /// Writes the values of all signals at the start of the file, at the current time.
    fn initial_values(&mut self, signals: &[Signal]) -> Result<(), WavesError>;
    /// Writes a change of a signal, given by its index in the declared list.
    fn change(&mut self, signal: usize, bits: u32, value: Value) -> Result<(), WavesError>;
    /// Writes a text at the current time, if the format supports it.
    fn note(&mut self, _text: &str) -> Result<(), WavesError> {
        Ok(())
    }
}

/// Formats the bits of a value for waveforms, the highest first.
pub(crate) fn spell(bits: u32, value: Value, out: &mut Vec<u8>) {
    out.clear();
    out.extend(
        (0..bits)
            .rev()
            .map(|n| match (value.known >> n & 1, value.bits >> n & 1) {
                (0, _) => b'x',
                (_, 0) => b'0',
                _ => b'1',
            }),
    );
}

#[derive(Default)]
struct SignalFinder {
    /// Maximum number of bits of each signal.
    found: BTreeMap<Key, u32>,
}

impl ChangeSink for SignalFinder {
    fn event(&mut self, _: usize, _: u64) -> Result<(), WavesError> {
        Ok(())
    }

    fn admit(&mut self, key: Key, bits: u32) -> bool {
        if let Some(max) = self.found.get_mut(&key) {
            *max = bits.max(*max);
        } else if self.found.len() < MAX_SIGNALS {
            self.found.insert(key, bits);
        } else {
            return false;
        }
        true
    }

    fn change(&mut self, key: Key, bits: u32, _: Value) -> Result<(), WavesError> {
        self.admit(key, bits);
        Ok(())
    }
}

/// Finds the signals of the selected events, by scope.
pub(crate) fn find(source: &Source<'_>, progress: &Progress) -> Result<Vec<Signal>, WavesError> {
    let mut find = SignalFinder::default();
    // Readers require a signal in every file, even an empty one.
    find.found.insert(Key::Event, 64);
    walk(source, progress, &mut find)?;
    Ok(signals(source.recording, find.found.into_iter()))
}

struct WaveformWriter<'a> {
    source: &'a Source<'a>,
    places: HashMap<Key, (usize, u32)>,
    time: Option<u64>,
    event: usize,
    left_out: Option<usize>,
    missed: u64,
    body: &'a mut dyn Body,
}

impl ChangeSink for WaveformWriter<'_> {
    fn known_signals(&self) -> Vec<(Key, u32)> {
        self.places.iter().map(|(key, (_, bits))| (*key, *bits)).collect()
    }

    fn event(&mut self, event: usize, time: u64) -> Result<(), WavesError> {
        self.event = event;
        if self.time != Some(time) {
            self.time = Some(time);
            self.body.time(time)?;
        }
        Ok(())
    }

    fn admit(&mut self, key: Key, _: u32) -> bool {
        let there = self.places.contains_key(&key);
        if !there && self.left_out != Some(self.event) {
            self.left_out = Some(self.event);
            self.missed += 1;
        }
        there
    }

    fn change(&mut self, key: Key, bits: u32, value: Value) -> Result<(), WavesError> {
        match self.places.get(&key) {
            Some((place, bits)) => self.body.change(*place, *bits, value)?,
            None => {
                self.admit(key, bits);
            }
        }
        if key == Key::Marks {
            let events = &self.source.recording.events;
            let row = events.payload.get(self.event).unwrap_or(0) as usize;
            if let Some(text) = events.marks.get(row) {
                self.body.note(text)?;
            }
        }
        Ok(())
    }
}

/// Writes the changes of the signals found by [`find`].
pub(crate) fn write(
    source: &Source<'_>,
    signals: &[Signal],
    progress: &Progress,
    body: &mut dyn Body,
) -> Result<ExportSummary, WavesError> {
    let begin = source.begin();
    body.time(begin)?;
    body.initial_values(signals)?;
    let place = |(n, s): (usize, &Signal)| (s.key, (n, s.bits));
    let mut write = WaveformWriter {
        source,
        places: signals.iter().enumerate().map(place).collect(),
        time: Some(begin),
        event: 0,
        left_out: None,
        missed: 0,
        body,
    };
    let done = walk(source, progress, &mut write)?;
    Ok(ExportSummary {
        signals: signals.len() as u64,
        left_out: write.missed,
        ..done
    })
}

/// Calls `scope` and `up` where scopes start and end between two signals, and `signal` for each signal.
pub(crate) fn declare<E>(
    signals: &[Signal],
    mut to: impl FnMut(DeclarationLine<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut open: Vec<&str> = Vec::new();
    for signal in signals {
        let same = open.iter().zip(&signal.scopes).take_while(|(a, b)| *a == b).count();
        for _ in same..open.len() {
            to(DeclarationLine::Up)?;
        }
        open.truncate(same);
        for scope in signal.scopes.iter().skip(same) {
            to(DeclarationLine::Scope(scope))?;
            open.push(scope);
        }
        to(DeclarationLine::Signal(signal))?;
    }
    open.iter().try_for_each(|_| to(DeclarationLine::Up))
}

/// A line of a waveform's list of signals.
pub(crate) enum DeclarationLine<'a> {
    Scope(&'a str),
    Up,
    Signal(&'a Signal),
}
