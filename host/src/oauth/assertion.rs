//! Assertions with which a client proves who it is by its private key instead of a secret (RFC 7523, `private_key_jwt`).

use std::path::Path;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::Signer;
use serde_json::json;

use super::OAuthError;
use crate::ownership;

/// A private key that signs assertions.
pub(super) struct AssertionKey {
    signer: Box<dyn Signer>,
    /// The name of the algorithm that the key signs with (RFC 7518 §3.1).
    pub(super) algorithm: &'static str,
    /// How many bytes each of the two numbers of an ECDSA signature takes.
    number_length: Option<usize>,
}

impl AssertionKey {
    /// Reads the key from a PEM file: an RSA, P-256 or P-384 key in the form of PKCS#8, PKCS#1 or SEC1.
    pub(super) fn read(file: &Path) -> Result<Self, OAuthError> {
        let shown = file.display();
        let pem = ownership::read(file)
            .map_err(|error| OAuthError::Settings(format!("the key in {shown} cannot be read: {error}")))?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|_| OAuthError::Settings(format!("{shown} holds no private key in PEM form")))?;
        Self::new(&key).ok_or_else(|| {
            OAuthError::Settings(format!("the key in {shown} cannot sign: it is not an RSA, P-256 or P-384 key"))
        })
    }

    fn new(key: &PrivateKeyDer<'_>) -> Option<Self> {
        let key = ring::sign::any_supported_type(key).ok()?;
        ALGORITHMS.into_iter().find_map(|(scheme, algorithm, number_length)| {
            let signer = key.choose_scheme(&[scheme])?;
            Some(AssertionKey { signer, algorithm, number_length })
        })
    }

    /// Returns a new assertion that proves to `audience` that `client_id` asks.
    pub(super) fn sign(&self, client_id: &str, audience: &str) -> Result<String, rustls::Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut id = [0; 16];
        ring::default_provider().secure_random.fill(&mut id)?;
        let header = json!({"typ": "client-authentication+jwt", "alg": self.algorithm});
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": now,
            "exp": now + LIFE_SECONDS,
            "jti": URL_SAFE_NO_PAD.encode(id),
        });
        let encode = |part: serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let mut signature = self.signer.sign(signed.as_bytes())?;
        if let Some(length) = self.number_length {
            signature = fixed_length(&signature, length)
                .ok_or_else(|| rustls::Error::General("the signature is not two numbers in DER".to_owned()))?;
        }
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Converts an ECDSA signature from DER to two numbers of this many bytes each (RFC 7518 §3.4).
fn fixed_length(der: &[u8], number_length: usize) -> Option<Vec<u8>> {
    let [0x30, length, numbers @ ..] = der else { return None };
    let (r, rest) = integer(numbers)?;
    let (s, rest) = integer(rest)?;
    if usize::from(*length) != numbers.len() || !rest.is_empty() {
        return None;
    }
    let mut joined = Vec::new();
    for number in [r, s] {
        joined.resize(joined.len() + number_length.checked_sub(number.len())?, 0);
        joined.extend_from_slice(number);
    }
    Some(joined)
}

/// Splits a DER integer off, without its leading zeros.
fn integer(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x02, length, rest @ ..] = der else { return None };
    let (digits, rest) = rest.split_at_checked(usize::from(*length))?;
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    Some((&digits[zeros..], rest))
}

/// The algorithms, each with the length of a number in its signature if that is ECDSA.
const ALGORITHMS: [(SignatureScheme, &str, Option<usize>); 3] = [
    (SignatureScheme::RSA_PKCS1_SHA256, "RS256", None),
    (SignatureScheme::ECDSA_NISTP256_SHA256, "ES256", Some(32)),
    (SignatureScheme::ECDSA_NISTP384_SHA384, "ES384", Some(48)),
];
/// How long an assertion can be used.
const LIFE_SECONDS: u64 = 300;

#[cfg(test)]
mod tests;
