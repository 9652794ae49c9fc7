//! Passing a region's file to a peer over a Unix stream socket, with a greeting.
//!
//! On the socket: the greeting's length (a 32-bit word), the greeting, and one file descriptor with the first byte.

use crate::error::RingError;
use crate::region::Region;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Greeting of a program that passes its memory. The number is the version of what it passes.
pub const PROGRAM_GREETING: &[u8] = b"kinescope cuda 1";
/// Maximum length of a greeting, bytes.
pub const MAX_GREETING_BYTES: usize = 4 << 10;

/// Number of descriptors that the buffer for control data has space for. The second shows that there are too many.
const DESCRIPTOR_SPACE: usize = 2;

/// Sends `greeting` and the region's file over a connected Unix stream socket.
///
/// # Errors
/// [`RingError::Greeting`] if the greeting is longer than [`MAX_GREETING_BYTES`]. [`RingError::System`] if the peer has
/// ended, or a timeout of the socket passes.
pub fn pass_region(socket: impl AsFd, greeting: &[u8], region: &Region) -> Result<(), RingError> {
    pass_files(socket.as_fd(), greeting, &[region.file()])
}

/// Sends `greeting` and a file over a connected Unix stream socket. [`receive_region`] receives both.
///
/// # Errors
/// As [`pass_region`].
pub fn pass_file(socket: impl AsFd, greeting: &[u8], file: impl AsFd) -> Result<(), RingError> {
    pass_files(socket.as_fd(), greeting, &[file.as_fd()])
}

/// Sends a greeting with any number of files. Tests send other numbers than one.
pub(crate) fn pass_files(socket: BorrowedFd<'_>, greeting: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), RingError> {
    if greeting.len() > MAX_GREETING_BYTES {
        return Err(RingError::Greeting("the greeting is longer than 4 KiB; shorten it"));
    }
    let mut message = (greeting.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(greeting);
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(files).size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(RingError::Greeting("the file does not fit into the control data"));
    }
    // A peer that has ended is an error, not a signal.
    let flags = SendFlags::NOSIGNAL;
    let mut sent = retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&message)], &mut control, flags))
        .map_err(RingError::at("sending a region"))?;
    while let Some(rest) = message.get(sent..).filter(|rest| !rest.is_empty()) {
        sent += retry_on_intr(|| send(socket, rest, flags)).map_err(RingError::at("sending a greeting"))?;
    }
    Ok(())
}

/// Receives a greeting and the file of a region from a connected Unix stream socket. The file is closed on `exec`.
///
/// It takes no byte after the greeting from the socket. The caller sets the socket's read timeout.
///
/// # Errors
/// [`RingError::Greeting`] if the greeting is too long or incomplete, or does not come with exactly one file; received
/// files are closed. [`RingError::System`] if the operating system refuses, or the read timeout passes.
pub fn receive_region(socket: impl AsFd) -> Result<(Vec<u8>, OwnedFd), RingError> {
    let socket = socket.as_fd();
    let mut file = None;
    let mut length = [0; 4];
    receive_bytes(socket, &mut length, &mut file)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_GREETING_BYTES {
        return Err(RingError::Greeting("the peer's greeting is longer than 4 KiB"));
    }
    let mut greeting = vec![0; length];
    receive_bytes(socket, &mut greeting, &mut file)?;
    let file = file.ok_or(RingError::Greeting("the peer's greeting came without a file"))?;
    Ok((greeting, file))
}

/// Fills `bytes` from the socket, and stores a file that comes with them in `file`.
fn receive_bytes(socket: BorrowedFd<'_>, bytes: &mut [u8], file: &mut Option<OwnedFd>) -> Result<(), RingError> {
    let mut received = 0;
    while let Some(rest) = bytes.get_mut(received..).filter(|rest| !rest.is_empty()) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_SPACE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = retry_on_intr(|| {
            recvmsg(
                socket,
                &mut [IoSliceMut::new(rest)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })
        .map_err(RingError::at("receiving a region"))?;
        // All files are taken before a check can fail, so that the surplus is closed.
        let mut files = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(part) = part {
                files.extend(part);
            }
        }
        if message.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
            return Err(RingError::Greeting(
                "the peer's control data is truncated; expected one file on a stream",
            ));
        }
        for one in files {
            if file.replace(one).is_some() {
                return Err(RingError::Greeting("the peer's greeting came with more than one file"));
            }
        }
        if message.bytes == 0 {
            return Err(RingError::Greeting(
                "the peer closed the socket before the end of its greeting",
            ));
        }
        received += message.bytes;
    }
    Ok(())
}
