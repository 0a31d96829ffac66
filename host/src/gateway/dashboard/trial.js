/* Trying a tool: a form from its schema, and what the tool answers. */

function makeForm(tool) {
  const fields = fieldsOf(tool.inputSchema ?? {});
  const inputs = make("fieldset", {}, ...(fields ?? []).map(field => field.node));
  const text = make("textarea", { rows: 4, spellcheck: false, placeholder: "JSON, YAML or key: value lines" });
  const written = make("label", { className: "field", hidden: true }, "Arguments", text);
  const who = asName; // the button does what it says, whoever is chosen later
  const call = make("button", { className: "main", text: who ? "Decide" : "Call", title: "Ctrl+Enter" });
  const stop = makeButton("Stop"), swap = makeButton("Write JSON");
  const buttons = make("div", { className: "buttons" }, call, stop, swap);
  const outcome = make("p", { role: "status" }), result = make("div", { className: "result" });
  const form = make("form", { noValidate: true }, inputs, written, buttons, outcome, result);
  if (fields?.length === 0) inputs.append(make("p", { className: "field soft", text: "The tool takes no arguments." }));

  const write = on => {
    if (on && fields && !text.value) text.value = pretty(parseJson(argumentsOf(fields)));
    inputs.hidden = on;
    written.hidden = !on;
    setText(swap, on ? "Fill in fields" : "Write JSON");
  };
  swap.onclick = () => write(written.hidden);
  swap.hidden = !fields;
  stop.hidden = true;
  if (!fields) write(true);

  form.onkeydown = event => { if (event.key === "Enter" && event.ctrlKey) form.requestSubmit(); };
  form.onsubmit = async event => {
    event.preventDefault();
    if (call.ariaBusy === "true") return;
    const given = written.hidden ? argumentsOf(fields) : argumentsIn(text.value);
    if (written.hidden && !form.reportValidity()) return;
    const running = new AbortController();
    stop.onclick = () => running.abort();
    call.ariaBusy = true;
    stop.hidden = false;
    await callTool(who, tool.name, given, running.signal, outcome, result);
    if (document.activeElement === stop) call.focus();
    stop.hidden = true;
    call.ariaBusy = false;
  };
  return form;
}

async function callTool(who, name, given, signal, outcome, result) {
  setText(outcome, known.approvals?.approvers === "admins" ? "calling; another admin may have to approve it…" : "calling…");
  result.replaceChildren();
  try {
    // The arguments are already JSON text: a large number must not become a float.
    const asked = `"name":${JSON.stringify(name)},"arguments":${given}`;
    if (who) return await showDecision(who, asked, signal, outcome, result);
    const answer = await callAsking(asked, signal);
    const badge = make("span", { className: "badge", text: answer.code, "data-tone": toneOf(answer) });
    const { attempts, latency_ms: latency, truncated } = answer;
    const tries = attempts > 1 ? `, ${attempts} attempts` : "";
    outcome.replaceChildren(badge, ` ${durationOf(latency)}${tries}${truncated ? ", truncated" : ""}`);
    result.replaceChildren(...blocksOf(answer));
    refresh({ calls: true, servers: true });
  } catch (error) {
    setText(outcome, error.name === "AbortError" ? "stopped" : `not called: ${error.message}`);
  }
}

function blocksOf({ text, content, structured, trace }) {
  return [
    longTextOf(text),
    ...(content ?? []).filter(block => block?.type !== "text").map(showBlock),
    ...(structured === null ? [] : [make("h3", { text: "Structured" }), longTextOf(pretty(structured))]),
    disclosure(`Trace, ${trace.length} steps`, traceList(trace)),
  ];
}

/** Shows bitmap images; anything else is shown as JSON, since it might be active content. */
function showBlock(block) {
  const { type, mimeType, data } = block ?? {};
  const picture = type === "image" && /^image\/(png|jpeg|gif|webp|avif)$/.test(mimeType) && /^[\w+/=\s]+$/.test(data);
  if (!picture) return longTextOf(pretty(block));
  return make("img", { src: `data:${mimeType};base64,${data}`, alt: "The image that the tool returned" });
}

/** Converts typed arguments to JSON: an object as it is, anything else as a string for the gateway to parse. */
function argumentsIn(text) {
  try {
    if (text.trim().startsWith("{") && JSON.parse(text)) return text;
  } catch { /* the gateway reads more formats than JSON */ }
  return text.trim() === "" ? "{}" : JSON.stringify(text);
}

/** Returns the filled-in fields as JSON text; an invalid field is left out and marked. */
function argumentsOf(fields) {
  const filled = fields.map(field => [field.name, field.read()]).filter(([, json]) => (json ?? null) !== null);
  return `{${filled.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`;
}

/** Makes a field for each argument, or returns null if the schema has too few or too many details for a form. */
function fieldsOf(schema) {
  const properties = Object.entries(schema.properties ?? {});
  if (properties.length > 60 || (properties.length === 0 && schema.type !== "object")) return null;
  const required = Array.isArray(schema.required) ? schema.required : [];
  return properties.map(([name, property]) => makeField(name, simpleSchema(property, schema), required.includes(name)));
}

/** Resolves references, and reads "this or null" as this. */
function simpleSchema(schema, root) {
  let simple = Object(schema);
  for (let step = 0; step < 8; step++) {
    const { $ref: reference, anyOf, ...rest } = simple;
    const choices = Array.isArray(anyOf) ? anyOf.filter(choice => choice?.type !== "null") : [];
    if (typeof reference === "string") simple = { ...schemaAt(root, reference), ...rest };
    else if (choices.length === 1) simple = { ...choices[0], ...rest };
    else break;
  }
  return simple;
}

function schemaAt(root, reference) {
  const names = reference.startsWith("#/") ? reference.slice(2).split("/") : ["nowhere"];
  return names.reduce((value, name) => (Object.hasOwn(Object(value), name) ? value[name] : {}), root);
}

// How the text of a field becomes JSON text; null means invalid, with this message.
const READERS = {
  string: [text => JSON.stringify(text)],
  integer: [text => (/^-?(0|[1-9]\d*)$/.test(text) ? text : null), "enter a whole number"],
  number: [text => (/^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? text : null), "enter a number"],
  choice: [text => text, "choose a value"],
  json: [text => { try { JSON.parse(text); return text; } catch { return null; } }, "enter valid JSON"],
};

function makeField(name, schema, required) {
  const types = [schema.type].flat().filter(type => type !== "null");
  const simple = types.length === 1 && ["string", "integer", "number"].includes(types[0]);
  const kind = choicesOf(schema) ? "choice" : simple ? types[0] : "json";
  const [toJson, wish] = READERS[kind];
  const control = makeControl(kind, schema);
  control.dataset.name = name; // as `name` it could shadow a method of the form
  const note = make("span", { className: "soft", text: ` ${kind}${required ? ", required" : ""}` });
  const label = make("label", {}, brief(name, 100), note, control);
  const about = longTextOf(schema.description, "prose soft");
  const read = () => {
    const text = kind === "string" ? control.value : control.value.trim();
    // An empty optional field is left out; a required string may be empty.
    const json = text !== "" || (required && kind === "string") ? toJson(text) : required ? null : undefined;
    control.setCustomValidity(json === null ? wish : "");
    return json;
  };
  control.oninput = () => control.setCustomValidity("");
  return { name, node: make("div", { className: "field" }, label, about), read };
}

function choicesOf(schema) {
  if (Array.isArray(schema.enum) && schema.enum.length <= 500) return schema.enum;
  return Object.hasOwn(schema, "const") ? [schema.const] : schema.type === "boolean" ? [true, false] : null;
}

function makeControl(kind, schema) {
  if (kind === "choice") {
    const options = choicesOf(schema).map(choice => make("option", { value: pretty(choice), text: brief(choice, 120) }));
    return make("select", {}, make("option", { value: "", text: "–" }), ...options);
  }
  const placeholder = schema.default === undefined ? "" : `default: ${brief(pretty(schema.default), 100)}`;
  if (kind === "string" || kind === "json") return make("textarea", { rows: 1, spellcheck: false, placeholder });
  return make("input", { inputMode: "decimal", autocomplete: "off", placeholder });
}
