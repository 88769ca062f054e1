// What a text would have decided about the requests in the decision log of the instance.
import { useState } from "preact/hooks";
import { post, Problem, type Replayed, type RuleFile } from "./api";
import { changing } from "./session";
import { Num, plural, span, Text } from "./text";
import { NoticeTable } from "./trial";
import { Panel } from "./ui";

const lengths: [string, number][] = [["minute", 1], ["5 minutes", 5], ["10 minutes", 10], ["30 minutes", 30], ["hour", 60]];

interface Result { files: RuleFile[]; found?: Replayed; error?: Problem }

/** ReplayPanel replays recorded requests against files. */
export function ReplayPanel(p: { files: RuleFile[]; isValid: boolean }) {
  const [minutes, setMinutes] = useState(10), [busy, setBusy] = useState(false), [result, setResult] = useState<Result>();
  const run = async () => {
    const files = p.files;
    setBusy(true);
    try {
      setResult({ files, found: await changing(() => post<Replayed>("replay", { files, since_ms: minutes * 60_000 })) });
    } catch (e) {
      if (e instanceof Problem) setResult({ files, error: e });
    } finally { setBusy(false); }
  };
  const r = result?.files === p.files ? result : undefined; // not an answer about an earlier text
  return <Panel title="Recorded requests" tools={<><label class="inline">The last <select aria-label="Replay the last" value={minutes} onChange={(e) => setMinutes(Number(e.currentTarget.value))}>{lengths.map(([text, m]) => <option key={m} value={m}>{text}</option>)}</select></label>
    <button type="button" disabled={busy || !p.isValid} onClick={() => void run()}>{busy ? "Replaying …" : "Replay"}</button></>}>{() => <div aria-live="polite">
      {r?.error ? <p class={r.error.status === 404 ? "empty" : "failure"}><Text>{r.error.message}</Text></p> : r?.found ? <Found of={r.found} />
        : <p class="empty">{busy ? "Both rule sets decide the recorded requests …" : p.isValid ? "Replay shows what your text would have decided about the requests in the decision log of this instance." : "A text with errors decides nothing."}</p>}</div>}</Panel>;
}

function Found(p: { of: Replayed }) {
  const r = p.of;
  if (r.calls === 0) return <p class="empty">The decision log has no requests of this time.</p>;
  return <>
    <p>Of {plural(r.calls, "recorded request")}{r.from && r.to && <> within {span(Date.parse(r.to) - Date.parse(r.from))}</>} <b><Num>{r.newly_refused}</Num> newly refused</b>, <b><Num>{r.newly_allowed}</Num> newly allowed</b>. The counters of both began empty.</p>
    {!r.whole && <p class="hint">The log has more requests of this time than one replay decides.</p>}
    {r.every > 1 && <p class="hint">The log has one in {r.every} requests, so the counters reach fewer limits.</p>}
    {r.masked.length > 0 && <p class="hint">The log masks <Text>{r.masked.join(", ")}</Text>, which rules compare. Those rules decide differently here; <code>decision_log_params</code> shows the values.</p>}
    <NoticeTable of={r.rules} />
  </>;
}
