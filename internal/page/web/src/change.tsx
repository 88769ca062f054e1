// Changes the rules: an editor with the findings of the instance, and publishing.
import { useEffect, useRef, useState } from "preact/hooks";
import { author, post, setAuthor, type Book, type Checked, type Finding, type RuleFile, type State, type Trial, type TrialOptions, type VersionDetail, type Words, get, type Changes } from "./api";
import { ChangesList, isSame, Lines } from "./changes";
import { refresh, useData } from "./data";
import { begin, change, discard, draft, inForce, isChanged, type Draft } from "./draft";
import type { Editor } from "./editor";
import { Conflict, publish, publishAgain } from "./publish";
import { trials } from "./events";
import { ReplayPanel } from "./replay";
import { Findings } from "./rules";
import { plural, Text } from "./text";
import { TrialFields } from "./trial";
import { Dialog, Failure, Field, Input, messageOf, notify, Panel } from "./ui";

const checkDelay = 350; // ms after the last key
const typedSize = 2 << 20; // characters up to which the text is checked while it is typed
const mostSize = 60 << 20;

export function Change(p: { given: URLSearchParams }) {
  const d = draft.use();
  const [error, setError] = useState<Error>();
  useEffect(() => { begin().catch(setError); }, []);
  if (error) return <Panel title="Change">{() => <Failure of={error as never} />}</Panel>;
  if (!d) return <Panel title="Change">{() => <p class="empty loading">Loading …</p>}</Panel>;
  return <Desk of={d} given={p.given} />;
}

function Desk(p: { of: Draft; given: URLSearchParams }) {
  const d = p.of, book = useData<Book>("rules"), words = useData<Words>("words");
  const host = useRef<HTMLDivElement>(null), editor = useRef<Editor | undefined>(undefined), latest = useRef<{ book: Book | undefined; words: Words | undefined; checked: Checked | undefined }>({ book: undefined, words: undefined, checked: undefined });
  const state = useData<State>("state"), hash = state.value?.hash, inForceNow = state.value?.release?.version ?? 0;
  const [result, check, checkError] = useCheck(d.files, hash);
  const checked = result?.files === d.files && result.hash === hash ? result.checked : undefined; // not an answer about an earlier text or earlier rules in force
  const [dialog, setDialog] = useState<"discard" | "add">(), [publishing, setPublishing] = useState<Checked>();
  const [conflict, setConflict] = useState<Conflict>();
  const [compare, setCompare] = useState(true);
  const isDirty = isChanged(d), canPublish = d.published && !d.signed, isBehind = d.published && inForceNow > d.version;
  latest.current = { book: book.value, words: words.value, checked };
  const publishNow = () => { const { checked } = latest.current; if (canPublish && checked?.errors === 0 && isChanged(draft.get())) setPublishing(checked); };
  useEffect(() => { if (isBehind && !publishing) follow().catch((e) => notify(messageOf(e), undefined, true)); }, [isBehind, !publishing]);
  useEffect(() => {
    let gone = false;
    void import("./editor").then(({ open }) => {
      if (gone || !host.current) return;
      const e = editor.current = open(host.current, {
        book: () => latest.current.book, words: () => latest.current.words, onPublish: publishNow,
        onText: (name, text) => change({ files: (draft.get()?.files ?? []).map((f) => f.name === name ? { name, text } : f) }),
      });
      const now = draft.get() as Draft, asked = p.given.get("file"), file = now.files.find((f) => f.name === asked) ?? now.files.find((f) => f.name === now.file) ?? now.files[0];
      if (file) { e.show(file.name, file.text, Number(p.given.get("line")) || undefined); change({ file: file.name }); }
      if (latest.current.checked) e.find(latest.current.checked.findings); // the check may have ended before the editor was loaded
    });
    return () => { gone = true; editor.current?.end(); editor.current = undefined; };
  }, []);
  useEffect(() => { if (checked) editor.current?.find(checked.findings); }, [checked]);
  const text = d.files.find((f) => f.name === d.file)?.text;
  useEffect(() => {
    const now = draft.get(), latest = now?.files.find((f) => f.name === now.file); // effects may run after the next key
    if (now && latest) editor.current?.show(now.file, latest.text);
  }, [d.file, text]);
  const go = (f: Finding) => { const file = d.files.find((x) => x.name === f.file); if (file) { change({ file: file.name }); editor.current?.show(file.name, file.text, f.line); } };
  const format = async () => {
    try {
      const next = await post<{ text: string; findings: Finding[] }>("format", { name: d.file, text: text ?? "" });
      if (next.findings.some((f) => f.severity === "error")) notify("The file has errors, and keeps its layout.", undefined, true);
      change({ files: d.files.map((f) => f.name === d.file ? { name: f.name, text: next.text } : f) });
    } catch (e) { notify(messageOf(e), undefined, true); }
  };
  const remove = (name: string) => {
    const before = d.files, rest = before.filter((f) => f.name !== name);
    change({ files: rest, file: rest[0]?.name ?? "" });
    notify(`${name} is no longer part of the text.`, async () => change({ files: before, file: name }));
  };
  return <div class="split change">
    <Panel title="Change the rules" tools={<>
      <button type="button" onClick={() => void format()}>Format</button><button type="button" onClick={check}>Check</button>
      <OpenFiles files={d.files} /><button type="button" onClick={() => download(d.files)}>Download</button>
      <button type="button" class="quiet" disabled={!isDirty} onClick={() => setDialog("discard")}>Discard</button>
      {canPublish && <button type="button" class="primary" disabled={!isDirty || !checked || checked.errors > 0} onClick={publishNow}>Publish …</button>}</>}>{() => <>
        {!d.published && <p class="hint">This instance reads its rules from files, so the page cannot publish them. Check a change here, download it, and put it in place; exceptions, resets and modes work here.</p>}
        {d.signed && <p class="hint">This fleet takes signed versions only. Check a change here, download it, and publish it with <code>koalagate publish --sign-key KEY</code>.</p>}
        {isBehind && isDirty && !publishing && <p class="hint" role="status">Version {inForceNow} came into force meanwhile. Your text is kept. <button type="button" onClick={() => setConflict(new Conflict(d.version, inForceNow))}>Show what it changes</button></p>}
        <div class="tabs"><div role="tablist" aria-label="Rule files">{d.files.map((f) => <button type="button" role="tab" key={f.name} aria-selected={f.name === d.file} onClick={() => change({ file: f.name })}>
          <Text>{f.name.split("/").at(-1) ?? f.name}</Text>{f.text !== d.base.find((x) => x.name === f.name)?.text && <span class="dot" title="changed"> ●</span>}</button>)}</div>
          <button type="button" class="quiet" onClick={() => setDialog("add")}>+ File</button>{d.files.length > 1 && <button type="button" class="quiet" onClick={() => remove(d.file)}>− Remove</button>}</div>
        <div class="editor" ref={host} />
      </>}</Panel>
    <div>
      <Panel title={checked ? checked.errors > 0 ? plural(checked.errors, "error") : checked.warnings > 0 ? plural(checked.warnings, "warning") : `Valid: ${plural(checked.rules ?? 0, "rule")}` : "Findings"}>{() => <div aria-live="polite">
        {checkError && <p class="failure">{checkError}</p>}{checked && checked.findings.length === 0 && <p class="good">The instance would load these rules.</p>}
        {checked && <Findings of={checked.findings} onGo={go} />}{!checked && !checkError && <p class="empty">{size(d.files) > typedSize ? "The text is large: it is checked when you press Check." : "Checking …"}</p>}</div>}</Panel>
      <Panel title={d.version ? `Changes to version ${d.version}` : "Changes"} tools={<label class="inline"><input type="checkbox" checked={compare} onChange={() => setCompare(!compare)} /> lines</label>}>{() => <>
        {isDirty ? <>{checked?.errors === 0 && <ChangesList of={checked.changes} />}{compare && <Lines before={d.base} now={d.files} />}</> : <p class="empty">Nothing is changed.</p>}</>}</Panel>
      {isDirty && <ReplayPanel files={d.files} isValid={checked?.errors === 0} />}
    </div>
    {publishing && <Publish of={d} checked={publishing} onClose={() => setPublishing(undefined)} onConflict={(c) => { setPublishing(undefined); setConflict(c); }} />}
    {dialog === "discard" && <Dialog title="Discard the changes" action="Discard" danger onClose={() => setDialog(undefined)} onDo={async () => {
      const before = d;
      await discard();
      setDialog(undefined);
      notify("Your changes are discarded.", async () => draft.set(before));
    }}><p>The text of what is in force replaces yours.</p></Dialog>}
    {dialog === "add" && <AddFile files={d.files} onClose={() => setDialog(undefined)} />}
    {conflict && <ConflictDialog of={conflict} mine={d} onClose={() => setConflict(undefined)} />}
  </div>;
}

const size = (files: RuleFile[]) => files.reduce((n, f) => n + f.text.length, 0);

/** follow takes what is in force instead of a draft without changes, or with the same ones. */
async function follow() {
  const now = await inForce(), d = draft.get();
  if (d && (!isChanged(d) || isSame(d.files, now.files))) { draft.set({ ...now, file: now.files.some((f) => f.name === d.file) ? d.file : now.file }); change({}); }
}

interface Result { checked: Checked; files: RuleFile[]; hash: string | undefined }

/** useCheck checks files when they have not changed for a moment, and when the rules in force have changed, which have this hash. */
function useCheck(files: RuleFile[], hash: string | undefined): [Result | undefined, () => void, string] {
  const [result, setResult] = useState<Result>(), [error, setError] = useState("");
  const wanted = useRef(0);
  const run = async () => {
    const mine = ++wanted.current;
    try {
      const checked = await post<Checked>("check", { files });
      if (mine === wanted.current) { setResult({ checked, files, hash }); setError(""); }
    } catch (e) { if (mine === wanted.current) setError(messageOf(e)); }
  };
  useEffect(() => {
    wanted.current++;
    if (size(files) > typedSize || hash === undefined) return;
    const timer = setTimeout(() => void run(), checkDelay);
    return () => clearTimeout(timer);
  }, [files, hash]);
  return [result, () => void run(), error];
}

function OpenFiles(p: { files: RuleFile[] }) {
  const at = useRef<HTMLInputElement>(null);
  const take = async (list: FileList | null) => {
    const picked = Array.from(list ?? []);
    if (picked.reduce((n, f) => n + f.size, 0) > mostSize) return notify("These files are larger than 60 MB together; publish them with koalagate publish.", undefined, true);
    let files = p.files;
    for (const f of picked) {
      const text = await f.text(), same = files.find((x) => x.name === f.name || x.name.endsWith("/" + f.name));
      files = same ? files.map((x) => x === same ? { name: x.name, text } : x) : [...files, { name: f.name, text }];
    }
    const before = p.files, last = picked.at(-1)?.name ?? "";
    change({ files, file: files.find((x) => x.name === last || x.name.endsWith("/" + last))?.name ?? files[0]?.name ?? "" });
    notify(`Opened ${plural(picked.length, "file")}.`, async () => change({ files: before, file: before[0]?.name ?? "" }));
  };
  return <><input type="file" class="hidden" tabIndex={-1} aria-label="Rule files" multiple accept=".conf,text/plain" ref={at} onChange={(e) => { const el = e.currentTarget; void take(el.files).then(() => { el.value = ""; }); }} />
    <button type="button" onClick={() => at.current?.click()}>Open …</button></>;
}

function AddFile(p: { files: RuleFile[]; onClose: () => void }) {
  const folder = p.files[0]?.name.replace(/[^/]*$/, "") ?? "", [name, setName] = useState(folder + "new.conf");
  return <Dialog title="Add a rule file" action="Add" onClose={p.onClose} disabled={!name.trim()} onDo={() => {
    if (p.files.some((f) => f.name === name)) throw new Error("There is a file of this name.");
    change({ files: [...p.files, { name, text: "[rules]\n" }], file: name });
    p.onClose();
  }}><Field label="Name"><Input value={name} onValue={setName} autofocus /></Field></Dialog>;
}

function download(files: RuleFile[]) {
  for (const f of files) {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([f.text], { type: "text/plain" }));
    a.download = f.name.split("/").at(-1) ?? f.name;
    a.click();
    URL.revokeObjectURL(a.href);
  }
}

function Publish(p: { of: Draft; checked: Checked; onClose: () => void; onConflict: (c: Conflict) => void }) {
  const [note, setNote] = useState(""), [name, setName] = useState(author()), [step, setStep] = useState(""), [trial, setTrial] = useState<TrialOptions>();
  const current = useData<Trial>(trials.use() ? "trial" : null).value, running = current?.state === "running" && current.version > 0 ? current : undefined, tried = useData<VersionDetail>(running ? `versions/${running.version}` : null);
  return <Dialog title={p.of.version ? `Publish over version ${p.of.version}` : "Publish the first version"} action={trial ? "Try at all instances" : "Publish to all instances"} wide onClose={p.onClose} onDo={async () => {
    setAuthor(name.trim());
    try {
      const number = await publish(p.of.files, p.checked, p.of.active, p.of.version, name.trim(), note, setStep, trial);
      p.onClose();
      if (trial) {
        refresh();
        location.hash = "#/";
        return notify(`Version ${number} is on trial at all instances. Your text is kept.`);
      }
      const before = p.of.active;
      draft.set({ ...(await inForce()), file: p.of.file });
      change({});
      refresh();
      notify(`Version ${number} is in force.`, before ? async () => {
        const back = await publishAgain(before, number, author(), `rollback to version ${before.version}`, () => undefined);
        await discard();
        refresh();
        notify(`Version ${back} is in force, with the content of version ${before.version}.`);
      } : undefined);
    } catch (e) {
      setStep("");
      if (e instanceof Conflict) return p.onConflict(e);
      throw e;
    }
  }}>
    {running && <p class="hint"><b>Version {running.version} is on trial</b>{tried.value && <>, published by <b><Text>{tried.value.author}</Text></b>{tried.value.note && <>: “<Text>{tried.value.note}</Text>”</>}</>}. Publishing ends the trial{trial && ", and yours takes its place"}.</p>}
    <p>Every instance checks it. When all are ready it comes into force everywhere at one instant; if one refuses, nothing changes.</p>
    <ChangesList of={p.checked.changes} />
    <div class="row"><Field label="Your name"><Input name="author" value={name} onValue={setName} required maxLength={100} /></Field></div>
    <Field label="Note" hint="Why: the history keeps it."><Input name="note" value={note} onValue={setNote} required maxLength={500} autofocus /></Field>
    {p.of.version > 0 && <TrialFields of={trial} onChange={setTrial} />}
    {step && <p role="status">{step}</p>}
  </Dialog>;
}

/** ConflictDialog shows what came into force meanwhile. The text stays whatever the reader chooses. */
function ConflictDialog(p: { of: Conflict; mine: Draft; onClose: () => void }) {
  const theirs = useData<VersionDetail>(`versions/${p.of.theirs}`), changes = useData<{ changes: Changes }>(p.of.mine ? `differences/${p.of.mine}/${p.of.theirs}` : null);
  const v = theirs.value;
  return <Dialog title="Somebody else has published" action="Go on with my text" wide onClose={p.onClose} onDo={async () => {
    const now = await inForce();
    const active = now.version === p.of.theirs ? now.active : await get<VersionDetail>(`versions/${p.of.theirs}`);
    change({ base: active?.files ?? now.base, version: p.of.theirs, active });
    p.onClose();
    notify("Your text is now compared with theirs: lines of theirs that you lack are marked as removed.");
  }}>
    <p>{p.of.message}</p>
    {v && <p>Version {v.version} is by <b><Text>{v.author}</Text></b>: {v.note ? <>“<Text>{v.note}</Text>”</> : "without a note"}.</p>}
    <h3>What it changes</h3>
    <ChangesList of={changes.value?.changes} />
    {v && <Lines before={p.mine.base} now={v.files} />}
    <p>If you go on, your text is compared with theirs before you publish again.</p>
  </Dialog>;
}
