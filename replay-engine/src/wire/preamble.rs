//! The preamble: 64 plain-text bytes from each end, with a permanent layout, so that any two versions can recognize
//! each other.

use super::stream::Stream;
use num_enum::TryFromPrimitive;
use std::fmt;
use std::io::{self, Write as _};
use std::time::Instant;

/// Magic bytes of every connection.
pub const MAGIC: [u8; 8] = *b"KINEWIRE";
/// Lowest protocol version that this code supports.
pub const LOWEST: u16 = 5;
/// Highest protocol version that this code supports.
pub const HIGHEST: u16 = 9;
/// Size of a preamble, bytes.
pub const PREAMBLE_BYTES: usize = 64;
/// Place of the flags.
const FLAGS_AT: usize = 13;
/// Flag of a preamble: this end has instructions for AES-256-GCM.
const HAS_AES: u8 = 1;
/// Size of the program name and version, bytes.
const PROGRAM_BYTES: usize = 48;

/// The request of a client (1, 2) or the answer of an agent (16 and up).
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromPrimitive)]
#[repr(u8)]
pub enum PreambleWord {
    /// Client: work with devices.
    Session = 1,
    /// Client: pair.
    Pair = 2,
    /// Agent: continue.
    Go = 16,
    /// Agent: there is no common version.
    NoVersion = 17,
    /// Agent: it is not in pairing mode.
    NotPairing = 18,
    /// Agent: too many connections.
    Full = 19,
    /// Agent: in pairing mode, but its user is being asked about another client.
    Asking = 20,
}

/// The unencrypted self-description of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Lowest supported protocol version.
    pub lowest: u16,
    /// Highest supported protocol version.
    pub highest: u16,
    /// Request or answer, raw: later versions may have more values.
    pub word: u8,
    /// This end has instructions for AES-256-GCM. If both have, the connection uses it.
    pub has_aes: bool,
    /// Program and version, at most 48 bytes.
    pub program: String,
}

/// Why bytes are not a preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// Another protocol.
    #[error("its first bytes are not the protocol's")]
    Magic,
    /// A version range that ends before it starts.
    #[error("its range of versions ends before it begins")]
    Range,
    /// Text that is not printable.
    #[error("its name is not printable text")]
    Program,
}

/// Returns whether the sender of a preamble has instructions for AES-256-GCM.
pub(super) const fn announces_aes(preamble: &[u8; PREAMBLE_BYTES]) -> bool {
    preamble[FLAGS_AT] & HAS_AES != 0
}

/// Returns whether this processor has instructions for AES and for the carry-less products of GCM.
fn has_aes_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

impl Preamble {
    /// Returns this program's preamble.
    #[must_use]
    pub fn new(word: PreambleWord) -> Self {
        Self {
            lowest: LOWEST,
            highest: HIGHEST,
            word: word as u8,
            has_aes: has_aes_instructions(),
            program: format!("kinescope {}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Returns the word, if this version knows it.
    #[must_use]
    pub fn known_word(&self) -> Option<PreambleWord> {
        PreambleWord::try_from(self.word).ok()
    }

    /// Encodes the 64 bytes. A long program name is truncated.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; PREAMBLE_BYTES] {
        let mut out = [0; PREAMBLE_BYTES];
        let name = self.program.as_bytes().iter().take(PROGRAM_BYTES).copied();
        let all = MAGIC
            .into_iter()
            .chain(self.lowest.to_le_bytes())
            .chain(self.highest.to_le_bytes())
            .chain([self.word, if self.has_aes { HAS_AES } else { 0 }, 0, 0])
            .chain(name);
        for (o, b) in out.iter_mut().zip(all) {
            *o = b;
        }
        out
    }

    /// Decodes 64 bytes. Unknown flags and reserved bytes are ignored.
    ///
    /// # Errors
    /// If they are not a preamble.
    pub fn from_bytes(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, PreambleError> {
        let [m @ .., l0, l1, h0, h1, word, _, _, _] = bytes.first_chunk::<16>().ok_or(PreambleError::Magic)?;
        if m[..] != MAGIC {
            return Err(PreambleError::Magic);
        }
        let (lowest, highest) = (u16::from_le_bytes([*l0, *l1]), u16::from_le_bytes([*h0, *h1]));
        if lowest > highest {
            return Err(PreambleError::Range);
        }
        let name = bytes.last_chunk::<PROGRAM_BYTES>().map_or(&[][..], |n| &n[..]);
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let program = name
            .get(..end)
            .and_then(|n| std::str::from_utf8(n).ok())
            .ok_or(PreambleError::Program)?;
        if program.chars().any(char::is_control) {
            return Err(PreambleError::Program);
        }
        Ok(Self {
            lowest,
            highest,
            word: *word,
            has_aes: announces_aes(bytes),
            program: program.to_owned(),
        })
    }

    /// Returns the highest version that both ends support.
    #[must_use]
    pub fn common_version(&self, other: &Self) -> Option<u16> {
        let version = self.highest.min(other.highest);
        (version >= self.lowest.max(other.lowest)).then_some(version)
    }

    /// Sends it.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&self, stream: &mut Stream) -> io::Result<[u8; PREAMBLE_BYTES]> {
        let bytes = self.to_bytes();
        stream.write_all(&bytes)?;
        Ok(bytes)
    }

    /// Receives a preamble. Returns it with its bytes.
    ///
    /// # Errors
    /// If the connection fails or the bytes are not a preamble ([`io::ErrorKind::InvalidData`]).
    pub fn receive(stream: &mut Stream, by: Instant) -> io::Result<(Self, [u8; PREAMBLE_BYTES])> {
        let mut bytes = [0; PREAMBLE_BYTES];
        stream.read_exact_by(&mut bytes, by)?;
        let preamble = Self::from_bytes(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok((preamble, bytes))
    }
}

/// A version range in words.
struct Versions(u16, u16);

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            write!(f, "version {}", self.0)
        } else {
            write!(f, "versions {} to {}", self.0, self.1)
        }
    }
}

/// Returns the message that both ends show if they have no common version: the versions of both, and which program to
/// update.
#[must_use]
pub fn describe_mismatch(client: &Preamble, agent: &Preamble) -> String {
    let older = if client.highest < agent.lowest {
        "client"
    } else {
        "agent"
    };
    format!(
        "no common protocol version: the client ({}) speaks {}, the agent ({}) speaks {}; update the {older}",
        client.program,
        Versions(client.lowest, client.highest),
        agent.program,
        Versions(agent.lowest, agent.highest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preamble(lowest: u16, highest: u16) -> Preamble {
        Preamble {
            lowest,
            highest,
            word: 1,
            has_aes: false,
            program: format!("p {highest}"),
        }
    }

    #[test]
    fn preamble_round_trips_and_invalid_bytes_are_reported() {
        let p = Preamble::new(PreambleWord::Pair);
        let bytes = p.to_bytes();
        assert_eq!(Preamble::from_bytes(&bytes), Ok(p.clone()));
        assert_eq!(&bytes[..13], b"KINEWIRE\x05\x00\x09\x00\x02");
        let with = |at: usize, b: u8| {
            let mut x = bytes;
            x[at] = b;
            Preamble::from_bytes(&x)
        };
        assert_eq!(with(0, b'G'), Err(PreambleError::Magic));
        assert_eq!(with(8, 10), Err(PreambleError::Range));
        assert_eq!(
            with(16, 0x1b),
            Err(PreambleError::Program),
            "the program name must not contain escape sequences"
        );
        assert_eq!(with(16, 0xff), Err(PreambleError::Program));
        let without_aes = Preamble { has_aes: false, ..p };
        assert_eq!(with(13, 0).unwrap(), without_aes);
        assert_eq!(
            with(13, 0xfe).unwrap(),
            without_aes,
            "other flags are for later versions"
        );
        assert!(with(13, 1).unwrap().has_aes);
        assert_eq!(
            with(14, 7),
            Preamble::from_bytes(&bytes),
            "reserved bytes are for later versions"
        );
    }

    #[test]
    fn highest_common_version_is_chosen_or_the_older_end_named() {
        assert_eq!(preamble(1, 3).common_version(&preamble(2, 5)), Some(3));
        assert_eq!(preamble(1, 1).common_version(&preamble(2, 5)), None);
        let text = describe_mismatch(&preamble(1, 1), &preamble(2, 5));
        assert!(
            text.contains("update the client") && text.contains("versions 2 to 5"),
            "{text}"
        );
        assert!(describe_mismatch(&preamble(7, 9), &preamble(2, 5)).contains("update the agent"));
        // The first release speaks version 5: its clients and agents must find a common version.
        assert_eq!(LOWEST, 5);
        // Version 4 has no common version with today's programs.
        let today = Preamble::new(PreambleWord::Session);
        assert_eq!(preamble(4, 4).common_version(&today), None);
        assert!(describe_mismatch(&preamble(4, 4), &today).contains("update the client"));
        assert!(describe_mismatch(&today, &preamble(4, 4)).contains("update the agent"));
    }
}
