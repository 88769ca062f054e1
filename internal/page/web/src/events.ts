// Server-sent events of the instance: decisions every second, and what changed.
import { url, type Second } from "./api";
import { refresh, Value } from "./data";

/** link is the state of the stream: connecting, live, or away. */
export const link = new Value<"connecting" | "live" | "away">("connecting");

/** seconds are the decisions of the last two minutes, the latest last. */
export const seconds = new Value<Second[]>([]);

/** trials reports whether there is a trial, or was one since the start of the instance. */
export const trials = new Value(false);

const kept = 120;
const silence = 6000; // ms without an event after which the stream is dead
const pause = 5000;

let source: EventSource | undefined;
let last = 0;
let connectAgain = 0;

/** connect follows the events until the page is closed. */
export function connect() {
  source?.close();
  clearTimeout(connectAgain);
  const s = source = new EventSource(url("events"));
  last = Date.now();
  const heard = () => { last = Date.now(); if (link.get() !== "live") link.set("live"); };
  s.addEventListener("decisions", (e) => {
    heard();
    try { seconds.set([...seconds.get().slice(1 - kept), JSON.parse(e.data) as Second]); } catch { /* the next one may be whole */ }
  });
  let first = true;
  s.addEventListener("rules", () => { heard(); refresh("state", "versions", "fleet", "instances", ...(first ? [] : ["rules"])); first = false; });
  s.addEventListener("change", () => { heard(); refresh("audit", "exceptions", "modes", "versions", "instances", "top"); });
  s.addEventListener("trial", () => { heard(); trials.set(true); refresh("trial"); });
  s.onerror = () => {
    link.set("away");
    if (s.readyState === EventSource.CLOSED) connectAgain = setTimeout(connect, pause);
  };
}

setInterval(() => { if (source && Date.now() - last > silence && !document.hidden) { link.set("away"); connect(); } }, silence);
