// What is known about one node of a tree: its tokens and its rules, and what they could have been.

import { element, percent } from "./dom.js";

const WORD_START = /^▁/u;

// `lattice` is null until it has come.
export function nodeView(tree, position, lattice) {
  const own = tree.nodes[position];
  const found = lattice?.nodes.find((node) => node.node === own.node);
  const place = own.main_chain ? "main chain" : "prefix tree";
  const reached = found ? ` · reached with ${percent(found.reach)}` : "";
  return [
    element("h3", {}, shown(own.word)),
    element("p", { class: "faint" }, `Node ${own.node} · ${place}${reached}`),
    found
      ? element("div", { class: "columns" }, tokens(own, found), rules(tree, own, found, lattice))
      : element("p", { class: "faint" }, "Looking for alternatives…"),
  ];
}

function tokens(own, found) {
  const rows = found.tokens.map(({ token, word, probability }) => ({
    label: [shown(word)],
    probability,
    chosen: token === own.token,
  }));
  if (!rows.some((row) => row.chosen)) {
    rows.push({ label: [shown(own.word)], probability: chance(own.token_log_prob), chosen: true });
  }
  return list("Tokens", rows);
}

function rules(tree, own, found, lattice) {
  if (own.right === null) return element("div", {}, element("h4", {}, "Rules"), "A leaf has no rule to choose.");
  const words = new Map(lattice.nodes.map(({ node, word }) => [node, { word, used: false }]));
  for (const { node, word } of tree.nodes) words.set(node, { word, used: true });
  const chosen = [own.left, own.right].map((child) => (child === null ? null : tree.nodes[child].node));
  const rows = found.rules
    .filter(({ left, right, chosen: kept }) => !kept || (left === chosen[0] && right === chosen[1]))
    .map(({ left, right, probability }) => ({
      label: children(left, right, words),
      probability,
      chosen: left === chosen[0] && right === chosen[1],
    }));
  if (!rows.some((row) => row.chosen)) {
    rows.push({ label: children(...chosen, words), probability: chance(own.rule_log_prob), chosen: true });
  }
  return list("Rules: left and right child", rows);
}

function children(left, right, words) {
  const named = (node) => {
    const { word, used } = words.get(node);
    const how = used ? {} : { class: "unused", title: "not in this tree" };
    return element("span", how, shown(word), element("sub", {}, String(node)));
  };
  const none = element("span", { class: "none" }, "none");
  return ["↙ ", left === null ? none : named(left), " ↘ ", named(right)];
}

function list(title, rows) {
  const entries = rows.map(({ label, probability, chosen }) => {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${100 * probability}%`;
    const tick = chosen ? [element("span", { class: "tick" }, " ✓")] : [];
    return element(
      "li",
      chosen ? { class: "chosen" } : {},
      bar,
      element("span", {}, ...label, ...tick),
      element("span", {}, percent(probability)),
    );
  });
  return element("div", {}, element("h4", {}, title), element("ol", {}, ...entries));
}

function shown(word) {
  return word.replace(WORD_START, "") || "␣";
}

function chance(logProbability) {
  return logProbability == null ? 0 : Math.exp(logProbability);
}
