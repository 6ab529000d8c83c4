// Formulas: \( \), \[ \], $$ $$ and $ $ as MathML, for the part of TeX that answers mostly use:
// letters, numbers, sub- and superscripts, fractions, roots, sums, Greek, common signs, \text.
// A formula with anything else is shown as it is written.

const kMathSpace = "http://www.w3.org/1998/Math/MathML";
const kMathLimit = 2000;  // characters of a formula

const kSigns = {};
for (const pair of ("alpha \u03b1 beta \u03b2 gamma \u03b3 delta \u03b4 epsilon \u03f5 varepsilon \u03b5 zeta \u03b6 eta \u03b7 " +
    "theta \u03b8 iota \u03b9 kappa \u03ba lambda \u03bb mu \u03bc nu \u03bd xi \u03be pi \u03c0 rho \u03c1 sigma \u03c3 tau \u03c4 " +
    "upsilon \u03c5 phi \u03d5 varphi \u03c6 chi \u03c7 psi \u03c8 omega \u03c9 Gamma \u0393 Delta \u0394 Theta \u0398 Lambda \u039b " +
    "Xi \u039e Pi \u03a0 Sigma \u03a3 Phi \u03a6 Psi \u03a8 Omega \u03a9 infty \u221e partial \u2202 nabla \u2207 hbar \u210f ell \u2113 " +
    "emptyset \u2205 ldots \u2026 cdots \u22ef dots \u2026 vdots \u22ee").split(" ").join(",").matchAll(/([A-Za-z]+),([^,]+)/g))
  kSigns[pair[1]] = ["mi", pair[2]];
for (const pair of ("cdot \u22c5 times \u00d7 div \u00f7 pm \u00b1 mp \u2213 leq \u2264 le \u2264 geq \u2265 ge \u2265 neq \u2260 ne \u2260 " +
    "approx \u2248 equiv \u2261 sim \u223c propto \u221d in \u2208 notin \u2209 subset \u2282 subseteq \u2286 cup \u222a cap \u2229 " +
    "forall \u2200 exists \u2203 to \u2192 rightarrow \u2192 leftarrow \u2190 Rightarrow \u21d2 Leftarrow \u21d0 implies \u21d2 iff \u21d4 " +
    "leftrightarrow \u2194 mapsto \u21a6 land \u2227 lor \u2228 neg \u00ac circ \u2218 ll \u226a gg \u226b mid \u2223 " +
    "langle \u27e8 rangle \u27e9 lfloor \u230a rfloor \u230b lceil \u2308 rceil \u2309 " +
    "sum \u2211 prod \u220f int \u222b oint \u222e").split(" ").join(",").matchAll(/([A-Za-z]+),([^,]+)/g))
  kSigns[pair[1]] = ["mo", pair[2]];
const kFunctions = new Set("sin cos tan cot log ln exp lim max min arg det dim gcd sup inf Pr".split(" "));
const kAccents = {hat: "^", bar: "\u00af", vec: "\u2192", dot: "\u02d9", tilde: "~", overline: "\u00af"};
const kSpaces = {",": "0.17em", ":": "0.22em", ";": "0.28em", "!": "0", " ": "0.25em", quad: "1em", qquad: "2em"};
const kFonts = {mathbf: "bold", mathrm: "normal", operatorname: "normal", text: "normal", textbf: "bold"};

class MathUnknown extends Error {}

function mathNode(tag, ...children) {
  const node = document.createElementNS(kMathSpace, tag);
  node.append(...children);
  return node;
}

// One formula; what() of TeX is read from the left.
class Formula {
  constructor(source) {
    this.tokens = source.match(/\\[A-Za-z]+|\\[\s\S]|\d+(?:\.\d+)?|\s+|[\s\S]/gu) || [];
    this.at = 0;
    this.depth = 0;
  }
  peek() {
    while (/^\s+$/.test(this.tokens[this.at] || "")) ++this.at;
    return this.tokens[this.at];
  }
  row(end) {
    if (++this.depth > 40) throw new MathUnknown();
    const nodes = [];
    while (this.peek() !== end) {
      if (this.peek() === undefined || this.peek() === "}" || this.peek() === "\\right") throw new MathUnknown();
      nodes.push(this.scripted());
    }
    ++this.at;
    --this.depth;
    return nodes;
  }
  scripted() {
    const base = this.atom();
    let under = null, over = null;
    for (let sign = this.peek(); sign === "_" || sign === "^" || sign === "'"; sign = this.peek()) {
      if (sign !== "'") ++this.at;
      const script = sign === "'" ? this.primes() : this.atom();
      if (sign === "_") under = script;
      else over = over ? mathNode("mrow", over, script) : script;
    }
    if (!under && !over) return base;
    const limits = /^[\u2211\u220f]$|^(lim|max|min|sup|inf)$/.test(base.textContent);
    if (under && over) return mathNode(limits ? "munderover" : "msubsup", base, under, over);
    return under ? mathNode(limits ? "munder" : "msub", base, under) : mathNode("msup", base, over);
  }
  primes() {
    let count = 0;
    for (; this.tokens[this.at] === "'"; ++this.at) ++count;
    return mathNode("mo", "\u2032".repeat(count));
  }
  atom() {
    const token = this.peek();
    ++this.at;
    if (token === undefined || token === "}" || token === "&" || token === "^" || token === "_") throw new MathUnknown();
    if (token === "{") return mathNode("mrow", ...this.row("}"));
    if (token[0] === "\\") return this.command(token.slice(1));
    if (/^\d/.test(token)) return mathNode("mn", token);
    return mathNode(/^\p{L}$/u.test(token) ? "mi" : "mo", token === "-" ? "\u2212" : token);
  }
  command(name) {
    if (Object.hasOwn(kSigns, name)) return mathNode(...kSigns[name]);
    if (kFunctions.has(name)) return mathNode("mi", name);
    if (Object.hasOwn(kSpaces, name)) {
      const space = mathNode("mspace");
      space.setAttribute("width", kSpaces[name]);
      return space;
    }
    if (Object.hasOwn(kFonts, name)) return this.worded(kFonts[name]);
    if (Object.hasOwn(kAccents, name)) return mathNode("mover", this.atom(), mathNode("mo", kAccents[name]));
    if (/^[dt]?frac$/.test(name)) return mathNode("mfrac", this.atom(), this.atom());
    if (name === "sqrt") return this.root();
    if (name === "left") return this.fenced();
    if ("{}%#$&_|".includes(name)) return mathNode("mo", name === "|" ? "\u2016" : name);
    throw new MathUnknown();
  }
  worded(variant) {
    if (this.peek() !== "{") throw new MathUnknown();
    const end = this.tokens.indexOf("}", this.at);
    const words = this.tokens.slice(this.at + 1, end).join("");
    if (end < 0 || /[\\{$]/.test(words)) throw new MathUnknown();
    this.at = end + 1;
    const node = mathNode(variant === "bold" ? "mi" : "mtext", words.replace(/^ | $/g, "\u00a0"));
    if (variant === "bold") node.style.fontWeight = "bold";
    return node;
  }
  root() {
    if (this.peek() !== "[") return mathNode("msqrt", this.atom());
    ++this.at;
    const degree = mathNode("mrow", ...this.row("]"));
    return mathNode("mroot", this.atom(), degree);
  }
  fenced() {
    const side = () => {
      const token = this.peek();
      ++this.at;
      if (token === undefined) throw new MathUnknown();
      const sign = kSigns[token.slice(1)];
      return mathNode("mo", token === "." ? "" : sign ? sign[1] : token.replace("\\", ""));
    };
    const open = side();
    const inner = this.row("\\right");
    return mathNode("mrow", open, ...inner, side());
  }
}

function formulaNode(source, display) {
  try {
    const formula = new Formula(source.trim());
    const nodes = [];
    while (formula.peek() !== undefined) nodes.push(formula.scripted());
    const math = mathNode("math", ...nodes);
    if (display) math.setAttribute("display", "block");
    return math;
  } catch (error) {
    if (!(error instanceof MathUnknown)) throw error;
    return el("code", {class: "formula"}, source.trim());
  }
}

// A formula that begins at text[i], inside a paragraph.
function mathAt(text, i) {
  const rest = text.slice(i, i + kMathLimit);
  const match = /^\\\(([\s\S]+?)\\\)/.exec(rest) || /^\\\[([\s\S]+?)\\\]/.exec(rest) || /^\$\$([^$]+?)\$\$/.exec(rest);
  if (match) return {node: formulaNode(match[1], match[0][0] === "$" || match[0][1] === "["), end: i + match[0].length};
  const one = /^\$(?=[^\s$])([^$\n]*?[^\s$\\])\$(?!\d)/.exec(rest);
  return one && {node: formulaNode(one[1], false), end: i + one[0].length};
}

// One that has lines of its own; null if it does not end.
function mathBlockAt(lines, i, mark) {
  const close = mark === "$$" ? "$$" : "\\]";
  const begin = lines[i].indexOf(mark) + mark.length;
  for (let end = i; end < Math.min(lines.length, i + 60); ++end) {
    const at = lines[end].indexOf(close, end === i ? begin : 0);
    if (at < 0) continue;
    if (!isBlank(lines[end].slice(at + close.length))) return null;
    const source = [lines[i].slice(begin, end === i ? at : undefined),
                    ...lines.slice(i + 1, end), ...(end > i ? [lines[end].slice(0, at)] : [])].join("\n");
    return {end: end + 1, node: () => el("div", {class: "display"}, formulaNode(source, true))};
  }
  return null;
}
