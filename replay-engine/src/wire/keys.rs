//! Key pairs of both ends, and readable names for public keys.

use super::cipher::Cipher;
use std::fmt;

/// A peer's public key (X25519).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Parses a key from 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        hex_bytes(text).map(Self)
    }

    /// Returns the key as 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Returns the first 16 digits of the key's BLAKE3 digest in groups of four: enough to distinguish keys in a list.
    /// Pairing does not compare it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = blake3::hash(&self.0);
        let digits: Vec<String> = digest
            .as_bytes()
            .chunks(2)
            .take(4)
            .map(|c| c.iter().map(|b| format!("{b:02x}")).collect())
            .collect();
        digits.join("-")
    }
}

/// A public key as the user names it: the complete key, or its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedKey {
    /// The key itself.
    Whole(PublicKey),
    /// A fingerprint from [`PublicKey::fingerprint`].
    Fingerprint(String),
}

/// The error for text that is neither a key nor a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a key: expected a fingerprint (16 hexadecimal digits, as in 0123-4567-89ab-cdef) or the key itself \
     (64 digits)"
)]
pub struct NamedKeyError(pub String);

impl NamedKey {
    /// Returns whether this names the key.
    #[must_use]
    pub fn matches(&self, key: &PublicKey) -> bool {
        match self {
            Self::Whole(whole) => whole == key,
            Self::Fingerprint(fingerprint) => *fingerprint == key.fingerprint(),
        }
    }
}

impl std::str::FromStr for NamedKey {
    type Err = NamedKeyError;

    fn from_str(text: &str) -> Result<Self, NamedKeyError> {
        let wrong = || NamedKeyError(text.to_owned());
        let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
        let digits = digits.to_ascii_lowercase();
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        if let Some(key) = PublicKey::from_hex(&digits) {
            return Ok(Self::Whole(key));
        }
        if digits.len() != 16 {
            return Err(wrong());
        }
        let groups: Vec<&str> = (0..4).filter_map(|n| digits.get(n * 4..n * 4 + 4)).collect();
        Ok(Self::Fingerprint(groups.join("-")))
    }
}

impl fmt::Display for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(key) => f.write_str(&key.fingerprint()),
            Self::Fingerprint(fingerprint) => f.write_str(fingerprint),
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// The key pair of one end. Its private half never appears in a log: `Debug` shows only the fingerprint.
#[derive(Clone)]
pub struct KeyPair {
    private: [u8; 32],
    public: PublicKey,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({}, private half not shown)", self.public.fingerprint())
    }
}

/// No key pair could be generated: the operating system gave no random numbers.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no key pair could be made: {0}")]
pub struct KeyError(pub String);

impl KeyPair {
    /// Generates a new pair from the operating system's random numbers.
    ///
    /// # Errors
    /// If there are none.
    pub fn generate() -> Result<Self, KeyError> {
        let params = Cipher::ChaChaPoly
            .noise_pattern()
            .parse()
            .map_err(|e| KeyError(format!("{e}")))?;
        let pair = snow::Builder::new(params)
            .generate_keypair()
            .map_err(|e| KeyError(e.to_string()))?;
        let half = |v: &[u8]| <[u8; 32]>::try_from(v).map_err(|_| KeyError("a key is not 32 bytes".into()));
        Ok(Self {
            private: half(&pair.private)?,
            public: PublicKey(half(&pair.public)?),
        })
    }

    /// Creates a pair from its stored halves.
    #[must_use]
    pub fn from_parts(private: [u8; 32], public: PublicKey) -> Self {
        Self { private, public }
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Returns the private half, only for the key store and the handshake.
    pub(crate) fn private(&self) -> &[u8; 32] {
        &self.private
    }
}

/// Parses 32 bytes from 64 hexadecimal digits.
pub(crate) fn hex_bytes(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut out = [0; 32];
    for (o, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| pair.get(at).and_then(|d| char::from(*d).to_digit(16));
        *o = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_selected_by_hex_or_fingerprint() {
        let key = KeyPair::generate().unwrap().public();
        let other = KeyPair::generate().unwrap().public();
        let (hex, print) = (key.to_hex(), key.fingerprint());
        for text in [hex.clone(), print.clone(), print.replace('-', ""), print.to_uppercase()] {
            let named: NamedKey = text.parse().unwrap();
            assert!(named.matches(&key) && !named.matches(&other), "{text}");
            assert_eq!(named.to_string(), print);
        }
        for text in [
            "",
            "0123",
            "0123-4567-89ab-cdeg",
            &hex[1..],
            &format!("{hex}0"),
            "éééééééé",
        ] {
            assert!(text.parse::<NamedKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn key_round_trips_as_hex_and_hides_its_private_part() {
        let pair = KeyPair::generate().unwrap();
        assert_eq!(PublicKey::from_hex(&pair.public().to_hex()), Some(pair.public()));
        assert_eq!(PublicKey::from_hex("00"), None);
        assert_eq!(PublicKey::from_hex(&"zz".repeat(32)), None);
        assert_eq!(PublicKey::from_hex(&"é".repeat(32)), None);
        let shown = format!("{pair:?}");
        let private: String = pair.private().iter().map(|b| format!("{b:02x}")).collect();
        assert!(!shown.contains(&private) && !shown.contains(&private[..8]));
        assert_ne!(KeyPair::generate().unwrap().public(), pair.public());
    }
}
