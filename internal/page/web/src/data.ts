// What the page has read from the API, shared by all its panels.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, Problem } from "./api";

export interface Loaded<T> {
  value?: T; // the last answer, also after an error
  error?: Problem;
  at: number; // when value arrived
}

interface Entry {
  loaded: Loaded<unknown>;
  watchers: Set<() => void>;
  flying: boolean;
  again: boolean;
  timer?: number;
}

const entries = new Map<string, Entry>();
const nothing: Loaded<unknown> = { at: 0 };

async function load(path: string, e: Entry) {
  if (e.flying) { e.again = true; return; }
  e.flying = true;
  try {
    e.loaded = { value: await get(path), at: Date.now() };
  } catch (error) {
    e.loaded = { ...e.loaded, error: error instanceof Problem ? error : new Problem(0, String(error)) };
  }
  e.flying = false;
  const wait = e.loaded.error?.retryAfter ?? 0;
  if (wait > 0) setTimeout(() => { if (e.watchers.size > 0) void load(path, e); }, wait * 1000);
  for (const w of e.watchers) w();
  if (e.again) { e.again = false; void load(path, e); }
}

/** useData reads a path of the API, and again every so many ms and on refresh. */
export function useData<T>(path: string | null, every = 0): Loaded<T> {
  const [, redraw] = useState(0);
  const drawn = (path !== null && entries.get(path)?.loaded) || nothing;
  useEffect(() => {
    if (path === null) return;
    let e = entries.get(path);
    if (!e) entries.set(path, e = { loaded: { at: 0 }, watchers: new Set(), flying: false, again: false });
    const entry = e, watcher = () => redraw((n) => n + 1);
    entry.watchers.add(watcher);
    if (Date.now() - entry.loaded.at > 1000) void load(path, entry);
    else if (entry.loaded !== drawn) watcher(); // it arrived before there was a watcher
    const timer = every > 0 ? setInterval(() => { if (!document.hidden) void load(path, entry); }, every) : 0;
    return () => {
      entry.watchers.delete(watcher);
      clearInterval(timer);
      if (entry.watchers.size === 0 && path.includes("search=")) entries.delete(path); // few are asked again
    };
  }, [path, every]);
  return drawn as Loaded<T>;
}

/** useKept returns the last answer until there is one to the next question. */
export function useKept<T>(now: Loaded<T>): Loaded<T> {
  const last = useRef(now);
  if (now.value !== undefined || now.error) last.current = now;
  return last.current;
}

/** useHeld returns the value as it was when isHeld became true, until that ends. */
export function useHeld<T>(value: T, isHeld: boolean): T {
  const last = useRef(value);
  if (!isHeld) last.current = value;
  return last.current;
}

/** useSettled returns a value once it has stayed the same for so many ms. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, set] = useState(value);
  useEffect(() => { const t = setTimeout(() => set(value), ms); return () => clearTimeout(t); }, [value, ms]);
  return settled;
}

/** refresh reads paths again that begin with one of these words and are on the screen. Others are read when they are shown. */
export function refresh(...beginnings: string[]) {
  for (const [path, e] of entries) {
    if (beginnings.length > 0 && !beginnings.some((b) => path.startsWith(b))) continue;
    if (e.watchers.size > 0) void load(path, e);
    else entries.delete(path);
  }
}

/** Value is a value that components watch. */
export class Value<T> {
  private watchers = new Set<(v: T) => void>();
  constructor(private now: T) {}
  get() { return this.now; }
  set(v: T) { this.now = v; for (const w of this.watchers) w(v); }
  use(): T {
    const [v, set] = useState(this.now);
    useEffect(() => {
      set(() => this.now);
      const watcher = (next: T) => set(() => next);
      this.watchers.add(watcher);
      return () => { this.watchers.delete(watcher); };
    }, [this]);
    return v;
  }
}
