// Exceptions, instances with the modes of their doors, and the audit trail.
import { useState } from "preact/hooks";
import { post, type AutomaticBan, type Book, type Change, type Exception, type Instance, type State, type Words } from "./api";
import { act, add, effectOf, end, everyone } from "./actions";
import { refresh, useData, useKept, useSettled } from "./data";
import { Dismiss } from "./dismiss";
import { changing } from "./session";
import { Ago, IdentityText, span, Text } from "./text";
import { Dialog, Field, Input, messageOf, notify, Panel } from "./ui";

const shown = 50; // exceptions at once, of up to max_exceptions

export function Exceptions() {
  const [adding, setAdding] = useState(false), [search, setSearch] = useState("");
  const words = useSettled(search.trim(), 250);
  const list = useKept(useData<Exception[]>(`exceptions?limit=${shown + 1}` + (words ? "&search=" + encodeURIComponent(words) : ""), 15_000));
  return <>
    <Panel title="Exceptions" data={list} empty={list.value?.length === 0 && (words ? `No exception contains “${words}”.` : "Every rule applies to every identity as it is written.")}
      tools={<><Input type="search" aria-label="Search exceptions" placeholder="Search: uid=ann, 201 …" value={search} onValue={setSearch} /><button type="button" class="primary" onClick={() => setAdding(true)}>Add …</button></>}>
      {(found) => <table class="data"><thead><tr><th class="num">Rule</th><th>Identity</th><th>What</th><th>Ends</th><th class="wide">By</th><th class="wide">Note</th><th><span class="hidden">Changes</span></th></tr></thead>
        <tbody>{found.slice(0, shown).map((x) => <tr key={x.id}><td class="num">{x.what === "ban" ? "all" : x.limit ? <a href="#/rules">limit <Text>{x.limit}</Text></a> : <a href={`#/rules/${x.rule}`}>{x.rule}</a>}</td><td><IdentityText of={x.identity} /></td><td><span class={"verdict " + x.what}>{effectOf(x)}</span></td>
          <td><Ago at={x.until} /></td><td class="wide"><Text>{x.author}</Text></td><td class="wide"><Text>{x.note}</Text></td><td><button type="button" onClick={() => void end(x.id)}>End</button></td></tr>)}
          {found.length > shown && <tr><td colSpan={7} class="faint">These {shown} end next. There are more: search for the ones you mean.</td></tr>}</tbody></table>}
    </Panel>
    <RuleBans />
    {adding && <AddException onClose={() => setAdding(false)} />}
  </>;
}

/** RuleBans are the bans that rules have opened. A reset of the counter ends one. */
function RuleBans() {
  const list = useKept(useData<AutomaticBan[]>("bans", 15_000));
  return <Panel title="Bans by rules" data={list} empty={list.value?.length === 0 && "No rule bans an identity that this instance has refused of late."}>
    {(found) => <table class="data"><thead><tr><th class="num">Rule</th><th>Identity</th><th>For another</th><th><span class="hidden">Changes</span></th></tr></thead>
      <tbody>{found.slice(0, shown).map((b, i) => <tr key={i}><td class="num"><a href={`#/rules/${b.rule}`}>{b.rule}</a></td><td><IdentityText of={b.identity} /></td><td>{span(b.banned_ms)}</td><td><button type="button" onClick={() => act({ ...b, kind: "reset" })}>End …</button></td></tr>)}</tbody></table>}
  </Panel>;
}

const offered = 500; // rules and limits in the list of names

/** placeOf returns the rule, by number or name, or the imported limit that a text names. */
function placeOf(book: Book | undefined, text: string): { rule: number; limit?: string } {
  const name = text.trim().replace(/: unit=.*$/, ""); // a line of /rlconfig begins with the path
  if (book?.imported?.some((l) => l.path === name)) return { rule: 0, limit: name };
  const found = book?.rules.find((r) => String(r.rule) === name) ?? book?.rules.find((r) => r.name === name);
  if (!found) throw new Error(`There is no rule${book?.imported ? " and no limit" : ""} “${name}” in force.`);
  return { rule: found.rule };
}

/** pairsOf reads an identity, NAME=VALUE separated by blanks or lines. */
function pairsOf(text: string): Record<string, string> {
  return Object.fromEntries(text.split(/[\n ]+/).filter(Boolean).map((l) => {
    const at = l.indexOf("=");
    if (at < 1) throw new Error(`“${l}” is not NAME=VALUE`);
    return [l.slice(0, at), l.slice(at + 1)];
  }));
}

function AddException(p: { onClose: () => void }) {
  const [place, setPlace] = useState(""), [identity, setIdentity] = useState(""), [what, setWhat] = useState<Exception["what"]>("allow"), [count, setCount] = useState("100"), [hours, setHours] = useState("2"), [note, setNote] = useState("");
  const book = useData<Book>("rules").value, isBan = what === "ban", names = Array.from(identity.matchAll(/(?:^|[\n ])([^\n =]+)=/g), (m) => m[1] ?? "");
  const rule = book?.rules.find((r) => String(r.rule) === place.trim() || r.name === place.trim())?.rule;
  const label = book?.imported ? "Rule or limit" : "Rule";
  return <Dialog title="Add an exception" action="Add" twice={isBan ? everyone(book, names) : what === "deny" && rule ? everyone(book, names, rule) : undefined} onClose={p.onClose} onDo={async () => {
    const at = isBan ? { rule: 0 } : placeOf(book, place);
    await add([{ ...at, identity: pairsOf(identity), what, note, ...(what === "count" ? { count: Number(count) } : {}) }], Number(hours));
    p.onClose();
    refresh("exceptions", "bans", "audit", "top");
    notify(isBan ? "Banned from everything." : at.limit ? `Limit ${at.limit} has an exception.` : `Rule ${at.rule} has an exception.`);
  }}>
    <div class="row">{!isBan && <Field label={label} hint="The number or the name"><Input name="rule" list="places" required value={place} onValue={setPlace} autofocus /></Field>}<Field label="For, in hours"><Input name="hours" type="number" min={0.01} max={744} step="any" required value={hours} onValue={setHours} /></Field></div>
    <datalist id="places">{[...(book?.imported ?? []).map((l) => l.path), ...(book?.rules ?? []).map((r) => r.name ?? String(r.rule))].slice(0, offered).map((x) => <option value={x} key={x} />)}</datalist>
    <Field label="Identity" hint={isBan ? "NAME=VALUE of each parameter that a refused request has" : "NAME=VALUE of each parameter that it counts by"}><Input name="identity" required value={identity} onValue={setIdentity} placeholder="uid=ann" /></Field>
    <div class="row"><Field label="What"><select value={what} onChange={(e) => setWhat(e.currentTarget.value as Exception["what"])}><option value="allow">it passes, uncounted</option><option value="count">another count</option><option value="deny">it is refused</option><option value="ban">banned from everything</option></select></Field>
      {what === "count" && <Field label="Count"><Input type="number" min={1} value={count} onValue={setCount} /></Field>}</div>
    <Field label="Note" hint="Why: the list keeps it."><Input name="note" value={note} onValue={setNote} maxLength={500} /></Field>
  </Dialog>;
}

const alike = (modes: Record<string, string>) => "extauthz" in modes && "ext-authz" in modes;

const meanings: Record<string, string> = { enforce: "refuses what the rules refuse", observe: "counts and logs refusals, and lets everything through", off: "lets everything through, and counts nothing" };

/** doorText returns the name of a door with who calls it. */
export function doorText(words: Words | undefined, door: string): string {
  const text = words?.doors.find((d) => d.door === door)?.text;
  return text ? `${door} (${text})` : door;
}

export function Instances() {
  const state = useData<State>("state", 10_000), list = useData<Instance[]>(state.value?.published ? "instances" : null, 5_000), modes = useData<Record<string, string>>("modes", 5_000), words = useData<Words>("words").value;
  const [asking, setAsking] = useState<{ door: string; mode: string; everywhere: boolean }>();
  const canSetAll = !!state.value?.fleet_modes;
  return <>
    {state.value?.published ? <Panel title="Instances" data={list} empty={list.value?.length === 0 && "Redis knows no instance."}>{(all) => <table class="data"><thead><tr><th>Host</th><th>State</th><th class="num">Version</th><th>Store</th><th class="wide">Since</th><th class="wide">Program</th><th>Doors</th></tr></thead>
      <tbody>{[...all].sort((a, b) => a.host.localeCompare(b.host) || a.pid - b.pid).map((i) => <tr key={i.id} class={i.state === "gone" ? "gone" : ""}><td><Text>{i.host}</Text> <small class="faint">pid {i.pid}, {i.id}</small></td><td><span class={"verdict " + (i.state === "ready" ? "allow" : "deny")}>{i.state.replace("_", " ")}</span>{i.state === "gone" ? <small>last heard {span(i.age_ms ?? 0)} ago <Dismiss of={i} /></small> : i.last_error && <small class="warn"><Text>{i.last_error}</Text></small>}</td>
        <td class="num">{i.version || "–"}{i.version !== state.value?.release?.version && <span class="warn" title="This instance has another version."> ≠</span>}</td><td><span class={i.store === "degraded" ? "verdict deny" : ""} title={i.store === "degraded" ? "Redis is away: it counts in its own memory" : ""}>{i.store === "degraded" ? "rescue" : i.store}</span></td><td class="wide"><Ago at={i.since} /></td><td class="wide"><Text>{i.program_version}</Text></td>
        <td>{Object.entries(i.modes ?? {}).filter(([, m]) => m !== "enforce").map(([d, m]) => <span class="verdict observe" key={d} title={doorText(words, d)}>{d} {m}</span>)}{Object.values(i.modes ?? {}).every((m) => m === "enforce") && <span class="faint">all enforce</span>}</td></tr>)}</tbody></table>}</Panel>
      : <Panel title="This instance" data={state}>{(s) => <dl><dt>Host</dt><dd><Text>{s.host}</Text></dd><dt>Program</dt><dd><Text>{s.program}</Text></dd><dt>Rules</dt><dd>{s.rules}, from files, loaded <Ago at={s.loaded_at} />, <code>{s.hash.slice(0, 12)}</code></dd><dt>Counters</dt><dd>{s.store}{s.store_error && <> – <Text>{s.store_error}</Text></>}</dd></dl>}</Panel>}
    <Panel title="Doors of this instance" data={modes}>{(m) => <>{alike(m) && <p class="faint">extauthz and ext-authz are two doors: Envoy calls the first over gRPC, and the second over HTTP.</p>}<table class="data"><thead><tr><th>Door</th><th>Mode</th><th class="wide">It</th></tr></thead><tbody>{Object.keys(m).sort().map((d) => <tr key={d}><td>{d}<small>{words?.doors.find((x) => x.door === d)?.text}</small></td>
      <td><select aria-label={`Mode of ${d}`} value={m[d]} onChange={(e) => { const mode = e.currentTarget.value; e.currentTarget.value = m[d] as string; setAsking({ door: d, mode, everywhere: false }); }}>{Object.keys(meanings).map((x) => <option value={x} key={x}>{x}</option>)}</select></td><td class="wide faint">{meanings[m[d] as string]}</td></tr>)}</tbody></table></>}</Panel>
    {asking && <Dialog title={`Set ${doorText(words, asking.door)} to ${asking.mode}`} action={`Set to ${asking.mode}`} danger={asking.mode !== "enforce"} onClose={() => setAsking(undefined)} onDo={async () => {
      const before = modes.value?.[asking.door] ?? "enforce", path = asking.everywhere ? "modes?scope=fleet" : "modes";
      const set = (mode: string) => changing(() => post(path, { [asking.door]: mode })).then(() => refresh("modes", "instances", "audit"));
      await set(asking.mode);
      setAsking(undefined);
      notify(`The door ${asking.door} of ${asking.everywhere ? "all instances" : "this instance"}: ${asking.mode}.`, () => set(before).catch((e) => notify(messageOf(e), undefined, true)));
    }}><p>The door {doorText(words, asking.door)} then {meanings[asking.mode]}.</p>
      {canSetAll && <fieldset><legend>It changes</legend>
        <label><input type="radio" name="scope" checked={!asking.everywhere} onChange={() => setAsking({ ...asking, everywhere: false })} /> at this instance</label>
        <label><input type="radio" name="scope" checked={asking.everywhere} onChange={() => setAsking({ ...asking, everywhere: true })} /> at all instances</label></fieldset>}
      <p>{asking.everywhere ? "All instances that share the Redis follow within a second, also those that start later, until the mode is changed again or is not in Redis any more." : "Other instances keep their modes, and the next start of this one has its configured modes again."}</p></Dialog>}
  </>;
}

export function Log() {
  const list = useData<Change[]>("audit", 30_000);
  return <Panel title="Changes by operators" data={list} empty={list.value?.length === 0 && "No operator has changed anything."}>
    {(all) => <table class="data"><thead><tr><th>When</th><th>Who</th><th>What</th><th>Detail</th><th class="wide">From</th><th class="wide">At instance</th></tr></thead><tbody>{all.slice(0, 1000).map((c, i) => <tr key={i}><td><Ago at={c.at} /></td><td><Text>{c.author}</Text></td><td><Text>{c.action}</Text></td><td><Text>{c.detail}</Text></td><td class="wide faint"><Text>{c.peer}</Text></td><td class="wide faint"><Text>{c.host}</Text></td></tr>)}</tbody></table>}
  </Panel>;
}
