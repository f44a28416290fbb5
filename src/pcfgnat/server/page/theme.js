// Light, dark, or as the system has it; the choice is remembered.

const NAMES = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

export function startTheme(button) {
  apply(button, stored());
  button.addEventListener("click", () => {
    const names = Object.keys(NAMES);
    const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
    apply(button, next);
    try {
      localStorage.setItem("theme", next);
    } catch {
      // without storage it lasts as long as the page
    }
  });
}

function stored() {
  try {
    const found = localStorage.getItem("theme");
    return Object.hasOwn(NAMES, found) ? found : "auto";
  } catch {
    return "auto";
  }
}

function apply(button, name) {
  document.documentElement.dataset.theme = name;
  button.textContent = NAMES[name];
}
