// The key that some servers need: asked for once, kept until the tab is closed.

const KEPT = "pcfgnat-key";
const dialog = document.getElementById("key");
const field = dialog.querySelector("input");
let asked = null;

export function keyHeaders() {
  const key = sessionStorage.getItem(KEPT);
  return key ? { "X-API-Key": key } : {};
}

// Ask for a key, once for all requests that miss it; true if one was entered. `used` are the headers that failed.
export function askForKey(used) {
  const known = keyHeaders()["X-API-Key"];
  if (known && known !== used["X-API-Key"]) return Promise.resolve(true); // entered in the meantime
  asked ??= new Promise((resolve) => {
    dialog.querySelector(".problem").hidden = !known;
    field.value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      asked = null;
      const entered = dialog.returnValue === "use" ? field.value.trim() : "";
      if (entered) sessionStorage.setItem(KEPT, entered);
      resolve(Boolean(entered));
    }, { once: true });
    dialog.showModal();
  });
  return asked;
}
