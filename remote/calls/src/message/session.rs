//! Start of a session: what the client announces, and what the worker says about its devices.

use crate::{Decoder, Encoder, MessageError};

/// Maximum number of devices of a worker.
pub const MAX_DEVICES: u32 = 64;
/// Maximum number of a device attribute. CUDA 13.0 ends at 145.
pub const MAX_ATTRIBUTE: u32 = 255;

/// The first request of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginSession<'m> {
    /// Digest of the client's table, see [`crate::TABLE_DIGEST`].
    pub table: u64,
    /// Name of the program, for lists of clients.
    pub program: &'m str,
    /// Process of the program, on its own machine.
    pub process: u32,
}

impl<'m> BeginSession<'m> {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.table);
        encoder.write(self.process);
        encoder.write_bytes(self.program.as_bytes());
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            table: decoder.read()?,
            process: decoder.read()?,
            program: decoder.read_text()?,
        })
    }
}

/// A device, as it was at the start of the session. Everything here is constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// Name.
    pub name: String,
    /// Memory, bytes.
    pub total_bytes: u64,
    /// UUID.
    pub uuid: [u8; 16],
    /// Attributes by their numbers in `CUdevice_attribute`; `None` for those that the driver does not know.
    pub attributes: Vec<Option<i32>>,
}

/// What is constant of the worker's driver and its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Version of the driver API that the driver supports, as `cuDriverGetVersion` returns it.
    pub driver_version: i32,
    /// A relay stands between program and worker: memory that both map has to travel.
    pub is_relayed: bool,
    /// Devices by their ordinals.
    pub devices: Vec<DeviceSnapshot>,
}

impl Snapshot {
    /// Appends the snapshot to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.driver_version);
        encoder.write(u8::from(self.is_relayed));
        encoder.write(self.devices.len() as u32);
        for device in &self.devices {
            encoder.write_bytes(device.name.as_bytes());
            encoder.write(device.total_bytes);
            encoder.write_raw(&device.uuid);
            encoder.write(device.attributes.len() as u32);
            for attribute in &device.attributes {
                encoder.write(u8::from(attribute.is_some()));
                encoder.write(attribute.unwrap_or(0));
            }
        }
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// If the answer is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let driver_version = decoder.read()?;
        let is_relayed = decoder.read::<u8>()? != 0;
        let count = read_count(decoder, "the list of devices", MAX_DEVICES)?;
        let mut devices = Vec::new();
        for _ in 0..count {
            let name = decoder.read_text()?.to_owned();
            let total_bytes = decoder.read()?;
            let mut uuid = [0; 16];
            uuid.copy_from_slice(decoder.read_raw(16)?);
            let count = read_count(decoder, "the list of device attributes", MAX_ATTRIBUTE + 1)?;
            let mut attributes = Vec::new();
            for _ in 0..count {
                let is_known: u8 = decoder.read()?;
                let value = decoder.read()?;
                attributes.push((is_known != 0).then_some(value));
            }
            devices.push(DeviceSnapshot {
                name,
                total_bytes,
                uuid,
                attributes,
            });
        }
        Ok(Self {
            driver_version,
            is_relayed,
            devices,
        })
    }
}

/// Reads a number of elements that is at most `limit`.
pub(super) fn read_count(decoder: &mut Decoder<'_>, what: &'static str, limit: u32) -> Result<u32, MessageError> {
    let at = decoder.offset();
    let count: u32 = decoder.read()?;
    if count > limit {
        return Err(MessageError::TooLong {
            what,
            count: count.into(),
            limit: limit.into(),
            at,
        });
    }
    Ok(count)
}
