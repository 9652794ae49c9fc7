//! Tests of opening files, passing them to a process, and the life of a peer.

use super::{SMALL, message};
use crate::region_passing::pass_files;
use crate::*;
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Returns a memory file of `bytes` bytes that begins with `header` and has `seals`.
fn create_file(flags: MemfdFlags, header: &[u8], bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = rustix::fs::memfd_create("test", flags | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::io::pwrite(&file, header, 0).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

#[test]
fn files_that_are_no_safe_regions_are_refused() {
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let (header, size) = (SMALL.encode(), SMALL.total_bytes());
    let altered = |at: usize, byte: u8| {
        let mut header = header;
        header[at] = byte;
        header
    };
    let cases = [
        (header, size, SealFlags::empty(), "the set of size seals"),
        (header, size, SealFlags::SHRINK, "the set of size seals"),
        (header, size, SealFlags::GROW, "the set of size seals"),
        (header, size - 4096, sealed, "the size is"),
        (header, size + 4096, sealed, "the size is"),
        (altered(0, b'X'), size, sealed, "the magic number"),
        (altered(8, 2), size, sealed, "the version is 0x2"),
        (altered(21, 1), size, sealed, "the reserved word"),
        (altered(13, 0), size, sealed, "request_bytes is 0"),
        (altered(15, 0x80), size, sealed, "request_bytes"),
        (altered(19, 0x02), size, sealed, "answer_bytes"),
        (altered(24, 1), size, sealed, "staging_bytes"),
        (altered(31, 0xff), size, sealed, "staging_bytes"),
        // The mapping would not be writable.
        (header, size, sealed | SealFlags::WRITE, "mapping a region"),
    ];
    let open = |header: &[u8], size, seals| Region::open(create_file(MemfdFlags::CLOEXEC, header, size, seals));
    assert!(open(&header, size, sealed).is_ok());
    for (header, size, seals, expected) in cases {
        let error = open(&header, size, seals).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let error = open(&[], 8, sealed).unwrap_err().to_string();
    assert!(error.contains("the header's size"), "{error}");
    let pipe = std::io::pipe().unwrap().0;
    assert!(matches!(Region::open(pipe.into()), Err(RingError::System { .. })));
    let huge = rustix::fs::memfd_create("test", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING);
    // Some kernels have no huge pages.
    if let Ok(huge) = huge {
        rustix::fs::fcntl_add_seals(&huge, sealed).unwrap();
        let error = Region::open(huge).unwrap_err().to_string();
        assert!(error.contains("the file system"), "{error}");
    }
    let layout = RegionLayout {
        staging_bytes: MAX_STAGING_BYTES + 4096,
        ..SMALL
    };
    assert!(matches!(Region::create(layout), Err(RingError::Layout { .. })));
}

#[test]
fn the_size_of_a_region_is_sealed() {
    let region = Region::create(SMALL).unwrap();
    for size in [0, 4096, SMALL.total_bytes() + 1] {
        assert_eq!(rustix::fs::ftruncate(region.file(), size), Err(rustix::io::Errno::PERM));
    }
}

#[test]
fn a_region_passes_over_a_socket() {
    let (client, worker) = UnixStream::pair().unwrap();
    let region = Region::create(SMALL).unwrap();
    region.copy_to_staging(0, b"shared").unwrap();
    for greeting in [&b"hello"[..], &[], &[1; MAX_GREETING_BYTES]] {
        pass_region(&client, greeting, &region).unwrap();
        rustix::net::send(&client, b"after", rustix::net::SendFlags::empty()).unwrap();
        let (received, file) = receive_region(&worker).unwrap();
        assert_eq!(received, greeting);
        assert!(
            rustix::io::fcntl_getfd(&file)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
        let opened = Region::open(file).unwrap();
        let mut bytes = [0; 6];
        opened.copy_from_staging(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"shared");
        let mut after = [0; 16];
        let (_, count) = rustix::net::recv(&worker, &mut after, rustix::net::RecvFlags::empty()).unwrap();
        assert_eq!(&after[..count], b"after");
    }
}

#[test]
fn greetings_with_other_numbers_of_files_are_refused() {
    let region = Region::create(SMALL).unwrap();
    let send_files = |count: usize, expected: &str| {
        let (client, worker) = UnixStream::pair().unwrap();
        let (pipe_reader, pipe_writer) = std::io::pipe().unwrap();
        let files: Vec<BorrowedFd<'_>> = (0..count).map(|_| pipe_writer.as_fd()).collect();
        pass_files(client.as_fd(), b"hello", &files).unwrap();
        drop(pipe_writer);
        let error = receive_region(&worker).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        // All copies of the writing end were closed, so that the pipe has ended.
        assert_eq!(rustix::io::read(&pipe_reader, &mut [0u8; 1]), Ok(0));
    };
    send_files(0, "without a file");
    send_files(2, "more than one file");
    send_files(200, "truncated");
    let (client, worker) = UnixStream::pair().unwrap();
    assert!(pass_region(&client, &[0; MAX_GREETING_BYTES + 1], &region).is_err());
    rustix::net::send(&client, &5000u32.to_le_bytes(), rustix::net::SendFlags::empty()).unwrap();
    assert!(receive_region(&worker).unwrap_err().to_string().contains("longer"));
    rustix::net::send(&client, &[9, 0, 0, 0, 1], rustix::net::SendFlags::empty()).unwrap();
    drop(client);
    assert!(receive_region(&worker).unwrap_err().to_string().contains("closed"));
    assert!(pass_region(&worker, b"hello", &region).is_err());
}

#[test]
fn a_socket_peer_is_alive_until_it_closes() {
    let (here, there) = UnixStream::pair().unwrap();
    let peer = SocketPeer::new(&here);
    assert!(peer.is_alive());
    rustix::net::send(&there, b"unread", rustix::net::SendFlags::empty()).unwrap();
    assert!(peer.is_alive());
    drop(there);
    assert!(!peer.is_alive());
    let (here, there) = UnixStream::pair().unwrap();
    there.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(!SocketPeer::new(here).is_alive());
}

/// Names the variable that makes `answer_as_child` answer; its value does not matter.
const CHILD_VARIABLE: &str = "REMOTE_RING_CHILD";

/// The child of the next test: it answers each request with the reversed bytes, from the staging area and back.
#[test]
#[ignore = "the next test starts it in a child process"]
fn answer_as_child() {
    if std::env::var_os(CHILD_VARIABLE).is_none() {
        return;
    }
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (greeting, file) = receive_region(&socket).unwrap();
    let region = Arc::new(Region::open(file).unwrap());
    let (mut answers, mut requests) = region.worker_ends().unwrap();
    let peer = SocketPeer::new(&socket);
    let mut bytes = Vec::new();
    while requests.read(&mut bytes, Wait::Forever, &peer).unwrap() && bytes != greeting {
        bytes.reverse();
        region.copy_to_staging(64, &bytes).unwrap();
        answers.write(&[&bytes], &peer).unwrap();
    }
    std::process::exit(9);
}

#[test]
fn a_child_process_answers_and_its_end_is_noticed() {
    let (here, there) = UnixStream::pair().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::passing::answer_as_child", "--ignored", "--nocapture"])
        .env(CHILD_VARIABLE, "1")
        .stdin(Stdio::from(OwnedFd::from(there)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let region = Arc::new(Region::create(SMALL).unwrap());
    pass_region(&here, b"end", &region).unwrap();
    let (mut requests, mut answers) = region.client_ends().unwrap();
    let peer = SocketPeer::new(&here);
    let mut bytes = Vec::new();
    for number in 0..2000 {
        let mut sent = message(number, 1 + number % 900);
        requests.write(&[&sent], &peer).unwrap();
        assert!(answers.read(&mut bytes, Wait::Forever, &peer).unwrap());
        sent.reverse();
        assert!(bytes == sent, "message {number}");
        let mut staged = vec![0; sent.len()];
        region.copy_from_staging(64, &mut staged).unwrap();
        assert!(staged == sent, "message {number}");
    }
    requests.write(&[b"end"], &peer).unwrap();
    let error = answers.read(&mut bytes, Wait::Forever, &peer).unwrap_err();
    assert!(
        matches!(
            error,
            RingError::PeerGone {
                ring: RingName::Answer,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(child.wait().unwrap().code(), Some(9));
}
