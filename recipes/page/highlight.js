// Colours of code: comments, texts, numbers, and words of a family of languages. One pattern each,
// in one pass; what it mistakes is only coloured wrongly.

const kWords = "as async await bool boolean break case catch char class const constexpr continue def default " +
    "delete do double elif else end enum except export extends extern false False final finally float fn for " +
    "from func function go if impl implements import in include int interface is lambda let long loop match " +
    "mod mut namespace new nil None not null operator or and override package pass private protected pub " +
    "public raise ref return self short signed sizeof static string struct super switch template then this " +
    "throw throws trait true True try type typedef typename union unsigned use using var virtual void where " +
    "while with yield done fi esac local echo select SELECT FROM WHERE INSERT UPDATE DELETE JOIN GROUP ORDER BY " +
    "CREATE TABLE AND OR NOT NULL AS ON";
const kFamilies = {
  slash: "c cc cpp c++ cuda cu cs csharp go h hpp java javascript js jsx json kotlin php rust rs scala swift ts tsx typescript zig",
  hash: "bash cfg dockerfile ini make makefile nix perl py python r rb ruby sh shell toml yaml yml zsh",
  dash: "haskell hs lua sql",
};
const kComments = {slash: "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)", hash: "#[^\\n]*", dash: "--[^\\n]*"};
const kPatterns = new Map();  // by family

function patternOf(language) {
  const family = Object.keys(kFamilies).find((name) =>
      kFamilies[name].split(" ").includes(language.toLowerCase()));
  if (!family) return null;
  if (!kPatterns.has(family)) {
    const long = family === "hash" ? '"""[\\s\\S]*?(?:"""|$)|\'\'\'[\\s\\S]*?(?:\'\'\'|$)|' : "";
    const text = long + '"(?:[^"\\\\\\n]|\\\\.)*"?|\'(?:[^\'\\\\\\n]|\\\\.)*\'?' + (family === "slash" ? "|`(?:[^`\\\\]|\\\\[\\s\\S])*`?" : "");
    kPatterns.set(family, new RegExp(`(${kComments[family]})|(${text})|\\b(\\d[\\w.]*)\\b|([A-Za-z_]\\w*)`, "g"));
  }
  return kPatterns.get(family);
}

const kWordSet = new Set(kWords.split(" "));

function highlighted(code, language) {
  const pattern = patternOf(language);
  if (!pattern || code.length > 50000) return [code];
  const nodes = [];
  let shown = 0;
  for (const match of code.matchAll(pattern)) {
    const kind = match[1] ? "comment" : match[2] ? "string" : match[3] ? "number"
        : kWordSet.has(match[4]) ? "word" : null;
    if (!kind) continue;
    if (match.index > shown) nodes.push(code.slice(shown, match.index));
    nodes.push(el("span", {class: "h-" + kind}, match[0]));
    shown = match.index + match[0].length;
  }
  nodes.push(code.slice(shown));
  return nodes;
}
