// The button that takes an instance that is gone from the list.
import { call, type Instance } from "./api";
import { refresh } from "./data";
import { changing } from "./session";
import { messageOf, notify } from "./ui";

/** Dismiss takes an instance that is gone from the list of all. */
export function Dismiss(p: { of: Instance }) {
  const dismiss = async () => {
    await changing(() => call<Instance>("DELETE", "instances/" + encodeURIComponent(p.of.id)));
    refresh("instances", "audit");
    notify(`Instance ${p.of.host} (pid ${p.of.pid}) is dismissed.`);
  };
  return <button type="button" aria-label={`Dismiss ${p.of.host} (pid ${p.of.pid})`} onClick={() => void dismiss().catch((e) => notify(messageOf(e), undefined, true))}>Dismiss</button>;
}
