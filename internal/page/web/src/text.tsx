// Texts of rules, requests and operators as they are shown: never as HTML, with characters
// that are invisible or change the direction of text made visible.
import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

const odd = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]|(?! )\p{Zs}|^ +| +$/gu;
const longest = 240;

function codeOf(c: string): string {
  return "U+" + (c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}

/** Text shows text as it is. */
export function Text(p: { children: string; cut?: number }) {
  const [whole, setWhole] = useState(false);
  const most = p.cut ?? longest;
  const isCut = !whole && p.children.length > most;
  const text = isCut ? p.children.slice(0, most) : p.children;
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const m of text.matchAll(odd)) {
    parts.push(text.slice(at, m.index));
    if (m[0].startsWith(" ")) parts.push(<span class="odd" title={`${m[0].length} blanks`}>{"␣".repeat(Math.min(m[0].length, 8))}</span>);
    else parts.push(<span class="odd" title={codeOf(m[0])}>{codeOf(m[0])}</span>);
    at = m.index + m[0].length;
  }
  parts.push(text.slice(at));
  return <bdi>{parts}{isCut && <button type="button" class="more" onClick={(e) => { e.stopPropagation(); setWhole(true); }}>… {p.children.length - most} more</button>}</bdi>;
}

/** IdentityText shows the parameters of an identity. */
export function IdentityText(p: { of?: Record<string, string> }) {
  const names = Object.keys(p.of ?? {}).sort();
  if (names.length === 0) return <span class="faint">everyone</span>;
  return <span class="identity">{names.map((n) => <span class="pair" key={n}><span class="faint"><Text>{n}</Text>=</span><Text cut={80}>{p.of?.[n] ?? ""}</Text></span>)}</span>;
}

const units: [number, string][] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** many returns a number of things in words: 1 rule, 2 rules. */
export function many(n: number, one: string, others = one + "s"): string { return `${n} ${n === 1 ? one : others}`; }

/** span returns a time in ms in words: 1 h 12 m. */
export function span(ms: number): string {
  let seconds = Math.round(Math.abs(ms) / 1000);
  if (seconds === 0) return "0 s";
  const parts: string[] = [];
  for (const [size, name] of units) {
    const n = Math.floor(seconds / size);
    if (n > 0 && parts.length < 2) { parts.push(`${n} ${name}`); seconds -= n * size; } else if (parts.length > 0) break;
  }
  return parts.join(" ");
}

let ahead = 0; // ms: the clock of the instances, ahead of that of the browser
let clock = Date.now();
const watchers = new Set<(now: number) => void>();
setInterval(tick, 5000);

function tick() {
  clock = Date.now() + ahead;
  for (const w of watchers) w(clock);
}

/** setClock sets the time by the clock of the instances: that of the browser may be wrong by minutes. */
export function setClock(now: string) {
  const found = Date.parse(now) - Date.now();
  if (Math.abs(found - ahead) > 2000) { ahead = found; tick(); }
}

/** shownTime returns a time of the browser, in ms, as Ago takes it. */
export const shownTime = (at: number) => new Date(at + ahead).toISOString();

/** useNow returns the time by the clock of the instances, and again every five seconds. */
export function useNow(): number {
  const [now, set] = useState(clock);
  useEffect(() => { watchers.add(set); return () => { watchers.delete(set); }; }, []);
  return now;
}

/** Ago shows a time relative to now, with the exact one on hover. */
export function Ago(p: { at: string }) {
  const now = useNow();
  const at = Date.parse(p.at);
  if (!(at > 0)) return <span class="faint">–</span>;
  const past = now - at;
  const text = Math.abs(past) < 5000 ? "now" : past > 0 ? span(past) + " ago" : "in " + span(past);
  return <time dateTime={p.at} title={new Date(at).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" })}>{text}</time>;
}

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Num shows a number, aligned. */
export function Num(p: { children: number; quiet?: boolean }) {
  const n = p.children;
  return <span class={n === 0 && p.quiet ? "num faint" : "num"} title={whole.format(n)}>{n >= 100_000 ? compact.format(n) : whole.format(n)}</span>;
}

export const sum = (list: number[]) => list.reduce((a, b) => a + b, 0);

export function plural(n: number, noun: string): string { return n === 1 ? `1 ${noun}` : `${whole.format(n)} ${noun}s`; }
