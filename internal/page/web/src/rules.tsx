// The rules in force: as a table with their traffic, as they are written, and what they use.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Book, Exception, Finding, Hour, HourRule, Rule } from "./api";
import { Buttons } from "./actions";
import { useData } from "./data";
import { hourEvery, identityOf, TopPanel } from "./now";
import { Ago, IdentityText, Num, plural, sum, Text } from "./text";
import { Input, Panel, Spark, Verdict } from "./ui";

/** lineOf returns the text of a rule as it is written. */
export function lineOf(book: Book, r: { file: string; line: number }): string {
  return lines(book, r.file)[r.line - 1]?.trim() ?? "";
}

const split = new WeakMap<Book, Map<string, string[]>>();

function lines(book: Book, file: string): string[] {
  let of = split.get(book);
  if (!of) split.set(book, of = new Map());
  let list = of.get(file);
  if (!list) of.set(file, list = (book.files.find((f) => f.name === file)?.text ?? "").split(/\r\n|\r|\n/));
  return list;
}

const atOnce = 60; // rows that are drawn at once: hundreds take seconds on a slow machine

export function Rules(p: { rule: number; search: string; onSearch: (text: string) => void }) {
  const book = useData<Book>("rules", 60_000), hour = useData<Hour>("traffic", hourEvery);
  const [shown, setShown] = useState(atOnce);
  const [order, setOrder] = useState<"rules" | "refused" | "admitted">("rules");
  const traffic = useMemo(() => new Map(hour.value?.rules.map((r) => [r.rule, r])), [hour.value]);
  const texts = useMemo(() => new Map(book.value?.rules.map((r) => [r.rule, `${r.rule} ${r.name ?? ""} ${lineOf(book.value as Book, r)}`.toLowerCase()])), [book.value]);
  const words = p.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (book.value?.rules ?? []).filter((r) => words.every((w) => texts.get(r.rule)?.includes(w)));
  if (order !== "rules") found.sort((a, b) => sum(traffic.get(b.rule)?.[order] ?? []) - sum(traffic.get(a.rule)?.[order] ?? []));
  const one = book.value?.rules.find((r) => r.rule === p.rule);
  return <>
    <div class={one ? "split" : ""}>
      <Panel title={book.value ? plural(book.value.rules.length, "rule") : "Rules"} data={book}
        empty={book.value && (book.value.rules.length === 0 ? "There are no rules yet. Publish some in the view Change." : found.length === 0 && (identityOf(p.search) ? `Enter asks why ${p.search.trim()} is limited.` : `No rule contains “${p.search}”.`))}
        tools={<><label class="inline">Order <select value={order} onChange={(e) => setOrder(e.currentTarget.value as typeof order)}><option value="rules">as tried</option><option value="refused">refused</option><option value="admitted">admitted</option></select></label>
          <Input type="search" id="search" aria-label="Search rules and identities" placeholder="Search, or NAME=VALUE" value={p.search} onValue={p.onSearch} /></>}>
        {(b) => <table class="data rules"><thead><tr><th>Rule</th><th>Limit</th><th class="num">Admitted</th><th class="num">Refused</th><th class="num wide">Near</th><th class="num wide">Shadow</th><th class="wide">Hour</th></tr></thead>
          <tbody>{found.slice(0, shown).map((r) => <Row key={r.rule} of={r} traffic={traffic.get(r.rule)} isOpen={r.rule === p.rule} text={lineOf(b, r)} />)}
            {found.length > shown && <More columns={7} left={found.length - shown} onMore={() => setShown(shown + atOnce)} />}</tbody></table>}
      </Panel>
      {one && book.value && <Detail of={one} book={book.value} traffic={traffic.get(one.rule)} />}
      {!one && p.rule > 0 && book.value && <p class="failure">There is no rule {p.rule} in force.</p>}
    </div>
    {book.value?.imported && <Imported of={book.value.imported} traffic={hour.value?.rules ?? []} search={words} />}
    {book.value && <Parts book={book.value} />}
  </>;
}

/** Imported lists imported limits, which come before the rules. */
function Imported(p: { of: NonNullable<Book["imported"]>; traffic: HourRule[]; search: string[] }) {
  const traffic = new Map(p.traffic.filter((r) => r.rule === 0).map((r) => [r.name, r]));
  const [shown, setShown] = useState(atOnce);
  const found = p.of.filter((l) => p.search.every((w) => `${l.path} ${l.name ?? ""} ${l.limit}`.toLowerCase().includes(w)));
  return <Panel title={plural(p.of.length, "imported limit")} empty={found.length === 0 && "None of them contains the search."}>{() => <table class="data"><thead><tr><th>Path</th><th>Limit</th><th class="num">Admitted</th><th class="num">Refused</th></tr></thead>
    <tbody>{found.slice(0, shown).map((l, i) => <tr key={i}><td><Text>{l.path}</Text>{l.name && <small><Text>{l.name}</Text></small>}</td><td>{l.limit}</td>
      <td class="num"><Num quiet>{sum(traffic.get(l.path)?.admitted ?? [])}</Num></td><td class="num"><Num quiet>{sum(traffic.get(l.path)?.refused ?? [])}</Num></td></tr>)}
      {found.length > shown && <More columns={4} left={found.length - shown} onMore={() => setShown(shown + atOnce)} />}</tbody></table>}</Panel>;
}

/** More is the last row of a table that is not drawn as a whole. It draws more when the reader comes near. */
function More(p: { columns: number; left: number; onMore: () => void }) {
  const at = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    const watcher = new IntersectionObserver((seen) => { if (seen.some((e) => e.isIntersecting)) p.onMore(); }, { rootMargin: "800px" });
    if (at.current) watcher.observe(at.current);
    return () => watcher.disconnect();
  });
  return <tr ref={at}><td colSpan={p.columns}><button type="button" onClick={p.onMore}>Show more of {p.left}</button></td></tr>;
}

function Row(p: { of: Rule; traffic: HourRule | undefined; isOpen: boolean; text: string }) {
  const r = p.of, t = p.traffic;
  return <tr class={p.isOpen ? "open" : ""} onClick={(e) => { if (!(e.target as Element).closest("a,button")) location.hash = p.isOpen ? "#/rules" : `#/rules/${r.rule}`; }}>
    <td><a href={p.isOpen ? "#/rules" : `#/rules/${r.rule}`} aria-expanded={p.isOpen}><b>{r.rule}</b> {r.name && <Text>{r.name}</Text>}</a> <Verdict of={r.shadow ? "shadow" : r.verdict} />{!r.active && <span class="verdict off">not now</span>}<small class="narrow">{r.limit}</small><code class="line"><Text cut={160}>{p.text}</Text></code></td>
    <td>{r.limit}{r.counts_by.length > 0 && <small>by <Text>{r.counts_by.join(", ")}</Text></small>}</td>
    <td class="num"><Num quiet>{sum(t?.admitted ?? [])}</Num></td><td class="num"><Num quiet>{sum(t?.refused ?? [])}</Num></td>
    <td class="num wide"><Num quiet>{sum(t?.near ?? [])}</Num></td><td class="num wide"><Num quiet>{sum(t?.shadow_refused ?? [])}</Num></td>
    <td class="wide">{t && <Spark of={t.refused} label={`refusals of rule ${r.rule} by minute`} />}</td>
  </tr>;
}

function Detail(p: { of: Rule; book: Book; traffic: HourRule | undefined }) {
  const r = p.of;
  const own = useData<Exception[]>(`exceptions?rule=${r.rule}&limit=21`).value ?? [];
  const result = p.book.results.find((x) => x.result === r.result);
  const findings = p.book.findings.filter((f) => f.file === r.file && f.line === r.line);
  const at = useRef<HTMLDivElement>(null);
  useEffect(() => { if (matchMedia("(max-width: 900px)").matches) at.current?.scrollIntoView({ block: "start" }); }, [r.rule]);
  return <div class="detail" ref={at}>
    <Panel title={`Rule ${r.rule}${r.name ? " " + r.name : ""}`} tools={<><a class="button" href={`#/change?file=${encodeURIComponent(r.file)}&line=${r.line}`}>Change</a><a class="button quiet" href="#/rules" aria-label="Close">×</a></>}>
      {() => <>
        <pre class="source"><Text cut={4000}>{lineOf(p.book, r)}</Text></pre>
        <dl><dt>Method</dt><dd>{r.method}: {r.limit}</dd>
          <dt>Counts by</dt><dd>{r.counts_by.length > 0 ? <Text>{r.counts_by.join(", ")}</Text> : <span class="faint">{r.method === "direct" ? "nothing" : "everyone together"}</span>}</dd>
          <dt>Result</dt><dd><Verdict of={r.verdict} /> {r.result}{result?.reason && <> <Text>{result.reason}</Text></>}{result?.status ? `, HTTP ${result.status}` : ""}{r.shadow && " (shadow: it never decides)"}</dd>
          <dt>Written</dt><dd><Text>{`${r.file}:${r.line}`}</Text></dd></dl>
        <Findings of={findings} />
        {own.length > 0 && <><h3>Exceptions</h3><ul class="lines">{own.slice(0, 20).map((x) => <li key={x.id}><IdentityText of={x.identity} /> {x.what === "count" ? `count ${x.count}` : x.what}, ends <Ago at={x.until} /> <Buttons of={{ rule: x.rule, identity: x.identity }} counted={false} exception={x} /></li>)}{own.length > 20 && <li><a href="#/exceptions">More exceptions</a></li>}</ul></>}
      </>}
    </Panel>
    {r.method !== "direct" && <TopPanel rule={r.rule} />}
  </div>;
}

export function Findings(p: { of: Finding[]; onGo?: (f: Finding) => void }) {
  if (p.of.length === 0) return null;
  return <ul class="findings">{p.of.slice(0, 200).map((f, i) => <li key={i} class={f.severity}>
    {p.onGo ? <button type="button" class="link" onClick={() => p.onGo?.(f)}><Text>{`${f.file}:${f.line}:${f.column}`}</Text></button> : <Text>{`${f.file}:${f.line}:${f.column}`}</Text>}
    {" "}<b>{f.code}</b> <Text>{f.message}</Text>{f.hint && <small><Text>{f.hint}</Text>{f.suggestion && <> – did you mean <code><Text>{f.suggestion}</Text></code>?</>}</small>}</li>)}</ul>;
}

function Parts(p: { book: Book }) {
  const b = p.book;
  return <div class="columns">
    <Panel title="Word lists and tables" empty={b.lists.length + b.tables.length === 0 && "The rules use none."}>{() => <table class="data"><thead><tr><th>Name</th><th class="num">Entries</th><th>Path</th></tr></thead>
      <tbody>{b.lists.map((l) => <tr key={"l" + l.name}><td><Text>{l.name}</Text></td><td class="num"><Num>{l.entries}</Num></td><td><Text>{l.path}</Text></td></tr>)}
        {b.tables.map((l) => <tr key={"t" + l.name}><td><Text>{l.name}</Text> <span class="faint">table</span></td><td class="num"><Num>{l.entries}</Num></td><td><Text>{l.path}</Text></td></tr>)}</tbody></table>}</Panel>
    <Panel title="Parameters" empty={b.params.length === 0 && "The rules declare none."}>{() => <table class="data"><thead><tr><th>Name</th><th>From</th></tr></thead>
      <tbody>{b.params.map((x) => <tr key={x.name}><td><Text>{x.name}</Text></td><td><Text>{x.sources.join(" else ")}</Text></td></tr>)}</tbody></table>}</Panel>
    <Panel title="Routes" empty={b.routes.length === 0 && "The rules declare none."}>{() => <ul class="lines code">{b.routes.slice(0, 500).map((r, i) => <li key={i}><code><Text>{r.text}</Text></code></li>)}</ul>}</Panel>
    <Panel title="Files" empty={b.files.length === 0 && "There are none yet."}>{() => <>{b.findings.length > 0 && <Findings of={b.findings} />}<ul class="lines">{b.files.map((f) => <li key={f.name}><details><summary><Text>{f.name}</Text> <span class="faint">{plural(f.text.length, "character")}</span></summary><Written of={f.text} /></details></li>)}</ul></>}</Panel>
  </div>;
}

/** Written shows a file line by line. */
export function Written(p: { of: string }) {
  const list = p.of.split(/\r\n|\r|\n/), [shown, setShown] = useState(400);
  return <div class="written" tabIndex={0} role="region" aria-label="Text of the file"><ol>{list.slice(0, shown).map((l, i) => <li key={i}><code><Text>{l}</Text></code></li>)}</ol>{list.length > shown && <button type="button" onClick={() => setShown(shown + 5000)}>Show {list.length - shown} more lines</button>}</div>;
}
