// Builds the page into ../built: files named by the hashes of their contents, the page
// that names them, and the hash of the sources, by which a Go test notices a bundle that is
// older than its sources.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const out = "../built";
rmSync(out, { recursive: true, force: true });
mkdirSync(out);

const result = await build({
  entryPoints: [{ in: "src/main.tsx", out: "main" }, { in: "src/style.css", out: "style" }],
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  preserveSymlinks: true,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

const built = (entry) => basename(Object.entries(result.metafile.outputs).find(([, o]) => o.entryPoint === entry)[0]);
const icon = readFileSync("src/icon.svg");
const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8).toUpperCase()}.svg`;
writeFileSync(join(out, iconName), icon);
writeFileSync(join(out, "index.html"), readFileSync("src/index.html", "utf8")
  .replace("SCRIPT", built("src/main.tsx")).replace("STYLE", built("src/style.css")).replace("ICON", iconName));

// The licenses of the bundled packages.
const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
let licenses = "";
for (const name of [...packages].sort()) {
  const folder = join("node_modules", name);
  const file = readdirSync(folder).find((f) => /^licen[sc]e/i.test(f));
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  licenses += `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}\n\n${"-".repeat(80)}\n\n`;
}
writeFileSync(join(out, "LICENSES.txt"), licenses);

// As TestBundleIsOfItsSources in page_test.go computes it.
const sources = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json", ...readdirSync("src").map((f) => "src/" + f)].sort();
const hash = createHash("sha256");
for (const name of sources) {
  const text = readFileSync(name);
  hash.update(`${name} ${text.length}\n`).update(text);
}
writeFileSync(join(out, "SOURCES"), hash.digest("hex") + "\n");
