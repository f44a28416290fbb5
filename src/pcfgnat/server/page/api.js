// Talks to the server. Answers are plain data; problems are errors whose message can be shown.

import { askForKey, keyHeaders } from "./key.js";

const TRIES = 4;

// The models that there are, and the limits: { models, limits }.
export async function known() {
  const answer = await fetched("models");
  if (!answer.ok) throw new Error(await problem(answer));
  return answer.json();
}

// Send a request; if the server is busy, wait as it asks for and try again. `onBusy` is told. If it needs a key,
// the user is asked for it.
export async function post(path, body, signal, onBusy = () => {}) {
  for (let attempt = 1; ; attempt += 1) {
    const key = keyHeaders();
    const answer = await sent(path, body, key, signal);
    if (answer.ok) return answer.json();
    if (answer.status === 401 && (await askForKey(key))) {
      attempt -= 1;
      continue;
    }
    const again = Number(answer.headers.get("Retry-After"));
    if (![429, 503].includes(answer.status) || !again || attempt === TRIES) {
      throw new Error(await problem(answer));
    }
    onBusy();
    await pause(1000 * Math.min(again, 10), signal);
  }
}

function sent(path, body, key, signal) {
  const headers = { "Content-Type": "application/json", ...key };
  return fetched(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function fetched(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer.");
  }
}

async function problem(answer) {
  try {
    const { detail } = await answer.json();
    return `The server says: ${detail}`;
  } catch {
    return `The server answers with status ${answer.status}.`;
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("no longer wanted", "AbortError"));
    });
  });
}
