// The text that is being changed, which outlasts views, log-ins and reloads of the page.
import { get, type Book, type RuleFile, type State, type VersionDetail } from "./api";
import { Value } from "./data";

export interface Draft {
  base: RuleFile[]; // the files that it began with
  files: RuleFile[];
  version: number; // the version in force that it is compared with; 0 for rules of files, or before the first version
  published: boolean;
  signed: boolean;
  active?: VersionDetail | undefined;
  file: string; // the one in the editor
}

export const draft = new Value<Draft | undefined>(undefined);

const key = "koalagate.draft";

/** isChanged reports whether a draft differs from its base. */
export function isChanged(d: Draft | undefined): boolean {
  return !!d && (d.files.length !== d.base.length || d.files.some((f, i) => f.name !== d.base[i]?.name || f.text !== d.base[i]?.text));
}

/** inForce reads what is in force. */
export async function inForce(): Promise<Draft> {
  const [state, book] = await Promise.all([get<State>("state"), get<Book>("rules")]);
  const active = state.published && book.hash ? await get<VersionDetail>("versions/active") : undefined;
  const files = active?.files ?? book.files;
  return { base: files, files, version: active?.version ?? 0, published: state.published, signed: state.signed, active, file: files[0]?.name ?? "rules.conf" };
}

const empty: RuleFile = { name: "rules.conf", text: "[rules]\n\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10, \"Str_reason\":\"Deny\"}\n[end]\n" };

/** begin begins a draft, or returns to the one that was begun. */
export async function begin(): Promise<void> {
  if (isChanged(draft.get())) return;
  const now = await inForce();
  if (isChanged(draft.get())) return; // an earlier draft was on the screen, and could be changed, meanwhile
  if (now.files.length === 0) now.files = [empty];
  let kept: { base: RuleFile[]; files: RuleFile[]; version: number; file: string } | undefined;
  try { kept = JSON.parse(sessionStorage.getItem(key) ?? "null") ?? undefined; } catch { kept = undefined; }
  draft.set(kept ? { ...now, ...kept } : now);
}

let later = 0;

/** change changes the draft. */
export function change(c: Partial<Draft>) {
  const now = draft.get();
  if (!now) return;
  draft.set({ ...now, ...c });
  clearTimeout(later);
  later = setTimeout(keep, 500);
}

function keep() {
  const d = draft.get();
  try {
    if (d && isChanged(d)) sessionStorage.setItem(key, JSON.stringify({ base: d.base, files: d.files, version: d.version, file: d.file }));
    else sessionStorage.removeItem(key);
  } catch { sessionStorage.removeItem(key); /* too large: it lasts as long as this page */ }
}

/** discard takes what is in force instead of the draft. */
export async function discard() {
  const now = await inForce();
  draft.set(now);
  keep();
}

addEventListener("beforeunload", (e) => {
  clearTimeout(later);
  keep(); // the last change may not be kept yet
  if (isChanged(draft.get()) && !sessionStorage.getItem(key)) e.preventDefault();
});
