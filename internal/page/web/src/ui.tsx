// The parts that all views share.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Problem } from "./api";
import { type Loaded, Value } from "./data";
import { Ago, shownTime } from "./text";

/** Panel shows a part of a view in all its states: loading, missing, stale, empty. */
export function Panel<T>(p: {
  title: string; data?: Loaded<T>; empty?: string | false | undefined; tools?: ComponentChildren; children: (value: T) => ComponentChildren; id?: string;
}) {
  const d = p.data;
  return <section class="panel" aria-label={p.title} id={p.id}>
    <header><h2>{p.title}</h2>{d?.error && d.value !== undefined && <span class="stale" title={d.error.message}>stale, as of <Ago at={shownTime(d.at)} /></span>}<span class="grow" />{p.tools}</header>
    {!d || d.value !== undefined
      ? p.empty ? <p class="empty">{p.empty}</p> : p.children(d?.value as T)
      : d.error ? <Failure of={d.error} /> : <p class="empty loading">Loading …</p>}
  </section>;
}

/** Failure shows why something is missing. */
export function Failure(p: { of: Problem }) {
  if (p.of.status === 0) return <p class="empty">No answer.</p>; // the banner says why
  if (p.of.status === 404) return <p class="empty">Not available at this instance: {p.of.message}</p>;
  return <p class="failure" role="alert">{p.of.message}</p>;
}

/** Verdict shows the word for a verdict. */
export function Verdict(p: { of: string }) { return <span class={"verdict " + p.of}>{p.of}</span>; }

interface Note { id: number; text: string; undo?: () => Promise<void>; bad: boolean }
const notes = new Value<Note[]>([]);
let noteId = 0;

/** notify shows a line, with a button that undoes what it says. */
export function notify(text: string, undo?: () => Promise<void>, bad = false) {
  const note: Note = { id: ++noteId, text, bad, ...(undo ? { undo } : {}) };
  notes.set([...notes.get().slice(-3), note]);
  setTimeout(() => dismiss(note.id), undo ? 30_000 : 8_000);
}

function dismiss(id: number) { notes.set(notes.get().filter((n) => n.id !== id)); }

/** Notes shows the lines of notify. */
export function Notes() {
  return <div class="notes" role="status" aria-live="polite">{notes.use().map((n) => <div class={n.bad ? "note bad" : "note"} key={n.id}>
    <span>{n.text}</span>
    {n.undo && <button type="button" aria-label={"Undo: " + n.text} onClick={() => { dismiss(n.id); n.undo?.().catch((e) => notify(messageOf(e), undefined, true)); }}>Undo</button>}
    <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(n.id)}>×</button>
  </div>)}</div>;
}

/** messageOf returns the message of an error. */
export function messageOf(e: unknown): string { return e instanceof Error ? e.message : String(e); }

/** Twice is what a dialog says before its action, which it then asks for once more. */
export interface Twice { warning: string; action: string }

/** Dialog is a modal dialog with a form. Its action may fail: the dialog then stays, with what was typed. */
export function Dialog(p: {
  title: string; action: string; danger?: boolean; twice?: Twice | undefined; wide?: boolean; children: ComponentChildren; disabled?: boolean;
  onDo: () => Promise<void> | void; onClose: () => void;
}) {
  const at = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(""), [warned, setWarned] = useState("");
  const isWarned = p.twice?.warning === warned;
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    at.current?.showModal();
    return () => before?.focus?.();
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (busy) return;
    if (p.twice && !isWarned) return setWarned(p.twice.warning);
    setBusy(true);
    setError("");
    try { await p.onDo(); } catch (error) { setError(messageOf(error)); setBusy(false); }
  };
  return <dialog ref={at} class={p.wide ? "wide" : ""} aria-label={p.title} onCancel={(e) => { e.preventDefault(); if (!busy) p.onClose(); }}>
    <form onSubmit={submit}>
      <h2>{p.title}</h2>
      {p.children}
      {p.twice && isWarned && <p class="failure" role="alert">{p.twice.warning}</p>}
      {error && <p class="failure" role="alert">{error}</p>}
      <div class="buttons"><button type="button" class="quiet" onClick={p.onClose} disabled={busy}>Cancel</button>
        <button type="submit" class={p.danger ? "danger" : "primary"} disabled={busy || p.disabled}>{busy ? "Working …" : p.twice && isWarned ? p.twice.action : p.action}</button></div>
    </form>
  </dialog>;
}

/** Menu is a button that opens a list of buttons, the actions of a row. A list of rows must not change while onOpen says that one is open: a row that moves closes its menu. */
export function Menu(p: { of: string; onOpen?: ((isOpen: boolean) => void) | undefined; children: ComponentChildren }) {
  const id = useId(), button = useRef<HTMLButtonElement>(null), list = useRef<HTMLDivElement>(null);
  const items = () => Array.from(list.current?.querySelectorAll<HTMLElement>("button") ?? []);
  const place = () => {
    const at = list.current, from = button.current?.getBoundingClientRect();
    if (!at || !from) return;
    const below = from.bottom + 2, height = at.offsetHeight;
    at.style.top = `${below + height <= innerHeight ? below : Math.max(0, from.top - height - 2)}px`;
    at.style.left = `${Math.max(4, Math.min(from.left, innerWidth - at.offsetWidth - 4))}px`;
  };
  useEffect(() => {
    const follow = () => { if (list.current?.matches(":popover-open")) place(); };
    addEventListener("scroll", follow, true);
    return () => removeEventListener("scroll", follow, true);
  }, []);
  const shown = () => {
    const isOpen = !!list.current?.matches(":popover-open");
    button.current?.setAttribute("aria-expanded", String(isOpen));
    p.onOpen?.(isOpen);
    if (isOpen) { place(); items()[0]?.focus({ preventScroll: true }); }
  };
  const step = (e: KeyboardEvent) => {
    const by = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0, all = items();
    if (by === 0) return;
    e.preventDefault();
    all[(all.indexOf(document.activeElement as HTMLElement) + by + all.length) % all.length]?.focus();
  };
  return <><button type="button" ref={button} aria-label={"Actions for " + p.of} aria-haspopup="menu" aria-expanded="false" {...{ popovertarget: id }}>Actions</button>
    <div id={id} class="menu" role="menu" aria-label={"Actions for " + p.of} ref={list} onToggle={shown} onKeyDown={step} onClick={() => list.current?.hidePopover()} {...{ popover: "auto" }}>{p.children}</div></>;
}

/** MenuItem is an action of a menu. */
export function MenuItem(p: { children: string; danger?: boolean; onDo: () => void }) {
  return <button type="button" role="menuitem" class={p.danger ? "danger" : ""} onClick={p.onDo}>{p.children}</button>;
}

/** Field is a labelled input. */
export function Field(p: { label: string; hint?: string; children: ComponentChildren }) {
  return <label class="field"><span>{p.label}</span>{p.children}{p.hint && <small>{p.hint}</small>}</label>;
}

interface InputProps {
  value: string; onValue: (v: string) => void; type?: "text" | "search" | "number" | "password"; name?: string; id?: string; class?: string; placeholder?: string; list?: string;
  maxLength?: number; min?: number; max?: number; step?: string; required?: boolean; autofocus?: boolean; "aria-label"?: string;
}

/** Input is a text input that reports what is typed. */
export function Input(p: InputProps) {
  const { onValue, type = "text", ...rest } = p;
  const attributes: object = { type, ...rest };
  return <input autocomplete="off" spellcheck={false} {...attributes} onInput={(e) => onValue(e.currentTarget.value)} />;
}

/** Spark draws numbers as a line without axes. */
export function Spark(p: { of: number[]; label: string }) {
  const most = Math.max(1, ...p.of), w = 90, h = 18, n = Math.max(1, p.of.length - 1);
  const points = p.of.map((v, i) => `${(i / n * w).toFixed(1)},${(h - 1 - v / most * (h - 2)).toFixed(1)}`).join(" ");
  return <svg class="spark" viewBox={`0 0 ${w} ${h}`} role="img" aria-label={p.label} preserveAspectRatio="none"><polyline points={points} /></svg>;
}
