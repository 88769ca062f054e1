// The calls of /api/v1, and the documents that the page reads. openapi.yaml describes them.

export interface Session { level: "none" | "read" | "change"; cookie: boolean; token_file?: string }
export interface Release { version: number; author: string; note: string; published_at: string }
export interface State {
  ready: boolean; reason?: string; generation: number; hash: string; rules: number; loaded_at: string; last_error: string; fault?: "away" | "lost";
  release?: Release; store: string; store_error?: string; program: string; host: string; published: boolean; signed: boolean; fleet_modes: boolean; now: string;
}
export interface RuleFile { name: string; text: string }
export interface Rule {
  rule: number; name?: string; method: string; limit: string; counts_by: string[]; free: string[]; verdict: string; result: number;
  shadow: boolean; active: boolean; file: string; line: number;
}
export interface Param { name: string; sources: string[]; file: string; line: number }
export interface Route { text: string; file: string; line: number }
export interface Result { result: number; verdict: string; reason?: string; status?: number }
export interface List { name: string; path: string; entries: number }
export interface Finding {
  code: string; severity: "error" | "warning"; file: string; line: number; column: number; message: string; hint?: string; suggestion?: string; source: string;
}
export interface Book {
  hash: string; timezone: string; files: RuleFile[]; rules: Rule[]; params: Param[]; routes: Route[]; results: Result[];
  lists: List[]; tables: List[]; findings: Finding[]; imported?: { path: string; name?: string; limit: string }[];
}
export interface Word { word: string; methods: string[]; required: boolean }
export interface Words {
  sections: string[]; methods: string[]; thresholds: Word[]; outcomes: Word[]; policies: string[]; sources: string[]; modifiers: string[]; derived: string[];
  tokens: { words: string[]; places: string[]; algorithms: string[]; outcomes: string[] };
  codes: { code: string; meaning: string }[]; doors: Door[];
}
export interface Door { door: string; text: string; request: boolean; descriptor: boolean }
export interface ChangedRule { rule: number; name?: string; what?: string[] }
export interface Changes {
  added: number; removed: number; changed: number; added_rules?: ChangedRule[]; removed_rules?: ChangedRule[]; changed_rules?: ChangedRule[];
  list_entries_added: number; list_entries_removed: number; lists?: { name: string; added: number; removed: number }[];
  results?: number[]; tables?: string[]; sections?: string[];
}
export interface Content { sha256: string; size: number }
export interface Checked {
  errors: number; warnings: number; findings: Finding[]; rules?: number; hash?: string; changes?: Changes; contents: Content[];
}
export type Identity = Record<string, string>;
export interface WhyRule {
  rule: number; name?: string; matched: boolean; why: string; identity?: Identity; limit: number; used: number; remaining: number;
  lent?: { holders: number; per_second: number; of_per_second: number };
  reset_ms: number; retry_ms: number; banned_ms: number; exception?: string; counted: boolean;
}
export interface WhyImported {
  path?: string; name?: string; limit?: string; outcome: string; reason?: string; max: number; used: number; remaining: number; reset_ms: number; counted: boolean;
}
export interface Why {
  verdict: string; decider: number; rules: WhyRule[]; refusals: { at: string; door: string; rule: number }[]; degraded: boolean;
  ban?: { exception: string; until: string }; refused?: string; status?: number; headers?: { name: string; value: string }[]; imported?: WhyImported;
}
export interface Question {
  params?: Identity;
  request?: { door?: string; method?: string; target?: string; headers?: Record<string, string[]>; peer?: string; descriptor?: { key: string; value: string }[] };
}
export interface Report {
  params: { name: string; value: string; from?: string }[];
  tokens?: { name: string; outcome: string; from: string; reason?: string }[];
  forward?: { header: string; value: string; param: string; unsent?: string }[];
  rules: {
    return: number; name?: string; limit: string; outcome: string; inactive?: string; failed?: { condition: string; name: string; value: string }[];
    counted_for?: { name: string; value: string }[]; would?: string;
  }[];
  refused?: { status: number; reason: string };
  decision?: { verdict: string; decider?: number; name?: string; reason?: string; status?: number };
}
export interface Exception {
  id: string; rule: number; limit?: string; identity: Identity; handle?: string; what: "count" | "allow" | "deny" | "ban"; count: number; until: string; author: string; note: string;
}
export interface AutomaticBan { rule: number; name?: string; identity: Identity; handle?: string; banned_ms: number }
export interface Change { at: string; author: string; peer: string; host: string; action: string; detail: string }
export interface Fleet { prefix: string; in_force: number; last: number; now: string; max_version_bytes: number }
export interface Instance {
  id: string; host: string; pid: number; program_version: string; version: number; hash: string; since: string; state: string; store: string;
  last_error: string; modes: Record<string, string> | null; age_ms?: number;
}
export interface Version { version: number; hash: string; author: string; note: string; at: string; in_force: boolean; rules: number; problem?: string }
export interface Manifest { [field: string]: unknown; files: (RuleFileRef)[]; lists?: unknown[] }
export interface RuleFileRef { name: string; sha256: string; size: number }
export interface VersionDetail extends Version {
  before: number; program: string; files: RuleFile[]; lists: { source: string; path: string; sha256: string; size: number }[]; content: Manifest;
}
export interface Proposed { version: number; changes?: Changes }
export interface Progress { state: string; detail: string; at?: string; ready: string[]; waiting: string[] }
export interface HourRule { rule: number; name?: string; admitted: number[]; refused: number[]; near: number[]; shadow_refused: number[] }
export interface Hour {
  at: string; scope: string; instances: number; allowed: number[]; refused: number[]; observed: number[]; unavailable: number[]; invalid: number[];
  rules: HourRule[];
}
export interface Second {
  at: string; span_ms: number; allowed: number; refused: number; observed: number; unavailable: number; invalid: number;
  refusals: { rule: number; name?: string; refused: number }[];
}
export interface Top { rule: number; name?: string; identity: Identity; shortened?: boolean; handle?: string; direct?: boolean; refused: number; admitted: number; near: number; error: number; gone?: boolean; exception?: Pick<Exception, "id" | "what" | "until"> }

export interface TrialOptions { length_ms: number; then: "ask" | "enforce" | "keep"; abort_above: number }
export interface Trial {
  version: number; state: string; detail: string; hash: string; began: string; until?: string; then?: string; abort_above?: number; requests: number; dropped: number; refused_in_force: number; refused_on_trial: number; newly_refused: number; newly_allowed: number;
  rules: { rule: number; name: string; newly_refused: number; newly_allowed: number; identities: { identity: string; newly_refused: number; newly_allowed: number }[] }[];
}

export interface Replayed {
  calls: number; from?: string; to?: string; whole: boolean; every: number; masked: string[]; newly_refused: number; newly_allowed: number; rules: Trial["rules"];
}

/** Problem is an answer that is no success. Status 0: there was no answer. */
export class Problem extends Error {
  constructor(readonly status: number, detail: string, readonly retryAfter = 0) { super(detail); }
}

const prefix = "/api/v1/";

/** url returns the address of a path of the API. */
export const url = (path: string) => prefix + path;

const authorKey = "koalagate.author";

export function author(): string {
  try { return localStorage.getItem(authorKey) ?? ""; } catch { return ""; }
}

export function setAuthor(name: string) {
  try { localStorage.setItem(authorKey, name); } catch { /* the name lasts as long as this page */ }
}

/** headerText returns text as the bytes of UTF-8 that a header may have. */
const headerText = (text: string) => Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join("");

const timeout = 30_000;

/** longestRetry is the longest time in s after which a request is sent again by itself: lines of questions end sooner, and times for wrong tokens later. */
const longestRetry = 5;

const attempts = 3;

/** advice says what to do about a problem, after what has happened; undefined if its detail does. */
function advice(p: Problem): string | undefined {
  switch (p.status) {
    case 413: return p.message.includes("without the token") ? "Log in with the token for changes, which admits longer requests, or shorten the text." : "Shorten the text.";
    case 429: return p.retryAfter > 0 && p.retryAfter <= longestRetry ? `The page has asked ${attempts} times. Wait until the other one has its answer, and ask again.` : undefined;
  }
  return undefined;
}

/** call asks the API, again after Retry-After if the instance answers somebody else. It throws a Problem. */
export async function call<T>(method: string, path: string, body?: unknown, raw?: string): Promise<T> {
  for (let n = 1; ; n++) {
    try { return await once<T>(method, path, body, raw); } catch (e) {
      const what = e instanceof Problem ? advice(e) : undefined;
      if (!(e instanceof Problem) || !what) throw e;
      if (e.status !== 429 || n === attempts) throw new Problem(e.status, sentence(e.message) + " " + what, e.retryAfter);
      await new Promise((r) => setTimeout(r, e.retryAfter * 1000));
    }
  }
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1).replace(/\.?$/, ".");

async function once<T>(method: string, path: string, body?: unknown, raw?: string): Promise<T> {
  const headers: Record<string, string> = {};
  const name = author();
  if (name) headers["Koalagate-Author"] = headerText(name);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (raw !== undefined) headers["Content-Type"] = "application/octet-stream";
  let response: Response;
  try {
    response = await fetch(url(path), {
      method, headers, body: raw ?? (body === undefined ? null : JSON.stringify(body)), credentials: "same-origin", cache: "no-store",
      signal: AbortSignal.timeout(timeout),
    });
  } catch {
    throw new Problem(0, "The instance does not answer. It may have ended, or the network is gone.");
  }
  const text = await response.text().catch(() => "");
  let document: unknown;
  try { document = JSON.parse(text); } catch { document = undefined; }
  if (!response.ok) {
    const isPage = response.headers.get("Content-Type")?.includes("html"); // of a proxy in between
    const detail = (document as { detail?: string } | undefined)?.detail ?? (isPage ? `a proxy in front of the instance answered ${response.status}` : text.slice(0, 300) || response.statusText);
    throw new Problem(response.status, detail, Number(response.headers.get("Retry-After") ?? 0));
  }
  return document as T;
}

export const get = <T,>(path: string) => call<T>("GET", path);
export const post = <T,>(path: string, body: unknown) => call<T>("POST", path, body);
