// The page: a text, one or two panels, and what connects them.

import { known } from "./api.js";
import { copyText, element } from "./dom.js";
import { languageName } from "./language.js";
import { linkOf, readLink } from "./link.js";
import { Panel, strategyName } from "./panel.js";
import { startTheme } from "./theme.js";

const EXAMPLES = {
  en: ["I need something to cut this with.", "Where is the train station?", "My brother has bought a new car."],
  de: ["Ein Hund läuft durch den Schnee.", "Zwei Kinder spielen im Garten."],
};

const text = document.getElementById("text");
const compare = document.getElementById("compare");
const told = document.getElementById("told");
const place = document.getElementById("panels");
let panels = [];
let limits;

startTheme(document.getElementById("theme"));
start();

async function start() {
  try {
    const facts = await known();
    limits = facts.limits;
    const page = { ...facts, template: document.getElementById("panel"), changed, translated, tell };
    panels = [1, 2].map((number) => new Panel(page, number));
  } catch (error) {
    const again = element("button", { type: "button" }, "Try again");
    again.addEventListener("click", start);
    place.replaceChildren(element("p", { class: "problem", role: "alert" }, error.message, again));
    return;
  }
  text.addEventListener("input", () => {
    remember();
    for (const panel of shown()) panel.soon(text.value);
  });
  compare.addEventListener("change", () => {
    if (compare.checked) panels[1].settings = other(panels[0]);
    layOut();
    remember();
    translate();
  });
  document.getElementById("link").addEventListener("click", copyLink);
  addEventListener("hashchange", follow);
  follow();
  watchWidth();
}

// Show what the address says.
function follow() {
  const found = readLink(location.hash);
  if (found.text !== null) text.value = found.text;
  compare.checked = found.settings.length > 1;
  found.settings.forEach((settings, i) => {
    panels[i].settings = settings;
  });
  const missing = found.settings.map(({ model }) => model).find((name) => name && !panels[0].offers(name));
  if (missing) tell(`The link names the model ${missing}, which this server does not have.`);
  layOut();
  count();
  translate();
}

// Keep the address up to date, without a new entry in the browser's history.
function remember() {
  count();
  history.replaceState(null, "", linkOf(text.value, shown().map((panel) => panel.settings)));
}

async function copyLink() {
  remember();
  try {
    await copyText(location.href);
    tell("Copied the link.");
  } catch {
    tell("The browser did not allow copying; the link is in its address bar.");
  }
}

function count() {
  const length = [...text.value].length;
  document.getElementById("count").textContent = `${length} of ${limits.text_characters} characters`;
}

function shown() {
  return compare.checked ? panels : panels.slice(0, 1);
}

function layOut() {
  place.classList.toggle("two", compare.checked);
  place.replaceChildren(...shown().map((panel) => panel.root));
  greet();
}

// Settings of a panel have changed.
function changed() {
  greet();
  remember();
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
      remember();
      translate();
    });
    return button;
  });
  document.getElementById("examples").replaceChildren(...buttons);
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
  const next = strategies.indexOf(strategyName(panel.settings.strategy)) + 1;
  return { ...panel.settings, strategy: strategies[next % strategies.length] };
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
