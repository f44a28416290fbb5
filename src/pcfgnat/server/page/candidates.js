// The best translations of a text, to choose from; each has trees of its own.

import { element } from "./dom.js";

// The candidates of an answer, best first: { text, score, words, passes, parts, verified }, where parts are what has a
// tree, and verified what was drafted and verified.
// One of a text that was split consists of the candidates of the same rank of all pieces.
export function candidatesOf(translation) {
  const pieces = translation.parts?.length ? translation.parts : [translation];
  return [translation, ...(translation.alternatives ?? [])].map(({ text, score, passes }, rank) => {
    const own = pieces.map((piece) => ({ ...(rank ? piece.alternatives[rank - 1] : piece), source: piece.source }));
    return {
      text,
      score,
      words: rank ? [] : (translation.words ?? []),
      passes: passes ?? [],
      parts: own.filter((part) => part.tree),
      verified: own.filter((part) => part.verification),
    };
  });
}

// A list of them; `onChoose(rank)` is called when somebody chooses one.
export function candidateList(candidates, lang, onChoose) {
  const buttons = candidates.map(({ text, score }, rank) => {
    const shown = element("span", { lang, dir: "auto" }, text);
    const button = element("button", { type: "button", class: "candidate" }, shown, element("span", {}, chance(score)));
    button.addEventListener("click", () => {
      press(buttons, rank);
      onChoose(rank);
    });
    return button;
  });
  press(buttons, 0);
  return buttons.map((button) => element("li", {}, button));
}

function press(buttons, rank) {
  buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === rank)));
}

function chance(score) {
  return `log P ${score == null ? "−∞" : score.toFixed(2).replace("-", "−")}`;
}
