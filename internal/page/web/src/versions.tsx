// The history of the rules, with what each version changed, and the way back.
import { useState } from "preact/hooks";
import { author, get, setAuthor, type Changes, type State, type Version, type VersionDetail } from "./api";
import { ChangesList, Lines } from "./changes";
import { refresh, useData } from "./data";
import { publishAgain } from "./publish";
import { Ago, many, Num, Text } from "./text";
import { Dialog, Failure, Field, Input, messageOf, notify, Panel } from "./ui";

export function Versions(p: { number: number }) {
  const list = useData<Version[]>("versions", 30_000);
  const one = list.value?.find((v) => v.version === p.number);
  return <div class={one ? "split" : ""}>
    <Panel title="Versions" data={list} empty={list.value?.length === 0 && "Nothing has been published yet. Publish the first version in the view Change."}>
      {(all) => <table class="data"><thead><tr><th class="num">Version</th><th>Published</th><th>By</th><th>Note</th><th class="num wide">Rules</th></tr></thead>
        <tbody>{all.map((v) => <tr key={v.version} class={v.version === p.number ? "open" : ""}><td class="num"><a href={v.version === p.number ? "#/versions" : `#/versions/${v.version}`} aria-expanded={v.version === p.number}>{v.version}</a></td>
          <td><Ago at={v.at} /> {v.in_force && <><span class="verdict allow">in force</span> <RollBack /></>}</td><td><Text>{v.author}</Text></td><td><Text>{v.note}</Text>{v.problem && <small class="warn"><Text>{v.problem}</Text></small>}</td><td class="num wide"><Num>{v.rules}</Num></td></tr>)}</tbody></table>}
    </Panel>
    {one && <Detail key={one.version} of={one} inForce={list.value?.find((v) => v.in_force)?.version ?? 0} />}
  </div>;
}

function Detail(p: { of: Version; inForce: number }) {
  const n = p.of.version, detail = useData<VersionDetail>(`versions/${n}`), before = detail.value?.before ?? 0;
  const [against, setAgainst] = useState<"before" | "force">("before");
  const from = against === "before" ? before : p.inForce;
  const changes = useData<{ changes: Changes }>(from && from !== n ? `differences/${from}/${n}` : null), other = useData<VersionDetail>(from && from !== n ? `versions/${from}` : null);
  const [asking, setAsking] = useState(false);
  return <div class="detail"><Panel title={`Version ${n}`} data={detail} tools={<>
    {p.of.in_force ? <RollBack /> : p.inForce > 0 && <button type="button" class="danger" onClick={() => setAsking(true)}>Roll back to it …</button>}<a class="button quiet" href="#/versions" aria-label="Close">×</a></>}>{(v) => <>
      <dl><dt>By</dt><dd><Text>{v.author}</Text>, <Ago at={v.at} /></dd><dt>Note</dt><dd>{v.note ? <Text>{v.note}</Text> : <span class="faint">none</span>}</dd>
        <dt>Content</dt><dd>{many(v.rules, "rule")}, {many(v.files.length, "file")}, {many(v.lists.length, "list or table", "lists and tables")}, <code>{v.hash.slice(0, 12)}</code></dd></dl>
      <div class="tabs" role="tablist" aria-label="Compare"><button type="button" role="tab" aria-selected={against === "before"} onClick={() => setAgainst("before")}>{before ? `From version ${before}` : "From the version before"}</button>
        {!p.of.in_force && <button type="button" role="tab" aria-selected={against === "force"} onClick={() => setAgainst("force")}>From version {p.inForce}, in force</button>}</div>
      {from === 0 ? <p class="empty">There was no version before it.</p> : changes.error ? <Failure of={changes.error} /> : <><ChangesList of={changes.value?.changes} />{other.value && <Lines before={other.value.files} now={v.files} />}</>}
    </>}</Panel>
    {asking && detail.value && <RollBackTo of={detail.value} inForce={p.inForce} onClose={() => setAsking(false)} />}
  </div>;
}

/** RollBack publishes the content of the version before the one in force, after a question. Signed versions are rolled back by the command. */
export function RollBack() {
  const state = useData<State>("state").value, [asking, setAsking] = useState<VersionDetail>();
  const inForce = state?.release?.version ?? 0;
  if (inForce < 2 || state?.signed) return null;
  const ask = async () => {
    const { before } = await get<VersionDetail>(`versions/${inForce}`);
    if (before === 0) throw new Error(`There was no version before version ${inForce}.`);
    setAsking(await get<VersionDetail>(`versions/${before}`));
  };
  return <><button type="button" class="danger" onClick={() => void ask().catch((e) => notify(messageOf(e), undefined, true))}>Roll back …</button>
    {asking && <RollBackTo of={asking} inForce={inForce} onClose={() => setAsking(undefined)} />}</>;
}

/** RollBackTo is the dialog that asks before a version is published again. */
function RollBackTo(p: { of: VersionDetail; inForce: number; onClose: () => void }) {
  const n = p.of.version;
  return <PublishAgain of={p.of} inForce={p.inForce} title={`Roll back to version ${n}`} action="Roll back all instances" note={`rollback to version ${n}`} danger onClose={p.onClose} />;
}

/** PublishAgain is the dialog that publishes the content of a version as a new one. */
export function PublishAgain(p: { of: VersionDetail; inForce: number; title: string; action: string; note: string; danger?: boolean; onClose: () => void }) {
  const [note, setNote] = useState(""), [name, setName] = useState(author()), [step, setStep] = useState("");
  const changes = useData<{ changes: Changes }>(p.inForce ? `differences/${p.inForce}/${p.of.version}` : null);
  return <Dialog title={p.title} action={p.action} danger={!!p.danger} wide onClose={p.onClose} onDo={async () => {
    setAuthor(name.trim());
    const number = await publishAgain(p.of, p.inForce, name.trim(), note || p.note, setStep);
    p.onClose();
    refresh();
    location.hash = `#/versions/${number}`;
    notify(`Version ${number} is in force, with the content of version ${p.of.version}.`);
  }}>
    {p.inForce ? <><p>Its content is published as a new version. From version {p.inForce}, in force, it changes:</p><ChangesList of={changes.value?.changes} /></>
      : <p>Its content is published as a new version, because Redis has none in force. The rules stay the same.</p>}
    <div class="row"><Field label="Your name"><Input name="author" value={name} onValue={setName} required maxLength={100} /></Field></div>
    <Field label="Note" hint="Why: the history keeps it."><Input name="note" value={note} onValue={setNote} maxLength={500} placeholder={p.note} autofocus /></Field>
    {step && <p role="status">{step}</p>}
  </Dialog>;
}
