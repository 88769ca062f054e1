// The first view: what happens now, and who is limited.
import { useEffect, useRef } from "preact/hooks";
import { type Book, type Change, type Hour, type Rule, type State, type Top } from "./api";
import { type Loaded, useData } from "./data";
import { publishedBy } from "./marks";
import { link, seconds, trials } from "./events";
import { Buttons, effectOf, EndButton } from "./actions";
import { Ago, IdentityText, Num, plural, sum, Text } from "./text";
import { TrialPanel } from "./trial";
import { Panel, Spark, Verdict } from "./ui";
import { RollBack } from "./versions";

export const hourEvery = 10_000;

export function Now() {
  const hour = useData<Hour>("traffic", hourEvery);
  const book = useData<Book>("rules");
  return <>
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

/** Tiles shows the numbers of this second. */
function Tiles(p: { hour: Loaded<Hour> }) {
  const list = seconds.use(), hour = p.hour.value, isStill = link.use() !== "live";
  const recent = list.slice(-5);
  const rate = (f: (s: (typeof list)[number]) => number) => recent.length === 0 ? 0 : sum(recent.map(f)) * 1000 / Math.max(1, sum(recent.map((s) => s.span_ms)));
  const refused = hour ? sum(hour.refused) : 0, all = hour ? refused + sum(hour.allowed) + sum(hour.observed) : 0;
  const near = hour && sum(hour.rules.map((r) => sum(r.near)));
  const faults = hour && sum(hour.unavailable) + sum(hour.invalid);
  const where = hour && (hour.scope === "fleet" ? ", everywhere" : ", here");
  const still = isStill ? " old" : "", past = p.hour.error ? " old" : "";
  const value = (n: number) => recent.length === 0 ? "–" : n >= 100 ? Math.round(n).toLocaleString("en") : n.toFixed(n >= 10 || n === 0 ? 0 : 1);
  return <section class="tiles" aria-label="Now">
    <div class={"tile" + still}><b class="num">{value(rate((s) => s.allowed + s.refused + s.observed))}</b><span>decisions per second, here</span><Spark of={list.map((s) => s.allowed + s.refused)} label="decisions of the last two minutes" /></div>
    <div class={(rate((s) => s.refused) > 0 ? "tile refused" : "tile") + still}><b class="num">{value(rate((s) => s.refused))}</b><span>refused per second, here</span><Spark of={list.map((s) => s.refused)} label="refusals of the last two minutes" /></div>
    <div class={"tile" + past}><b class="num">{all === 0 ? "–" : (refused / all * 100).toFixed(refused / all < 0.1 ? 2 : 1) + " %"}</b><span>refused in the last hour{where}</span></div>
    <div class={"tile" + past}><b>{near === undefined ? "–" : <Num>{near}</Num>}</b><span>near a limit in the last hour{where}</span></div>
    <div class={(faults ? "tile refused" : "tile") + past}><b>{faults === undefined ? "–" : <Num>{faults}</Num>}</b><span>without a decision in the last hour{where}</span></div>
  </section>;
}

function HourChart(p: { of: Hour }) {
  const at = useRef<HTMLDivElement>(null), chart = useRef<{ set: (h: Hour) => void; end: () => void } | undefined>(undefined);
  useEffect(() => {
    let gone = false;
    void import("./chart").then(({ draw }) => { if (!gone && at.current) chart.current = draw(at.current, p.of); });
    return () => { gone = true; chart.current?.end(); chart.current = undefined; };
  }, []);
  useEffect(() => { chart.current?.set(p.of); }, [p.of]);
  return <div class="chart" ref={at} role="img" aria-label={`In the last hour ${plural(sum(p.of.allowed), "allowed request")} and ${plural(sum(p.of.refused), "refused request")}.`} />;
}

export function busiest(h: Hour) {
  return h.rules.map((r) => ({ ...r, total: sum(r.refused), shadow: sum(r.shadow_refused) })).filter((r) => r.total + r.shadow > 0)
    .sort((a, b) => b.total - a.total || b.shadow - a.shadow).slice(0, 12);
}

function Refusing(p: { hour: Hour; rules: Rule[] }) {
  return <table class="data"><thead><tr><th>Rule</th><th class="num">Refused</th><th class="num">Last minute</th><th class="wide">Hour</th></tr></thead>
    <tbody>{busiest(p.hour).map((r) => {
      const rule = p.rules.find((x) => x.rule === r.rule);
      return <tr key={`${r.rule} ${r.name ?? ""}`}><td><a href={r.rule === 0 ? "#/rules" : `#/rules/${r.rule}`}>{r.rule !== 0 ? r.rule : r.name ? "limit" : "other rules"}</a> {r.name && <Text>{r.name}</Text>} {rule?.shadow ? <Verdict of="shadow" /> : rule && <Verdict of={rule.verdict} />}<small>{rule?.limit}</small></td>
        <td class="num"><Num>{r.total || r.shadow}</Num></td><td class="num"><Num quiet>{(r.refused.at(-1) ?? 0) + (r.refused.at(-2) ?? 0)}</Num></td>
        <td class="wide"><Spark of={r.total ? r.refused : r.shadow_refused} label={`refusals of ${r.rule === 0 ? r.name ?? "other rules" : `rule ${r.rule}`} by minute`} /></td></tr>;
    })}</tbody></table>;
}

/** TopPanel shows the heaviest identities of a rule, or of all. */
export function TopPanel(p: { rule?: number }) {
  const data = useData<Top[]>(p.rule ? `top?rule=${p.rule}` : "top", 10_000);
  return <Panel title="Who is refused most" data={data} empty={data.value?.length === 0 && "Nobody has been refused."}>
    {(list) => <table class="data"><thead><tr><th>Identity</th><th class="num">Refused</th><th class="num wide">Admitted</th><th class="num">Rule</th><th><span class="hidden">Changes</span></th></tr></thead>
      <tbody>{list.slice(0, 50).map((t, i) => <tr key={i}><td>{isMasked(t.identity) ? <span title="The setting decision_log_params masks its values."><IdentityText of={t.identity} /></span> : <a href={tryLink(t.identity)}><IdentityText of={t.identity} /></a>}{t.exception && <small><span class={"verdict " + t.exception.what}>{effectOf(t.exception)}</span> ends <Ago at={t.exception.until} /></small>}</td><td class="num"><Num>{t.refused}</Num></td><td class="num wide"><Num>{t.admitted}</Num></td>
        <td class="num">{t.rule === 0 ? <a href="#/rules">limit <Text>{t.name ?? ""}</Text></a> : <a href={`#/rules/${t.rule}`}>{t.rule}</a>}</td><td>{t.rule !== 0 && <RowChanges of={t} />}</td></tr>)}</tbody></table>}
  </Panel>;
}

/** RowChanges are the changes for the identity of a row: none but the end of its exception if the rule has changed, or if the values are masked and have no handle. */
function RowChanges(p: { of: Top }) {
  const { rule, name, identity, handle, gone, exception } = p.of;
  if (!gone && (handle || !isMasked(identity))) return <Buttons of={{ rule, identity, ...(handle ? { handle } : {}), ...(name ? { name } : {}) }} {...(exception ? { exception } : {})} />;
  return <span class="actions">{gone ? <span class="faint" title="There is no such rule in force, or it counts by other parameters or under other conditions.">rule changed</span> : <span class="faint" title="The setting decision_log_params masks its values.">masked</span>}
    {exception && <EndButton of={exception} />}</span>;
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
