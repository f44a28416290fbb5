// What a translation must have and must not have, as one line: `house = Gebäude; Bahnhof; -Haus`.

const MOST = { require: 16, forbid: 16, glossary: 200 }; // what the server takes
const LONGEST = 200;

// Read a line: a term and its translation, a phrase that is required, or one that is forbidden behind a minus.
// The result is null if nothing is asked for; what is incomplete is left out.
export function readTerms(line) {
  const found = { require: [], forbid: [], glossary: [] };
  for (const entry of line.split(/[;\n]/).map((part) => part.trim())) {
    const [source, target] = entry.split("=").map((part) => part.trim());
    if (entry.includes("=")) {
      if (short(source) && short(target)) found.glossary.push({ source, target });
    } else if (entry.startsWith("-")) {
      if (short(entry.slice(1).trim())) found.forbid.push(entry.slice(1).trim());
    } else if (short(entry)) found.require.push(entry);
  }
  for (const [kind, most] of Object.entries(MOST)) found[kind] = found[kind].slice(0, most);
  return Object.values(found).some((entries) => entries.length) ? found : null;
}

// How sure the model is of each word that is shown, null where that is not known.
export function confidencesOf(shown, words) {
  let next = 0;
  return shown.map((word) => {
    const place = words.findIndex(({ text }, i) => i >= next && word.includes(text));
    if (place < 0) return null;
    next = place + 1;
    return words[place].confidence;
  });
}

function short(phrase) {
  return phrase && [...phrase].length <= LONGEST;
}
