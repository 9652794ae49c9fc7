//! Waveforms as FST: compressed in blocks, read by GTKWave and Surfer.

use crate::changes::Value;
use crate::names::Signal;
use crate::sink::{Body, DeclarationLine, declare, find, spell, write};
use crate::{ExportSummary, Source, WavesError};
use fst_writer::{FstBodyWriter, FstFileType, FstHeaderWriter, FstInfo, FstScopeType, FstSignalId, FstSignalType};
use fst_writer::{FstVarDirection, FstVarType};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use trace_core::progress::Progress;

/// Number of bytes of changes that are buffered before they become a block.
const BLOCK: usize = 32 << 20;

/// Offset of the start time in the header: after the block kind and length.
const BEGIN: u64 = 9;

/// Writes an FST file; times are nanoseconds. Its header is known last, so the file is built in an unnamed temporary
/// file and then copied.
///
/// # Errors
///
/// When `to` or the temporary file cannot be written, or the work is cancelled.
pub fn fst(source: &Source<'_>, to: &mut dyn Write, progress: &Progress) -> Result<ExportSummary, WavesError> {
    let signals = find(source, progress)?;
    let info = FstInfo {
        start_time: 0,
        timescale_exponent: -9,
        version: format!("Kinescope {}", env!("CARGO_PKG_VERSION")),
        date: String::new(),
        file_type: FstFileType::Verilog,
    };
    let mut head = FstHeaderWriter::new(BufWriter::new(tempfile::tempfile()?), &info)?;
    let mut ids = Vec::with_capacity(signals.len());
    declare(&signals, |line| -> Result<(), WavesError> {
        match line {
            DeclarationLine::Scope(name) => head.scope(name, "", FstScopeType::Module)?,
            DeclarationLine::Up => head.up_scope()?,
            DeclarationLine::Signal(s) => {
                let kind = if s.bits == 1 { FstVarType::Wire } else { FstVarType::Reg };
                let bits = FstSignalType::bit_vec(s.bits);
                ids.push(head.var(&s.name, bits, kind, FstVarDirection::Implicit, None)?);
            }
        }
        Ok(())
    })?;
    let mut body = FstBody {
        to: head.finish()?,
        pending: vec![None; ids.len()],
        changed: Vec::new(),
        ids,
        digits: Vec::new(),
        latest: 0,
    };
    let done = write(source, &signals, progress, &mut body)?;
    body.settle()?;
    if body.latest == 0 {
        // Readers need a time after the start in every file.
        body.time(1)?;
    }
    let mut file = body.to.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Viewers show a file from its start time: a clock that counts since boot leaves no empty range. Viewers add the
    // writer's own start to every time.
    file.seek(SeekFrom::Start(BEGIN))?;
    file.write_all(&source.begin().to_be_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file, to)?;
    Ok(done)
}

struct FstBody {
    to: FstBodyWriter<BufWriter<File>>,
    ids: Vec<FstSignalId>,
    /// Pending value of each signal that changed at the current time. Of several values at one time only the last is
    /// visible, and a block only ends when time advances. Without this buffer a block would grow while time stands
    /// still.
    pending: Vec<Option<(u32, Value)>>,
    /// Signals with a pending value, in the order of their first change.
    changed: Vec<usize>,
    digits: Vec<u8>,
    latest: u64,
}

impl FstBody {
    /// Writes the changes of the time that has passed.
    fn settle(&mut self) -> Result<(), WavesError> {
        for signal in self.changed.drain(..) {
            let value = self.pending.get_mut(signal).and_then(Option::take);
            if let (Some((bits, value)), Some(id)) = (value, self.ids.get(signal)) {
                spell(bits, value, &mut self.digits);
                self.to.signal_change(*id, &self.digits)?;
            }
        }
        Ok(())
    }
}

impl Body for FstBody {
    fn time(&mut self, time: u64) -> Result<(), WavesError> {
        self.settle()?;
        self.latest = time;
        if self.to.size() > BLOCK {
            self.to.flush()?;
        }
        Ok(self.to.time_change(time)?)
    }

    // Readers show signals without a value as unknown, so only known values are written.
    fn initial_values(&mut self, signals: &[Signal]) -> Result<(), WavesError> {
        for (n, signal) in signals.iter().enumerate() {
            let value = signal.key.initial_value();
            if value.is_known(signal.bits) {
                self.change(n, signal.bits, value)?;
            }
        }
        Ok(())
    }

    fn change(&mut self, signal: usize, bits: u32, value: Value) -> Result<(), WavesError> {
        if let Some(pending) = self.pending.get_mut(signal)
            && pending.replace((bits, value)).is_none()
        {
            self.changed.push(signal);
        }
        Ok(())
    }
}
