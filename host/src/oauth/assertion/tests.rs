use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use serde_json::Value;

use super::*;

/// Signs with the key and verifies the assertion; the public key follows `prefix` bytes of its description.
fn check(pem: &str, algorithm: &str, prefix: usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    std::fs::write(&file, pem).unwrap();
    let assertion = AssertionKey::read(&file).unwrap().sign("me", "https://issuer.example").unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let parts: Vec<Value> = signed.split('.').map(|part| serde_json::from_slice(&decode(part)).unwrap()).collect();
    let [header, claims] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!(*header, json!({"typ": "client-authentication+jwt", "alg": algorithm}));
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("me"), &json!("me")));
    assert_eq!(claims["aud"], "https://issuer.example");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), LIFE_SECONDS);
    assert_eq!(claims["jti"].as_str().unwrap().len(), 22);

    let (scheme, _, number_length) = ALGORITHMS.into_iter().find(|known| known.1 == algorithm).unwrap();
    let mut signature = decode(signature);
    if let Some(length) = number_length {
        assert_eq!(signature.len(), 2 * length);
        signature = der(&signature[..length], &signature[length..]);
    }
    let key = ring::sign::any_supported_type(&PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let public_key = key.public_key().unwrap();
    let known = ring::default_provider().signature_verification_algorithms;
    let (_, verifiers) = known.mapping.iter().find(|(known, _)| *known == scheme).unwrap();
    let verify = |message: &[u8]| {
        verifiers.iter().any(|one| one.verify_signature(&public_key[prefix..], message, &signature).is_ok())
    };
    assert!(verify(signed.as_bytes()));
    assert!(!verify(b"another message"));
}

/// Encodes a signature of two numbers in DER.
fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
    let integer = |number: &[u8]| {
        let digits: Vec<u8> = number.iter().copied().skip_while(|digit| *digit == 0).collect();
        let sign = digits.first().is_none_or(|first| *first >= 0x80).then_some(0);
        let digits: Vec<u8> = sign.into_iter().chain(digits).collect();
        [vec![2, u8::try_from(digits.len()).unwrap()], digits].concat()
    };
    let numbers = [integer(r), integer(s)].concat();
    [vec![0x30, u8::try_from(numbers.len()).unwrap()], numbers].concat()
}

#[test]
fn each_kind_of_key_signs_with_its_algorithm() {
    check(&format!("-----BEGIN RSA PRIVATE KEY-----\n{RSA}\n-----END RSA PRIVATE KEY-----\n"), "RS256", 24);
    check(&format!("-----BEGIN EC PRIVATE KEY-----\n{P256}\n-----END EC PRIVATE KEY-----\n"), "ES256", 26);
    check(&KeyPair::generate().unwrap().serialize_pem(), "ES256", 26);
    check(&KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem(), "ES384", 23);
}

#[test]
fn a_key_of_another_kind_is_refused_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    std::fs::write(&file, KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem()).unwrap();
    let error = AssertionKey::read(&file).err().unwrap().to_string();
    assert!(error.ends_with("key.pem cannot sign: it is not an RSA, P-256 or P-384 key"), "{error}");
}

#[test]
fn each_assertion_has_an_id_of_its_own() {
    let pem = KeyPair::generate().unwrap().serialize_pem();
    let key = AssertionKey::new(&PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let id = || {
        let assertion = key.sign("me", "you").unwrap();
        let claims = URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice::<Value>(&claims).unwrap()["jti"].to_string()
    };
    assert_ne!(id(), id());
}

#[test]
fn the_numbers_of_a_signature_get_their_full_length() {
    let check = |der: &[u8], joined: Option<&[u8]>| {
        assert_eq!(fixed_length(der, 4).as_deref(), joined, "{der:x?}");
    };
    // Full length; a zero keeps a number with a high first bit positive.
    check(&[0x30, 12, 2, 4, 1, 2, 3, 4, 2, 4, 5, 6, 7, 8], Some(&[1, 2, 3, 4, 5, 6, 7, 8]));
    check(&[0x30, 14, 2, 5, 0, 0xff, 2, 3, 4, 2, 5, 0, 0x80, 6, 7, 8], Some(&[0xff, 2, 3, 4, 0x80, 6, 7, 8]));
    // A short `r`, a short `s`, both, and zero.
    check(&[0x30, 11, 2, 3, 2, 3, 4, 2, 4, 5, 6, 7, 8], Some(&[0, 2, 3, 4, 5, 6, 7, 8]));
    check(&[0x30, 9, 2, 4, 1, 2, 3, 4, 2, 1, 8], Some(&[1, 2, 3, 4, 0, 0, 0, 8]));
    check(&[0x30, 7, 2, 2, 0, 0x80, 2, 1, 0], Some(&[0, 0, 0, 0x80, 0, 0, 0, 0]));
    // Too long, cut off, with something behind it, and not a pair of numbers.
    check(&[0x30, 10, 2, 5, 1, 2, 3, 4, 5, 2, 1, 8], None);
    check(&[0x30, 6, 2, 1, 1, 2, 2, 8], None);
    check(&[0x30, 6, 2, 1, 1, 2, 1], None);
    check(&[0x30, 6, 2, 1, 1, 2, 1, 8, 9], None);
    check(&[0x30, 7, 2, 1, 1, 2, 1, 8, 9], None);
    check(&[0x30, 6, 2, 1, 1, 3, 1, 8], None);
    check(&[], None);
}

/// An RSA key of 2048 bits in the form of PKCS#1, which protects nothing.
const RSA: &str = "\
    MIIEowIBAAKCAQEArqPHF5qkki/CkUjNtdXFemB3pId13MY421H4ByZmmnZ2VCgf0PTQsSl9hPGVvHgogMnUaUD1v8hdt+j34tGLMn96MqDwmfax\
    HInRTsMJqvwZtjrwiMktUfQ6k1v1M+hIYuPn0HA+vy5BXPFAv7Wy4DF+i9BwxmupNRqnMoaG0F5DRbMM7YacFRoSQyF3GdFDmHZ2JJkV4WnSYi50\
    g756vTj5MnLlihT4jEPWrISiZkSCEWl5yeTmr0sHOluEYCWCJOKmZIXQxXUDG0Jr/BSeWP8WZiG1Lhnwl0bLjSQewkg2IOjr81x4ZhcHgZIsQVBV\
    Ss6gEXhvNU4XG80xfa1w1QIDAQABAoIBAAehTx36vlhG8jeIruvHPzJJiJiqTkEH2RNkaXnrsj2eUa1Ig04mg0xMpx45zUq94WxYRRzj8jvyzDA9\
    MCcB2qGcourKdmpBQyI5BEMICVu/pkjvtAAp8ZfpAlRbYKNBfne+anh3jjCqQiYf9Uea/Imujk9oaAqUFbSLNlH72v27oHlH83jQgGAaSxwH0Jkf\
    E8FkS7PvYDlfYD1PJ5iH2LDL4h8Ky6YkgsPx9I/gwO9374XUOgVkChk35HH2QI1nrWigxPvCVg2FoQJJTNLCCtYqgKfhfV3uXgE8XFro1IfYQvkU\
    2jwkiL7XuzGQwu2u5UzYRDxA+XjoX6NMGMOClykCgYEA4kg7mH20g2y9XUAIcZX/+KLN3a/YXnqkuLzgwg+0TP3kzJvVZjALcWRScPM5IRN+GURj\
    nndsLfNCRzg2su1BXdIotjyqWa8D53pRLE8fRVybdj9ARH3nNALHbBtlYagrTJ3TJL2zFWNFnXUfwzNa0wUFQIvO9PreC5t8PW0DLkkCgYEAxZNK\
    Y7wCm9nvmqhZRTstdXT6DJP3XELnoKrqC4L9NV/T8T9ZZwDLxSv7dHIqsk+uAcFEHUsJWrJjW2rldaDg/BFWPsSDJ1CMWyVI0iFnTf9HJwIwW95H\
    guZQ2xc2z77O2I6O2r2g1Olbevbomvc9JZBryheLZiY6VbXru04j3i0CgYAiDCZTco6nu8PedRUQKjbCrZR2R9AxnxiL53eWG5DQiN9VXhlE7/O4\
    0xSIhEBTVsCBgsXOgT+YxmJxnua0E3jjagzQJt6m8euPd9sg5KLa5+1IZIoCBEO2krh47sJZaFljhNfRTm3UyQQfhhEKaP7Ag5/fr2mreNfSPUn7\
    YBy7aQKBgQCBKZVMNjEOah814DDcDZ/eVabSajkf261JX/K5q9yU9By+bkeoCuEr+WDd83TuNSDwjMRW0iM/Y7eIoA16JL5wi3Tye82x+fqH64v7\
    s1Kxrt15JvkuVdYyQRdC4541mevnruq9HZLzHctsS9Ys2MzkrdGJwHKlSQCB3/hH7wGL0QKBgFknc8qXJmz0ZioiCOASvpscLS4w0P1xJ6Y8RTcj\
    3otE4HSO/Psx6FERFuERpTZfRe//7Akpjg3t5WS83v6fMJVPUwrFgtb0FXRLaozDKjDzbsEBU9fftljNPZTHOhcOU3h5lcBQ7rSq3VWrAlzgGuEW\
    OSw46BKwyD/iO7hloJ4+";
/// A P-256 key in the form of SEC1, which protects nothing.
const P256: &str = "\
    MHcCAQEEICOU/wXCW9iOEEzsjFmZYkI+J89sswoWYMkOyDcIr5fDoAoGCCqGSM49AwEHoUQDQgAE9HhRksWR1szR1LgtuFI2XD1VLBteeanCYlgo\
    cSwlsxpbZjwCOHAj+Flh59DNub1i9WRI0bMN6jdEwiEDALc/1A==";
