// The rounds in which a draft was verified: what was accepted, what was dropped, what took its place.

import { element } from "./dom.js";

const END = "</s>";

// A summary, and a list with one row per round; `pieces` are those of the finished translation.
export function roundsView({ rounds, accepted, drafts }, pieces, lang) {
  const written = [...pieces, END];
  let before = 0;
  const rows = drafts.map((draft) => {
    const place = before + draft.accepted;
    const dropped = draft.pieces.slice(draft.accepted);
    const parts = [
      part("span", "verified", written.slice(0, before)),
      part("span", "accepted", draft.pieces.slice(0, draft.accepted)),
      part("del", "dropped", dropped),
      part("ins", "corrected", dropped.length ? written.slice(place, place + 1) : []),
    ].filter(Boolean);
    before = place + 1;
    return element("li", { lang, dir: "auto" }, ...parts.flatMap((shown, i) => (i ? [" ", shown] : [shown])));
  });
  const drafted = drafts.reduce((sum, draft) => sum + draft.pieces.length, 0);
  const summary = `${rounds} ${rounds === 1 ? "round" : "rounds"}: ${accepted} of ${drafted} drafted pieces accepted`;
  const label = "Rounds of verification: accepted, dropped and corrected pieces";
  return [
    element("p", { class: "faint" }, summary),
    element("ol", { class: "passes rounds", "aria-label": label }, ...rows),
  ];
}

function part(tag, kind, pieces) {
  const text = pieces.map((piece) => (piece === END ? "∎" : piece)).join(" ");
  return text ? element(tag, { class: kind }, text) : null;
}
