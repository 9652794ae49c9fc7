//! The socket from a parent to its worker process: messages, each with at most one file.

use crate::worker_protocol::ParentMessage;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Maximum size of a message, bytes: two paths, and numbers.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Creates the two ends of a socket: the parent's, and the standard input of the worker.
///
/// # Errors
/// If the operating system refuses.
pub(crate) fn create_socket_pair() -> Result<(OwnedFd, OwnedFd)> {
    // A packet is a whole message.
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok(pair)
}

/// Sends a message, with its file.
///
/// # Errors
/// If the message is too long, or the worker has ended.
pub(crate) fn send_message(to: impl AsFd, message: &ParentMessage, file: Option<BorrowedFd<'_>>) -> Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Error::new(ErrorKind::InvalidInput, "the request is too long"));
    }
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(Error::new(ErrorKind::InvalidInput, "the file cannot be sent"));
    }
    // A worker that has ended is an error, not a signal.
    sendmsg(to, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the next message and its file, or returns `None` if the parent has closed its end.
///
/// # Errors
/// If it is not a message, it does not come within the limit of [`limit_wait`], or the input is not a socket.
pub(crate) fn receive_message(from: impl AsFd) -> Result<Option<(ParentMessage, Option<OwnedFd>)>> {
    let mut text = vec![0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| {
        let mut to = [IoSliceMut::new(&mut text)];
        recvmsg(&from, &mut to, &mut control, flags)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().last();
    let text = text.get(..received.bytes).unwrap_or_default();
    Ok(Some((serde_json::from_slice(text)?, file)))
}

/// Limits the time that [`receive_message`] waits; `None`: no limit.
///
/// # Errors
/// If the input is not a socket.
pub(crate) fn limit_wait(socket: impl AsFd, limit: Option<Duration>) -> Result<()> {
    Ok(set_socket_timeout(socket, Timeout::Recv, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_file::{SealedMap, create_sealed};
    use crate::worker_protocol::Request;
    use std::io::Write as _;

    #[test]
    fn messages_arrive_with_their_files() {
        let (parent, worker) = create_socket_pair().unwrap();
        let open = ParentMessage::Open {
            gpu: 2,
            control: 1 << 39,
        };
        let request = ParentMessage::Play(Request {
            outputs: "/tmp".into(),
            repeat: 3,
            ..Request::default()
        });
        let file = create_sealed(|file| file.write_all(b"steps")).unwrap();
        send_message(&parent, &open, None).unwrap();
        send_message(&parent, &request, Some(file.as_fd())).unwrap();
        let (first, no_file) = receive_message(&worker).unwrap().unwrap();
        assert!(first == open && no_file.is_none());
        let (second, file) = receive_message(&worker).unwrap().unwrap();
        assert_eq!(second, request);
        assert_eq!(*SealedMap::new(file.unwrap()).unwrap(), *b"steps");
        drop(parent);
        assert!(receive_message(&worker).unwrap().is_none());
    }

    #[test]
    fn odd_messages_are_errors() {
        let (parent, worker) = create_socket_pair().unwrap();
        let mut control = SendAncillaryBuffer::default();
        sendmsg(&parent, &[IoSlice::new(b"{}")], &mut control, SendFlags::empty()).unwrap();
        assert_eq!(receive_message(&worker).unwrap_err().kind(), ErrorKind::InvalidData);
        let long = ParentMessage::Play(Request {
            outputs: "x".repeat(MAX_MESSAGE_BYTES).into(),
            ..Request::default()
        });
        assert!(send_message(&parent, &long, None).is_err());
        limit_wait(&worker, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(receive_message(&worker).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(worker);
        let gone = send_message(&parent, &ParentMessage::Images, None);
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
