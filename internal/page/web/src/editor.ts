// The editor, which is loaded when it is first shown. It lives in a shadow root, where its
// styles are adopted style sheets: the page allows no inline styles.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import type { Book, Finding, Words } from "./api";
import { completer, ruleLanguage } from "./language";

export interface Editor {
  show(name: string, text: string, line?: number): void;
  find(f: Finding[]): void;
  focus(): void;
  end(): void;
}

const theme = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--sunk)", color: "var(--text)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select)" },
  ".cm-panels, .cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", fontStyle: "normal", marginLeft: "1em" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-diagnostic": { padding: "6px 10px" },
  ".cm-textfield, .cm-button": { background: "var(--sunk)", color: "var(--text)", border: "1px solid var(--line)" },
});

const odd = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\u00a0\u3000]/gu;

/** rangeOf returns the range of a finding. Columns count characters, and the editor UTF-16. */
function rangeOf(doc: Text, f: Finding): { from: number; to: number } {
  const line = doc.line(Math.max(1, Math.min(f.line, doc.lines)));
  const from = line.from + Math.min(line.length, Array.from(line.text).slice(0, Math.max(0, f.column - 1)).join("").length);
  const word = /^[^\s;\]]+/.exec(line.text.slice(from - line.from))?.[0].length ?? 0;
  return { from, to: Math.min(line.to, from + Math.max(1, word)) };
}

/** typeOver replaces a selection of several lines. A browser that did so would keep the style of the first line as an inline style, which the page does not allow. */
function typeOver(e: InputEvent, view: EditorView): boolean {
  const { from, to } = view.state.selection.main, doc = view.state.doc, text = e.data;
  if (e.inputType !== "insertText" || text === null || view.composing || doc.lineAt(from).number === doc.lineAt(to).number) return false;
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert))) view.dispatch(insert());
  e.preventDefault();
  return true;
}

/** open opens an editor in an element. */
export function open(host: HTMLElement, o: { words: () => Words | undefined; book: () => Book | undefined; onText: (name: string, text: string) => void; onPublish: () => void }): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  const states = new Map<string, EditorState>();
  let name = "", findings: Finding[] = [], quiet = false;
  const diagnostics = (): Diagnostic[] => findings.filter((f) => f.file === name).map((f) => ({
    ...rangeOf(view.state.doc, f), severity: f.severity, source: f.code, message: f.message + (f.hint ? "\n" + f.hint : "") + (f.suggestion ? `\nDid you mean ${f.suggestion}?` : ""),
    ...(f.suggestion ? { actions: [{ name: `Write ${f.suggestion}`, apply: (v: EditorView, from: number, to: number) => v.dispatch({ changes: { from, to, insert: f.suggestion as string } }) }] } : {}),
  }));
  const extensions = [
    lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), highlightSpecialChars({ specialChars: odd }), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightSelectionMatches(), search({ top: true }),
    autocompletion({ override: [completer(o.words, o.book)], icons: false }), lintGutter(), ruleLanguage, theme,
    EditorView.domEventHandlers({ beforeinput: typeOver }),
    EditorView.contentAttributes.of({ "aria-label": "Rule file", tabindex: "0", spellcheck: "false", autocapitalize: "off" }),
    keymap.of([{ key: "Mod-Enter", run: () => { o.onPublish(); return true; } }, ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
    EditorView.updateListener.of((u) => { if (u.docChanged && !quiet) o.onText(name, u.state.doc.toString()); }),
  ];
  const view = new EditorView({ parent: root, root, extensions });
  const mark = () => view.dispatch(setDiagnostics(view.state, diagnostics()));
  return {
    show(next, text, line) {
      if (name) states.set(name, view.state);
      quiet = true;
      const isOther = next !== name;
      if (isOther) {
        name = next;
        view.setState(states.get(next) ?? EditorState.create({ doc: text, extensions }));
      }
      if (view.state.doc.toString() !== text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      quiet = false;
      if (isOther) mark(); // its marks may be from an earlier check
      if (line) {
        const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
        view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
        view.focus();
      }
    },
    find(list) { findings = list; mark(); },
    focus() { view.focus(); },
    end() { view.destroy(); },
  };
}
