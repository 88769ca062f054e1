// The frame of the page: views by the part of the address after #, keys, and the state of
// the instance.
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, Problem, type Fleet, type State, type VersionDetail, type Words } from "./api";
import { Actions } from "./actions";
import { Change } from "./change";
import { refresh, useData } from "./data";
import { draft, isChanged } from "./draft";
import { connect, link } from "./events";
import { identityOf, Now, tryLink } from "./now";
import { doorText, Exceptions, Instances, Log } from "./operate";
import { Rules } from "./rules";
import { load, logIn, logOut, LogIn, session } from "./session";
import { Ago, setClock, shownTime, Text } from "./text";
import { Try } from "./try";
import { Dialog, messageOf, notify, Notes } from "./ui";
import { askAgain, PublishAgain, Versions } from "./versions";

const views: [string, string, string][] = [
  ["", "Now", "n"], ["rules", "Rules", "r"], ["try", "Try", "t"], ["change", "Change", "c"], ["exceptions", "Exceptions", "e"], ["versions", "Versions", "v"], ["instances", "Instances", "i"], ["log", "Log", "l"],
];

interface Place { view: string; part: string; query: URLSearchParams }

function placeOf(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", part = ""] = path.split("/", 2);
  return { view, part, query: new URLSearchParams(query) };
}

function Page() {
  const [hash, setHash] = useState(location.hash);
  const place = useMemo(() => placeOf(hash), [hash]);
  const [search, setSearch] = useState(""), [help, setHelp] = useState(false);
  const now = session.use(), main = useRef<HTMLElement>(null), isOld = !!useData<State>(now && now.level !== "none" ? "state" : null).error;
  useEffect(() => {
    const moved = () => setHash(location.hash);
    moved(); // the address may have changed since the page was first drawn
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => { document.title = (views.find(([v]) => v === place.view)?.[1] ?? "Page") + " – koalagate"; }, [place.view]);
  useKeys(() => setHelp(true));
  if (!now) return <p class="first">Loading …</p>;
  if (now.level === "none") return <><Locked /><LogIn /><Notes /></>;
  return <>
    <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }}>Skip to the contents</a>
    <Head view={place.view} onHelp={() => setHelp(true)} />
    <main id="main" tabIndex={-1} ref={main} class={isOld ? "old" : ""}>
      <Warnings />
      <h1 class="hidden">{views.find(([v]) => v === place.view)?.[1]}</h1>
      {place.view === "" ? <Now /> : place.view === "rules" ? <Rules rule={Number(place.part) || 0} search={search} onSearch={setSearch} />
        : place.view === "try" ? <Try given={place.query} /> : place.view === "change" ? <Change given={place.query} /> : place.view === "exceptions" ? <Exceptions />
        : place.view === "versions" ? <Versions number={Number(place.part) || 0} /> : place.view === "instances" ? <Instances /> : place.view === "log" ? <Log /> : <p class="empty">There is no view of this name.</p>}
    </main>
    <PublishAgain /><LogIn /><Actions /><Notes />
    {help && <Dialog title="Keys" action="Close" onClose={() => setHelp(false)} onDo={() => setHelp(false)}><table class="data keys"><tbody>
      {views.map(([, name, key]) => <tr key={key}><td><kbd>g</kbd> <kbd>{key}</kbd></td><td>{name}</td></tr>)}
      <tr><td><kbd>/</kbd></td><td>Search rules; NAME=VALUE and Enter asks why an identity is limited</td></tr><tr><td><kbd>j</kbd> <kbd>k</kbd></td><td>Next and previous row; Enter opens it</td></tr>
      <tr><td><kbd>Ctrl</kbd> <kbd>Enter</kbd></td><td>Publish, in the editor</td></tr><tr><td><kbd>Ctrl</kbd> <kbd>Space</kbd></td><td>Complete a word, in the editor</td></tr><tr><td><kbd>Esc</kbd></td><td>Close, or leave the field</td></tr><tr><td><kbd>?</kbd></td><td>These keys</td></tr></tbody></table></Dialog>}
  </>;
}

function Head(p: { view: string; onHelp: () => void }) {
  const state = useData<State>("state", 5_000), now = session.use(), dirty = isChanged(draft.use()), live = link.use(), s = state.value;
  const nav = useRef<HTMLElement>(null);
  useEffect(() => { if (s) setClock(s.now); }, [s?.now]);
  useEffect(() => { nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" }); }, [p.view]);
  return <header class="head">
    <a class="name" href="#/">koalagate</a>
    <nav aria-label="Views" ref={nav}>{views.map(([v, name, key]) => <a key={v} href={"#/" + v} aria-current={v === p.view ? "page" : undefined} title={`${name} (g ${key})`}>{name}{v === "change" && dirty && <span class="dot" title="your text is not published"> ●</span>}</a>)}</nav>
    <span class="grow" />
    <span class={"pill " + (!s || state.error ? "off" : s.ready ? "good" : "bad")} title={s ? `${s.host}, ${s.program}` : ""}>{s ? <>{state.error ? "no answer" : s.ready ? s.release ? `version ${s.release.version}` : "ready" : "not ready"}</> : "…"}<i class={live} title={live === "live" ? "live" : "not live"} /></span>
    <button type="button" class="quiet" onClick={toggleTheme} aria-label="Light or dark" title="Light or dark">◐</button>
    <button type="button" class="quiet" onClick={p.onHelp} aria-label="Keys" title="Keys (?)">?</button>
    {now?.cookie ? <button type="button" class="quiet" onClick={() => logOut().catch((e) => notify(messageOf(e), undefined, true))}>Log out</button>
      : now?.level === "read" ? <button type="button" onClick={() => logIn("To change something, log in.").catch(() => undefined)}>Log in</button> : null}
  </header>;
}

/** Warnings shows what is wrong with the instance. Each trouble is one sentence, and an instance away hides the others, which may be over. */
function Warnings() {
  const state = useData<State>("state"), modes = useData<Record<string, string>>("modes", 10_000), words = useData<Words>("words"), live = link.use(), s = state.value;
  const open = Object.entries(modes.value ?? {}).filter(([, m]) => m !== "enforce");
  const [late, setLate] = useState(false);
  useEffect(() => { setLate(false); const t = setTimeout(() => setLate(live !== "live"), 4000); return () => clearTimeout(t); }, [live]);
  return <div class="warnings" role="status">
    {state.error?.status === 401 && <p class="bad"><b>Your session has ended.</b> What you see is old. <button type="button" onClick={() => logIn("Your session has ended. Nothing that you typed is lost.").catch(() => undefined)}>Log in</button></p>}
    {state.error && state.error.status !== 401 && <p class="bad"><b>The instance does not answer{s && <>, and what you see is as of <Ago at={shownTime(state.at)} /></>}.</b>{state.error.status !== 0 && <> <Text>{state.error.message}</Text></>}</p>}
    {!state.error && late && live !== "live" && <p><b>Not live.</b> Numbers come every ten seconds; trying to connect again.</p>}
    {!state.error && s && <>
      {!s.ready && <p class="bad"><b>This instance is not ready.</b> <Text>{s.reason ?? ""}</Text></p>}
      {isAway(s) ? <p class="bad"><b>Redis is away.</b> {s.store === "degraded" && "This instance counts in its own memory."} <Text>{s.store_error ?? s.last_error}</Text></p>
        : s.fault === "lost" ? <Lost of={s} />
        : s.last_error && s.last_error !== s.reason && <p class="bad"><b>Newer rules are not in force.</b> <Text>{s.last_error}</Text></p>}
    </>}
    {!state.error && open.length > 0 && <p><b>Not everything is enforced at this instance:</b> {open.map(([d, m]) => `${doorText(words.value, d)} ${m}`).join(", ")}. <a href="#/instances">Doors</a></p>}
  </div>;
}

/** isAway reports that an instance that serves has no Redis. */
const isAway = (s: State) => s.store === "degraded" || s.fault === "away" && s.ready;

/** Lost says that Redis has lost the published rules, and offers to publish them again. */
function Lost(p: { of: State }) {
  const v = p.of.release?.version;
  const ask = async () => { const [of, fleet] = await Promise.all([get<VersionDetail>("versions/active"), get<Fleet>("fleet")]); askAgain({ of, inForce: fleet.in_force, title: `Publish version ${of.version} again`, action: "Publish to all instances", note: "restored" }); };
  return <p class="bad"><b>Redis has lost the published rules</b>, and this instance goes on with version {v}. {p.of.signed ? <>Publish it again: <code>koalagate publish --restore --sign-key KEY</code></>
    : <button type="button" onClick={() => ask().catch((e) => notify(messageOf(e), undefined, true))}>Publish version {v} again …</button>}</p>;
}

function Locked() {
  useEffect(() => { logIn("To see this instance, log in.").catch(() => undefined); }, []);
  return <main class="first"><h1>koalagate</h1><button type="button" class="primary" onClick={() => logIn("To see this instance, log in.").catch(() => undefined)}>Log in</button></main>;
}

const themeKey = "koalagate.theme";

function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  const next = dark ? "light" : "dark";
  document.documentElement.dataset["theme"] = next;
  try { localStorage.setItem(themeKey, next); } catch { /* until the page is closed */ }
}

/** useKeys follows the keys of the page. */
function useKeys(onHelp: () => void) {
  useEffect(() => {
    let goes = 0;
    const pressed = (e: KeyboardEvent) => {
      const at = e.composedPath()[0] as HTMLElement;
      const isField = at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
      if (e.key === "Escape" && isField && !document.querySelector("dialog[open]") && !at.isContentEditable) { at.blur(); return; }
      if (at.id === "search" && e.key === "Enter") {
        const identity = identityOf((at as HTMLInputElement).value);
        if (identity) location.hash = tryLink(identity);
        else document.querySelector<HTMLAnchorElement>("table.rules tbody a")?.click();
        return;
      }
      if (isField || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      const isGo = Date.now() - goes < 1500;
      goes = 0;
      const view = isGo && views.find(([, , key]) => key === e.key);
      if (view) location.hash = "#/" + view[0];
      else if (e.key === "g") goes = Date.now();
      else if (e.key === "?") onHelp();
      else if (e.key === "/") { if (placeOf(location.hash).view !== "rules") location.hash = "#/rules"; focusSearch(); }
      else if (e.key === "j" || e.key === "k") step(e.key === "j" ? 1 : -1);
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

/** focusSearch moves to the search field, which the view may still have to draw. */
function focusSearch(tries = 20) {
  const at = document.getElementById("search") as HTMLInputElement | null;
  if (at) { at.focus(); at.select(); } else if (tries > 0) requestAnimationFrame(() => focusSearch(tries - 1));
}

/** step moves the focus to the next row of the table. */
function step(by: number) {
  const rows = Array.from(document.querySelectorAll<HTMLElement>("main table.data tbody tr td a, main table.data tbody tr td button:not([disabled])"));
  const tables = rows.filter((r, i) => r.closest("tr") !== rows[i - 1]?.closest("tr"));
  const now = tables.findIndex((r) => r.closest("tr")?.contains(document.activeElement));
  tables[Math.max(0, Math.min(tables.length - 1, now < 0 ? 0 : now + by))]?.focus();
}

async function start() {
  try { const theme = localStorage.getItem(themeKey); if (theme) document.documentElement.dataset["theme"] = theme; } catch { /* the system's */ }
  const at = document.getElementById("page") as HTMLElement;
  try {
    await load();
  } catch (e) {
    at.textContent = e instanceof Problem ? e.message : String(e);
    setTimeout(() => void start(), 3000);
    return;
  }
  at.replaceChildren();
  render(<Page />, at);
  if (session.get()?.level !== "none") connect();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}

void start();
