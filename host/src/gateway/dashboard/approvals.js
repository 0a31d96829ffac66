/* Calls that wait for an admin, and the question to the person who tries a tool on this page. */

const listApprovals = keyedList(byId("approval-rows"), ({ id }) => id, makeApprovalRow);
let listedApprovals = []; // with those that stopped waiting a moment ago

/** Asks for the calls that wait, which only admins may see. */
async function loadApprovals() {
  return known.servers?.gateway?.principal?.admin ? requestJson("approvals") : {};
}

function showApprovals() {
  if (!known.approvals) return; // another token was given meanwhile
  const { approvals = [], approvers = "client" } = known.approvals;
  const waiting = new Map(approvals.map(call => [call.id, call]));
  // A row stays for a moment when its call no longer waits, so that no other row moves under the pointer.
  const kept = listedApprovals.map(call => waiting.get(call.id) ?? { ...call, goneAt: call.goneAt ?? Date.now() })
    .filter(({ goneAt }) => !goneAt || Date.now() - goneAt < GONE_FOR);
  const ids = new Set(kept.map(({ id }) => id));
  listedApprovals = [...kept, ...approvals.filter(({ id }) => !ids.has(id))];
  listApprovals(listedApprovals);
  clearTimeout(showApprovals.timer);
  if (listedApprovals.length > approvals.length) showApprovals.timer = setTimeout(showApprovals, GONE_FOR);
  byId("approvals-link").hidden = approvers === "client" && !listedApprovals.length;
  byId("approvals-empty").hidden = listedApprovals.length > 0;
  setText(byId("approvals-count"), approvals.length || "");
  if (known.servers) showAttention();
}
const GONE_FOR = 5000;

function makeApprovalRow({ id, principal, tool, server, rule, bytes, arguments: sent, meta, since, until, own }) {
  const what = `${brief(tool, 100)} of ${brief(server, 100)} for ${brief(principal, 100)}`;
  const approve = makeButton("Approve", "main"), deny = makeButton("Deny");
  const note = make("span", { className: "soft", role: "status" });
  const facts = factList();
  const title = make("h3", { className: "said", text: what });
  const node = make("li", { className: "approval" }, title, facts.node, ...whatIsSent(bytes, sent, meta),
    make("p", { className: "buttons" }, approve, deny, note));
  facts.update({ "By": brief(principal, 100), "Server": server, "Tool": tool, "Rule": rule, "Asked": timeOf(since),
    "Waits until": timeOf(until) });
  for (const button of [approve, deny]) {
    button.ariaLabel = `${button.textContent} ${what}`;
    button.hidden = own;
    button.onclick = () => decideWaiting(id, button === approve, node);
  }
  if (own) setText(note, "Your own call: another admin must decide it.");
  return { node, update({ goneAt }) {
    for (const button of [approve, deny]) button.ariaDisabled = Boolean(goneAt);
    if (goneAt && !node.dataset.decided) setText(note, "It no longer waits.");
  } };
}

/** Shows all that will be sent; nothing of it is cut. */
function whatIsSent(bytes, sent, meta) {
  const parts = [[`Arguments, ${countOf(bytes)} bytes, as they will be sent`, sent]];
  if (meta) parts.push(["With this _meta", meta]);
  return parts.flatMap(([label, text]) => [make("p", { className: "label", text: label }),
    make("pre", { className: "said whole", tabIndex: 0, role: "group", ariaLabel: label, text })]);
}

async function decideWaiting(id, approve, node) {
  const note = node.querySelector("[role=status]");
  if (node.ariaBusy === "true" || node.dataset.decided || node.querySelector("button").ariaDisabled === "true") return;
  node.ariaBusy = true;
  try {
    await postJson(`approvals/${id}`, JSON.stringify({ approve }));
    node.dataset.decided = approve;
    setText(note, approve ? "You approved it." : "You denied it.");
  } catch (error) {
    setText(note, error.message);
  } finally {
    node.ariaBusy = false;
    refresh({ approvals: true, calls: true });
  }
}

/** Asks the person on this page whether a call may be made; everything but that button is a no. */
function askPerson({ tool, server, rule, bytes, arguments: sent, meta }, signal) {
  const title = `May ${brief(tool, 100)} of ${brief(server, 100)} be called?`;
  const yes = makeButton("Call it", "main"), no = makeButton("No");
  const dialog = make("dialog", { ariaLabel: title }, make("h2", { className: "said", text: title }),
    make("p", { className: "said", text: `Rule: ${rule}` }), ...whatIsSent(bytes, sent, meta),
    make("p", { className: "buttons" }, no, yes));
  document.body.append(dialog);
  return new Promise(resolve => {
    yes.onclick = () => dialog.close("yes");
    no.onclick = () => dialog.close();
    signal.addEventListener("abort", () => dialog.close());
    dialog.onclose = () => { dialog.remove(); resolve(dialog.returnValue === "yes"); };
    dialog.showModal();
    no.focus(); // so that no key that was meant for the form approves
  });
}

/** Calls a tool; where a rule wants a person, the person on this page is asked. */
async function callAsking(call, signal) {
  let answer = await postJson("mcp/call", `{${call},"ask":true}`, signal);
  while (answer.approval) {
    const given = JSON.stringify({ state: answer.approval.state, approve: await askPerson(answer.approval, signal) });
    answer = await postJson("mcp/call", `{${call},"ask":true,"approval":${given}}`, signal);
  }
  return answer;
}
