// The rules on trial: what would change, how it ends, and what follows.
import { call, get, type State, type Trial, type TrialOptions, type VersionDetail } from "./api";
import { refresh, useData } from "./data";
import { changing } from "./session";
import { Ago, Num, Text } from "./text";
import { Field, Input, messageOf, notify, Panel } from "./ui";
import { askAgain } from "./versions";

const endings: Record<string, string> = { ask: "the version in force stays until somebody publishes this one", keep: "the version in force stays", enforce: "this version comes into force" };

/** TrialPanel shows the trial that runs, or the last one. */
export function TrialPanel() {
  const data = useData<Trial>("trial"), state = useData<State>("state"), v = data.value;
  const inForce = state.value?.release?.version ?? 0;
  const stop = () => changing(() => call("DELETE", "trial")).then(() => { refresh("trial", "audit"); notify("The trial has ended; the rules in force stay."); }, (e) => notify(messageOf(e), undefined, true));
  const publish = () => get<VersionDetail>(`versions/${v?.version}`).then((of) => askAgain({ of, inForce, title: `Publish version ${of.version}, which was tried`, action: "Publish to all instances", note: of.note }), (e) => notify(messageOf(e), undefined, true));
  if (data.error?.status === 404) return null;
  return <Panel title={v ? `Trial${v.version ? ` of version ${v.version}` : " of rule files"}: ${v.state}` : "Trial"} data={data} tools={v?.state === "running" ? <button type="button" onClick={() => void stop()}>End the trial</button>
      : v && v.version > inForce && !state.value?.signed && <button type="button" onClick={() => void publish()}>Publish it …</button>}>{(r) => <>
      <p>Of <Num>{r.requests}</Num> requests the rules in force refused <Num>{r.refused_in_force}</Num>, and those on trial {r.state === "running" ? "refuse" : "would have refused"} <Num>{r.refused_on_trial}</Num>: <b><Num>{r.newly_refused}</Num> newly refused</b>, <b><Num>{r.newly_allowed}</Num> newly allowed</b>{r.dropped > 0 && <>, <Num>{r.dropped}</Num> left out</>}.
        {r.state === "running" && r.until && <> It ends <Ago at={r.until} />; then {endings[r.then ?? ""] ?? r.then}.</>}{r.state === "running" && !!r.abort_above && <> It is aborted above {r.abort_above} % newly refused.</>}{r.state !== "running" && r.detail && <> <Text>{r.detail}</Text>.</>}</p>
      <NoticeTable of={r.rules} /></>}</Panel>;
}

/** NoticeTable shows the rules that decide differently, and who would notice most. */
export function NoticeTable(p: { of: Trial["rules"] }) {
  if (p.of.length === 0) return null;
  return <table class="data"><thead><tr><th>Rule, and who would notice most</th><th class="num">Newly refused</th><th class="num">Newly allowed</th></tr></thead><tbody>{p.of.map((x) => <tr key={`${x.rule} ${x.name}`}><td>{x.rule || (x.name ? "limit" : "none")} <Text>{x.name}</Text>
    {x.identities.slice(0, 5).map((i) => <small key={i.identity}><Text cut={100}>{i.identity}</Text> <Num>{i.newly_refused + i.newly_allowed}</Num></small>)}</td><td class="num"><Num quiet>{x.newly_refused}</Num></td><td class="num"><Num quiet>{x.newly_allowed}</Num></td></tr>)}</tbody></table>;
}

const lengths: [string, number][] = [["1 minute", 1], ["15 minutes", 15], ["1 hour", 60], ["8 hours", 480], ["1 day", 1440]];

/** TrialFields asks how a version comes into force: at once, or after a trial. */
export function TrialFields(p: { of: TrialOptions | undefined; onChange: (o: TrialOptions | undefined) => void }) {
  const o = p.of;
  return <>
    <fieldset><legend>It comes into force</legend>
      <label><input type="radio" name="when" checked={!o} onChange={() => p.onChange(undefined)} /> at once</label>
      <label><input type="radio" name="when" checked={!!o} onChange={() => p.onChange({ length_ms: 15 * 60_000, then: "ask", abort_above: 1 })} /> after a trial: the rules on trial decide live requests, too, and nobody notices</label></fieldset>
    {o && <div class="row"><Field label="Trial for"><select value={o.length_ms} onChange={(e) => p.onChange({ ...o, length_ms: Number(e.currentTarget.value) })}>{lengths.map(([text, m]) => <option key={m} value={m * 60_000}>{text}</option>)}</select></Field>
      <Field label="Then"><select value={o.then} onChange={(e) => p.onChange({ ...o, then: e.currentTarget.value as TrialOptions["then"] })}><option value="ask">ask</option><option value="enforce">bring it into force</option><option value="keep">keep the version in force</option></select></Field>
      <Field label="Abort above, % newly refused" hint="0: never"><Input type="number" min={0} max={100} step="any" required value={String(o.abort_above)} onValue={(v) => p.onChange({ ...o, abort_above: Number(v) })} /></Field></div>}
  </>;
}
