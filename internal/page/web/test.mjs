// Tests the modules of the page that need no browser, with Node's own test runner. The
// build runs them.
import assert from "node:assert/strict";
import test from "node:test";
import { build } from "esbuild";

async function load(...files) {
  const contents = files.map((file) => `export * from ${JSON.stringify(file)};`).join("\n");
  const { outputFiles } = await build({ stdin: { contents, resolveDir: "." }, bundle: true, format: "esm", target: "es2022", write: false });
  return import("data:text/javascript;base64," + Buffer.from(outputFiles[0].contents).toString("base64"));
}

const { readCurl, words } = await load("./src/curl.ts");
const { diff, near, paired } = await load("./src/diff.ts");
const { completer, CompletionContext, EditorState } = await load("./src/language.ts", "@codemirror/autocomplete", "@codemirror/state");

test("words are those of a POSIX shell", () => {
  for (const [text, want] of [
    ["a  b\tc\n d", ["a", "b", "c", "d"]],
    ["'a b' \"c d\" e\\ f", ["a b", "c d", "e f"]],
    [`'it'\\''s'`, ["it's"]],
    [`"a\\"b\\\\c\\d"`, ['a"b\\c\\d']],
    ["a \\\n b \\\r\n c", ["a", "b", "c"]],
    [`$'x\\n\\u0041\\x42\\'y'`, ["x\nAB'y"]],
    ["'' \"\"", ["", ""]],
    ["'not closed", ["not closed"]],
    ["a\\", ["a\\"]],
  ]) assert.deepEqual(words(text), want, text);
});

test("curl commands are read as curl reads them", () => {
  for (const [text, want] of [
    ["curl http://a.example/x?y=1", { method: "GET", target: "http://a.example/x?y=1", headers: [] }],
    ["$ curl a.example", { method: "GET", target: "http://a.example", headers: [] }],
    ["curl -sX POST -H 'X-User-Id: ann' http://a.example/api", { method: "POST", target: "http://a.example/api", headers: [["X-User-Id", "ann"]] }],
    ["curl -XDELETE http://a.example/", { method: "DELETE", target: "http://a.example/", headers: [] }],
    ["curl -sSLk -o /dev/null http://a.example/", { method: "GET", target: "http://a.example/", headers: [] }],
    ["curl --request=put --url http://a.example/", { method: "PUT", target: "http://a.example/", headers: [] }],
    ["curl http://a.example/ --data-raw '{\"a\":1}' --compressed", { method: "POST", target: "http://a.example/", headers: [["Content-Type", "application/x-www-form-urlencoded"]] }],
    ["curl http://a.example/ -d a -H 'content-type: text/plain'", { method: "POST", target: "http://a.example/", headers: [["content-type", "text/plain"]] }],
    ["curl http://a.example/ --json '{}'", { method: "POST", target: "http://a.example/", headers: [["Content-Type", "application/json"], ["Accept", "application/json"]] }],
    ["curl -G -d q=1 -d r=2 http://a.example/s", { method: "GET", target: "http://a.example/s?q=1&r=2", headers: [] }],
    ["curl -I http://a.example/", { method: "HEAD", target: "http://a.example/", headers: [] }],
    ["curl -A agent -e http://b.example/ -b 'k=v' -u 'ann:ü' http://a.example/", { method: "GET", target: "http://a.example/", headers: [["User-Agent", "agent"], ["Referer", "http://b.example/"], ["Cookie", "k=v"], ["Authorization", "Basic YW5uOsO8"]] }],
    ["curl -F 'f=@x' http://a.example/", { method: "POST", target: "http://a.example/", headers: [] }],
    ["curl --max-time 5 --unknown http://a.example/", { method: "GET", target: "http://a.example/", headers: [] }],
    ["curl 'http://a.example/' \\\n  -H 'Accept: */*' \\\n  -H 'X-Empty;'", { method: "GET", target: "http://a.example/", headers: [["Accept", "*/*"]] }],
  ]) assert.deepEqual(readCurl(text), want, text);
  assert.throws(() => readCurl("wget http://a.example/"), /no curl command/);
  assert.throws(() => readCurl("curl -H 'A: b'"), /no URL/);
  assert.throws(() => readCurl(""), /no curl command/);
});

/** apply returns what a difference makes of the first text, and that it began with it. */
function sides(lines) {
  return [lines.filter((l) => l.kind !== "new"), lines.filter((l) => l.kind !== "gone")].map((side) => side.map((l) => l.text).join("\n"));
}

test("a difference contains both texts, and no more changes than it needs", () => {
  for (const [before, now, changes] of [
    ["", "", 0], ["a", "a", 0], ["a", "b", 2], ["a\nb\nc", "a\nc", 1], ["a\nc", "a\nb\nc", 1], ["a\nb\nc", "c\nb\na", 4], ["", "a\nb", 3], ["a\na\na", "a\na", 1], ["x\na\nb", "a\nb\nx", 2],
  ]) {
    const lines = diff(before, now);
    assert.deepEqual(sides(lines), [before, now]);
    assert.equal(lines.filter((l) => l.kind !== "same").length, changes, JSON.stringify([before, now]));
  }
});

test("differences of random texts contain both", () => {
  let seed = 1;
  const random = (n) => { seed = (seed * 48271) % 2147483647; return seed % n; };
  for (let i = 0; i < 300; i++) {
    const text = () => Array.from({ length: random(30) }, () => "abc"[random(3)]).join("\n");
    const before = text(), now = text();
    assert.deepEqual(sides(diff(before, now)), [before, now]);
  }
});

test("a large difference ends soon", () => {
  const text = (word) => Array.from({ length: 20_000 }, (_, i) => word + i).join("\n");
  const begin = performance.now(), lines = diff(text("a"), text("b"));
  assert.equal(lines.length, 40_000);
  assert.ok(performance.now() - begin < 20_000);
});

test("near keeps the lines around changes", () => {
  const text = Array.from({ length: 40 }, (_, i) => String(i));
  const lines = near(diff(text.join("\n"), text.with(20, "x").join("\n")), 2);
  assert.deepEqual(lines.map((l) => l && l.text), [undefined, "18", "19", "20", "x", "21", "22", undefined]);
  assert.deepEqual(near(diff("a", "a")), []);
});

test("files are paired by their names, and by the last part in other folders", () => {
  const file = (name, text = name) => ({ name, text });
  const pairs = (before, now) => paired(before, now).map((p) => [p.name, p.before, p.now]);
  assert.deepEqual(pairs([file("a"), file("b")], [file("b"), file("a")]), [["b", "b", "b"], ["a", "a", "a"]]);
  assert.deepEqual(pairs([file("/x/r.conf")], [file("/y/r.conf")]), [["/y/r.conf", "/x/r.conf", "/y/r.conf"]]);
  assert.deepEqual(pairs([file("/x/r.conf"), file("/z/r.conf")], [file("/y/r.conf")]), [["/y/r.conf", "", "/y/r.conf"], ["/x/r.conf", "/x/r.conf", ""], ["/z/r.conf", "/z/r.conf", ""]]);
  assert.deepEqual(pairs([], [file("a")]), [["a", "", "a"]]);
});

test("[tokens] and what refers to it are completed", () => {
  const known = {
    sections: ["tokens", "params", "rules"], derived: ["ip"], sources: ["header", "jwt"], modifiers: ["lower"], methods: ["count"], policies: [], thresholds: [], outcomes: [],
    tokens: { words: ["issuer", "audience"], places: ["bearer", "cookie"], algorithms: ["RS256", "EdDSA"], outcomes: ["valid", "expired"] },
  };
  const head = "[tokens]\nmain : keys.json; issuer=i # the first\n# old : x\ncorp:oidc https://id.example/\n";
  for (const [text, want] of [
    ["[tok", ["tokens", "params", "rules"]],
    [head + "new : ", ["oidc"]],
    [head + "new : keys.json; ", ["issuer", "audience"]],
    [head + "new : keys.json; au", ["issuer", "audience"]],
    [head + "new : keys.json; from=", ["bearer", "cookie"]],
    [head + "new : keys.json; from=bearer, c", ["bearer", "cookie"]],
    [head + "new : keys.json; algorithms=RS256,", undefined], // not before a character
    [head + "new : keys.json; algorithms=RS256,E", ["RS256", "EdDSA"]],
    [head + "new : keys.json; issuer=ab", undefined],
    [head + "[params]\nuid : jwt m", ["main", "corp"]],
    [head + "[params]\nuid : j", ["header", "jwt", "lower", "else"]],
    [head + "[forward]\nX-User : j", ["jwt.main", "jwt.corp", "ip"]],
    [head + "[rules]\nrule : [count] [jwt.m", ["jwt.main", "jwt.corp", "ip"]],
    [head + "[rules]\nrule : [count] [jwt.main=", ["valid", "expired"]],
    [head + "[rules]\nrule : [count] [jwt.main!=valid,e", ["valid", "expired"]],
    ["[params]\nmain : header X\n[rules]\nrule : [count] [j", ["ip"]], // no [tokens]
  ]) {
    const found = completer(() => known, () => undefined)(new CompletionContext(EditorState.create({ doc: text }), text.length, false));
    assert.deepEqual(found?.options.map((o) => o.label), want, text);
  }
  const state = EditorState.create({ doc: head + "new : keys.json; au" });
  const [issuer] = completer(() => known, () => undefined)(new CompletionContext(state, state.doc.length, false)).options;
  assert.equal(issuer.apply, "issuer=");
});
