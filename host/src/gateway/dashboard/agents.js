/* The view of what agents have seen. */

const listAgents = keyedList(byId("agent-rows"), ({ principal, part }) => `${principal}\n${part ?? ""}`, makeAgentRow);

function showAgents() {
  const { agents } = known.agents;
  byId("agents-link").hidden = !agents.length;
  setText(byId("agents-count"), countOf(agents.length));
  listAgents(agents);
}

function makeAgentRow({ principal, part }) {
  const row = openingRow("call", { name: "name line said", labels: "cell line said", values: "cell soft" });
  const reset = makeButton("Reset");
  reset.ariaLabel = `Reset ${brief(principal, 80)}`;
  row.node.append(make("div", { className: "buttons for-admins" }, reset));
  reset.onclick = () => resetAgents(reset, principal);
  const facts = factList();
  row.body.append(facts.node);
  row.update = ({ labels, known: values }) => {
    setText(row.parts.name, brief(principal, 100));
    setText(row.parts.labels, labels.map(label => brief(label, 60)).join(", ") || "no labels");
    setText(row.parts.values, `knows ${countOf(values)}`);
    facts.update({ "Session or trace": part ?? "all", "Labels": labels.join(", ") || "none", "Known values": countOf(values) });
  };
  return row;
}

/** Makes the gateway forget what the agents of a principal have seen. */
async function resetAgents(button, principal) {
  if (button.ariaBusy === "true") return;
  button.ariaBusy = true;
  try {
    await postJson("context/reset", JSON.stringify({ principal }));
    say(`what ${brief(principal, 80)} has seen is forgotten`);
    refresh({ agents: true });
  } catch (error) {
    say(`reset ${brief(principal, 80)}: ${error.message}`);
  } finally {
    button.ariaBusy = false;
  }
}
