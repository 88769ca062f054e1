// The colors and completions of the rule language.
import { snippetCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { HighlightStyle, StreamLanguage, syntaxHighlighting, type StringStream } from "@codemirror/language";
import { tags as t } from "@lezer/highlight";
import type { Book, Words } from "./api";

interface State { section: string; bracket: number; fresh: boolean }

const language = StreamLanguage.define<State>({
  startState: () => ({ section: "", bracket: 0, fresh: true }),
  token(s, state) {
    if (s.sol()) { state.bracket = 0; state.fresh = true; }
    if (s.eatSpace()) return null;
    if (s.peek() === "#" && (state.fresh || /^(tokens|params|routes|forward|settings)$/.test(state.section) && /\s/.test(s.string[s.pos - 1] ?? " "))) { s.skipToEnd(); return "comment"; }
    const begins = state.fresh;
    state.fresh = false;
    if (begins) {
      const header = s.match(/^\[\s*([A-Za-z]+)\s*\]/) as RegExpMatchArray | null;
      if (header && state.bracket === 0) { state.section = (header[1] as string).toLowerCase(); return "heading"; }
    }
    switch (state.section) {
      case "rules": return ruleToken(s, state, begins);
      case "result": return resultToken(s);
      case "routes": return begins && s.match(/^\S+/) ? "keyword" : s.match(/^\{[^}]*\}/) ? "variableName" : s.match(/^[\w.-]+(?==)/) ? "propertyName" : s.match(/^[^\s{=;]+/) ? "string" : (s.next(), "punctuation");
      case "params": return begins && s.match(/^[^\s:]+/) ? "variableName" : s.match(/^(header|cookie|query|metadata|descriptor|principal|sni|client-ip|gateway|table|jwt|has|else|by|lower|hashed)\b/) ? "keyword" : s.match(/^"[^"]*"?/) ? "string" : s.match(/^[^\s:"]+/) ? "propertyName" : (s.next(), "punctuation");
      case "tokens": return begins && s.match(/^[^\s:]+/) ? "variableName" : s.match(/^[a-z]+(?==)/) ? "propertyName" : s.match(/^(oidc|bearer|header|cookie|query)\b/) ? "keyword" : s.match(/^[^\s;,=#][^\s;,=]*/) ? "string" : (s.next(), "punctuation");
      case "forward": return begins && s.match(/^[^\s:]+/) ? "propertyName" : s.eat(":") ? "punctuation" : s.match(/^[^\s:#]+/) ? "variableName" : (s.next(), null);
      default: return begins && s.match(/^[^\s:]+/) ? "variableName" : s.eat(":") ? "punctuation" : s.match(/^[^:#]+/) ? "string" : (s.next(), null);
    }
  },
});

function ruleToken(s: StringStream, state: State, begins: boolean): string | null {
  if (begins && s.match(/^rule\b/)) return "keyword";
  if (s.eat("[")) { state.bracket++; return "bracket"; }
  if (s.eat("]") || s.match(/^[;:,]/)) return "punctuation";
  if (s.match(/^\{~\}/) || s.match(/^(!=\+|=\+|!=|!@|!<|!>|!~|[=<>@~])/)) return "operator";
  if (state.bracket === 2 && s.match(/^(before|after)\s+now\b/)) return "operator";
  if (s.match(/^"[^"]*"?/)) return "string";
  if (state.bracket === 1 && s.match(/^[a-z]+/)) return "typeName";
  if (s.match(/^[\w.-]+(?=\s*(=|!=|@|!@|<|>|!<|!>|~|!~|(before|after)\s+now\b))/)) return "propertyName";
  if (s.match(/^\d[\w.:*/-]*/)) return "number";
  if (s.match(/^(table|param|by|else|unlimited|hashed)\b/)) return "keyword";
  if (s.match(/^[^\s;,\][{}=<>@!~]+/)) return state.bracket === 2 ? "string" : "atom";
  s.next();
  return null;
}

function resultToken(s: StringStream): string | null {
  if (s.match(/^"(?:[^"\\]|\\.)*"(?=\s*:)/)) return "propertyName";
  if (s.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
  if (s.match(/^-?\d+(\.\d+)?/)) return "number";
  if (s.match(/^(true|false|null)\b/)) return "atom";
  s.next();
  return "punctuation";
}

const colors = HighlightStyle.define([
  { tag: t.comment, color: "var(--faint)", fontStyle: "italic" }, { tag: t.heading, color: "var(--accent)", fontWeight: "600" },
  { tag: t.keyword, color: "var(--code-keyword)" }, { tag: t.typeName, color: "var(--code-keyword)", fontWeight: "600" }, { tag: t.propertyName, color: "var(--code-name)" },
  { tag: t.variableName, color: "var(--code-name)" }, { tag: t.string, color: "var(--code-text)" }, { tag: t.number, color: "var(--code-number)" },
  { tag: t.atom, color: "var(--code-text)" }, { tag: t.operator, color: "var(--code-keyword)" }, { tag: t.punctuation, color: "var(--faint)" }, { tag: t.bracket, color: "var(--faint)" },
]);

/** ruleLanguage is the extension with the colors. */
export const ruleLanguage = [language, syntaxHighlighting(colors)];

/** tokensOf returns the names of the lines of [tokens] in a text. */
function tokensOf(lines: Iterable<string>): string[] {
  const names: string[] = [];
  let inside = false;
  for (const line of lines) {
    const header = /^\s*\[\s*([a-z]+)\s*\]/i.exec(line);
    if (header) inside = header[1]?.toLowerCase() === "tokens";
    const name = inside && !header ? /^\s*([^\s:#]+)\s*:/.exec(line)?.[1] : undefined;
    if (name) names.push(name);
  }
  return names;
}

/** completer returns the completions of words, parameters, lists, tables and results. */
export function completer(words: () => Words | undefined, book: () => Book | undefined) {
  return (c: CompletionContext): CompletionResult | null => {
    const w = words(), b = book();
    if (!w) return null;
    const line = c.state.doc.lineAt(c.pos), before = line.text.slice(0, c.pos - line.from);
    const word = /[\w.-]*$/.exec(before)?.[0] ?? "";
    const result = (options: Completion[]): CompletionResult | null => word === "" && !c.explicit && !/[[;=@]\s*$|^\s*\S+\s+:\s*$/.test(before) || options.length === 0 ? null : { from: c.pos - word.length, options, validFor: /^[\w.-]*$/ };
    const plain = (list: string[], type: string, detail?: string) => list.map((label) => ({ label, type, ...(detail ? { detail } : {}) }));
    let section = "";
    for (let n = line.number - 1; n > 0 && section === ""; n--) section = /^\s*\[\s*([a-z]+)\s*\]\s*(#.*)?$/i.exec(c.state.doc.line(n).text)?.[1]?.toLowerCase() ?? "";
    if (/^\s*\[\s*[a-z]*$/i.test(before)) return result(plain(w.sections, "namespace"));
    const tokens = tokensOf(c.state.doc.iterLines());
    if (section === "tokens") {
      if (/;\s*[a-z]*$/.test(before)) return result(w.tokens.words.map((label) => ({ label, apply: label + "=", type: "property" })));
      if (/\bfrom\s*=([^;]*,)?\s*[a-z]*$/.test(before)) return result(plain(w.tokens.places, "keyword"));
      if (/\balgorithms\s*=([^;]*,)?\s*\w*$/.test(before)) return result(plain(w.tokens.algorithms, "constant"));
      return /^\s*[^\s:]+\s*:\s*[a-z]*$/.test(before) ? result(plain(["oidc"], "keyword", "an issuer of OpenID Connect")) : null;
    }
    const names = [...new Set([...tokens.map((name) => "jwt." + name), ...w.derived, ...(b?.params ?? []).map((p) => p.name), ...(b?.rules ?? []).flatMap((r) => r.counts_by)])];
    if (section === "params" && /\bjwt\s+[\w-]*$/.test(before)) return result(plain(tokens, "constant", "token"));
    if (section === "params") return /:|else/.test(before) ? result(plain([...w.sources, ...w.modifiers, "else"], "keyword")) : null;
    if (section === "forward") return /\s:\s*[\w.-]*$/.test(before) ? result(plain(names, "variable")) : null;
    if (section !== "rules") return null;
    if (/^\s*r?u?l?e?$/.test(before)) return result([snippetCompletion("rule : [${count}] [${act=comment; uid=+}] [time=${60}; count=${10}] [result=${2}; return=${201}]", { label: "rule", type: "keyword", detail: "a rule" })]);
    const bracket = before.split("[").length - 1;
    if (bracket === 1) return result(plain(w.methods, "type"));
    if (bracket === 2 && /\bjwt\.[\w-]+\s*!?=([^;]*,)?\s*[a-z]*$/.test(before)) return result(plain(w.tokens.outcomes, "constant"));
    if (bracket === 2) return /@\s*[\w.-]*$/.test(before) ? result(plain((b?.lists ?? []).map((l) => l.name), "constant", "word list")) : /[=<>~][^;]*$/.test(before) ? null : /[;[]\s*[\w.:-]+\s+[a-z]*$/.test(before) ? result(plain(["before now", "after now"], "keyword")) : result(plain(names, "variable"));
    const method = /rule\s*:\s*\[\s*([a-z]+)/.exec(line.text)?.[1] ?? "";
    const value = /([a-z0-9]+)\s*=\s*[^;=]*$/.exec(before)?.[1];
    if (value === "result") return result((b?.results ?? []).map((r) => ({ label: String(r.result), type: "constant", detail: [r.verdict, r.reason].filter(Boolean).join(" ") })));
    if (value === "fail") return result(plain(w.policies, "constant"));
    if (value === "cost" || /\b(by|param)\s+[\w.-]*$/.test(before)) return result(plain(names, "variable"));
    if (/\btable\s+[\w.-]*$/.test(before)) return result(plain((b?.tables ?? []).map((l) => l.name), "constant", "table"));
    if (value) return null;
    const list = bracket === 3 ? w.thresholds : w.outcomes;
    return result(list.filter((x) => x.methods.length === 0 || x.methods.includes(method)).map((x) => ({ label: x.word, apply: x.word + "=", type: "property", ...(x.required ? { detail: "required", boost: 1 } : {}) })));
  };
}
