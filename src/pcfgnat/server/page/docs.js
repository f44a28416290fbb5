// The API's documentation, from the description that the server gives of itself.

import { element } from "./dom.js";
import { startTheme } from "./theme.js";

startTheme(document.getElementById("theme"));
const api = await (await fetch("openapi.json")).json();
document.getElementById("about").textContent = `Version ${api.info.version}. ${api.info.description}`;
document.getElementById("operations").replaceChildren(
  ...Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => described(method.toUpperCase(), path, operation)),
  ),
);

function described(method, path, operation) {
  const body = operation.requestBody?.content["application/json"].schema;
  const rows = Object.entries(operation.responses).map(([status, response]) => [
    status,
    response.description,
    response.content ? Object.values(response.content).map((entry) => typeOf(entry.schema ?? {})).join(", ") : "",
  ]);
  return element(
    "section",
    { class: "panel", "aria-label": `${method} ${path}` },
    element("h2", {}, `${method} ${path}`),
    element("p", { class: "faint" }, operation.description ?? operation.summary),
    ...(body ? [element("h3", {}, "Request"), fields(resolved(body)), example(path, resolved(body))] : []),
    element("h3", {}, "Answers"),
    table(rows),
    ...schemasOf(operation).map((name) => schema(name)),
  );
}

function schemasOf(operation) {
  const answer = operation.responses["200"]?.content?.["application/json"]?.schema;
  const names = [];
  const visit = (part) => {
    if (!part || typeof part !== "object") return;
    if (typeof part.$ref === "string") {
      const name = part.$ref.split("/").at(-1);
      if (names.includes(name)) return;
      names.push(name);
      visit(api.components.schemas[name]);
    } else Object.values(part).forEach(visit);
  };
  visit(answer);
  return names;
}

function schema(name) {
  return element(
    "details",
    {},
    element("summary", {}, element("code", {}, name), ` – ${api.components.schemas[name].description ?? ""}`),
    fields(api.components.schemas[name]),
  );
}

function fields({ properties = {}, required = [] }) {
  const rows = Object.entries(properties).map(([name, property]) => [
    name,
    typeOf(property) + (required.includes(name) ? ", required" : ""),
    [property.description, limits(property)].filter(Boolean).join("; "),
  ]);
  return table(rows);
}

function table(rows) {
  const lines = rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))));
  return element("div", { class: "table" }, element("table", {}, element("tbody", {}, ...lines)));
}

function example(path, { properties = {} }) {
  const known = Object.entries(properties).filter(([, property]) => property.examples);
  const body = Object.fromEntries(known.map(([name, property]) => [name, property.examples[0]]));
  const place = new URL(path.slice(1), document.baseURI);
  return element("pre", {}, `curl ${place} --json '${JSON.stringify(body)}'`);
}

function resolved(part) {
  return part.$ref ? api.components.schemas[part.$ref.split("/").at(-1)] : part;
}

function typeOf(part) {
  const choices = part.anyOf ?? part.oneOf;
  if (choices) return choices.map(typeOf).join(" or ");
  if (part.$ref) return part.$ref.split("/").at(-1);
  if (part.enum) return part.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (part.const) return JSON.stringify(part.const);
  if (part.type === "array") return part.items ? `list of ${typeOf(part.items)}` : "list";
  return part.type ?? "text";
}

function limits(part) {
  const say = {
    minimum: (value) => `at least ${value}`,
    maximum: (value) => `at most ${value}`,
    maxLength: (value) => `at most ${value} characters`,
    maxItems: (value) => `at most ${value} entries`,
    default: (value) => `${JSON.stringify(value)} if left out`,
  };
  return [part, ...(part.anyOf ?? part.oneOf ?? [])]
    .flatMap((choice) => Object.keys(say).filter((key) => choice[key] != null).map((key) => say[key](choice[key])))
    .join(", ");
}
