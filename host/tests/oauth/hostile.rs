//! Tests servers and authorization servers that try to get other tokens and secrets, or redirect to forbidden
//! addresses.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::bench::{Bench, With};
use super::command;
use super::place::Place;
use super::world::{Rules, World};

/// Rules under which the authorization server knows a client with a secret.
fn rules() -> Rules {
    Rules { clients: vec![("me", SECRET)], ..Rules::default() }
}

fn machine() -> Value {
    json!({"type": "oauth", "grant": "client_credentials", "client_id": "me", "client_secret": SECRET})
}

/// Nobody but the authorization server has seen what belongs to it.
fn kept(world: &World) {
    let refresh: Vec<String> = world.state().refresh_tokens.keys().cloned().collect();
    for seen in world.state().seen.iter().filter(|seen| !seen.place.starts_with("issuer ")) {
        let sent = format!("{} {:?} {:?}", seen.body, seen.login(), seen.parameters);
        let leaked = sent.contains(SECRET) || refresh.iter().any(|token| sent.contains(token));
        assert!(!leaked, "{} was sent {sent}", seen.place);
    }
}

/// Changes what a server says of its authorization server; the tokens are void from then on.
fn turn(bench: &Bench, change: impl FnOnce(&mut Rules)) {
    bench.world.rule(change);
    bench.world.revoke();
}

#[tokio::test]
async fn a_server_that_drops_its_metadata_gets_no_refresh_token_and_no_secret() {
    let auth = json!({"type": "oauth", "client_id": "me", "client_secret": SECRET});
    for auth in [json!({}), auth] {
        let bench = Bench::with(rules(), auth.clone(), With::Person).await;
        bench.works("read").await;
        let mut entry = bench.entry();
        if auth != json!({}) {
            entry["auth"] = auth;
        }
        let bench = bench.again(entry.clone(), With::Nobody);
        bench.works("read").await;
        turn(&bench, |rules| rules.silent = true);
        let text = bench.needs_auth("read").await;
        let (issuer, server) = (&bench.world.sites().issuer, &bench.world.sites().server);
        assert!(text.contains(&format!("{issuer}, but the server now names {server}")), "{text}");
        assert!(bench.world.seen("server /token").is_empty());
        kept(&bench.world);
        // What was kept is still good once the server says again what it said before.
        turn(&bench, |rules| rules.silent = false);
        bench.again(entry, With::Nobody).works("read").await;
    }
}

#[tokio::test]
async fn a_secret_without_an_issuer_goes_to_the_first_one_alone() {
    let bench = Bench::with(rules(), machine(), With::Nobody).await;
    bench.works("read").await;
    let other = bench.world.sites().other.clone();
    turn(&bench, |rules| rules.names = Some(other.clone()));
    let text = bench.needs_auth("read").await;
    assert!(text.contains(&format!("set `auth.issuer` to {other}")) && text.contains("toolgate auth logout"), "{text}");
    kept(&bench.world);

    // Each process after it knows it, too.
    let mut entry = bench.entry();
    entry["auth"] = machine();
    let forged = format!("{other}/forged/.well-known/description");
    let mut bench = bench;
    for (names, silent) in [(Some(other), false), (Some(forged), false), (None, true)] {
        bench = bench.again(entry.clone(), With::Nobody);
        turn(&bench, |rules| (rules.names, rules.silent) = (names, silent));
        bench.needs_auth("read").await;
        kept(&bench.world);
    }
    turn(&bench, |rules| rules.silent = false);
    bench.again(entry, With::Nobody).works("read").await;
}

#[tokio::test]
async fn after_a_logout_a_secret_may_go_to_another_issuer() {
    let bench = Bench::with(rules(), machine(), With::Nobody).await;
    bench.works("read").await;
    let other = bench.world.sites().other.clone();
    turn(&bench, |rules| rules.names = Some(other));
    bench.needs_auth("read").await;
    assert!(bench.world.seen("other /token").is_empty());
    bench.gate.registry().links()[0].account().await.unwrap().unwrap().logout().unwrap();
    let mut entry = bench.entry();
    entry["auth"] = machine();
    let bench = bench.again(entry, With::Nobody);
    bench.call("read").await;
    assert!(bench.world.seen("other /token").iter().any(|seen| seen.body.contains(SECRET)));
}

#[tokio::test]
async fn nobody_is_believed_to_be_another_issuer() {
    let bench = Bench::with(rules(), json!({}), With::Person).await;
    bench.works("read").await;
    let forged = format!("{}/forged/.well-known/description", bench.world.sites().other);
    turn(&bench, |rules| rules.names = Some(forged));
    let text = bench.needs_auth("read").await;
    assert!(text.contains("describes itself as another authorization server"), "{text}");
    assert_eq!(bench.asked(), 1, "nobody is sent there");
    kept(&bench.world);
}

#[tokio::test]
async fn a_page_for_consent_is_opened_only_if_a_browser_may_show_it() {
    for (page, why) in [
        ("file:///etc/passwd", "its scheme is file, not https"),
        ("smb://127.0.0.1/share", "its scheme is smb, not https"),
        ("javascript:alert(1)", "its scheme is javascript, not https"),
        ("ms-msdt:/id", "its scheme is ms-msdt, not https"),
        ("http://login.example/authorize", "is not encrypted"),
        ("http://169.254.169.254/latest", "is not encrypted"),
        ("https://169.254.169.254/latest", "a link-local address"),
        ("https://[::ffff:169.254.169.254]/latest", "a link-local address"),
        ("no address", "it is not a URL"),
    ] {
        let claims = vec![("authorization_endpoint", page.to_owned())];
        let bench = Bench::new(Rules { claims, ..Rules::default() }).await;
        let text = bench.needs_auth("read").await;
        assert!(text.contains("is not opened") && text.contains(why), "{page}: {text}");
        assert_eq!((bench.asked(), bench.world.seen("issuer /register").len()), (0, 0), "{page}");
    }
}

#[tokio::test]
async fn who_does_not_say_that_it_checks_the_proof_of_a_code_gets_none() {
    // What is no list cannot be read.
    let plain = vec![("code_challenge_methods_supported", "plain".to_owned())];
    for (claims, omits, told) in [
        (Vec::new(), vec!["code_challenge_methods_supported"], "`code_challenge_methods_supported` with S256"),
        (plain, Vec::new(), "none published usable metadata"),
    ] {
        let bench = Bench::new(Rules { claims, omits, ..Rules::default() }).await;
        let text = bench.needs_auth("read").await;
        assert!(text.contains(told), "{text}");
        assert_eq!((bench.asked(), bench.world.seen("issuer /register").len()), (0, 0));
    }
    // Without a person, no code is given that could be stolen.
    let omits = vec!["code_challenge_methods_supported"];
    let bench = Bench::with(Rules { omits: omits.clone(), ..rules() }, machine(), With::Nobody).await;
    bench.works("read").await;
    // The configuration names the endpoints, so there is no metadata to say it.
    let bench = Bench::with(Rules { omits, ..rules() }, json!({}), With::Person).await;
    let issuer = &bench.world.sites().issuer;
    let endpoints = [format!("{issuer}/authorize"), format!("{issuer}/token")];
    let mut entry = bench.entry();
    entry["auth"] = json!({
        "type": "oauth", "client_id": "me", "client_secret": SECRET, "issuer": issuer,
        "authorization_url": endpoints[0], "token_url": endpoints[1],
    });
    bench.again(entry, With::Person).works("read").await;
}

#[tokio::test]
async fn a_token_that_is_no_bearer_token_is_not_kept() {
    for (key, value, why) in [
        ("token_type", "mac", "of type \"mac\""),
        ("token_type", "DPoP", "only bearer tokens"),
        ("access_token", "s3cret-one\r\nX-Evil: 1", "characters that no token may have"),
        ("access_token", "s3cret-one\u{7f}", "characters that no token may have"),
        ("access_token", "s3cret one", "characters that no token may have"),
        ("access_token", "", "is empty"),
    ] {
        for (auth, with) in [(json!({}), With::Person), (machine(), With::Nobody)] {
            let bench = Bench::with(Rules { token_claims: vec![(key, value)], ..rules() }, auth, with).await;
            let text = bench.needs_auth("read").await;
            assert!(text.contains(why) && !text.contains("s3cret"), "{value:?}: {text}");
            let folder = bench.folder.path().join("auth");
            for file in std::fs::read_dir(folder).into_iter().flatten() {
                let kept = std::fs::read_to_string(file.unwrap().path()).unwrap();
                assert!(!kept.contains("s3cret"), "{kept}");
            }
        }
    }
    let bench = Bench::new(Rules { token_claims: vec![("token_type", "bEARER")], ..Rules::default() }).await;
    bench.works("read").await;
}

#[tokio::test]
async fn an_error_repeats_no_proof_no_code_and_no_token() {
    let bench = Bench::new(Rules::default()).await;
    let person = bench.person.clone().unwrap();
    *person.twist.lock().unwrap() = Some(|back| {
        let pairs: Vec<_> = back.query_pairs().into_owned().collect();
        back.query_pairs_mut().clear();
        for (name, value) in pairs {
            let value = if name == "code" { "another-code-0123456789".to_owned() } else { value };
            back.query_pairs_mut().append_pair(&name, &value);
        }
    });
    let text = bench.needs_auth("read").await;
    let seen = bench.world.seen("issuer /token");
    let verifier = seen[0].parameter("code_verifier");
    assert!(verifier.len() >= 43 && text.contains("you sent"), "{text}");
    assert!(!text.contains(verifier) && !text.contains("another-code"), "{text}");
}

#[tokio::test]
async fn metadata_that_never_ends_is_waited_for_once() {
    let bench = Bench::with(Rules { drips: true, ..rules() }, machine(), With::Nobody).await;
    let mut entry = bench.entry();
    entry["auth"] = machine();
    entry["timeouts"] = json!({"initialize": "1s"});
    entry["acquire_timeout"] = json!("2s");
    let bench = bench.again(entry, With::Nobody);
    // The bench gives up after a minute.
    let calls = futures_util::future::join_all((0..8).map(|_| bench.call("read"))).await;
    for called in calls {
        assert!(called.result.is_error && called.result.text.contains("no answer"), "{}", called.result.text);
    }
}

#[tokio::test]
async fn an_endpoint_that_a_document_names_is_no_way_into_the_machine() {
    for endpoint in ["token_endpoint", "registration_endpoint"] {
        for (address, why) in [
            ("http://169.254.169.254/latest", "a link-local address"),
            ("http://[fe80::1]/x", "a link-local address"),
            ("http://0.0.0.0:1/x", "a special-purpose address"),
            ("file:///etc/passwd", ""),
        ] {
            let bench = Bench::new(Rules { claims: vec![(endpoint, address.to_owned())], ..Rules::default() }).await;
            let called = bench.call("read").await;
            assert!(called.result.is_error && called.result.text.contains(why), "{address}: {}", called.result.text);
        }
    }
}

#[tokio::test]
async fn the_command_hands_nothing_to_the_opener_that_is_not_for_a_browser() {
    for page in ["file:///etc/passwd", "smb://127.0.0.1/share", "javascript:alert(1)", "ms-msdt:/id"] {
        let world = World::start(Rules { claims: vec![("authorization_endpoint", page.to_owned())], ..rules() }).await;
        let place = Place::with(json!({"notes": {"url": world.url()}}));
        let opened = place.path("opened");
        let opener = place.file("bin/xdg-open", format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display()));
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", opener.parent().unwrap().display());
        let place = place.set("PATH", &path);
        command::run(&place, &["auth", "login", "notes"]).await.ends(7).says("is not opened");
        assert!(!opened.exists(), "{page}");
    }
}

#[tokio::test]
async fn the_command_keeps_its_refresh_token_from_a_server_that_drops_its_metadata() {
    let world = World::start(rules()).await;
    let place = Place::with(json!({"notes": {"url": world.url()}}));
    let mut login = place.command(&["auth", "login", "notes", "--no-browser"]).spawn().unwrap();
    command::consent(&mut login).await;
    command::ended(login).await.ends(0);
    command::run(&place, &["call", "notes.read"]).await.ends(0);
    world.rule(|rules| rules.silent = true);
    world.revoke();
    command::run(&place, &["call", "notes.read"]).await.ends(7).says("so it is not sent");
    assert!(world.seen("server /token").is_empty());
    kept(&world);
}

const SECRET: &str = "a-client-secret";
