// Names of languages.

// "German" for "de"; whoever trained a model may have written anything.
export function languageName(code) {
  try {
    return code && new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

// "English to German", or nothing if one of them is not known.
export function direction({ source, target }) {
  return source && target ? `${languageName(source)} to ${languageName(target)}` : "";
}
