//! Metrics in Prometheus' text format, and a small HTTP server for them.

use std::fmt::{Display, Write as _};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Maximum size of a request, bytes.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Maximum time to read a request or to write an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Metrics as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricText(String);

impl MetricText {
    /// Begins a metric: `counter` or `gauge`, with one line of help.
    pub fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", escape(help));
    }

    /// Adds a value of the metric with its labels.
    pub fn add(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let lead = if n == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{lead}{label}=\"{}\"", escape(text).replace('"', "\\\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// Adds a metric with one value and no labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.add(name, &[], value);
    }

    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// Serves metrics over HTTP on a thread of its own, one request at a time. Other paths than `/metrics` are not found.
/// Returns the address.
///
/// # Errors
/// If the address cannot be used, or no thread can be started.
pub fn serve(address: &str, render: impl Fn() -> String + Send + 'static) -> io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let local = listener.local_addr()?;
    let thread = std::thread::Builder::new().name("metrics".into());
    thread.spawn(move || {
        for stream in listener.incoming() {
            match stream {
                // A client that goes away early is no error.
                Ok(stream) => drop(answer(stream, &render)),
                // The process has no descriptors left: the thread must not spin.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    })?;
    Ok(local)
}

fn answer(mut stream: TcpStream, render: &impl Fn() -> String) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut piece)?;
        if n == 0 || request.len().saturating_add(n) > MAX_REQUEST_BYTES {
            return Ok(());
        }
        request.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
    let (status, body) = match find_path(&request) {
        Some("/metrics") => ("200 OK", render()),
        Some(_) => ("404 Not Found", "only /metrics is here\n".to_owned()),
        None => ("400 Bad Request", "expected GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Returns the path of an HTTP request that is a GET, or `None` for other bytes.
#[must_use]
pub fn find_path(request: &[u8]) -> Option<&str> {
    let line = request.split(|b| *b == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_get = method == "GET" && version.starts_with("HTTP/1.");
    is_get.then(|| target.split('?').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(address: std::net::SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut out = String::new();
        // The server may close a connection with unread bytes.
        let _ = stream.read_to_string(&mut out);
        out
    }

    #[test]
    fn metrics_are_served_and_nothing_else() {
        let render = || {
            let mut text = MetricText::default();
            text.single("a_total", "counter", "Number of a.", 3);
            text.begin("b", "gauge", "b");
            text.add("b", &[("target", "x\"y\\z"), ("gpu", "g")], 0.5);
            text.into_text()
        };
        let address = serve("127.0.0.1:0", render).unwrap();
        let text = request(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.ends_with("# TYPE b gauge\nb{target=\"x\\\"y\\\\z\",gpu=\"g\"} 0.5\n"),
            "{text}"
        );
        assert!(text.contains("# HELP a_total Number of a.\n# TYPE a_total counter\na_total 3\n"));
        assert!(request(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(request(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert_eq!(request(address, &"x".repeat(MAX_REQUEST_BYTES + 1)), "");
        assert!(request(address, "GET /metrics HTTP/1.0\r\n\r\n").contains("a_total 3"));
    }
}
