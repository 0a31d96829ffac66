//! Checks certificate files: whether they can be used together, and until when.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::calendar::{self, Utc};
use crate::ownership;

/// Returns what is wrong with a certificate and its key, and how to mend it.
pub(super) fn problem(certificate: &Path, key: &Path, now: SystemTime) -> Option<String> {
    let read =
        |path: &Path| ownership::read(path).map_err(|error| format!("{} cannot be used: {error}", path.display()));
    let check = || {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| format!("{} contains no certificate in PEM", certificate.display()))?;
        // The parser's error is dropped, because it may quote the key.
        let key_of = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|_| format!("{} contains no private key in PEM", key.display()))?;
        let end = end_of(&chain[0]);
        let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("ring knows TLS 1.2 and 1.3");
        builder
            .with_no_client_auth()
            .with_single_cert(chain, key_of)
            .map_err(|error| format!("{} is not the key of {}: {error}", key.display(), certificate.display()))?;
        Ok::<_, String>(end)
    };
    let shown = certificate.display();
    match check() {
        Err(problem) => Some(problem),
        Ok(Some(end)) if end <= now => Some(format!("{shown} expired at {}; renew it", Utc::from(end))),
        Ok(Some(end)) if end <= now + SOON => Some(format!("{shown} expires at {}; renew it soon", Utc::from(end))),
        Ok(_) => None,
    }
}

/// Returns when a certificate ends (RFC 5280, section 4.1.2.5), or `None` if that cannot be read.
fn end_of(der: &[u8]) -> Option<SystemTime> {
    let (_, certificate, _) = element(der)?;
    let (_, mut rest, _) = element(certificate)?;
    // The version is optional. After it come serial number, signature, issuer and validity.
    if element(rest)?.0 == VERSION {
        rest = element(rest)?.2;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, end) = element(validity)?;
    let (kind, text, _) = element(end)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match kind {
        UTC_TIME => format!("{}{text}", if text.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" }),
        _ => text.to_owned(),
    };
    let part = |from: usize| text.get(from..from + 2);
    let (date, time) = (format!("{}-{}-{}", text.get(..4)?, part(4)?, part(6)?), [part(8)?, part(10)?, part(12)?]);
    calendar::parse(&format!("{date}T{}Z", time.join(":")))
}

/// Splits DER into the tag and content of its first element, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (length, rest) = match first {
        0..0x80 => (usize::from(first), rest),
        _ => {
            let (bytes, rest) =
                rest.split_at_checked(usize::from(first & 0x7f)).filter(|(bytes, _)| bytes.len() <= 4)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
/// How long before its end a certificate should be renewed.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read_and_damage_is_not() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        for (year, expected) in [(2031, "2031-05-06T00:00:00"), (2061, "2061-05-06T00:00:00")] {
            params.not_after = rcgen::date_time_ymd(year, 5, 6);
            let certificate = params.self_signed(&key).unwrap();
            let end = end_of(certificate.der()).unwrap();
            assert!(Utc::from(end).to_string().starts_with(expected), "{}", Utc::from(end));
            for length in 0..certificate.der().len().min(200) {
                assert_eq!(end_of(&certificate.der()[..length]), None);
            }
        }
    }
}
