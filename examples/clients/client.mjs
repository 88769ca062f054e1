// Asks koalagate for rows before an export, and settles the rows that it used:
//
//   KOALA_TOKEN=… node client.mjs http://127.0.0.1:9981 ann 600 250

// call rejects if koalagate has not decided: whether the work is done then is up to you.
async function call(address, args) {
  const response = await fetch(address, {
    method: "POST",
    body: new URLSearchParams(args),
    headers: { Authorization: `Bearer ${process.env.KOALA_TOKEN ?? ""}` }, // of koala_token, if that is set
    signal: AbortSignal.timeout(1000),
  });
  const reply = await response.json();
  if (reply.err_no) throw new Error(`${address}: ${reply.err_msg}`);
  return reply;
}

async function exportRows(address, user, expected, used) {
  const entry = await call(`${address}/rule/take`, { act: "export", uid: user, rows: expected });
  if (entry.Err_no !== 0) return `refused: ${entry.Err_msg}`;
  // The export is here. If the settlement fails, the expected rows stay counted.
  await call(`${address}/rule/settle`, { _receipt: entry.Receipt, _hits: used });
  return "allowed";
}

const args = process.argv.slice(2);
try {
  if (args.length !== 4) throw new Error("usage: client.mjs ADDRESS USER EXPECTED USED");
  console.log(await exportRows(...args));
} catch (e) {
  console.error(e.cause?.message ?? e.message);
  process.exitCode = 1;
}
