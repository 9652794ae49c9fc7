//! Recording of a driver's work: while it grows, when it ends before the work, and when it is complete.

use crate::driver::{Driver, TRANSCFG_TABLES, memattr};
use crate::error::DriverError;
use crate::layout::AddressSpace;
use replay_engine::device::JobReport;
use trace_core::Recording;
use trace_core::container::{ContainerError, Sink, Writer};
use trace_core::recording::{self, Clock, Identity, Metadata, MmuFormat, Space, SpaceKind};

impl Driver<'_> {
    /// Ends the recording before the work ends: later actions are not recorded. Memory as it is now becomes the last
    /// state of the recording.
    ///
    /// # Errors
    /// When the device's memory cannot be read.
    pub fn end_recording(&mut self) -> Result<(), DriverError> {
        self.take_snapshot()?;
        self.recorder.end();
        self.recorded_spaces = Some(self.spaces.len());
        Ok(())
    }

    /// Returns the number of events recorded so far.
    #[must_use]
    pub fn recorded_events(&self) -> u64 {
        self.recorder.events()
    }

    /// Returns the approximate size of the recording so far, in memory and in a file, bytes.
    #[must_use]
    pub fn recorded_bytes(&self) -> u64 {
        self.recorder.byte_count()
    }

    /// Appends to a file what it does not contain yet of the recording. The metadata is the driver's, after `describe`
    /// has changed it. The file is not committed. Memory is written as the CPU left it: writes by jobs are added when
    /// the recording ends.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append_to<S: Sink>(
        &self,
        writer: &mut Writer<S>,
        describe: impl FnOnce(&mut Metadata),
    ) -> Result<(), ContainerError> {
        let mut metadata = self.metadata(self.recorder.identity().clone());
        describe(&mut metadata);
        writer.metadata(&metadata)?;
        self.recorder.append_to(writer)
    }

    /// Returns the device's reports of jobs since the last call, in the order in which the jobs ended.
    pub fn take_job_reports(&mut self) -> Vec<JobReport> {
        self.device.take_job_reports()
    }

    pub(crate) fn into_recording(mut self) -> Recording {
        let recorder = std::mem::take(&mut self.recorder);
        let (identity, events, memory) = recorder.finish();
        Recording {
            metadata: self.metadata(identity),
            events,
            memory,
            ..Recording::default()
        }
    }

    fn metadata(&self, mut identity: Identity) -> Metadata {
        identity.gpu_name.clone_from(&self.info.gpu_name);
        identity.driver = format!("driver-mali {}", env!("CARGO_PKG_VERSION"));
        identity.board.clone_from(&self.info.name);
        identity.source = "driver-mali".to_owned();
        identity.clock = if self.info.virtual_time {
            Clock::Virtual
        } else {
            Clock::Monotonic
        };
        let space = |(n, s): (usize, &AddressSpace)| recording::AddressSpace {
            number: n as u8,
            format: s.format,
            root: s.root,
            memattr: memattr(s.format),
            transcfg: match s.format {
                MmuFormat::Aarch64_4k => u64::from(TRANSCFG_TABLES),
                MmuFormat::MaliLpae | MmuFormat::Described(_) => 0,
            },
        };
        let reported = self.recorded_spaces.unwrap_or(usize::MAX);
        Metadata {
            identity,
            spaces: vec![Space {
                name: "gpu".to_owned(),
                kind: SpaceKind::Registers,
                bytes: self.info.register_bytes(),
            }],
            address_spaces: self.spaces.iter().take(reported).enumerate().map(space).collect(),
            buffers: self.buffers.clone(),
            regions: self.regions.clone(),
            source_pages: self.source_pages,
            source_zero_pages: self.source_zero_pages,
            ..Metadata::default()
        }
    }
}
