// Asks what the running rules do with a request, and why.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { post, type Door, type Exception, type Identity, Problem, type Question, type Report, type Why, type WhyImported, type WhyRule, type Words } from "./api";
import { Buttons } from "./actions";
import { readCurl } from "./curl";
import { useData } from "./data";
import { Ago, IdentityText, Num, span, Text } from "./text";
import { Failure, Field, Input, Panel, Verdict } from "./ui";

interface Form { door: string; method: string; target: string; peer: string; headers: string; params: string }
export interface Answer { why: Why; report?: Report; reportError?: string }

const nothing: Form = { door: "", method: "GET", target: "", peer: "", headers: "", params: "" };

/** unread is the door until the doors are known: the default one of the API. */
const unread: Door = { door: "", text: "", request: true, descriptor: false };

const descriptorText = { label: "Descriptor", hint: "One entry per line, in order, and the domain." };
const parametersText = { label: "Parameters", hint: "One per line. Alone they name an identity; with a request, what the gateway adds." };

let kept: Form = nothing;

/** pairs reads lines of NAME=VALUE or NAME: VALUE. */
function pairs(text: string, mark: string): [string, string][] {
  return text.split("\n").map((l) => l.trim()).filter(Boolean).map((l) => {
    const at = l.indexOf(mark);
    if (at <= 0) throw new Error(`“${l.slice(0, 60)}” is not NAME${mark}VALUE`);
    return [l.slice(0, at).trim(), l.slice(at + 1).trim()];
  });
}

function questionOf(f: Form, at: Door): Question {
  const entries = pairs(f.params, "=");
  if (at.descriptor) return descriptorOf(at.door, entries);
  const params: Identity = Object.fromEntries(entries);
  const q: Question = Object.keys(params).length > 0 ? { params } : {};
  if (!at.request) return { ...q, request: { door: at.door } };
  if (f.target === "") return q;
  const headers: Record<string, string[]> = {};
  for (const [name, value] of pairs(f.headers, ":")) (headers[name] ??= []).push(value);
  return { ...q, request: { ...(at.door ? { door: at.door } : {}), method: f.method, target: f.target, headers, ...(f.peer ? { peer: f.peer } : {}) } };
}

/** descriptorOf returns the question about a descriptor: its domain, and its entries in their order. */
function descriptorOf(door: string, entries: [string, string][]): Question {
  return {
    params: Object.fromEntries(entries.filter(([key]) => key === "domain")),
    request: { door, descriptor: entries.filter(([key]) => key !== "domain").map(([key, value]) => ({ key, value })) },
  };
}

async function ask(q: Question): Promise<Answer> {
  const [why, report] = await Promise.allSettled([post<Why>("why", q), post<Report>("explain", q)]);
  if (why.status === "rejected") throw why.reason;
  return { why: why.value, ...(report.status === "fulfilled" ? { report: report.value } : { reportError: String((report.reason as Error).message) }) };
}

export function Try(p: { given: URLSearchParams }) {
  const [form, setForm] = useState<Form>(kept);
  const [curl, setCurl] = useState("");
  const [answer, setAnswer] = useState<Answer>();
  const [error, setError] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const last = useRef<{ question?: Question }>({}); // late answers to earlier questions are dropped
  const set = (change: Partial<Form>) => setForm((f) => kept = { ...f, ...change });
  const doors = useData<Words>("words").value?.doors ?? [unread];
  const doorOf = (f: Form) => doors.find((d) => d.door === f.door) ?? doors[0] ?? unread;
  const door = doorOf(form);
  const run = async (f: Form) => {
    const mine: { question?: Question } = last.current = {};
    setBusy(true);
    setError(undefined);
    try {
      mine.question = questionOf(f, doorOf(f));
      const found = await ask(mine.question);
      if (last.current === mine) setAnswer(found);
    } catch (e) { if (last.current === mine) setError(e instanceof Problem ? e : new Problem(400, (e as Error).message)); }
    if (last.current === mine) setBusy(false);
  };
  const again = () => {
    const mine = last.current;
    if (mine.question) void ask(mine.question).then((found) => { if (last.current === mine) setAnswer(found); }, () => undefined);
  };
  const given = p.given.getAll("p").join("\n");
  useEffect(() => {
    if (!given) return;
    const f = { ...nothing, params: given };
    setForm(kept = f);
    void run(f);
  }, [given]);
  const paste = (text: string) => {
    setCurl(text);
    setError(undefined);
    if (text.trim() === "") return;
    try {
      const asked = readCurl(text);
      set({ method: asked.method, target: asked.target, headers: asked.headers.map(([n, v]) => `${n}: ${v}`).join("\n"), door: door.request ? form.door : "" });
    } catch (e) { setError(new Problem(400, (e as Error).message)); }
  };
  return <div class="split try">
    <Panel title="Try a request" tools={<button type="button" class="quiet" onClick={() => { last.current = {}; setBusy(false); setForm(kept = nothing); setCurl(""); setAnswer(undefined); setError(undefined); }}>Clear</button>}>{() =>
      <form class="stack" onSubmit={(e) => { e.preventDefault(); void run(form); }}>
        <Field label="Paste a curl command"><textarea name="curl" rows={2} value={curl} spellcheck={false} placeholder="curl -X POST https://api.example/api/comments -H 'X-User-Id: ann'" onInput={(e) => paste(e.currentTarget.value)} /></Field>
        <div class="row"><Field label="Door"><select name="door" value={door.door} onChange={(e) => set({ door: e.currentTarget.value })}>{doors.map((d) => <option value={d.door} key={d.door}>{d.text}</option>)}</select></Field>
          {door.request && <Field label="Client address"><Input name="peer" value={form.peer} onValue={(peer) => set({ peer })} placeholder="203.0.113.7" /></Field>}</div>
        {door.request && <><div class="row"><Field label="Method"><Input name="method" class="short" value={form.method} onValue={(method) => set({ method: method.toUpperCase() })} /></Field>
          <Field label="Path or URL"><Input name="target" value={form.target} onValue={(target) => set({ target })} placeholder="/api/comments" /></Field></div>
          <Field label="Headers" hint="One per line"><textarea name="headers" rows={3} spellcheck={false} value={form.headers} placeholder="X-User-Id: ann" onInput={(e) => set({ headers: e.currentTarget.value })} /></Field></>}
        <Field {...(door.descriptor ? descriptorText : parametersText)}><textarea name="params" rows={2} spellcheck={false} value={form.params} placeholder={door.descriptor ? "domain=edge" : "uid=ann"} onInput={(e) => set({ params: e.currentTarget.value })} /></Field>
        <div class="buttons"><button type="submit" class="primary" disabled={busy}>{busy ? "Asking …" : "Ask why"}</button><span class="faint">Nothing is counted.</span></div>
      </form>}</Panel>
    <div class="answer" aria-live="polite">{error ? <Failure of={error} /> : answer ? <AnswerView of={answer} again={again} /> : <p class="empty">The answer names each rule that the request meets, its counter as it stands now, and where every parameter comes from.</p>}</div>
  </div>;
}

/** AnswerView shows an answer. */
export function AnswerView(p: { of: Answer; again: () => void }) {
  const { why, report } = p.of;
  const limit = why.imported;
  const met = why.rules.filter((r) => r.matched), others = why.rules.filter((r) => !r.matched);
  const decider = why.rules.find((r) => r.rule === why.decider);
  return <>
    <section class={"panel outcome " + why.verdict} aria-label="Verdict"><p><Verdict of={why.verdict} /> {why.ban ? <>banned from everything by exception <code>{why.ban.exception}</code> until <Ago at={why.ban.until} /></> : why.refused ? <>refused before any rule: <Text>{why.refused}</Text></>
      : limit?.outcome === "decides" ? <>by limit <Text>{limit.path ?? ""}</Text></> : why.decider ? <>by rule <a href={`#/rules/${why.decider}`}>{why.decider}{decider?.name ? ` (${decider.name})` : ""}</a></> : met.length > 0 ? "no rule that it meets refuses it" : "it meets no rule"}
      {why.status ? <> with HTTP {why.status}</> : null}{why.degraded && <b class="warn"> Redis is away: these are the counters of this instance.</b>}</p></section>
    {limit && <Panel title="Imported limit">{() => <LimitCard of={limit} />}</Panel>}
    <Panel title="Rules that it meets" empty={met.length === 0 && "None."}>{() => <div class="cards">{met.map((r) => <Counter key={r.rule} of={r} decides={r.rule === why.decider} again={p.again} />)}</div>}</Panel>
    {others.length > 0 && <Panel title="Nearly met">{() => <ul class="lines">{others.slice(0, 30).map((r) => <li key={r.rule}><a href={`#/rules/${r.rule}`}>{r.rule}</a> {r.name && <Text>{r.name}</Text>} <span class="faint"><Text>{r.why}</Text></span></li>)}</ul>}</Panel>}
    {report && <Panel title="Parameters" empty={report.params.length === 0 && "None."}>{() => <table class="data"><thead><tr><th>Name</th><th>Value</th><th>From</th></tr></thead>
      <tbody>{report.params.map((x) => <tr key={x.name}><td><Text>{x.name}</Text></td><td><Text>{x.value}</Text></td><td class="faint"><Text>{x.from ?? "given"}</Text></td></tr>)}</tbody></table>}</Panel>}
    {report?.tokens && <Panel title="Tokens">{() => <table class="data"><thead><tr><th>Token</th><th>Outcome</th><th>From</th><th>Reason</th></tr></thead>
      <tbody>{report.tokens?.map((x) => <tr key={x.name}><td><Text>{x.name}</Text></td><td>{x.outcome}</td><td class="faint"><Text>{x.outcome === "absent" ? `not in ${x.from}` : x.from}</Text></td><td><Text>{x.reason ?? ""}</Text></td></tr>)}</tbody></table>}</Panel>}
    {p.of.reportError && <p class="faint">Parameters are not available: <Text>{p.of.reportError}</Text></p>}
    {report?.forward && why.verdict === "allow" && <Panel title="Headers for the application">{() => <table class="data"><thead><tr><th>Header</th><th>Value</th><th>From</th></tr></thead>
      <tbody>{report.forward?.map((x) => <tr key={x.header}><td><Text>{x.header}</Text></td><td>{x.value ? <Text>{x.value}</Text> : <span class="faint">removed</span>}</td><td class="faint"><Text>{x.param}</Text>{x.unsent ? <>: <Text>{x.unsent}</Text></> : x.value ? "" : " is absent"}</td></tr>)}</tbody></table>}</Panel>}
    {why.headers && why.headers.length > 0 && <Panel title="Headers for the client">{() => <table class="data"><tbody>{why.headers?.map((h, i) => <tr key={i}><td>{h.name}</td><td><Text>{h.value}</Text></td></tr>)}</tbody></table>}</Panel>}
    {why.refusals.length > 0 && <Panel title="Last refusals at this instance">{() => <ul class="lines">{why.refusals.slice(0, 12).map((x, i) => <li key={i}><Ago at={x.at} /> rule {x.rule} at {x.door}</li>)}</ul>}</Panel>}
  </>;
}

function LimitCard(p: { of: WhyImported }) {
  const x = p.of;
  if (!x.path) return <p class="empty">None applies: <Text>{x.reason ?? ""}</Text></p>;
  const decides = x.outcome === "decides";
  return <article class={decides ? "card refused" : "card"} aria-label={`Limit ${x.path}`}>
    <h3><Text>{x.path}</Text> {x.name && <Text>{x.name}</Text>} {decides && <Verdict of="decides" />}{x.outcome === "shadow" && <Verdict of="shadow" />}</h3>
    <p>{x.limit}</p>
    {x.counted && <Meter of={{ used: x.used, limit: x.max, remaining: x.remaining }}>, the window ends in <b>{span(x.reset_ms)}</b></Meter>}
  </article>;
}

/** Meter shows how much of a limit is used. */
function Meter(p: { of: { used: number; limit: number; remaining: number }; children?: ComponentChildren }) {
  const m = p.of, share = m.limit > 0 ? Math.min(1, m.used / m.limit) : 0;
  return <>
    <meter min={0} max={1} value={share} high={0.8} optimum={0} aria-label={`${m.used} used of ${m.limit}`} />
    <p><b><Num>{m.used}</Num></b> used of <Num>{m.limit}</Num>, <b><Num>{m.remaining}</Num></b> left{p.children}</p>
  </>;
}

function Counter(p: { of: WhyRule; decides: boolean; again: () => void }) {
  const r = p.of;
  return <article class={p.decides ? "card refused" : "card"} aria-label={`Rule ${r.rule}`}>
    <h3><a href={`#/rules/${r.rule}`}>{r.rule}</a> {r.name && <Text>{r.name}</Text>} {p.decides && <Verdict of="decides" />}</h3>
    <p><IdentityText of={r.identity ?? {}} /></p>
    {r.counted ? <Meter of={r}>{r.used > 0 && r.reset_ms > 0 && <>, empty again in <b>{span(r.reset_ms)}</b></>}
        {r.retry_ms > 0 && <>, next fits in <b>{span(r.retry_ms)}</b></>}{r.retry_ms < 0 && <>, <b>never fits</b></>}{r.banned_ms > 0 && <>, <b class="warn">banned for {span(r.banned_ms)}</b></>}</Meter> : null}
    {r.lent && <p>Gateways that decide by themselves: <b><Num>{r.lent.holders}</Num></b> hold <b><Num>{Math.round(r.lent.per_second)}</Num></b> of <Num>{Math.round(r.lent.of_per_second)}</Num> hits per second</p>}
    {r.why && <p class="faint"><Text>{r.why}</Text></p>}
    {r.exception && <ExceptionLine id={r.exception} />}
    {(r.counted || r.identity) && <Buttons of={{ rule: r.rule, identity: r.identity ?? {}, limit: r.limit, ...(r.name ? { name: r.name } : {}) }} counted={r.counted} {...(r.exception ? { exception: { id: r.exception } } : {})} done={p.again} />}
  </article>;
}

function ExceptionLine(p: { id: string }) {
  const x = useData<Exception[]>(`exceptions?search=${p.id}`).value?.find((e) => e.id === p.id);
  return <p>Exception <code>{p.id}</code>{x && <>: {x.what === "count" ? `count ${x.count}` : x.what} by <Text>{x.author}</Text>, ends <Ago at={x.until} />{x.note && <>, “<Text>{x.note}</Text>”</>}</>}</p>;
}
