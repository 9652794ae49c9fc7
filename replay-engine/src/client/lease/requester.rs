//! The request for a lease: taking a device, and taking it again after the lease was preempted.

use crate::client::connection::Connection;
use crate::client::error::{ClientError, Stage};
use crate::device::DeviceInfo;
use crate::lease_options::{LeaseOptions, PREEMPTION_VERSION, Preemption};
use crate::wire::Topic;
use crate::wire::message::{LeaseReply, LeaseRequest};
use trace_core::progress::Progress;

/// A granted lease.
#[derive(Debug)]
pub(in crate::client) struct GrantedLease {
    /// The device.
    pub info: DeviceInfo,
    /// The lease that was preempted for it.
    pub preempted: Option<Preemption>,
}

/// How a client requests leases.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct LeaseRequester {
    /// Protocol version of the connection.
    pub version: u16,
    /// The options.
    pub options: LeaseOptions,
}

impl LeaseRequester {
    /// Takes a device. While the client that holds it yields, this waits.
    ///
    /// # Errors
    /// If the agent has no such device, it is held or out of order, or the wait is cancelled.
    pub fn take(
        &self,
        connection: &Connection,
        device: &str,
        progress: &Progress,
    ) -> Result<GrantedLease, ClientError> {
        let is_old = self.version < PREEMPTION_VERSION;
        // No other client preempts a lease of an old agent.
        let is_plain = is_old || self.options == LeaseOptions::default();
        if is_old && self.options.priority > 0 {
            return Err(ClientError::Version(format!(
                "the agent supports no priorities of leases (it has protocol version {}, they need version \
                 {PREEMPTION_VERSION}); update the agent",
                self.version
            )));
        }
        loop {
            let device = device.to_owned();
            let request = match is_plain {
                true => LeaseRequest::Take(device.clone()),
                false => LeaseRequest::TakeAs {
                    device: device.clone(),
                    options: self.options,
                },
            };
            connection.send(Stage::Lease, Topic::Lease, &request)?;
            let (info, preempted) = match connection.message(Stage::Lease, Topic::Lease)? {
                LeaseReply::Granted(info) => (info, None),
                LeaseReply::GrantedByPreemption { info, preempted } => (info, Some(preempted)),
                LeaseReply::Yielding { .. } if progress.check().is_ok() => continue,
                LeaseReply::Yielding { .. } => return Err(ClientError::Cancelled),
                LeaseReply::NoDevice { known } => {
                    let known = known.join(", ");
                    return Err(ClientError::NoDevice { device, known });
                }
                LeaseReply::Busy { holder, since_s } => {
                    return Err(ClientError::Busy {
                        device,
                        holder,
                        since_s,
                    });
                }
                LeaseReply::OutOfOrder(reason) => return Err(ClientError::OutOfOrder { device, reason }),
                LeaseReply::Accepted => {
                    let what = "it accepts a request that was not sent";
                    return Err(connection.protocol_error(Stage::Lease, what));
                }
            };
            return Ok(GrantedLease { info: *info, preempted });
        }
    }

    /// Takes a device again after the lease was preempted. Waits while other clients hold it.
    ///
    /// # Errors
    /// Like [`Self::take`], but not because another client holds the device.
    pub fn take_again(
        &self,
        connection: &Connection,
        device: &str,
        progress: &Progress,
    ) -> Result<GrantedLease, ClientError> {
        loop {
            match self.take(connection, device, progress) {
                // The agent itself has waited for a moment.
                Err(ClientError::Busy { .. }) if progress.check().is_ok() => {}
                Err(ClientError::Busy { .. }) => return Err(ClientError::Cancelled),
                taken => return taken,
            }
        }
    }
}
