// A tree's picture inside the page: every node can be reached and chosen with the mouse or the keyboard.

const sheets = new Map();

// `onChoose(position, node)` is called when somebody chooses a node, with null when they let it go.
// `forced` are the places of words that were asked for, counted behind the beginning of the sentence.
export function treeView(svgText, label, forced, onChoose) {
  const svg = parsed(svgText);
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `Parse tree of ${label}. Arrow keys move, Enter shows alternatives.`);
  const nodes = [...svg.querySelectorAll("[data-node]")];
  nodes.sort((a, b) => a.dataset.position - b.dataset.position);
  nodes.forEach((node, index) => prepare(node, index));
  for (const node of nodes) node.classList.toggle("forced", forced.includes(node.dataset.position - 1));
  const focus = (index) => {
    const next = nodes[Math.max(0, Math.min(nodes.length - 1, index))];
    for (const node of nodes) node.setAttribute("tabindex", node === next ? "0" : "-1");
    next.focus();
  };
  const choose = (node) => {
    const chosen = node && node.getAttribute("aria-pressed") !== "true" ? node : null;
    for (const other of nodes) other.setAttribute("aria-pressed", String(other === chosen));
    onChoose(chosen && Number(chosen.dataset.position));
  };
  svg.addEventListener("click", (event) => {
    const node = event.target.closest("[data-node]");
    if (node) {
      focus(nodes.indexOf(node));
      choose(node);
    }
  });
  svg.addEventListener("keydown", (event) => {
    const index = nodes.indexOf(event.target.closest("[data-node]"));
    const moves = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: nodes.length - 1 };
    if (event.key in moves) focus(moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") choose(nodes[index]);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
  });
  return svg;
}

function prepare(node, index) {
  node.setAttribute("role", "button");
  node.setAttribute("tabindex", index === 0 ? "0" : "-1");
  node.setAttribute("aria-pressed", "false");
  const title = node.querySelector("title");
  if (title) node.setAttribute("aria-label", title.textContent.replaceAll("\n", ", "));
}

// Read the picture as XML: nothing in it is run. The page's policy allows no style sheets inside of elements,
// so the picture's becomes one of the page.
function parsed(svgText) {
  const plain = svgText.replace(/<style>([^<]*)<\/style>/g, (_, rules) => adopt(rules));
  const read = new DOMParser().parseFromString(plain, "image/svg+xml");
  if (read.querySelector("parsererror")) throw new Error("The picture of the tree cannot be read.");
  return document.importNode(read.documentElement, true);
}

function adopt(rules) {
  if (!sheets.has(rules)) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(rules);
    sheets.set(rules, sheet);
    document.adoptedStyleSheets = [...sheets.values()];
  }
  return "";
}
