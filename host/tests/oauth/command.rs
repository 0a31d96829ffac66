//! Tests `toolgate auth`, and other commands before and after it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Child;

use serde_json::json;

use super::bench::{follow, get};
use super::place::{Place, Ran};
use super::world::{Rules, World};

fn place(world: &World) -> Place {
    Place::with(json!({"notes": {"url": world.url()}, "program": {"command": "true"}}))
}

/// Waits until a login that runs says where to go.
async fn address(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let (url, lines) = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        while !line.trim().starts_with("http://") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without an address");
        }
        (line.trim().to_owned(), lines)
    })
    .await
    .unwrap();
    child.stderr = Some(lines.into_inner());
    url
}

/// Goes as a browser would where a login says.
pub async fn consent(child: &mut Child) -> String {
    let url = address(child).await;
    let back = follow(&url).await;
    // Somebody else who knows the port, and not the question.
    let stranger = get(&format!("{}?code=x&state=guessed", back.split('?').next().unwrap())).await;
    assert!(stranger.starts_with("HTTP/1.1 400"), "{stranger}");
    let page = get(&back).await;
    assert!(page.contains("You can close this window"), "{page}");
    url
}

pub async fn ended(mut child: Child) -> Ran {
    tokio::task::spawn_blocking(move || {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Ran { code: child.wait().unwrap().code().unwrap(), stdout, stderr }
    })
    .await
    .unwrap()
}

/// Runs the binary while the sites go on.
pub async fn run(place: &Place, arguments: &[&str]) -> Ran {
    let child = place.command(arguments).spawn().unwrap();
    ended(child).await
}

#[tokio::test]
async fn a_person_logs_in_once_and_calls_work_until_they_log_out() {
    let world = World::start(Rules { repeats: true, ..Rules::default() }).await;
    let place = place(&world);
    run(&place, &["call", "notes.read"]).await.ends(7).says("run `toolgate auth login notes`");
    run(&place, &["check", "--server", "notes"]).await.ends(3).prints("toolgate auth login notes");
    run(&place, &["auth", "status", "notes"]).await.ends(7).prints("not authorized");

    let mut login = place.command(&["auth", "login", "notes", "--no-browser", "-vv"]).spawn().unwrap();
    let url = consent(&mut login).await;
    assert!(url.contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A"), "{url}");
    let login = ended(login).await.ends(0).prints("notes  authorized");

    let call = run(&place, &["call", "notes.read", "-vv"]).await.ends(0).prints("read is done");
    let status = run(&place, &["auth", "status", "notes", "--json", "-vv"]).await.ends(0);
    let standing = &status.json()[0];
    assert_eq!(
        (&standing["server"], &standing["authorized"], &standing["renewable"]),
        (&json!("notes"), &json!(true), &json!(true))
    );
    assert_eq!(standing["issuer"], world.sites().issuer);
    for ran in [&login, &call, &status] {
        for secret in world.secrets() {
            assert!(!ran.stdout.contains(&secret) && !ran.stderr.contains(&secret), "{secret} in {ran:#?}");
        }
    }
    assert!(world.state().codes.is_empty() && !login.stderr.contains("code-"), "{login:#?}");

    run(&place, &["auth", "logout", "notes"]).await.ends(0).prints("not authorized");
    run(&place, &["call", "notes.read"]).await.ends(7);
}

#[tokio::test]
async fn a_login_that_cannot_be_ends_with_what_is_wrong() {
    let world = World::start(Rules::default()).await;
    let place = place(&world);
    run(&place, &["auth", "login", "notes", "--no-browser", "--timeout", "200ms"])
        .await
        .ends(6)
        .says("nobody gave consent within 200ms");
    run(&place, &["auth", "login", "program"]).await.ends(2).says("server \"program\" needs no login");
    run(&place, &["auth", "login", "nobody"]).await.ends(5).says("no server \"nobody\" is configured");

    world.rule(|rules| rules.refuses = true);
    let mut login = place.command(&["auth", "login", "notes", "--no-browser"]).spawn().unwrap();
    get(&follow(&address(&mut login).await).await).await;
    ended(login).await.ends(7).says("the authorization was not granted (access_denied: not today)");

    world.rule(|rules| rules.registers = false);
    run(&place, &["auth", "login", "notes"]).await.ends(2).says("does not register clients");
    drop(world);
    run(&place, &["auth", "login", "notes"]).await.ends(3).says("the authorization server cannot be used");
}

#[tokio::test]
async fn where_no_server_wants_an_authorization_that_is_said() {
    let place = Place::with(json!({"program": {"command": "true"}}));
    let status = run(&place, &["auth", "status"]).await.ends(0).says("no server needs an OAuth login");
    assert_eq!(status.stdout, "");
    assert_eq!(run(&place, &["auth", "status", "--json"]).await.ends(0).json(), json!([]));
}
