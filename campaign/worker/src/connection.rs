//! The connection to the broker: its address, TLS and credentials.

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of servers in an address.
const MAX_SERVERS: usize = 16;
/// Maximum size of a file with credentials, bytes.
const MAX_CREDENTIALS_BYTES: u64 = 64 << 10;
/// Time for one attempt to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time for an answer of the broker.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Longest pause between two attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

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
    /// Number of times that the broker was connected, and whether it is now.
    changes: watch::Sender<(u64, bool)>,
}

impl Default for ConnectionState {
    fn default() -> Self {
        Self {
            changes: watch::Sender::new((0, false)),
        }
    }
}

impl ConnectionState {
    /// Returns whether the broker is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.changes.borrow().1
    }

    fn set(&self, is_connected: bool) {
        self.changes.send_modify(|state| {
            *state = (state.0.wrapping_add(u64::from(is_connected)), is_connected);
        });
    }

    /// Does some work, and returns its value. Returns `None` when the connection was lost and is there again meanwhile: the
    /// answer to a request was lost with it.
    pub async fn unless_lost<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut changes = self.changes.subscribe();
        let before = changes.borrow_and_update().0;
        let lost = async {
            // The sender is there as long as this state.
            while changes.wait_for(|state| state.0 != before).await.is_err() {
                tokio::time::sleep(MAX_PAUSE).await;
            }
        };
        tokio::select! {
            value = work => Some(value),
            () = lost => None,
        }
    }
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
    /// Connects to the broker. A connection that is lost later is opened again, for ever. `state` shows it.
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
            .reconnect_delay_callback(|attempts| {
                let factor = u32::try_from(attempts.min(10)).unwrap_or(10);
                Duration::from_millis(100)
                    .saturating_mul(factor.saturating_mul(factor))
                    .min(MAX_PAUSE)
            })
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
        let client = options.connect(servers).await.map_err(|e| ConnectionError::Connect {
            address: self.queue.clone(),
            reason: e.to_string(),
        })?;
        Ok(client)
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
