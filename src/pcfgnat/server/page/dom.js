// Small helpers. Text from outside only ever becomes text nodes.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = element("textarea", { class: "away" }); // plain http on another host has no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function percent(probability) {
  const share = 100 * probability;
  if (share > 0 && share < 0.1) return "<0.1 %";
  return `${share.toFixed(share < 10 ? 1 : 0)} %`;
}
