// What is known about a model: its card and its limits.

import { element } from "./dom.js";
import { direction } from "./language.js";

export function modelView(model, limits) {
  const { card } = model;
  const length =
    `Up to ${model.max_source_tokens} subword tokens at a time: longer text is split. ` +
    `At most ${limits.text_characters} characters in one request.`;
  const rows = [
    ["Model", model.title || model.name],
    ["Languages", direction(model)],
    ["Kind", model.kind],
    ["Trained on", card.data],
    ["Limits", card.limits],
    ["Length", length],
    ["Licence", card.licence],
  ];
  return rows
    .filter(([, text]) => text)
    .flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
}
