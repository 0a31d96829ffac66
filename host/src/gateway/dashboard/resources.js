/* The view of resources and prompts: their lists, and for admins what is in them. */

const listResources = keyedList(byId("resource-rows"), ({ key }) => key, makeContentRow);
const listPrompts = keyedList(byId("prompt-rows"), ({ key }) => key, makeContentRow);

/** Loads the lists when somebody looks, since that may start servers. */
function setUpResources() {
  const look = () => { if (location.hash === "#resources") loadContents(); };
  window.addEventListener("hashchange", look);
  byId("contents-again").onclick = loadContents;
  look();
}

async function loadContents() {
  const again = byId("contents-again"), said = byId("contents-said");
  if (again.ariaBusy === "true") return;
  again.ariaBusy = true;
  setText(said, "asking the servers…");
  try {
    const [{ resources, templates, failed }, { prompts }] =
      await Promise.all([requestJson("mcp/resources"), requestJson("mcp/prompts")]);
    const rowOf = (item, name) => ({ ...item, key: `${item.server}\n${textOf(item[name])}`, shown: item[name] });
    listResources([...resources.map(item => rowOf(item, "uri")), ...templates.map(item => rowOf(item, "uriTemplate"))]);
    listPrompts(prompts.map(item => ({ ...rowOf(item, "name"), isPrompt: true })));
    byId("resources-empty").hidden = resources.length + templates.length > 0;
    byId("prompts-empty").hidden = prompts.length > 0;
    setText(said, failed.map(({ server, reason }) => `${brief(server, 100)}: ${brief(reason)}`).join("; "));
  } catch (error) {
    setText(said, `not listed: ${error.message}`);
  } finally {
    again.ariaBusy = false;
  }
}

function makeContentRow(item) {
  const row = openingRow("tool", { name: "name mono line said", about: "about line said soft", server: "line said soft" });
  setText(row.parts.name, brief(item.shown));
  setText(row.parts.about, brief(item.description ?? item.title ?? item.name));
  setText(row.parts.server, brief(item.server, 100));
  row.details.ontoggle = () => { if (!row.body.hasChildNodes()) fillContentRow(row.body, item); };
  row.update = () => {}; // what is typed stays
  return row;
}

function fillContentRow(body, { server, shown, description, isPrompt, mimeType, arguments: wanted }) {
  const listed = Array.isArray(wanted) ? wanted.filter(field => typeof field?.name === "string").slice(0, 60) : [];
  const fields = listed.map(({ name, description: about, required }) =>
    makeField(name, { type: "string", description: about }, required === true));
  const uri = make("input", { value: textOf(shown), autocomplete: "off", spellcheck: false });
  const where = isPrompt ? fields.map(({ node }) => node) : [make("label", { className: "field" }, "URI ", uri)];
  const button = make("button", { className: "main", text: isPrompt ? "Get" : "Read" });
  const outcome = make("p", { role: "status" }), result = make("div", { className: "result" });
  const form = make("form", { className: "for-admins", noValidate: true }, ...where,
    make("div", { className: "buttons" }, button), outcome, result);
  form.onsubmit = async event => {
    event.preventDefault();
    const given = argumentsOf(fields);
    if (button.ariaBusy === "true" || !form.reportValidity()) return;
    button.ariaBusy = true;
    setText(outcome, "asking the server…");
    try {
      const answer = isPrompt
        ? await postJson("mcp/prompts/get", `{"server":${JSON.stringify(server)},"name":${JSON.stringify(shown)},"arguments":${given}}`)
        : await postJson("mcp/resources/read", JSON.stringify({ uri: uri.value, server }));
      setText(outcome, "");
      result.replaceChildren(...contentsOf(answer.result));
    } catch (error) {
      setText(outcome, error.message);
    } finally {
      button.ariaBusy = false;
    }
  };
  const hint = make("p", { className: "soft for-readers", text: "To read it here, sign in with the token of an admin." });
  body.append(longTextOf(description, "prose"), longTextOf(mimeType, "prose soft"), form, hint);
}

/** Returns the texts of a resource or the messages of a prompt. */
function contentsOf({ contents, messages, ...rest }) {
  const blocks = [contents, messages].flat().filter(Boolean);
  if (!blocks.length) return [longTextOf(pretty(rest))];
  return blocks.flatMap(({ uri, mimeType, text, blob, role, content }) => {
    const title = make("h3", { className: "said", text: [role, uri, mimeType].map(word => brief(word)).filter(Boolean).join(" · ") });
    if (blob !== undefined) return [title, make("p", { text: `${countOf(textOf(blob).length)} characters of base64` })];
    if (content?.type === "text") return [title, longTextOf(content.text)];
    return [title, content === undefined ? longTextOf(text) : showBlock(content)];
  });
}
