// What a version changes: by rules and lists, as the instance compares them, and by lines.
import type { ChangedRule, Changes, RuleFile } from "./api";
import { diff, near, paired } from "./diff";
import { Text } from "./text";

/** ChangesList shows what the rules, lists and tables of a version change. */
export function ChangesList(p: { of: Changes | undefined }) {
  const c = p.of;
  if (!c) return <p class="faint">There is nothing to compare with.</p>;
  const rows = (kind: string, n: number, list: ChangedRule[] = []) => <>{list.map((r) => <li key={kind + r.rule} class={kind}><b>{kind}</b> rule {r.rule} {r.name && <Text>{r.name}</Text>} {r.what?.map((w, i) => <code key={i}><Text>{w}</Text></code>)}</li>)}{n > list.length && <li class={kind}>and {n - list.length} more {kind}</li>}</>;
  const others = [...(c.lists ?? []).map((l) => `list ${l.name} +${l.added} −${l.removed}`), ...(c.tables ?? []).map((t) => `table ${t}`), ...(c.results ?? []).map((r) => `result ${r}`), ...(c.sections ?? [])];
  const isNothing = c.added + c.removed + c.changed + others.length === 0;
  return <ul class="changes" aria-label="Changes">{rows("new", c.added, c.added_rules)}{rows("gone", c.removed, c.removed_rules)}{rows("changed", c.changed, c.changed_rules)}
    {others.map((t) => <li key={t} class="changed"><b>changed</b> <Text>{t}</Text></li>)}{isNothing && <li class="faint">Comments and layout only.</li>}</ul>;
}

/** isSame reports whether two versions have the same files. */
export function isSame(before: RuleFile[], now: RuleFile[]): boolean {
  return before.length === now.length && before.every((f, i) => f.name === now[i]?.name && f.text === now[i]?.text);
}

/** Lines shows the changed lines of files. */
export function Lines(p: { before: RuleFile[]; now: RuleFile[] }) {
  const parts = paired(p.before, p.now).map((f) => ({ name: f.name, lines: near(diff(f.before, f.now)) })).filter((f) => f.lines.length > 0);
  if (parts.length === 0) return <p class="faint">No line differs.</p>;
  return <div class="diff" tabIndex={0} role="region" aria-label="Changed lines">{parts.map((f) => <section key={f.name}><h3><Text>{f.name}</Text></h3><table><tbody>
    {f.lines.slice(0, 3000).map((l, i) => l ? <tr key={i} class={l.kind}><td>{l.kind === "new" ? "" : l.before}</td><td>{l.kind === "gone" ? "" : l.now}</td><td>{l.kind === "new" ? "+" : l.kind === "gone" ? "−" : ""}</td><td><code><Text cut={2000}>{l.text}</Text></code></td></tr>
      : <tr key={i} class="left"><td colSpan={4}>…</td></tr>)}</tbody></table></section>)}</div>;
}
