/* Requests to the gateway, with the token that it wants. */

let token = null;
let question = null; // many requests may need a token; one dialog asks for it

class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}
class NoToken extends Error {}

/** Sends a request; if the gateway needs a token, asks for one and tries again. */
async function request(path, options = {}) {
  for (;;) {
    const sent = token;
    const headers = { ...options.headers, ...(sent && { Authorization: `Bearer ${sent}` }) };
    const signal = options.signal ?? AbortSignal.timeout(60_000);
    // Send no cookies: the token alone decides what this page may do.
    const response = await fetch(`api/v1/${path}`, { ...options, headers, signal, credentials: "omit" });
    if (response.ok) return response;
    if (response.status !== 401) throw new Refused(await refusalIn(response, sent), response.status);
    // Another request may have got a token in the meantime.
    if (sent === token) await askForToken(`The gateway ${sent ? "rejected this token" : "needs a token"}.`);
  }
}

async function requestJson(path, options) {
  return parseJson(await (await request(path, options)).text());
}

function postJson(path, body, signal) {
  return requestJson(path, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
}

async function refusalIn(response, sent) {
  const body = await response.text();
  let reason = body;
  try {
    reason = JSON.parse(body).error;
  } catch { /* a proxy may answer without JSON */ }
  let what = `the gateway answered ${response.status}`;
  if (response.status === 403) {
    what = sent ? "not allowed with this token" : "not allowed without a token";
    byId("token-button").hidden = false;
  }
  return [what, brief(reason)].filter(Boolean).join(": ");
}

function askForToken(why) {
  const dialog = byId("token-dialog");
  byId("token-button").hidden = false;
  question ??= new Promise((resolve, reject) => {
    setText(byId("token-why"), why);
    dialog.returnValue = "";
    dialog.onclose = () => {
      question = null;
      byId("token").value = ""; // do not keep it in the page
      if (dialog.returnValue) resolve();
      else reject(new NoToken("no token given"));
    };
    dialog.showModal();
  });
  return question;
}

/** Moves a token out of the address (`#token=…`), where the history would keep it and bystanders could read it. */
function takeToken() {
  const given = /^#token=([!-~]+)$/.exec(location.hash);
  if (!given) return false;
  history.replaceState(null, "", location.pathname + location.search);
  token = given[1];
  stored("sessionStorage", "toolgate-token", token);
  return true;
}

function setUpToken() {
  token = stored("sessionStorage", "toolgate-token");
  takeToken();
  // The link may be pasted into a page that is already open.
  window.addEventListener("hashchange", () => {
    if (!takeToken()) return;
    byId("token-dialog").close("given"); // its question is answered
    startOver();
  });
  const dialog = byId("token-dialog");
  dialog.querySelector("form").onsubmit = event => {
    event.preventDefault();
    token = byId("token").value;
    stored("sessionStorage", "toolgate-token", byId("token-keep").checked ? token : "");
    dialog.close("given");
    if (known.servers || !following) startOver();
  };
  byId("token-cancel").onclick = () => dialog.close();
  byId("token-button").onclick = () => {
    askForToken("The new token replaces the current one, if any.").catch(() => {});
  };
}
