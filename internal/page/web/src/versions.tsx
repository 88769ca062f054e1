// The history of the rules, with what each version changed, and the way back.
import { useState } from "preact/hooks";
import { author, get, setAuthor, type Changes, type Fleet, type State, type Version, type VersionDetail } from "./api";
import { ChangesList, Lines } from "./changes";
import { refresh, useData, Value } from "./data";
import { Conflict, publishAgain } from "./publish";
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
  return <div class="detail"><Panel title={`Version ${n}`} data={detail} tools={<>
    {p.of.in_force ? <RollBack /> : p.inForce > 0 && <button type="button" class="danger" disabled={!detail.value} onClick={() => { if (detail.value) rollBack(detail.value, p.inForce); }}>Roll back to it …</button>}<a class="button quiet" href="#/versions" aria-label="Close">×</a></>}>{(v) => <>
      <dl><dt>By</dt><dd><Text>{v.author}</Text>, <Ago at={v.at} /></dd><dt>Note</dt><dd>{v.note ? <Text>{v.note}</Text> : <span class="faint">none</span>}</dd>
        <dt>Content</dt><dd>{many(v.rules, "rule")}, {many(v.files.length, "file")}, {many(v.lists.length, "list or table", "lists and tables")}, <code>{v.hash.slice(0, 12)}</code></dd></dl>
      <div class="tabs" role="tablist" aria-label="Compare"><button type="button" role="tab" aria-selected={against === "before"} onClick={() => setAgainst("before")}>{before ? `From version ${before}` : "From the version before"}</button>
        {!p.of.in_force && <button type="button" role="tab" aria-selected={against === "force"} onClick={() => setAgainst("force")}>From version {p.inForce}, in force</button>}</div>
      {from === 0 ? <p class="empty">There was no version before it.</p> : changes.error ? <Failure of={changes.error} /> : <><ChangesList of={changes.value?.changes} />{other.value && <Lines before={other.value.files} now={v.files} />}</>}
    </>}</Panel>
  </div>;
}

/** Again is a version whose content somebody wants to publish as a new one, over the version in force. */
interface Again { of: VersionDetail; inForce: number; title: string; action: string; note: string; danger?: boolean }

const again = new Value<Again | undefined>(undefined);

/** askAgain opens the dialog that publishes the content of a version as a new one. It stays when what the button belonged to is gone. */
export function askAgain(a: Again) { again.set(a); }

function rollBack(of: VersionDetail, inForce: number) {
  askAgain({ of, inForce, title: `Roll back to version ${of.version}`, action: "Roll back all instances", note: `rollback to version ${of.version}`, danger: true });
}

/** RollBack publishes the content of the version before the one in force, after a question. Signed versions are rolled back by the command. */
export function RollBack() {
  const state = useData<State>("state").value;
  if ((state?.release?.version ?? 0) < 2 || state?.signed) return null;
  const ask = async () => {
    const { in_force } = await get<Fleet>("fleet"); // the page may not know it yet
    const { before } = await get<VersionDetail>(`versions/${in_force}`);
    if (before === 0) throw new Error(`There was no version before version ${in_force}.`);
    rollBack(await get<VersionDetail>(`versions/${before}`), in_force);
  };
  return <button type="button" class="danger" onClick={() => void ask().catch((e) => notify(messageOf(e), undefined, true))}>Roll back …</button>;
}

/** PublishAgain is the dialog of askAgain. If another version comes into force meanwhile, it says so, keeps the note and compares with that version. */
export function PublishAgain() {
  const a = again.use();
  return a ? <AgainDialog key={`${a.of.version} ${a.inForce}`} of={a} /> : null;
}

function AgainDialog(p: { of: Again }) {
  const { of, title, action, danger } = p.of;
  const [note, setNote] = useState(""), [name, setName] = useState(author()), [step, setStep] = useState(""), [inForce, setInForce] = useState(p.of.inForce);
  const changes = useData<{ changes: Changes }>(inForce ? `differences/${inForce}/${of.version}` : null);
  const close = () => again.set(undefined);
  return <Dialog title={title} action={action} danger={!!danger} wide onClose={close} onDo={async () => {
    setAuthor(name.trim());
    try {
      const number = await publishAgain(of, inForce, name.trim(), note || p.of.note, setStep);
      close();
      refresh();
      location.hash = `#/versions/${number}`;
      notify(`Version ${number} is in force, with the content of version ${of.version}.`);
    } catch (e) {
      setStep("");
      if (e instanceof Conflict) setInForce(e.theirs);
      throw e;
    }
  }}>
    {inForce ? <><p>Its content is published as a new version. From version {inForce}, in force, it changes:</p><ChangesList of={changes.value?.changes} /></>
      : <p>Its content is published as a new version, because Redis has none in force. The rules stay the same.</p>}
    <div class="row"><Field label="Your name"><Input name="author" value={name} onValue={setName} required maxLength={100} /></Field></div>
    <Field label="Note" hint="Why: the history keeps it."><Input name="note" value={note} onValue={setNote} maxLength={500} placeholder={p.of.note} autofocus /></Field>
    {step && <p role="status">{step}</p>}
  </Dialog>;
}
