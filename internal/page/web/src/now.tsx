// The first view: what happens now, and who is limited.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Book, type Change, type Hour, type Instance, type Rule, type State, type Top } from "./api";
import { type Loaded, useData, useHeld } from "./data";
import type { Mark } from "./chart";
import { publishedBy } from "./marks";
import { link, seconds, trials } from "./events";
import { act, effectOf, end, endText, type Target } from "./actions";
import { Dismiss } from "./dismiss";
import { Ago, IdentityText, Num, plural, span, sum, Text } from "./text";
import { TrialPanel } from "./trial";
import { Menu, MenuItem, Panel, Spark, Verdict } from "./ui";
import { RollBack } from "./versions";

export const hourEvery = 10_000;

/** lately is the number of minutes that come before the hour. */
const lately = 5;

export function Now() {
  const hour = useData<Hour>("traffic", hourEvery);
  const book = useData<Book>("rules");
  return <>
    <Gone />
    <Tiles hour={hour} />
    {trials.use() && <TrialPanel />}
    <Panel title="The last hour" data={hour} tools={<span class="faint">{hour.value && (hour.value.scope === "fleet" ? `all instances (${hour.value.instances})` : "this instance")}</span>}>
      {(h) => <HourChart of={h} />}
    </Panel>
    <div class="columns">
      <Panel title="Rules that refuse" data={hour} empty={hour.value && busiest(hour.value).length === 0 && "No rule has refused anything in the last hour."}>
        {(h) => <Refusing hour={h} rules={book.value?.rules ?? []} />}
      </Panel>
      <TopPanel />
    </div>
    <Recent />
  </>;
}

const namedAtOnce = 5; // instances

/** Gone names the instances that ended without taking leave. */
function Gone() {
  const isPublished = !!useData<State>("state").value?.published, list = useData<Instance[]>(isPublished ? "instances" : null, 10_000).value;
  const gone = (list ?? []).filter((i) => i.state === "gone");
  return <div class="warnings" role="status">
    {gone.slice(0, namedAtOnce).map((i) => <p class="bad" key={i.id}><b>Instance <Text>{i.host}</Text> (pid {i.pid}) is gone.</b> It was last heard {span(i.age_ms ?? 0)} ago. <Dismiss of={i} /></p>)}
    {gone.length > namedAtOnce && <p class="bad"><a href="#/instances">{gone.length - namedAtOnce} more</a> are gone.</p>}
  </div>;
}

/** Tiles shows the numbers of the last seconds and minutes. */
function Tiles(p: { hour: Loaded<Hour> }) {
  const list = seconds.use(), hour = p.hour.value, isStill = link.use() !== "live";
  const recent = list.slice(-5);
  const rate = (f: (s: (typeof list)[number]) => number) => recent.length === 0 ? 0 : sum(recent.map(f)) * 1000 / Math.max(1, sum(recent.map((s) => s.span_ms)));
  const share = (of: (list: number[]) => number) => {
    const refused = hour ? of(hour.refused) : 0, all = hour ? refused + of(hour.allowed) + of(hour.observed) : 0;
    return all === 0 ? "–" : (refused / all * 100).toFixed(refused / all < 0.1 ? 2 : 1) + " %";
  };
  const near = (of: (list: number[]) => number) => hour && sum(hour.rules.map((r) => of(r.near)));
  const faults = (of: (list: number[]) => number) => hour && of(hour.unavailable) + of(hour.invalid);
  const count = (n: number | undefined) => n === undefined ? "–" : <Num>{n}</Num>;
  const where = hour && (hour.scope === "fleet" ? ", everywhere" : ", here");
  const still = isStill ? " old" : "", past = p.hour.error ? " old" : "";
  const value = (n: number) => recent.length === 0 ? "–" : n >= 100 ? Math.round(n).toLocaleString("en") : n.toFixed(n >= 10 || n === 0 ? 0 : 1);
  return <section class="tiles" aria-label="Now">
    <div class={"tile" + still}><b class="num">{value(rate((s) => s.allowed + s.refused + s.observed))}</b><span>decisions per second, here</span><Spark of={list.map((s) => s.allowed + s.refused)} label="decisions of the last two minutes" /></div>
    <div class={(rate((s) => s.refused) > 0 ? "tile refused" : "tile") + still}><b class="num">{value(rate((s) => s.refused))}</b><span>refused per second, here</span><Spark of={list.map((s) => s.refused)} label="refusals of the last two minutes" /></div>
    <div class={"tile" + past}><b class="num">{share(latest)}</b><span>refused in the last {lately} minutes{where}</span><span class="hour">{share(sum)} in the last hour</span></div>
    <div class={"tile" + past}><b>{count(near(latest))}</b><span>near a limit in the last {lately} minutes{where}</span><span class="hour">{count(near(sum))} in the last hour</span></div>
    <div class={(faults(latest) ? "tile refused" : "tile") + past}><b>{count(faults(latest))}</b><span>without a decision in the last {lately} minutes{where}</span><span class="hour">{count(faults(sum))} in the last hour</span></div>
  </section>;
}

function HourChart(p: { of: Hour }) {
  const at = useRef<HTMLDivElement>(null), chart = useRef<{ set: (h: Hour, m: Mark[]) => void; end: () => void } | undefined>(undefined);
  const audit = useData<Change[]>("audit").value;
  const first = Date.parse(p.of.at), marks = (audit ?? []).filter((c) => publishedBy(c) > 0 && Date.parse(c.at) >= first).map((c) => ({ at: Date.parse(c.at) / 1000, text: `v${publishedBy(c)}` })).sort((a, b) => a.at - b.at);
  useEffect(() => {
    let gone = false;
    void import("./chart").then(({ draw }) => { if (!gone && at.current) { chart.current = draw(at.current, p.of); chart.current.set(p.of, marks); } });
    return () => { gone = true; chart.current?.end(); chart.current = undefined; };
  }, []);
  useEffect(() => { chart.current?.set(p.of, marks); }, [p.of, audit]);
  return <div class="chart" ref={at} role="img" aria-label={`In the last hour ${plural(sum(p.of.allowed), "allowed request")} and ${plural(sum(p.of.refused), "refused request")}.${marks.length > 0 ? ` Published: ${marks.map((m) => m.text).join(", ")}.` : ""}`} />;
}

/** latest returns the sum of the last minutes of an hour, of which the current one has begun. */
const latest = (list: number[]) => sum(list.slice(-lately - 1));

export function busiest(h: Hour) {
  return h.rules.map((r) => ({ ...r, total: sum(r.refused), shadow: sum(r.shadow_refused) })).filter((r) => r.total + r.shadow > 0)
    .sort((a, b) => latest(b.refused) - latest(a.refused) || b.total - a.total || b.shadow - a.shadow).slice(0, 12);
}

function Refusing(p: { hour: Hour; rules: Rule[] }) {
  return <table class="data"><thead><tr><th>Rule</th><th class="num">{lately} minutes</th><th class="num">Hour</th><th class="wide">By minute</th></tr></thead>
    <tbody>{busiest(p.hour).map((r) => {
      const rule = p.rules.find((x) => x.rule === r.rule), refused = r.total ? r.refused : r.shadow_refused;
      return <tr key={`${r.rule} ${r.name ?? ""}`}><td><a href={r.rule === 0 ? "#/rules" : `#/rules/${r.rule}`}>{r.rule !== 0 ? r.rule : r.name ? "limit" : "other rules"}</a> {r.name && <Text>{r.name}</Text>} {rule?.shadow ? <Verdict of="shadow" /> : rule && <Verdict of={rule.verdict} />}<small>{rule?.limit}</small></td>
        <td class="num"><Num quiet>{latest(refused)}</Num></td><td class="num"><Num>{r.total || r.shadow}</Num></td>
        <td class="wide"><Spark of={refused} label={`refusals of ${r.rule === 0 ? r.name ?? "other rules" : `rule ${r.rule}`} by minute`} /></td></tr>;
    })}</tbody></table>;
}

/** TopPanel shows the heaviest identities of a rule, or of all: those of the last minutes, then those of the hour. */
export function TopPanel(p: { rule?: number }) {
  const of = p.rule ? `rule=${p.rule}&` : "";
  const [isOpen, setOpen] = useState(false); // the menu of a row
  const data = useData<Top[]>(`top?${of}since=${lately}m`, 10_000), hour = useData<Top[]>(`top?${of}since=1h`, 60_000);
  const recent = useHeld(data.value, isOpen) ?? [], known = new Set(recent.map(keyOf)), earlier = (useHeld(hour.value, isOpen) ?? []).filter((t) => !known.has(keyOf(t)));
  return <Panel title="Who is refused most" data={data} empty={recent.length + earlier.length === 0 && "Nobody has been refused in the last hour."} tools={<span class="faint">in the last {lately} minutes</span>}>
    {() => <table class="data"><thead><tr><th>Identity</th><th class="num">Refused</th><th class="num wide">Admitted</th><th class="num">Rule</th><th><span class="hidden">Actions</span></th></tr></thead>
      <tbody>{recent.length === 0 && <tr><td colSpan={5} class="faint">Nobody.</td></tr>}{recent.map((t) => <TopRow key={keyOf(t)} of={t} onOpen={setOpen} />)}</tbody>
      {earlier.length > 0 && <tbody><tr><th colSpan={5} class="part" scope="rowgroup">Before, in the last hour</th></tr>{earlier.map((t) => <TopRow key={keyOf(t)} of={t} onOpen={setOpen} />)}</tbody>}</table>}
  </Panel>;
}

/** keyOf identifies a row. */
const keyOf = (t: Top) => JSON.stringify([t.rule, t.name, Object.entries(t.identity).sort()]);

function TopRow(p: { of: Top; onOpen: (isOpen: boolean) => void }) {
  const t = p.of, x = t.exception;
  return <tr><td>{isMasked(t.identity) ? <span title="The setting decision_log_params masks its values."><IdentityText of={t.identity} /></span> : t.shortened ? <span title="A value is too long for the list, which has its beginning and a hash."><IdentityText of={t.identity} /></span> : <a href={tryLink(t.identity)}><IdentityText of={t.identity} /></a>}
      {x && <small><span class={"verdict " + x.what}>{effectOf(x)}</span> ends <Ago at={x.until} /></small>}</td>
    <td class="num"><Num>{t.refused}</Num></td><td class="num wide"><Num>{t.admitted}</Num></td>
    <td class="num">{t.rule === 0 ? <a href="#/rules">limit <Text>{t.name ?? ""}</Text></a> : <a href={`#/rules/${t.rule}`}>{t.rule}</a>}</td><td><RowActions of={t} onOpen={p.onOpen} /></td></tr>;
}

/** RowActions are the actions for the identity of a row: none but the end of its exception if the rule has changed, or if the values are masked or shortened and have no handle. */
function RowActions(p: { of: Top; onOpen: (isOpen: boolean) => void }) {
  const { rule, name, identity, handle, gone, direct, shortened, exception: x } = p.of;
  const isNamed = !!handle || !shortened && !isMasked(identity);
  const { domain: _, ...entries } = identity; // the path of a limit begins with it
  const named = { rule, ...(handle ? { handle } : {}), ...(direct ? { direct } : {}) };
  const target: Target = rule === 0 ? { ...named, identity: entries, ...(name ? { path: name } : {}) } : { ...named, identity, ...(name ? { name } : {}) };
  const why = gone ? <span class="faint" title="There is no such rule in force, or it counts by other parameters or under other conditions.">rule changed</span>
    : !isNamed ? shortened ? <span class="faint" title="A value is too long for the list. The instance that met it, which is another one, can act on it.">too long</span> : <span class="faint" title="The setting decision_log_params masks its values.">masked</span> : undefined;
  if (why && !x) return why;
  return <>{why} <Menu of={Object.entries(identity).map(([k, v]) => `${k}=${v}`).join(" ") || "everyone"} onOpen={p.onOpen}>
    {!why && rule !== 0 && !direct && x?.what !== "ban" && <MenuItem onDo={() => act({ ...target, kind: "reset" })}>Reset</MenuItem>}
    {x && <MenuItem onDo={() => void end(x.id)}>{endText(x)}</MenuItem>}
    {!why && !x && <MenuItem onDo={() => act({ ...target, kind: "except" })}>Except for 2 h</MenuItem>}
    {!why && !x && <MenuItem danger onDo={() => act({ ...target, kind: "ban" })}>Ban</MenuItem>}
    {!why && x?.what !== "ban" && Object.keys(identity).length > 0 && <MenuItem danger onDo={() => act({ ...target, identity, kind: "banAll" })}>Ban from everything</MenuItem>}
  </Menu></>;
}

const isMasked = (identity: Record<string, string>) => Object.values(identity).some((v) => /^#[0-9a-f]{16}$/.test(v));

/** identityOf reads NAME=VALUE …, undefined if a text is no identity. */
export function identityOf(text: string): Record<string, string> | undefined {
  const pairs = text.trim().split(/\s+/).map((w) => w.split(/=(.*)/s));
  return pairs.every((x) => x.length > 1 && x[0]) ? Object.fromEntries(pairs.map((x) => [x[0] as string, x[1] as string])) : undefined;
}

export function tryLink(identity: Record<string, string>): string {
  return "#/try?" + new URLSearchParams(Object.entries(identity).map(([k, v]) => ["p", `${k}=${v}`])).toString();
}

const recentChanges = 5;

/** Recent shows the last changes, and the one that brought the version in force with the way back. */
function Recent() {
  const audit = useData<Change[]>("audit"), inForce = useData<State>("state").value?.release?.version;
  const isInForce = (c: Change) => inForce !== undefined && publishedBy(c) === inForce;
  return <Panel title="Last changes" data={audit} tools={<a href="#/log">All</a>} empty={audit.value?.length === 0 && "No operator has changed anything."}>
    {(list) => {
      const at = list.findIndex(isInForce), last = list[at];
      const shown = last && at >= recentChanges ? [...list.slice(0, recentChanges - 1), last] : list.slice(0, recentChanges);
      return <ul class="lines">{shown.map((c, i) => <li key={i}><Ago at={c.at} /> <b><Text>{c.author}</Text></b> <Text>{c.action}</Text> <Text>{c.detail}</Text> {c === last && <RollBack />}</li>)}</ul>;
    }}
  </Panel>;
}
