//! The authorization server: it serves metadata, registers clients, needs no consent, and issues tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::world::{Code, Seen, Sites, State, reply};

pub fn answer(sites: &Sites, seen: &Seen, path: &str) -> Response<String> {
    match path {
        "/.well-known/oauth-authorization-server" => describe(sites),
        "/register" => register(sites, seen),
        "/authorize" => authorize(sites, seen),
        "/token" => token(sites, seen),
        _ => reply(404, ""),
    }
}

/// Somebody else who would like to be the authorization server: under one path it describes itself, under another one
/// it says that it is the one that guards the server.
pub fn pretend(sites: &Sites, path: &str) -> Response<String> {
    let base = &sites.other;
    let issuer = match path {
        "/.well-known/oauth-authorization-server" => base,
        "/forged/.well-known/description" => &sites.issuer,
        _ => return reply(400, r#"{"error":"invalid_grant"}"#),
    };
    let metadata = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    });
    reply(200, metadata.to_string())
}

fn describe(sites: &Sites) -> Response<String> {
    let base = &sites.issuer;
    let state = sites.state();
    let rules = &state.rules;
    let mut metadata = json!({
        "issuer": rules.issuer.as_ref().unwrap_or(base),
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": rules.methods,
        "client_id_metadata_document_supported": rules.reads_descriptions,
        "authorization_response_iss_parameter_supported": true,
    });
    if rules.registers {
        metadata["registration_endpoint"] = json!(format!("{base}/register"));
    }
    for (key, value) in &rules.claims {
        metadata[*key] = json!(value);
    }
    for key in &rules.omits {
        metadata.as_object_mut().unwrap().remove(*key);
    }
    reply(200, metadata.to_string())
}

fn register(sites: &Sites, seen: &Seen) -> Response<String> {
    let mut state = sites.state();
    if !state.rules.registers {
        return reply(403, r#"{"error":"access_denied"}"#);
    }
    let asked: Value = serde_json::from_str(&seen.body).unwrap();
    let redirect = asked["redirect_uris"][0].as_str().unwrap().to_owned();
    let id = state.next("client");
    state.registered.insert(id.clone(), redirect.clone());
    reply(201, json!({"client_id": id, "redirect_uris": [redirect]}).to_string())
}

fn authorize(sites: &Sites, seen: &Seen) -> Response<String> {
    let mut state = sites.state();
    let (client, redirect) = (seen.parameter("client_id"), seen.parameter("redirect_uri"));
    let known = state.registered.get(client).is_some_and(|registered| registered == redirect)
        || state.rules.clients.iter().any(|(id, _)| *id == client)
        || state.rules.reads_descriptions && client.starts_with("https://");
    if !known || seen.parameter("code_challenge_method") != "S256" || seen.parameter("resource").is_empty() {
        return reply(400, "a bad question");
    }
    let issuer = state.rules.callback_issuer.clone().unwrap_or_else(|| sites.issuer.clone());
    let mut back = Url::parse(redirect).unwrap();
    let mut answer = back.query_pairs_mut();
    answer.append_pair("state", seen.parameter("state")).append_pair("iss", &issuer);
    if state.rules.refuses {
        answer.append_pair("error", "access_denied").append_pair("error_description", "not today");
    } else {
        let code = state.next("code");
        answer.append_pair("code", &code);
        let asked = words(seen.parameter("scope"));
        let limits = state.rules.grants.clone();
        let scopes = asked.into_iter().filter(|scope| limits.is_empty() || limits.contains(&scope.as_str())).collect();
        let challenge = seen.parameter("code_challenge").to_owned();
        let (client, redirect) = (client.to_owned(), redirect.to_owned());
        state.codes.insert(code, Code { challenge, client, redirect, scopes });
    }
    drop(answer);
    let mut response = reply(302, "");
    response.headers_mut().insert("location", back.as_str().parse().unwrap());
    response
}

fn token(sites: &Sites, seen: &Seen) -> Response<String> {
    let mut state = sites.state();
    let refuse = |error: &str| {
        let repeated = format!("you sent {} {}", seen.body, seen.authorization.as_deref().unwrap_or_default());
        reply(400, json!({"error": error, "error_description": repeated}).to_string())
    };
    if state.rules.broken {
        return reply(503, "");
    }
    if seen.parameter("resource").is_empty() {
        return refuse("invalid_target");
    }
    let Some(client) = client(&state, seen, &sites.issuer) else { return refuse("invalid_client") };
    let scopes = match seen.parameter("grant_type") {
        "authorization_code" => {
            let Some(code) = state.codes.remove(seen.parameter("code")) else { return refuse("invalid_grant") };
            let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(seen.parameter("code_verifier")));
            let same = code.client == client && code.redirect == seen.parameter("redirect_uri");
            if !same || proof != code.challenge {
                return refuse("invalid_grant");
            }
            code.scopes
        }
        "refresh_token" => {
            // Each is good for one use.
            let known = state.refresh_tokens.remove(seen.parameter("refresh_token"));
            let Some(scopes) = known.filter(|_| state.rules.refreshes) else { return refuse("invalid_grant") };
            scopes
        }
        "client_credentials" => words(seen.parameter("scope")),
        _ => return refuse("unsupported_grant_type"),
    };
    let (access, refresh) = (state.next("access-token"), state.next("refresh-token"));
    let mut given = json!({"access_token": access, "token_type": "Bearer"});
    if !scopes.is_empty() {
        given["scope"] = json!(scopes.join(" "));
    }
    if let Some(life) = state.rules.life {
        given["expires_in"] = json!(life);
    }
    for (key, value) in &state.rules.token_claims {
        given[*key] = json!(value);
    }
    state.tokens.insert(access, scopes.clone());
    if seen.parameter("grant_type") != "client_credentials" {
        given["refresh_token"] = json!(refresh);
        state.refresh_tokens.insert(refresh, scopes);
    }
    reply(200, given.to_string())
}

/// Who asks, if they can prove it.
fn client(state: &State, seen: &Seen, issuer: &str) -> Option<String> {
    let knows = |id: &str, secret: &str| state.rules.clients.contains(&(id, secret));
    if let Some((id, secret)) = seen.login() {
        return (state.rules.methods.contains(&"client_secret_basic") && knows(&id, &secret)).then_some(id);
    }
    let assertion = seen.parameter("client_assertion");
    if !assertion.is_empty() {
        let parts: Vec<&str> = assertion.split('.').collect();
        let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        let (header, claims) = (read(parts.first()?)?, read(parts.get(1)?)?);
        let id = claims["sub"].as_str()?.to_owned();
        let sound = header["alg"] == "ES256" && claims["aud"] == issuer && claims["iss"] == id.as_str();
        let signed = URL_SAFE_NO_PAD.decode(parts.get(2)?).is_ok_and(|signature| signature.len() == 64);
        return (sound && signed && state.rules.clients.iter().any(|(known, _)| *known == id)).then_some(id);
    }
    let (id, secret) = (seen.parameter("client_id"), seen.parameter("client_secret"));
    let public = secret.is_empty() && (state.registered.contains_key(id) || id.starts_with("https://"));
    let posted = state.rules.methods.contains(&"client_secret_post") && knows(id, secret);
    (public || posted).then(|| id.to_owned())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl State {
    /// A name that nobody has yet; those of secrets are long enough to be known as such.
    fn next(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}-{:08x}-{}", 0x5eed_0000_u32 + self.count, self.count)
    }
}
