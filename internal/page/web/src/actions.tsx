// Changes for one identity: reset its counter, except it from a rule, ban it.
import { useState } from "preact/hooks";
import { call, post, type Book, type Exception, type Identity } from "./api";
import { refresh, useData, Value } from "./data";
import { changing } from "./session";
import { IdentityText } from "./text";
import { Dialog, Field, Input, notify, type Twice } from "./ui";

/** Target is an identity of a rule, or of an imported limit, whose path it has. */
export interface Target { rule: number; path?: string; name?: string; identity: Identity; handle?: string; limit?: number; direct?: boolean }
interface Action extends Target { kind: "reset" | "except" | "ban" | "banAll"; done?: () => void }

/** effectOf says in a word or two what an exception does. */
export const effectOf = (x: Pick<Exception, "what"> & Partial<Exception>) => x.what === "count" ? x.count ? `count ${x.count}` : "another count" : x.what === "allow" ? "passes" : x.what === "ban" ? "banned from everything" : "banned";

const open = new Value<Action | undefined>(undefined);

/** act opens the dialog of a change. */
export function act(a: Action) { open.set(a); }

const ruleText = (t: Target) => t.path ? `limit ${t.path}` : `rule ${t.rule}${t.name ? ` (${t.name})` : ""}`;

/** everyone returns the warning about a ban that tells no client from another, undefined for others: by a rule, or of all requests with some parameters. */
export function everyone(book: Book | undefined, names: string[], rule?: number): Twice | undefined {
  if (!book || rule === 0 || rule === undefined && book.imported) return undefined; // imported limits may tell clients apart
  const free = new Set(rule === undefined ? book.rules.flatMap((r) => r.free) : book.rules.find((r) => r.rule === rule)?.free);
  if (names.length === 0 && rule === undefined || names.some((n) => free.has(n.split("@")[0] ?? n))) return undefined;
  return { warning: rule === undefined ? "No rule tells one client from another by these parameters: the ban refuses everyone whose requests have them." : `Rule ${rule} counts these requests together: the ban refuses everyone who meets the rule.`, action: "Ban everyone" };
}

/** Buttons are the changes for one identity of a rule. */
export function Buttons(p: { of: Target; counted?: boolean; exception?: Pick<Exception, "id"> & Partial<Exception>; done?: () => void }) {
  const done = p.done ? { done: p.done } : {}, x = p.exception;
  return <span class="actions">
    {p.counted !== false && x?.what !== "ban" && <button type="button" onClick={() => act({ ...p.of, ...done, kind: "reset" })}>Reset</button>}
    {x ? <button type="button" onClick={() => void end(x.id, p.done)}>{endText(x)}</button>
      : <><button type="button" onClick={() => act({ ...p.of, ...done, kind: "except" })}>Except for 2 h</button>
        <button type="button" class="danger" onClick={() => act({ ...p.of, ...done, kind: "ban" })}>Ban</button></>}
    {x?.what !== "ban" && <button type="button" class="danger" onClick={() => act({ ...p.of, ...done, kind: "banAll" })}>Ban from everything</button>}
  </span>;
}

/** endText is the name of the button that ends an exception. */
export const endText = (x: Partial<Exception>) => x.what === "ban" || x.what === "deny" ? "End ban" : "End exception";

function changed(done?: () => void) { refresh("exceptions", "bans", "audit", "top"); done?.(); }

/** end ends an exception, which can be undone. */
export async function end(id: string, done?: () => void) {
  try {
    const gone = await changing(() => call<Exception>("DELETE", "exceptions/" + encodeURIComponent(id)));
    changed(done);
    notify(gone.what === "ban" ? "The ban has ended." : `The exception of ${gone.limit ? `limit ${gone.limit}` : `rule ${gone.rule}`} has ended.`, async () => { await add([gone]); changed(done); });
  } catch (e) { notify((e as Error).message, undefined, true); }
}

/** by names a masked identity by its handle. */
const by = (handle?: string) => handle ? { handle } : {};

/** add adds exceptions until their ends or, by the clock of the instances, for so many hours. */
export function add(list: Partial<Exception>[], hours?: number): Promise<Exception[]> {
  return changing(() => post<Exception[]>("exceptions", { ...(hours ? { for_ms: Math.round(hours * 3600_000) } : {}), exceptions: list.map(({ rule, limit, identity, handle, what, count, until, note }) => ({ id: "", rule, ...(limit ? { limit } : {}), identity, ...by(handle), what, count: count ?? 0, until: until ?? new Date().toISOString(), author: "", note: note ?? "" })) }));
}

const lengths: [string, number][] = [["15 minutes", 0.25], ["1 hour", 1], ["2 hours", 2], ["8 hours", 8], ["1 day", 24], ["7 days", 168], ["31 days", 744]];

/** Actions is the dialog of the change that is open. */
export function Actions() {
  const a = open.use();
  if (a?.kind === "banAll") return <BanDialog key={JSON.stringify(a.identity)} of={a} />;
  return a ? <ActionDialog key={a.kind + a.rule + JSON.stringify(a.identity)} of={a} /> : null;
}

function ActionDialog(p: { of: Action }) {
  const a = p.of;
  const [note, setNote] = useState("");
  const [hours, setHours] = useState(2);
  const [what, setWhat] = useState<"allow" | "count">("allow");
  const [count, setCount] = useState(String((a.limit ?? 50) * 2));
  const book = useData<Book>("rules").value;
  const close = () => open.set(undefined);
  const reset = async () => {
    await changing(() => post("reset", { rule: a.rule, identity: a.identity, ...by(a.handle), ...(note ? { note } : {}) }));
    close();
    changed(a.done);
    notify(`The counter of ${ruleText(a)} starts anew.`);
  };
  const except = async (kind: Exception["what"]) => {
    const added = await add([{ rule: a.rule, ...(a.path ? { limit: a.path } : {}), identity: a.identity, ...by(a.handle), what: kind, note, ...(kind === "count" ? { count: Number(count) } : {}) }], hours);
    close();
    changed(a.done);
    const id = added[0]?.id ?? "";
    notify(`${kind === "deny" ? "Banned" : "Excepted"} from ${ruleText(a)}.`, async () => { await changing(() => call("DELETE", "exceptions/" + id)); changed(a.done); });
  };
  const title = { reset: "Reset a counter", except: "Except an identity", ban: "Ban an identity", banAll: "" }[a.kind];
  return <Dialog title={title} action={{ reset: "Reset", except: "Except", ban: "Ban", banAll: "" }[a.kind]} danger={a.kind === "ban"} twice={a.kind === "ban" ? everyone(book, Object.keys(a.identity), a.rule) : undefined} onClose={close}
    onDo={() => a.kind === "reset" ? reset() : except(a.kind === "ban" ? "deny" : what)}>
    <p class="target"><strong>{ruleText(a)}</strong> <IdentityText of={a.identity} /></p>
    {a.kind === "reset" && <p>The counter starts anew and a ban is lifted, at all instances within a second. This cannot be undone.</p>}
    {a.kind === "ban" && <p>The rule refuses this identity until the end, whatever its counter says. You can end it earlier.</p>}
    {a.kind === "except" && a.direct && <p>Until its end the rule lets this identity pass.</p>}
    {a.kind === "except" && !a.direct && <fieldset><legend>Until its end the rule</legend>
      <label><input type="radio" name="what" checked={what === "allow"} onChange={() => setWhat("allow")} /> lets this identity pass, and counts nothing for it</label>
      <label><input type="radio" name="what" checked={what === "count"} onChange={() => setWhat("count")} /> admits another count:{" "}
        <Input type="number" aria-label="Count" min={1} value={count} onValue={(v) => { setCount(v); setWhat("count"); }} /></label>
    </fieldset>}
    {a.kind !== "reset" && <Length hours={hours} onHours={setHours} />}
    <Field label="Note" hint="Why: the audit trail keeps it."><Input name="note" value={note} onValue={setNote} maxLength={500} autofocus /></Field>
  </Dialog>;
}

function Length(p: { hours: number; onHours: (hours: number) => void }) {
  return <Field label="For"><select name="hours" value={p.hours} onChange={(e) => p.onHours(Number(e.currentTarget.value))}>
    {lengths.map(([text, h]) => <option value={h} key={h}>{text}</option>)}</select></Field>;
}

/** BanDialog bans everything that has the chosen parameters of an identity. */
function BanDialog(p: { of: Action }) {
  const pairs = Object.entries(p.of.identity);
  const [chosen, setChosen] = useState<string[]>(pairs.length === 1 ? pairs.map(([name]) => name) : []);
  const [note, setNote] = useState(""), [hours, setHours] = useState(2);
  const book = useData<Book>("rules").value;
  const close = () => open.set(undefined);
  return <Dialog title="Ban from everything" action="Ban" danger disabled={chosen.length === 0} twice={everyone(book, chosen)} onClose={close} onDo={async () => {
    const added = await add([{ rule: 0, identity: Object.fromEntries(pairs.filter(([name]) => chosen.includes(name))), ...by(p.of.handle), what: "ban", note }], hours);
    close();
    changed(p.of.done);
    notify("Banned from everything.", async () => { await changing(() => call("DELETE", "exceptions/" + (added[0]?.id ?? ""))); changed(p.of.done); });
  }}>
    <fieldset><legend>Each request is refused that has</legend>
      {pairs.map(([name, value]) => <label key={name}><input type="checkbox" name={name} checked={chosen.includes(name)} onChange={(e) => setChosen(e.currentTarget.checked ? [...chosen, name] : chosen.filter((n) => n !== name))} /> <IdentityText of={{ [name]: value }} /></label>)}
    </fieldset>
    <p>With several, a request needs all of them. No rule counts it until the end, and you can end the ban earlier.</p>
    <Length hours={hours} onHours={setHours} />
    <Field label="Note" hint="Why: the audit trail keeps it."><Input name="note" value={note} onValue={setNote} maxLength={500} /></Field>
  </Dialog>;
}
