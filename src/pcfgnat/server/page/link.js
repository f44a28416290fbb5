// A link to what is on the page. It stands behind the #, so that a text is never sent anywhere by opening it.

const FIELDS = ["model", "strategy", "length_penalty", "results", "terms"];

// Write a text and the settings of one or two panels.
export function linkOf(text, settings) {
  const written = new URLSearchParams();
  if (text) written.set("text", text);
  settings.forEach((panel, i) => {
    for (const name of FIELDS.filter((field) => panel[field] !== "")) {
      written.set(i ? `${name}${i + 1}` : name, panel[name]);
    }
  });
  return `#${written}`;
}

// Read it: { text, settings: [...] }; what it does not say is left out.
export function readLink(hash) {
  const written = new URLSearchParams(hash.replace(/^#/, ""));
  const settings = ["", "2"]
    .map((suffix) => {
      const found = FIELDS.filter((name) => written.has(name + suffix));
      return Object.fromEntries(found.map((name) => [name, written.get(name + suffix)]));
    })
    .filter((panel, i) => !i || panel.model);
  return { text: written.get("text"), settings };
}
