//! The pairing code: short enough for two persons to compare, and nothing that either end or an attacker can choose.
//!
//! A short digest of the handshake alone could be searched for: a relay that picks its keys until both sides show
//! the same nine digits needs about 2^30 tries. So the client commits to a nonce first, then the agent tells its own,
//! then the client reveals; the code hashes all three, and a relay has one try in 2^30.

use super::keys::KeyError;

/// A random nonce. Taken from a fresh key's public half hashed, so that one source of random numbers serves all.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn nonce() -> Result<[u8; 32], KeyError> {
    let pair = super::keys::KeyPair::generate()?;
    Ok(blake3::derive_key("kinescope pairing nonce v1", pair.private()))
}

/// What the client commits to.
#[must_use]
pub fn commitment(handshake: &[u8; 32], nonce: &[u8; 32]) -> [u8; 32] {
    let mut h = blake3::Hasher::new_derive_key("kinescope pairing commitment v1");
    h.update(handshake).update(nonce);
    *h.finalize().as_bytes()
}

/// The code, nine digits in three groups.
#[must_use]
pub fn code(handshake: &[u8; 32], client: &[u8; 32], agent: &[u8; 32]) -> String {
    let mut h = blake3::Hasher::new_derive_key("kinescope pairing code v1");
    h.update(handshake).update(client).update(agent);
    let mut number = [0; 8];
    h.finalize_xof().fill(&mut number);
    let n = u64::from_le_bytes(number) % 1_000_000_000;
    format!("{:03} {:03} {:03}", n / 1_000_000, n / 1000 % 1000, n % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_changes_the_code_and_the_commitment_binds() {
        let base = code(&[1; 32], &[2; 32], &[3; 32]);
        assert_eq!(base.len(), 11);
        assert!(base.bytes().all(|b| b.is_ascii_digit() || b == b' '));
        assert_ne!(base, code(&[9; 32], &[2; 32], &[3; 32]));
        assert_ne!(base, code(&[1; 32], &[9; 32], &[3; 32]));
        assert_ne!(base, code(&[1; 32], &[2; 32], &[9; 32]));
        assert_ne!(commitment(&[1; 32], &[2; 32]), commitment(&[1; 32], &[3; 32]));
        assert_ne!(commitment(&[1; 32], &[2; 32]), commitment(&[2; 32], &[2; 32]));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
