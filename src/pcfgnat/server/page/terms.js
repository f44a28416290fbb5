// What a translation must have and must not have, as one line: `house = Gebäude; Bahnhof; -Haus; ^Das; <60`.

const MOST = { require: 16, forbid: 16, glossary: 200 }; // what the server takes
const LONGEST = 200;
const MOST_CHARACTERS = 2000;

// Read a line: a term and its translation, a phrase that is required, one that is forbidden behind a minus, the
// beginning behind `^`, and behind `<` how many characters there may be at most.
// The result is null if nothing is asked for; what is incomplete is left out.
export function readTerms(line) {
  const found = { require: [], forbid: [], glossary: [] };
  const limits = {};
  for (const entry of line.split(/[;\n]/).map((part) => part.trim())) {
    const [source, target] = entry.split("=").map((part) => part.trim());
    const characters = entry.match(/^<\s*(\d*)$/);
    if (characters) {
      const most = Number(characters[1]);
      if (0 < most && most <= MOST_CHARACTERS) limits.max_characters = most;
    } else if (entry.startsWith("^")) {
      if (short(entry.slice(1).trim())) limits.prefix = entry.slice(1).trim();
    } else if (entry.includes("=")) {
      if (short(source) && short(target)) found.glossary.push({ source, target });
    } else if (entry.startsWith("-")) {
      if (short(entry.slice(1).trim())) found.forbid.push(entry.slice(1).trim());
    } else if (short(entry)) found.require.push(entry);
  }
  for (const [kind, most] of Object.entries(MOST)) found[kind] = found[kind].slice(0, most);
  const asked = Object.keys(limits).length || Object.values(found).some((entries) => entries.length);
  return asked ? { ...found, ...limits } : null;
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
