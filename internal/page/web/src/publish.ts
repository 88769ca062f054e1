// The steps of publishing, as the command takes them.
import { call, get, post, Problem, type Checked, type Fleet, type Manifest, type Progress, type Proposed, type RuleFile, type State, type TrialOptions, type VersionDetail } from "./api";
import { changing } from "./session";

const waiting = 30_000; // ms in which the instances must be ready
const poll = 250;

/** Conflict reports that another version came into force meanwhile. */
export class Conflict extends Error {
  constructor(readonly mine: number, readonly theirs: number) { super(`Version ${theirs} is in force, not ${mine}. Nothing was published, and your text is kept.`); }
}

async function propose(content: Manifest, more: Record<string, unknown>, expect: number, author: string, note: string, step: (text: string) => void, trial?: TrialOptions): Promise<number> {
  const [fleet, state] = await Promise.all([get<Fleet>("fleet"), get<State>("state")]);
  if (fleet.in_force !== expect) throw new Conflict(expect, fleet.in_force);
  const manifest = JSON.stringify({
    format: 1, prefix: fleet.prefix, number: fleet.last + 1, before: fleet.in_force, ...more, author: author || "unknown", ...(note ? { note } : {}), at: fleet.now, program: state.program,
    files: content.files, ...(content.lists?.length ? { lists: content.lists } : {}),
  });
  step("Proposing it to all instances …");
  let proposed: Proposed;
  try {
    proposed = await changing(() => post<Proposed>("versions", { manifest, timeout_ms: waiting, ...(trial ? { trial } : {}) }));
  } catch (e) {
    const now = e instanceof Problem && e.status === 409 ? (await get<Fleet>("fleet")).in_force : expect;
    if (now !== expect) throw new Conflict(expect, now);
    throw e;
  }
  for (const end = Date.now() + waiting + 5000; Date.now() < end;) {
    const now = await get<Progress>(`proposals/${proposed.version}`);
    if (now.state === "in_force" || now.state === "trial" && trial) return proposed.version;
    if (now.state === "conflict") throw new Conflict(expect, (await get<Fleet>("fleet")).in_force);
    if (now.state !== "pending") throw new Error(`Version ${proposed.version} is ${now.state}: ${now.detail}. Nothing has changed.`);
    step(`Waiting for ${now.waiting.length > 0 ? now.waiting.join(", ") : "the instances"} … ${now.ready.length} ready`);
    await new Promise((r) => setTimeout(r, poll));
  }
  throw new Error(`Version ${proposed.version} is still pending; look at the view Versions.`);
}

/** publish publishes files with the lists of the version in force here, if that is still expect, or tries them first. It returns the number of the new version. */
export async function publish(files: RuleFile[], checked: Checked, active: VersionDetail | undefined, expect: number, author: string, note: string, step: (text: string) => void, trial?: TrialOptions): Promise<number> {
  const refs = files.map((f, i) => ({ name: f.name, sha256: checked.contents[i]?.sha256 ?? "", size: checked.contents[i]?.size ?? 0 }));
  const { contents } = await changing(() => post<{ contents: { sha256: string }[] }>("contents/missing", { contents: refs.map(({ sha256, size }) => ({ sha256, size })) }));
  for (const c of contents) {
    const at = refs.findIndex((r) => r.sha256 === c.sha256), file = files[at];
    if (!file) continue;
    step(`Uploading ${file.name} …`);
    await changing(() => call("PUT", "contents/" + c.sha256, undefined, file.text));
  }
  const lists = active?.content.lists ?? [];
  return propose({ files: refs, lists }, { hash: checked.hash, rules: checked.rules }, expect, author, note, step, trial);
}

/** publishAgain publishes the content of a version. */
export async function publishAgain(version: VersionDetail, expect: number, author: string, note: string, step: (text: string) => void): Promise<number> {
  return propose(version.content, { hash: version.hash, rules: version.rules }, expect, author, note, step);
}
