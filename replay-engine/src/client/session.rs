//! A connection to an agent: its identity and its devices.

use super::connection::{Connection, wire_error_at};
use super::error::{ClientError, Stage};
use super::lease::{Lease, LeaseRequester};
use crate::device::DeviceInfo;
use crate::lease_options::LeaseOptions;
use crate::serve::Server;
use crate::wire::message::{DeviceState, SessionReply};
use crate::wire::{
    CallsRoute, Channel, HANDSHAKE_LIMIT, HOW_TO_PAIR, KeyPair, KeyStore, Limits, Preamble, PreambleWord, PublicKey,
    Stream, Topic, WAITING_FRAMES, WRITE_LIMIT, WireError, describe_mismatch, start_reader,
};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// The reason why an agent does not pair with this client now, but may later.
pub(super) const OTHER_CLIENT: &str = "the agent waits for the confirmation of another client, two minutes at most; \
                                       pair again after that";

/// Maximum time to establish a TCP connection.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// The address of an agent.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// In this process: the same protocol over a pair of sockets.
    InProcess(Server),
    /// `HOST:PORT`.
    Tcp(String),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Parses an address as [`Endpoint::address`] writes it. An address with a `/` is a path. A host without a port
    /// gets [`crate::wire::DEFAULT_PORT`].
    #[must_use]
    pub fn parse(address: &str) -> Self {
        if address.contains('/') {
            return Self::Unix(PathBuf::from(address));
        }
        let has_port = match address.rsplit_once(':') {
            Some((host, port)) => {
                port.bytes().all(|b| b.is_ascii_digit()) && (host.ends_with(']') || !host.contains(':'))
            }
            None => false,
        };
        Self::Tcp(if has_port {
            address.to_owned()
        } else if address.contains(':') && !address.starts_with('[') {
            format!("[{address}]:{}", crate::wire::DEFAULT_PORT)
        } else {
            format!("{address}:{}", crate::wire::DEFAULT_PORT)
        })
    }

    /// Returns the address as the user writes it.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::InProcess(_) => "this process".to_owned(),
            Self::Tcp(address) => address.clone(),
            Self::Unix(path) => path.display().to_string(),
        }
    }

    fn dial(&self, limit: Duration) -> Result<Stream, ClientError> {
        let away = |e: &dyn std::fmt::Display| ClientError::Unreachable {
            address: self.address(),
            reason: e.to_string(),
        };
        match self {
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).map_err(|e| away(&e))?)),
            Self::InProcess(_) => Err(away(&"an agent in this process has no address to connect to")),
            Self::Tcp(address) => {
                let mut last = away(&"its name has no address");
                for at in address.to_socket_addrs().map_err(|e| away(&e))? {
                    match TcpStream::connect_timeout(&at, limit.min(DIAL_LIMIT)) {
                        Ok(s) => return Ok(Stream::Tcp(s)),
                        Err(e) => last = away(&e),
                    }
                }
                Err(last)
            }
        }
    }
}

/// Exchanges the preamble and performs the handshake with an agent. `accept` checks the agent's key before this end
/// sends its own.
pub(super) fn establish(
    mut stream: Stream,
    own: &KeyPair,
    address: &str,
    word: PreambleWord,
    limit: Duration,
    accept: impl FnOnce(PublicKey) -> Result<(), ClientError>,
) -> Result<Channel, ClientError> {
    let by = Instant::now() + limit.min(HANDSHAKE_LIMIT);
    let odd = |reason: &dyn std::fmt::Display| ClientError::NotAnAgent {
        address: address.to_owned(),
        reason: reason.to_string(),
    };
    stream
        .set_limits(HANDSHAKE_LIMIT, WRITE_LIMIT)
        .map_err(|e| wire_error_at(Stage::Reach, e.into()))?;
    let ours = Preamble::new(word);
    // An agent without capacity says so and does not read what it is sent.
    let sent = ours.send(&mut stream);
    let (theirs, their_bytes) = Preamble::receive(&mut stream, by).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => odd(&e),
        std::io::ErrorKind::UnexpectedEof => odd(&"it closed the connection at once"),
        std::io::ErrorKind::TimedOut => odd(&format!(
            "it sent nothing within {} s",
            limit.min(HANDSHAKE_LIMIT).as_secs()
        )),
        _ => wire_error_at(Stage::Reach, e.into()),
    })?;
    let Some(version) = ours.common_version(&theirs) else {
        return Err(ClientError::Version(describe_mismatch(&ours, &theirs)));
    };
    match theirs.known_word() {
        Some(PreambleWord::Go) => {}
        Some(PreambleWord::Asking) => return Err(ClientError::Refused(OTHER_CLIENT.to_owned())),
        Some(PreambleWord::NotPairing) => {
            return Err(ClientError::Refused(format!(
                "it is not in pairing mode; {HOW_TO_PAIR}, then pair again"
            )));
        }
        Some(PreambleWord::Full) => {
            return Err(ClientError::Refused(
                "it has too many connections; try again later".into(),
            ));
        }
        Some(PreambleWord::NoVersion) => {
            let text = format!(
                "the agent ({}) does not support the request of this client ({})",
                theirs.program, ours.program
            );
            return Err(ClientError::Version(text));
        }
        _ => return Err(odd(&format!("it answers with the unknown word {}", theirs.word))),
    }
    let our_bytes = sent.map_err(|e| wire_error_at(Stage::Reach, e.into()))?;
    let prologue: Vec<u8> = our_bytes.into_iter().chain(their_bytes).collect();
    Channel::initiate(stream, own, &prologue, Limits::FromAgent, by, |key| {
        accept(key).map_err(HandshakeError::Refused)
    })
    .map(|channel| channel.with_version(version))
    .map_err(|e| match e {
        HandshakeError::Refused(e) => e,
        HandshakeError::Wire(e) => wire_error_at(Stage::Pair, e.within(limit.min(HANDSHAKE_LIMIT))),
    })
}

/// Why a handshake ended: a wire error, or the caller rejected the peer's key.
enum HandshakeError {
    Wire(WireError),
    Refused(ClientError),
}

impl From<WireError> for HandshakeError {
    fn from(e: WireError) -> Self {
        Self::Wire(e)
    }
}

/// Returns another handle to a socket.
fn clone_socket(stream: &Stream) -> Result<Stream, ClientError> {
    stream.try_clone().map_err(|e| wire_error_at(Stage::Reach, e.into()))
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: Connection,
    /// Protocol version of the connection.
    pub(super) version: u16,
    pub(super) program: String,
    you: String,
    devices: Vec<DeviceInfo>,
    states: Vec<DeviceState>,
}

impl Client {
    /// Connects to an agent that this client has paired with. With `name`, the agent must have the key of that pairing.
    /// Without it, the key of any paired agent is accepted. An in-process agent needs no pairing.
    ///
    /// # Errors
    /// If nothing answers, versions differ, or either end is not paired with the other.
    pub fn connect(endpoint: &Endpoint, keys: &KeyStore, name: Option<&str>) -> Result<Self, ClientError> {
        Self::connect_within(endpoint, keys, name, HANDSHAKE_LIMIT)
    }

    /// Connects like [`Client::connect`], with a timeout of about `limit` (at most [`HANDSHAKE_LIMIT`]).
    ///
    /// # Errors
    /// Same as [`Client::connect`].
    pub fn connect_within(
        endpoint: &Endpoint,
        keys: &KeyStore,
        name: Option<&str>,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        if let Endpoint::InProcess(server) = endpoint {
            return Self::in_process(server);
        }
        let address = endpoint.address();
        let stream = endpoint.dial(limit)?;
        let socket = clone_socket(&stream)?;
        let channel = establish(
            stream,
            keys.key_pair(),
            &address,
            PreambleWord::Session,
            limit,
            |shown| {
                let fingerprint = shown.fingerprint();
                let known = keys.find_by_key(&shown)?;
                match (name, known) {
                    (Some(name), Some(peer)) if peer.name == name => Ok(()),
                    (Some(name), _) => Err(ClientError::WrongKey {
                        name: name.to_owned(),
                        address: address.clone(),
                        fingerprint,
                    }),
                    (None, Some(_)) => Ok(()),
                    (None, None) => Err(ClientError::NotPaired {
                        address: address.clone(),
                        fingerprint,
                    }),
                }
            },
        )?;
        Self::from_channel(channel, socket)
    }

    /// Connects to a server in this process, which needs no key store.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn in_process(server: &Server) -> Result<Self, ClientError> {
        let address = "this process";
        let (stream, own, theirs) = server.connect_in_process().map_err(|e| ClientError::Unreachable {
            address: address.to_owned(),
            reason: e.to_string(),
        })?;
        let socket = clone_socket(&stream)?;
        let channel = establish(stream, &own, address, PreambleWord::Session, HANDSHAKE_LIMIT, |shown| {
            let fingerprint = shown.fingerprint();
            let wrong = || ClientError::NotPaired {
                address: address.to_owned(),
                fingerprint,
            };
            (shown == theirs).then_some(()).ok_or_else(wrong)
        })?;
        Self::from_channel(channel, socket)
    }

    fn from_channel(channel: Channel, socket: Stream) -> Result<Self, ClientError> {
        let Channel {
            sender,
            receiver,
            version,
            ..
        } = channel;
        let (to, arrived) = sync_channel(WAITING_FRAMES);
        let calls = CallsRoute::new(socket);
        start_reader(receiver, sender.clone(), to, |a| a, &calls).map_err(|e| wire_error_at(Stage::Reach, e))?;
        let connection = Connection { sender, arrived, calls };
        match connection.message(Stage::Pair, Topic::Session)? {
            SessionReply::Welcome { program, you, devices } => Ok(Self {
                connection,
                version,
                program,
                you,
                devices: devices.iter().map(|d| d.info.clone()).collect(),
                states: devices,
            }),
            SessionReply::Refused(why) => Err(ClientError::Refused(why.to_string())),
        }
    }

    /// Returns the agent's program and version.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns the name under which the agent knows this client.
    #[must_use]
    pub fn client_name(&self) -> &str {
        &self.you
    }

    /// Returns the agent's devices.
    #[must_use]
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// Returns the agent's devices, with their holders at the time of connection.
    #[must_use]
    pub fn states(&self) -> &[DeviceState] {
        &self.states
    }

    /// Leases a device exclusively, until the lease is dropped.
    ///
    /// # Errors
    /// If there is no such device or another client holds it.
    pub fn lease(self, device: &str) -> Result<Lease, ClientError> {
        self.lease_with(device, LeaseOptions::default(), &Progress::new())
    }

    /// Leases a device with options. If that preempts the lease of another client, waits until that client yields.
    ///
    /// # Errors
    /// Like [`Self::lease`], and if the agent is too old for options, or the wait is cancelled.
    pub fn lease_with(self, device: &str, options: LeaseOptions, progress: &Progress) -> Result<Lease, ClientError> {
        let requester = LeaseRequester {
            version: self.version,
            options,
        };
        let granted = requester.take(&self.connection, device, progress)?;
        Ok(Lease::new(self.connection, requester, granted))
    }
}

/// Connects to an agent and performs the handshake for pairing. `check` checks the agent's key before this end sends
/// its own.
pub(super) fn establish_pairing(
    endpoint: &Endpoint,
    own: &KeyPair,
    check: impl FnOnce(PublicKey) -> Result<(), ClientError>,
) -> Result<Channel, ClientError> {
    let stream = endpoint.dial(DIAL_LIMIT)?;
    establish(
        stream,
        own,
        &endpoint.address(),
        PreambleWord::Pair,
        HANDSHAKE_LIMIT,
        check,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_address_gets_the_default_port() {
        for (text, expected) in [
            ("board:9", "board:9"),
            ("board", "board:7117"),
            ("10.0.0.1", "10.0.0.1:7117"),
            ("::1", "[::1]:7117"),
            ("[::1]", "[::1]:7117"),
            ("[::1]:9", "[::1]:9"),
            ("/run/a.sock", "/run/a.sock"),
        ] {
            assert_eq!(Endpoint::parse(text).address(), expected);
        }
        assert!(matches!(Endpoint::parse("/run/a.sock"), Endpoint::Unix(_)));
    }
}
