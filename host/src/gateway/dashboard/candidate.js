/* What another configuration would change: its text is sent to the gateway, which compares and changes nothing. */

function setUpCandidate() {
  const form = byId("candidate-form");
  form.file.onchange = async () => {
    const [file] = form.file.files;
    if (file) form.text.value = await file.text();
  };
  form.onsubmit = async event => {
    event.preventDefault();
    const button = byId("candidate-go"), said = byId("candidate-said");
    if (button.ariaBusy === "true") return;
    button.ariaBusy = true;
    setText(said, "comparing…");
    try {
      const calls = Object.fromEntries(new URLSearchParams(callView.address));
      if (calls.since) calls.since = timeBefore(calls.since);
      const labels = accessForm.labels.value.split(",").map(label => label.trim()).filter(Boolean);
      const body = JSON.stringify({ text: form.text.value, name: form.file.files[0]?.name ?? "", labels, calls });
      const answer = await postJson("candidate", body);
      byId("candidate-answer").replaceChildren(...differencesOf(answer, Object.keys(calls).length > 0));
      setText(said, "");
    } catch (error) {
      byId("candidate-answer").replaceChildren();
      setText(said, error.message);
    } finally {
      button.ariaBusy = false;
    }
  };
}
const ROWS_OF_CHANGES = 200;

/** Shows what the gateway says about a candidate. */
function differencesOf({ access, calls, calls_problem: noCalls, notices, unusable_servers: unusable, unlisted }, isFiltered) {
  const line = text => make("p", { className: "said", text });
  const shown = access.changes.slice(0, ROWS_OF_CHANGES);
  const left = access.granted + access.taken - shown.length;
  const changes = shown.map(({ principal, server, tool, change, before, after, recent_calls: recent }) => [principal,
    [server, tool].filter(Boolean).join("."), change, `${before.verdict} → ${after.verdict}`,
    after.verdict === "allow" ? `before: ${before.rule}` : after.rule, countOf(recent)]);
  const groups = calls?.groups.map(({ title, tool, principal, calls: count, examples: [example] }) =>
    [title, tool, principal ?? "–", countOf(count), example ? [example.id, example.was, example.now].filter(Boolean).join(" → ") : ""]);
  return [
    ...unusable.map(({ server, reason }) => line(`Server ${server} cannot be used: ${reason}`)),
    ...notices.map(line),
    make("h3", { text: "Access" }),
    line(`${countOf(access.granted)} granted, ${countOf(access.taken)} taken`),
    ...(changes.length ? [textTable("Changes of access",
      ["Principal", "Tool", "Change", "May", "Rule", "Recent calls"], changes)] : []),
    ...(left > 0 ? [line(`and ${countOf(left)} more`)] : []),
    ...(access.not_compared.length ? [line(`No time for: ${access.not_compared.join(", ")}`)] : []),
    ...(unlisted.length ? [line(`Not compared, since their tools are not known: ${unlisted.join(", ")}`)] : []),
    make("h3", { text: isFiltered ? "Recorded calls that the filter of Calls selects" : "Recorded calls" }),
    line(noCalls ?? `${countOf(calls.same)} of ${countOf(calls.compared)} would be decided the same way` +
      (calls.not_compared ? `; ${countOf(calls.not_compared)} could not be tried` : "") +
      (calls.cut ? "; these are only the newest" : "")),
    ...(calls?.problems ?? []).map(line),
    ...(groups?.length ? [textTable("Calls that would be decided differently",
      ["Difference", "Tool", "Principal", "Calls", "Such as"], groups)] : []),
  ];
}
