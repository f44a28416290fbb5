// The passes in which a translation was written: what changed in each of them is marked.

import { element } from "./dom.js";

// A list with the pieces after each pass.
export function passesView(passes, lang) {
  const rows = passes.map((pieces, pass) => {
    const before = pass ? passes[pass - 1] : [];
    const shown = pieces.flatMap((piece, i) => {
      const marked = before[i] === piece ? element("span", {}, piece) : element("mark", {}, piece);
      return i ? [" ", marked] : [marked];
    });
    return element("li", { lang, dir: "auto" }, ...shown);
  });
  return element("ol", { class: "passes", "aria-label": "Passes; what changed is marked" }, ...rows);
}
