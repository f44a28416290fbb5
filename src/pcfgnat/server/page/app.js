// The page: a text, one or two panels, and what connects them.

import { known } from "./api.js";
import { element } from "./dom.js";
import { Panel } from "./panel.js";
import { startTheme } from "./theme.js";

const EXAMPLES = {
  en: ["The weather is nice today.", "Where is the train station?", "My brother has bought a new car."],
  de: ["Ein Hund läuft durch den Schnee.", "Zwei Kinder spielen im Garten."],
};

const text = document.getElementById("text");
const compare = document.getElementById("compare");
const told = document.getElementById("told");
const place = document.getElementById("panels");
let panels = [];

startTheme(document.getElementById("theme"));
start();

async function start() {
  try {
    const page = { ...(await known()), template: document.getElementById("panel"), changed: greet, translated, tell };
    panels = [1, 2].map((number) => new Panel(page, number));
  } catch (error) {
    const again = element("button", { type: "button" }, "Try again");
    again.addEventListener("click", start);
    place.replaceChildren(element("p", { class: "problem", role: "alert" }, error.message, again));
    return;
  }
  text.addEventListener("input", () => {
    for (const panel of shown()) panel.soon(text.value);
  });
  compare.addEventListener("change", () => {
    if (compare.checked) panels[1].settings = other(panels[0]);
    layOut();
    translate();
  });
  layOut();
  translate();
  watchWidth();
}

function shown() {
  return compare.checked ? panels : panels.slice(0, 1);
}

function layOut() {
  place.classList.toggle("two", compare.checked);
  place.replaceChildren(...shown().map((panel) => panel.root));
  greet();
}

// Name the language to type, and offer examples in it.
function greet() {
  const { source } = panels[0].model;
  document.getElementById("text-label").textContent = languageName(source) || "Text";
  text.lang = source;
  const buttons = (EXAMPLES[source] ?? []).map((example) => {
    const button = element("button", { type: "button", class: "example" }, example);
    button.addEventListener("click", () => {
      text.value = example;
      translate();
    });
    return button;
  });
  document.getElementById("examples").replaceChildren(...buttons);
}

function languageName(code) {
  try {
    return code && new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // whoever trained the model may have written anything
  }
}

function translate() {
  for (const panel of shown()) panel.translate(text.value);
}

// Words that only one of two panels has are marked.
function translated() {
  const [first, second] = panels;
  first.mark(compare.checked ? second : null);
  second.mark(first);
}

// Something to compare with: the model's next strategy.
function other(panel) {
  const { strategies } = panel.model;
  const next = strategies.indexOf(panel.settings.decode) + 1;
  return { ...panel.settings, decode: strategies[next % strategies.length] };
}

let silence;
function tell(message) {
  told.textContent = message;
  clearTimeout(silence);
  silence = setTimeout(() => told.replaceChildren(), 4000);
}

// Trees are drawn for the width that there is.
function watchWidth() {
  let width = place.clientWidth;
  let settled;
  new ResizeObserver(() => {
    clearTimeout(settled);
    settled = setTimeout(() => {
      if (Math.abs(place.clientWidth - width) < 40) return;
      width = place.clientWidth;
      translate();
    }, 300);
  }).observe(place);
}
