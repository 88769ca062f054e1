// Who the reader of the page is, and what he may do.
import { useState } from "preact/hooks";
import { author, call, post, Problem, setAuthor, type Session } from "./api";
import { refresh, Value } from "./data";
import { connect } from "./events";
import { Dialog, Field, Input, notify } from "./ui";

/** session is what the reader may do; undefined before it is known. */
export const session = new Value<Session | undefined>(undefined);

interface Asked { reason: string; toChange: boolean; done: () => void; failed: (e: unknown) => void }

/** asked is the log-in that is on the screen. */
export const asked = new Value<Asked | undefined>(undefined);

/** load reads what the reader may do. */
export async function load() { session.set(await call<Session>("GET", "session")); }

/** logIn asks for a token, for changes if toChange is true. It throws if the reader has none. */
export function logIn(reason: string, toChange = false): Promise<void> {
  return new Promise((done, failed) => asked.set({ reason, toChange, done, failed }));
}

/** changing makes a change, and asks for a token if it needs one. What was typed stays. */
export async function changing<T>(change: () => Promise<T>): Promise<T> {
  if (session.get()?.level !== "change") await logIn("Changes need the token for changes.", true);
  try { return await change(); } catch (e) {
    if (!(e instanceof Problem) || e.status !== 401) throw e;
    await logIn("Your session has ended. Nothing that you typed is lost.", true);
    return change();
  }
}

export async function logOut() {
  session.set(await call<Session>("DELETE", "session"));
  notify("Logged out.");
  refresh();
}

/** LogIn is the dialog that asks for a token. */
export function LogIn() {
  const ask = asked.use(), now = session.use();
  const [token, setToken] = useState("");
  const [name, setName] = useState(author());
  if (!ask) return null;
  const close = () => { asked.set(undefined); setToken(""); };
  return <Dialog title="Log in" action="Log in" disabled={!token} onClose={() => { close(); ask.failed(new Problem(401, "Not logged in. Nothing was changed.")); }}
    onDo={async () => {
      setAuthor(name.trim());
      const next = await post<Session>("session", { token: token.trim() });
      session.set(next);
      if (ask.toChange && next.level !== "change") throw new Error("This token is for reading alone: it lets you see everything, and change nothing.");
      close();
      refresh();
      connect();
      ask.done();
    }}>
    <p>{ask.reason} {now?.token_file ? <>On this machine it is in <code>{now.token_file}</code>.</> : "It is the setting admin_token of the instance (admin_read_token for reading)."}</p>
    <Field label="Token"><Input type="password" name="token" value={token} onValue={setToken} autofocus required /></Field>
    <Field label="Your name" hint="The audit trail keeps it with each change."><Input name="author" value={name} onValue={setName} maxLength={100} /></Field>
  </Dialog>;
}
