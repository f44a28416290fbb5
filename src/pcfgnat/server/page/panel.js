// One set of settings and what comes of it.

import { modelView } from "./about.js";
import { post } from "./api.js";
import { candidateList, candidatesOf } from "./candidates.js";
import { copyText, element, percent } from "./dom.js";
import { save, translationJson, treesPng } from "./downloads.js";
import { direction, languageName } from "./language.js";
import { nodeView } from "./node.js";
import { confidencesOf, readTerms } from "./terms.js";
import { passesView } from "./passes.js";
import { roundsView } from "./rounds.js";
import { treeView } from "./tree.js";

const PAUSE = 150; // after the last change, in milliseconds
const BUSY_AFTER = 250;
const NARROWEST = 260;
const SURE = 0.5; // words below are marked

export class Panel {
  #page;
  #find;
  #turn = 0; // of the newest request: older answers are thrown away
  #stop = new AbortController();
  #stopNode = new AbortController();
  #copies = {};
  #answer = null;
  #confidences = [];
  #text = "";
  #pending;

  // `page` has what all panels share: { template, models, limits, changed, translated, tell }
  constructor(page, number) {
    const { models, template } = page;
    this.#page = page;
    this.root = template.content.firstElementChild.cloneNode(true);
    this.root.setAttribute("aria-label", `Translation ${number}`);
    this.#find = (selector) => this.root.querySelector(selector);
    this.words = [];
    for (const model of models) {
      const name = [model.name, direction(model)].filter(Boolean).join(" · ");
      this.#find("[name=model]").append(element("option", { value: model.name }, name));
    }
    for (let count = 1; count <= page.limits.results; count += 1) {
      this.#find("[name=results]").append(element("option", { value: String(count) }, String(count)));
    }
    this.#offer();
    this.#listen();
  }

  #listen() {
    this.#find("form").addEventListener("submit", (event) => event.preventDefault());
    const changes = { model: () => this.#offer(), strategy: () => this.#showBeta(), length_penalty: () => this.#showBeta() };
    for (const name of ["model", "strategy", "length_penalty", "results", "terms"]) {
      const typed = ["length_penalty", "terms"].includes(name);
      this.#find(`[name=${name}]`).addEventListener(typed ? "input" : "change", () => {
        changes[name]?.();
        this.#page.changed();
        this.soon(this.#text);
      });
    }
    for (const button of this.root.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", () => this.#copy(button.dataset.copy));
    }
    for (const button of this.root.querySelectorAll("[data-save]")) {
      button.addEventListener("click", () => this.#save(button.dataset.save));
    }
  }

  // Whether there is a model of this name.
  offers(name) {
    return this.#page.models.some((model) => model.name === name);
  }

  get model() {
    return this.#page.models.find((model) => model.name === this.#find("[name=model]").value);
  }

  get settings() {
    return {
      model: this.model.name,
      strategy: this.#find("[name=strategy]").value,
      length_penalty: Number(this.#find("[name=length_penalty]").value),
      results: Number(this.#find("[name=results]").value),
      terms: this.#find("[name=terms]").value,
    };
  }

  // Settings may come from a link: what is missing or not possible stays as the model has it.
  set settings({ model, strategy, length_penalty, results, terms }) {
    if (this.offers(model)) this.#find("[name=model]").value = model;
    this.#offer();
    const strategies = [...this.#find("[name=strategy]").options];
    const wanted = strategies.find(({ value }) => strategyName(value) === strategyName(strategy ?? ""));
    if (wanted) wanted.selected = true;
    if (Number.isFinite(Number(length_penalty ?? NaN))) this.#find("[name=length_penalty]").value = length_penalty;
    const most = this.#page.limits.results;
    this.#find("[name=results]").value = String(Math.min(Math.max(Math.trunc(Number(results)) || 1, 1), most));
    this.#find("[name=terms]").value = terms ?? "";
    this.#showBeta();
  }

  // What the server is asked for.
  get #wanted() {
    const { terms, results, ...settings } = this.settings;
    const constraints = readTerms(terms);
    return constraints ? { ...settings, constraints } : settings;
  }

  // Translate a text once no change has come for a moment.
  soon(text) {
    this.#text = text;
    clearTimeout(this.#pending);
    this.#pending = setTimeout(() => this.translate(text), PAUSE);
  }

  // Translate a text and show it, unless something newer was asked for meanwhile.
  async translate(text) {
    const turn = this.#begin(text);
    const most = this.#page.limits.text_characters;
    const length = [...text].length;
    if (!text.trim() || length > most) {
      this.#done(turn);
      this.#clear();
      if (text.trim()) this.#fail(`The text has ${length} characters; at most ${most} are allowed.`);
      return;
    }
    const slow = setTimeout(() => this.#busy("Translating…"), BUSY_AFTER);
    const start = performance.now();
    try {
      const width = Math.max(NARROWEST, Math.floor(this.#find(".trees").clientWidth));
      const { results } = this.settings;
      const wanted = { text, ...this.#wanted, results, confidence: true, draw: ["svg", "latex"], width };
      const answer = await post("translate", wanted, this.#stop.signal, () => {
        if (turn === this.#turn) this.#busy("The server is busy. Trying again…");
      });
      if (turn === this.#turn) this.#show(answer, performance.now() - start);
    } catch (error) {
      if (error.name !== "AbortError" && turn === this.#turn) this.#fail(error.message);
    } finally {
      clearTimeout(slow);
      this.#done(turn);
    }
  }

  // Mark the words that the other panel does not have; without it none.
  mark(other) {
    const line = this.#find(".translation");
    const ours = this.words;
    const common = other ? shared(ours, other.words) : new Set(ours.keys());
    line.replaceChildren(
      ...ours.flatMap((word, i) => {
        const shown = common.has(i) ? this.#sure(word, i) : element("mark", {}, this.#sure(word, i));
        return i ? [" ", shown] : [shown];
      }),
    );
  }

  // A word with how sure the model is of it.
  #sure(word, i) {
    const confidence = this.#confidences[i] ?? null;
    if (confidence === null) return word;
    const kind = confidence < SURE ? "word unsure" : "word";
    return element("span", { class: kind, title: `${percent(confidence)} sure` }, word);
  }

  #begin(text) {
    clearTimeout(this.#pending);
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#text = text;
    this.#turn += 1;
    this.#find(".result").setAttribute("aria-busy", "true");
    return this.#turn;
  }

  #done(turn) {
    if (turn !== this.#turn) return;
    this.root.classList.remove("busy");
    this.#find(".result").setAttribute("aria-busy", "false");
  }

  #busy(message) {
    this.root.classList.add("busy");
    this.#find(".latency").textContent = message;
  }

  #clear() {
    this.words = [];
    this.#confidences = [];
    this.#answer = null;
    this.#find(".translation").replaceChildren();
    this.#find(".candidates").replaceChildren();
    this.#find(".candidates").hidden = true;
    this.#find(".trees").replaceChildren();
    this.#find(".problem").hidden = true;
    this.#find(".notes").hidden = true;
    this.#find(".hint").hidden = true;
    this.#find(".latency").textContent = "";
    this.#closeNode();
    this.#offerCopies({});
    this.#page.translated();
  }

  #fail(message) {
    this.#clear();
    const again = element("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => this.translate(this.#text));
    this.#find(".problem").replaceChildren(message, " ", again);
    this.#find(".problem").hidden = false;
  }

  #show(answer, roundTrip) {
    const [translation] = answer.translations;
    this.#clear();
    this.#answer = answer;
    const candidates = candidatesOf(translation);
    const notes = [...(translation.notes ?? [])];
    const { results, strategy } = this.settings;
    if (translation.pieces.length && candidates.length < results) {
      notes.push(`${strategyName(strategy)} found ${candidates.length} of ${results} translations`);
    }
    this.#find(".notes").textContent = notes.join(". ");
    this.#find(".notes").hidden = !notes.length;
    this.#find(".latency").textContent = latency(answer.timing, roundTrip);
    if (candidates.length > 1) {
      const rows = candidateList(candidates, this.model.target, (rank) => this.#showCandidate(candidates[rank]));
      this.#find(".candidates").replaceChildren(...rows);
      this.#find(".candidates").hidden = false;
    }
    this.#showCandidate(candidates[0]);
  }

  #showCandidate({ text, parts, words, passes, verified }) {
    this.#closeNode();
    this.words = text.split(" ").filter(Boolean);
    this.#confidences = confidencesOf(this.words, words);
    this.#find(".translation").lang = this.model.target;
    this.#find(".translation").dir = "auto";
    const views = parts.map((part) =>
      treeView(part.svg, part.text, part.forced ?? [], (position) => this.#chooseNode(part, position)),
    );
    this.#find(".trees").replaceChildren(...views);
    this.#find(".hint").hidden = !views.length;
    if (passes.length) {
      this.#find(".trees").append(passesView(passes, this.model.target));
    } else if (verified.length) {
      const rounds = verified.flatMap((part) => roundsView(part.verification, part.pieces, this.model.target));
      this.#find(".trees").append(...rounds);
    } else if (!views.length) {
      this.#find(".trees").append(element("p", { class: "faint" }, "This model builds no trees."));
    }
    this.#offerCopies({
      text,
      svg: parts.map((part) => part.svg).join("\n"),
      latex: parts.map((part) => part.latex).join("\n"),
      png: parts.map((part) => part.svg),
    });
    this.#page.translated();
  }

  async #chooseNode(part, position) {
    this.#closeNode();
    if (position === null) return;
    const aside = this.#find(".alternatives");
    const stop = this.#stopNode;
    aside.replaceChildren(...nodeView(part.tree, position, null));
    aside.hidden = false;
    try {
      const found = await post("explain", { text: part.source, ...this.#wanted }, stop.signal);
      if (!stop.signal.aborted) aside.replaceChildren(...nodeView(part.tree, position, found.lattice));
    } catch (error) {
      if (!stop.signal.aborted) aside.append(element("p", { class: "problem" }, error.message));
    }
  }

  #closeNode() {
    this.#stopNode.abort();
    this.#stopNode = new AbortController();
    this.#find(".alternatives").hidden = true;
    this.#find(".alternatives").replaceChildren();
  }

  // Show what the chosen model can do, with its own settings.
  #offer() {
    const { model } = this;
    const own = strategyName(model.strategy); // it may have settings, as beam:size=5
    const choices = model.strategies.map((name) => {
      const value = name === own ? model.strategy : name;
      return element("option", { value }, name);
    });
    this.#find("[name=strategy]").replaceChildren(...choices);
    this.#find("[name=strategy]").value = model.strategy;
    this.#find("[name=length_penalty]").value = model.length_penalty;
    this.#find(".target").textContent = languageName(model.target) || "Translation";
    this.#find(".about dl").replaceChildren(...modelView(model, this.#page.limits));
    this.#showBeta();
  }

  #showBeta() {
    const { strategy, length_penalty } = this.settings;
    const works = this.model.penalised_strategies.includes(strategyName(strategy));
    this.#find("[name=length_penalty]").disabled = !works;
    this.#find("[name=beta-value]").textContent = works ? length_penalty.toFixed(1) : `no effect on ${strategyName(strategy)}`;
  }

  #offerCopies(copies) {
    this.#copies = copies;
    for (const button of this.root.querySelectorAll("[data-copy]")) {
      button.disabled = !copies[button.dataset.copy];
    }
    this.#find("[data-save=png]").disabled = !copies.png?.length;
    this.#find("[data-save=json]").disabled = !copies.text;
  }

  async #copy(kind) {
    try {
      await copyText(this.#copies[kind]);
      this.#page.tell(`Copied the ${{ text: "text", svg: "tree as SVG", latex: "tree as LaTeX" }[kind]}.`);
    } catch {
      this.#page.tell("The browser did not allow copying.");
    }
  }

  async #save(kind) {
    try {
      const blob = kind === "png" ? await treesPng(this.#copies.png) : translationJson(this.#answer);
      save(blob, `${kind === "png" ? "tree" : "translation"}.${kind}`);
      this.#page.tell(`Saved the ${kind === "png" ? "tree" : "translation"}.`);
    } catch (error) {
      this.#page.tell(`It could not be saved: ${error.message}.`);
    }
  }
}

// The name of a strategy without its settings.
export function strategyName(strategy) {
  return strategy.split(":")[0];
}

function latency({ model_ms, queue_ms, batch_texts }, roundTrip) {
  const shown = (value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
  const together = batch_texts > 1 ? ` with ${batch_texts} texts at once` : "";
  return `${shown(model_ms)} in the model${together} · ${shown(queue_ms)} waiting · ${shown(roundTrip)} in total`;
}

// Which of the words `a` belong to the longest common subsequence with `b`.
function shared(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] =
        a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const common = new Set();
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      common.add(i);
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return common;
}
