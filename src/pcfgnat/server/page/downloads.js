// Files made in the browser: trees as PNG, translations as JSON.

import { element } from "./dom.js";

const SCALE = 2;
const NAMES = ["ink", "muted", "chain", "prefix"];
const MOST_PIXELS = 16_000; // on a side; browsers draw nothing beyond

// Put pictures of trees, given as texts of SVG, under each other, in the page's colours.
export async function treesPng(svgTexts) {
  const images = await Promise.all(svgTexts.map((text) => loaded(coloured(text))));
  const width = Math.max(...images.map((image) => image.width));
  const height = images.reduce((sum, image) => sum + image.height, 0);
  const scale = Math.min(SCALE, MOST_PIXELS / width, MOST_PIXELS / height);
  const canvas = element("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = resolved("--card");
  context.fillRect(0, 0, width, height);
  let top = 0;
  for (const image of images) {
    context.drawImage(image, 0, top);
    top += image.height;
  }
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png");
  });
}

// A line of JSON that `pcfgnat draw --json` reads too: settings and translation, without the pictures.
export function translationJson({ model, strategy, length_penalty, translations: [translation] }) {
  const pictures = new Set(["svg", "latex"]);
  const kept = (name, value) => (pictures.has(name) ? undefined : value);
  const line = JSON.stringify({ model, strategy, length_penalty, ...translation }, kept);
  return new Blob([line, "\n"], { type: "application/json" });
}

export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// An image on its own does not see the page's colours: name them in it.
function coloured(svgText) {
  const colours = NAMES.map((name) => `--pcfgnat-${name}:${resolved(`--pcfgnat-${name}`)};`).join("");
  const rule = `svg.pcfgnat-picture{--pcfgnat-paper:transparent;${colours}}`;
  return svgText.replace("<style>", `<style>${rule}`);
}

function resolved(variable) {
  const probe = element("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function loaded(svgText) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.addEventListener("load", () => resolve(image));
    image.addEventListener("error", () => reject(new Error("the picture cannot be drawn")));
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText)}`;
  });
}
