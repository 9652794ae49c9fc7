//! A confined process: what it can still do, and what the kernel refuses. It runs in a process of its own, since a
//! confinement lasts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use remote_worker::{confine, enter_namespaces};
use std::fs::{File, read, write};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// Variable that says that this process is the confined one: the folder in which it may write.
const FOLDER: &str = "KINESCOPE_TEST_CONFINED";

#[test]
fn confined_process_reaches_neither_network_nor_programs_nor_files() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return check_confined(Path::new(&folder));
    }
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(outside.path().join("old"), "old").unwrap();
    let name = "confined_process_reaches_neither_network_nor_programs_nor_files";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", name])
        .env(FOLDER, inside.path())
        .env("OUTSIDE", outside.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    assert_eq!(read(inside.path().join("new")).unwrap(), b"new");
}

/// A process without threads, as a worker is at its start: the test's own executable starts it with one.
#[test]
fn process_in_namespaces_has_no_network_and_keeps_its_user() {
    const INSIDE: &str = "KINESCOPE_TEST_SEPARATED";
    let links =
        || ["net", "ipc", "mnt", "pid"].map(|kind| std::fs::read_link(format!("/proc/thread-self/ns/{kind}")).unwrap());
    let user = || rustix::process::geteuid().as_raw();
    if std::env::var_os(INSIDE).is_some() {
        let (before, user_before) = (links(), user());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let Err(e) = enter_namespaces() else {
            let after = links();
            assert!(before[0] != after[0] && before[1] != after[1], "{after:?}");
            assert_eq!(before[2..], after[2..]);
            assert_eq!(user(), user_before);
            // The listener is outside, where no connection leads to.
            TcpStream::connect(listener.local_addr().unwrap()).expect_err("a connection");
            assert!(UnixStream::pair().is_ok() && read("/dev/null").unwrap().is_empty());
            return;
        };
        assert_eq!(links(), before);
        println!("skipped: the system refuses namespaces: {e}");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg("process_in_namespaces_has_no_network_and_keeps_its_user")
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    if let Some(why) = text.lines().find(|line| line.contains("skipped: ")) {
        println!("{why}");
    }
}

fn check_confined(folder: &Path) {
    let refused = |result: std::io::Result<()>, what: &str| {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
    };
    // Open before: a connection stays open.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let confinement = confine(&[folder.to_owned()]).unwrap();
    refused(Command::new("/bin/true").status().map(drop), "a program");
    refused(
        TcpStream::connect(listener.local_addr().unwrap()).map(drop),
        "a connection",
    );
    refused(TcpListener::bind("127.0.0.1:0").map(drop), "a listener");
    refused(UdpSocket::bind("127.0.0.1:0").map(drop), "a datagram socket");
    // Files are read, threads start, sockets of this machine open.
    assert!(!read("/etc/passwd").unwrap().is_empty());
    std::thread::spawn(|| UnixStream::pair().unwrap()).join().unwrap();
    write(folder.join("new"), "new").unwrap();
    let outside = std::env::var_os("OUTSIDE").unwrap();
    let outside = Path::new(&outside);
    // A kernel without Landlock does not refuse these.
    if confinement.files {
        refused(write(outside.join("new"), "new"), "a new file");
        refused(
            File::options().append(true).open(outside.join("old")).map(drop),
            "a file",
        );
        refused(std::fs::remove_file(outside.join("old")), "a removal");
    } else {
        println!("skipped: this kernel has no Landlock");
    }
}
