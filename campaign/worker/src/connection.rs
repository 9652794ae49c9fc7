//! The connection to the broker: its address, TLS and credentials.

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use trace_core::progress::Progress;

/// Maximum number of servers in an address.
const MAX_SERVERS: usize = 16;
/// Maximum size of a file with credentials, bytes.
const MAX_CREDENTIALS_BYTES: u64 = 64 << 10;
/// Time for one attempt to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time to wait at the start for a broker that refuses connections, for example because it starts at the same moment.
const START_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two attempts to connect at the start.
const START_PAUSE: Duration = Duration::from_millis(100);
/// Time for an answer of the broker.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Pause before the second attempt to connect. The first one begins at once.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause between two attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Interval at which a stop is noticed.
const STOP_TICK: Duration = Duration::from_millis(20);
/// Time that a request waits for a connection before it is sent nevertheless.
const CONNECTION_WAIT: Duration = Duration::from_secs(1);

/// Why the broker cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The address has another form.
    #[error("`{address}`: {reason} (expected nats://HOST[:PORT][,HOST…] or tls://HOST[:PORT][,HOST…])")]
    Address {
        /// The address, without a password.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// A file with credentials cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No server answers, or it refuses the credentials.
    #[error("{address}: no connection to the broker: {reason}")]
    Connect {
        /// The address.
        address: String,
        /// The error of the client.
        reason: String,
    },
}

/// The state of a connection.
#[derive(Debug)]
pub struct ConnectionState {
    changes: watch::Sender<Connections>,
}

/// What is known of the connections to the broker.
#[derive(Clone, Copy, Debug)]
struct Connections {
    /// Number of times that the broker was connected.
    count: u64,
    is_connected: bool,
    /// When that changed.
    since: Instant,
}

impl Default for ConnectionState {
    fn default() -> Self {
        Self {
            changes: watch::Sender::new(Connections {
                count: 0,
                is_connected: false,
                since: Instant::now(),
            }),
        }
    }
}

impl ConnectionState {
    /// Returns whether the broker is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.changes.borrow().is_connected
    }

    /// Returns the time since the broker was connected, or was lost.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.changes.borrow().since.elapsed()
    }

    fn set(&self, is_connected: bool) {
        self.changes.send_modify(|state| {
            *state = Connections {
                count: state.count.wrapping_add(u64::from(is_connected)),
                is_connected,
                since: Instant::now(),
            };
        });
    }

    /// Does some work, and returns its value. Returns `None` when the connection was lost and is there again meanwhile: the
    /// answer to a request was lost with it. While there is no connection, the work begins later, after a second at the
    /// latest.
    pub async fn unless_lost<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut changes = self.changes.subscribe();
        // A request that is sent now and repeated after the connection would arrive twice.
        let connected = changes.wait_for(|state| state.is_connected);
        if let Ok(Err(e)) = tokio::time::timeout(CONNECTION_WAIT, connected).await {
            tracing::error!("the connection has no state: {e}");
        }
        let before = changes.borrow_and_update().count;
        let lost = async {
            // The sender is there as long as this state.
            while changes.wait_for(|state| state.count != before).await.is_err() {
                tokio::time::sleep(MAX_PAUSE).await;
            }
        };
        tokio::select! {
            value = work => Some(value),
            () = lost => None,
        }
    }

    /// Does some work, and does it again whenever the connection was lost and is there again meanwhile. A request that was
    /// done before its answer was lost must do no harm a second time.
    pub async fn repeat_if_lost<T, F: Future<Output = T>>(&self, work: impl Fn() -> F) -> T {
        loop {
            if let Some(value) = self.unless_lost(work()).await {
                return value;
            }
        }
    }

    /// Does some work as [`Self::repeat_if_lost`] does, also after an error while there is no connection. The caller ends
    /// this when it is stopped.
    ///
    /// # Errors
    /// If the work fails and the broker is connected.
    pub async fn repeat_until_connected<T, E, F>(&self, work: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        loop {
            match self.repeat_if_lost(&work).await {
                Err(_) if !self.is_connected() => {}
                ended => return ended,
            }
        }
    }
}

/// Ends some time after the user stopped the program.
pub async fn stopped(stop: &Progress, delay: Duration) {
    while stop.check().is_ok() {
        tokio::time::sleep(STOP_TICK).await;
    }
    tokio::time::sleep(delay).await;
}

/// Returns the pause before an attempt to connect, from 1. Programs that lost the same server do not all come back at the
/// same moment: half of the pause is random.
fn reconnect_pause(attempt: usize) -> Duration {
    let Some(doublings) = attempt.checked_sub(2) else {
        return Duration::ZERO;
    };
    let factor = 1_u32 << doublings.min(16);
    let pause = FIRST_PAUSE.saturating_mul(factor).min(MAX_PAUSE);
    let random = u32::try_from(RandomState::new().hash_one(attempt) % 1024).unwrap_or(0);
    pause / 2 + (pause / 2).saturating_mul(random) / 1024
}

/// How to reach the broker.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct QueueOptions {
    /// Address of the broker: nats://HOST[:PORT], more servers of a cluster after commas; tls:// needs encryption
    #[arg(long, value_name = "URL", required = true)]
    pub queue: String,
    /// Certificates (PEM) that the broker's certificate is checked with [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate (PEM) that this program shows to the broker
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key (PEM) of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Credentials of a user of the broker: a .creds file
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// File with a user's name in its first line and the password in its second one [default: the environment variables
    /// KINESCOPE_QUEUE_USER and KINESCOPE_QUEUE_PASSWORD]
    #[arg(long, value_name = "FILE", conflicts_with = "credentials")]
    pub login: Option<PathBuf>,
}

/// Parses an address into its servers. The scheme of the first one holds for all.
///
/// # Errors
/// If a part is no address of a server, there are too many, or one holds a password.
pub fn parse_address(address: &str) -> Result<Vec<ServerAddr>, ConnectionError> {
    let failed = |reason: &str| ConnectionError::Address {
        address: address.rsplit('@').next().unwrap_or_default().to_owned(),
        reason: reason.to_owned(),
    };
    let (scheme, hosts) = address.split_once("://").unwrap_or(("nats", address));
    if !matches!(scheme, "nats" | "tls") {
        return Err(failed("the scheme is unknown"));
    }
    if address.contains('@') {
        return Err(failed(
            "a password does not belong on the command line; use --credentials, --login or the environment",
        ));
    }
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        let host = host.split_once("://").map_or(host, |(_, host)| host);
        if host.is_empty() || servers.len() >= MAX_SERVERS {
            return Err(failed("a host is missing, or there are more than 16"));
        }
        let server = format!("{scheme}://{host}").parse::<ServerAddr>();
        servers.push(server.map_err(|e| failed(&e.to_string()))?);
    }
    Ok(servers)
}

fn read_small_file(path: &Path) -> Result<String, ConnectionError> {
    let failed = |reason: String| ConnectionError::File {
        path: path.to_owned(),
        reason,
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|e| failed(e.to_string()))?;
    let read = file.take(MAX_CREDENTIALS_BYTES).read_to_string(&mut text);
    read.map_err(|e| failed(e.to_string()))?;
    Ok(text)
}

impl QueueOptions {
    /// Connects to the broker, which is awaited for some seconds. A connection that is lost later is opened again, for ever.
    /// `state` shows it.
    ///
    /// # Errors
    /// If the address or a file is wrong, no server answers, or it refuses the credentials.
    pub async fn connect(&self, name: &str, state: Arc<ConnectionState>) -> Result<Client, ConnectionError> {
        let servers = parse_address(&self.queue)?;
        let options = self.options()?;
        let changed = Arc::clone(&state);
        let options = options
            .name(name)
            .connection_timeout(CONNECT_LIMIT)
            .request_timeout(Some(REQUEST_LIMIT))
            .ping_interval(Duration::from_secs(10))
            .max_reconnects(None)
            .reconnect_delay_callback(reconnect_pause)
            .event_callback(move |event| {
                let state = Arc::clone(&changed);
                async move {
                    match event {
                        Event::Connected => {
                            state.set(true);
                            tracing::info!("connected to the broker");
                        }
                        Event::Disconnected | Event::Closed => {
                            state.set(false);
                            tracing::warn!("the connection to the broker is lost");
                        }
                        other => tracing::debug!("broker: {other}"),
                    }
                }
            });
        let begun = Instant::now();
        let mut is_said = false;
        loop {
            let e = match options.clone().connect(&servers).await {
                Ok(client) => return Ok(client),
                Err(e) => e,
            };
            let error = ConnectionError::Connect {
                address: self.queue.clone(),
                reason: e.to_string(),
            };
            let is_temporary = matches!(e.kind(), ConnectErrorKind::Io | ConnectErrorKind::TimedOut);
            if !is_temporary || begun.elapsed() >= START_LIMIT {
                return Err(error);
            }
            if !is_said {
                let (address, seconds) = (&self.queue, START_LIMIT.as_secs());
                tracing::info!("{address}: the broker is awaited for {seconds} s: {e}");
                is_said = true;
            }
            tokio::time::sleep(START_PAUSE).await;
        }
    }

    /// Returns the options of TLS and of the user.
    fn options(&self) -> Result<ConnectOptions, ConnectionError> {
        let mut options = ConnectOptions::new();
        let wants_tls = self.queue.starts_with("tls://") || self.tls_ca.is_some() || self.tls_cert.is_some();
        options = options.require_tls(wants_tls);
        if let Some(path) = &self.tls_ca {
            options = options.add_root_certificates(path.clone());
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        if let Some(path) = &self.credentials {
            let text = read_small_file(path)?;
            return options.credentials(&text).map_err(|e| ConnectionError::File {
                path: path.clone(),
                reason: e.to_string(),
            });
        }
        if let Some(path) = &self.login {
            let text = read_small_file(path)?;
            let mut lines = text.lines();
            let (Some(user), Some(password)) = (lines.next(), lines.next()) else {
                return Err(ConnectionError::File {
                    path: path.clone(),
                    reason: "expected a user's name and a password, each in a line".to_owned(),
                });
            };
            return Ok(options.user_and_password(user.to_owned(), password.to_owned()));
        }
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        if let (Some(user), Some(password)) = (variable("KINESCOPE_QUEUE_USER"), variable("KINESCOPE_QUEUE_PASSWORD")) {
            options = options.user_and_password(user, password);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_to_connect_become_rare() {
        assert_eq!(reconnect_pause(1), Duration::ZERO);
        for attempt in 2..100 {
            let whole = FIRST_PAUSE.saturating_mul(1 << (attempt - 2).min(10)).min(MAX_PAUSE);
            let pause = reconnect_pause(attempt);
            assert!(pause >= whole / 2 && pause <= whole, "{attempt}: {pause:?}");
        }
    }

    #[tokio::test]
    async fn work_is_repeated_when_the_connection_is_there_again() {
        let state = Arc::new(ConnectionState::default());
        state.set(true);
        let begun = std::sync::atomic::AtomicU32::new(0);
        let work = || async {
            if begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
                // The server ends, its answer never comes, and the server is there again.
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    state.set(false);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    state.set(true);
                });
                std::future::pending::<()>().await;
            }
        };
        state.repeat_if_lost(work).await;
        assert_eq!(begun.into_inner(), 2);
        assert!(state.is_connected() && state.age() < CONNECTION_WAIT);
    }

    #[tokio::test]
    async fn failed_work_is_repeated_while_there_is_no_connection() {
        let state = Arc::new(ConnectionState::default());
        state.set(true);
        let begun = std::sync::atomic::AtomicU32::new(0);
        let work = || async {
            let attempt = begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if attempt == 0 {
                state.set(false);
                let later = Arc::clone(&state);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    later.set(true);
                });
            }
            Err::<(), _>(attempt)
        };
        // The second error is that of a broker that answers.
        assert_eq!(state.repeat_until_connected(work).await, Err(1));
    }

    #[tokio::test]
    async fn work_waits_for_a_connection() {
        let state = Arc::new(ConnectionState::default());
        let later = Arc::clone(&state);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            later.set(true);
        });
        // The connection that is made meanwhile is not one that was lost.
        assert_eq!(state.unless_lost(async { state.is_connected() }).await, Some(true));
    }

    #[test]
    fn addresses_name_servers_and_no_passwords() {
        let count = |text: &str| parse_address(text).map(|s| s.len());
        assert_eq!(count("nats://a,b:4223,c").unwrap(), 3);
        assert_eq!(count("tls://a").unwrap(), 1);
        assert_eq!(count("127.0.0.1:4222").unwrap(), 1);
        for text in ["http://a", "nats://", "nats://a,,b", "nats://a:x"] {
            assert!(count(text).is_err(), "{text}");
        }
        let refused = count("nats://user:secret@a").unwrap_err().to_string();
        assert!(
            !refused.contains("secret") && refused.contains("--credentials"),
            "{refused}"
        );
    }
}
