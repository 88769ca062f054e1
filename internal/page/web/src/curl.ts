// Reads a curl command as browsers and people copy it.

export interface Asked { method: string; target: string; headers: [string, string][] }

/** words splits a command as a POSIX shell does, with $'…' as browsers write it. */
export function words(text: string): string[] {
  const list: string[] = [];
  let word = "", has = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i] as string;
    if (c === "\\" && i + 1 < text.length) {
      i++;
      if (text[i] === "\r") i++;
      if (text[i] !== "\n") { word += text[i]; has = true; }
    } else if (c === "'" || c === "$" && text[i + 1] === "'") {
      const isAnsi = c === "$";
      i += isAnsi ? 2 : 1;
      for (has = true; i < text.length && text[i] !== "'"; i++) {
        if (isAnsi && text[i] === "\\") {
          const hex = /^\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))/.exec(text.slice(i, i + 6));
          if (hex) { word += String.fromCharCode(parseInt((hex[1] ?? hex[2]) as string, 16)); i += (hex[0] as string).length - 1; } else { i++; word += ({ n: "\n", r: "\r", t: "\t" } as Record<string, string>)[text[i] as string] ?? text[i] ?? ""; }
        } else word += text[i];
      }
    } else if (c === '"') {
      for (i++, has = true; i < text.length && text[i] !== '"'; i++) {
        if (text[i] === "\\" && '"\\$`\n'.includes(text[i + 1] ?? " ")) { i++; if (text[i] === "\n") continue; }
        word += text[i];
      }
    } else if (/\s/.test(c)) {
      if (has) list.push(word);
      word = ""; has = false;
    } else { word += c; has = true; }
  }
  if (has) list.push(word);
  return list;
}

const withValue = new Set(["-o", "-m", "-x", "--max-time", "--output", "--connect-timeout", "--resolve", "--cacert", "--cert", "--key", "-E", "-w", "--write-out", "-F", "--form", "--proxy", "-T", "--retry", "-c", "--cookie-jar"]);
const data = new Set(["-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii", "--json"]);
const shortWithValue = "XHAbedumFowxETc";

/** expand splits short options that are written together: -sXPOST is -s, -X and the value POST. */
function expand(word: string): string[] {
  if (!/^-[a-zA-Z#:0-9]./.test(word)) return [word];
  const list: string[] = [];
  for (let i = 1; i < word.length; i++) {
    list.push("-" + word[i]);
    if (!shortWithValue.includes(word[i] as string)) continue;
    if (i + 1 < word.length) list.push(word.slice(i + 1));
    break;
  }
  return list;
}

/** readCurl reads a command. It throws an Error that says what is missing. */
export function readCurl(text: string): Asked {
  const written = words(text.trim().replace(/^\$\s+/, ""));
  if (written[0] !== "curl" && written[0] !== "curl.exe") throw new Error("This is no curl command: it begins with another word.");
  const asked: Asked = { method: "", target: "", headers: [] }, sent: string[] = [];
  let isHead = false, isGet = false, isForm = false, isJSON = false, isValue = false;
  const list = written.slice(1).flatMap((word) => {
    if (isValue) { isValue = false; return [word]; }
    const parts = expand(word), last = parts.at(-1) as string;
    isValue = parts.length === 1 || last.startsWith("-") ? takesValue(last) : false;
    return parts;
  });
  for (let i = 0; i < list.length; i++) {
    let word = list[i] as string, inline: string | undefined;
    const equals = word.startsWith("--") ? word.indexOf("=") : -1;
    if (equals > 0) { inline = word.slice(equals + 1); word = word.slice(0, equals); }
    const value = () => inline ?? list[++i] ?? "";
    if (word === "-X" || word === "--request") asked.method = value().toUpperCase();
    else if (word === "-H" || word === "--header") { const h = value(), at = h.indexOf(":"); if (at > 0) asked.headers.push([h.slice(0, at).trim(), h.slice(at + 1).trim()]); }
    else if (word === "-A" || word === "--user-agent") asked.headers.push(["User-Agent", value()]);
    else if (word === "-b" || word === "--cookie") asked.headers.push(["Cookie", value()]);
    else if (word === "-e" || word === "--referer") asked.headers.push(["Referer", value()]);
    else if (word === "-u" || word === "--user") asked.headers.push(["Authorization", "Basic " + base64(value())]);
    else if (data.has(word)) { isJSON ||= word === "--json"; sent.push(value()); }
    else if (word === "-G" || word === "--get") isGet = true;
    else if (word === "-I" || word === "--head") isHead = true;
    else if (word === "--url") asked.target = value();
    else if (withValue.has(word)) { isForm ||= word === "-F" || word === "--form"; value(); }
    else if (!word.startsWith("-") && asked.target === "") asked.target = word;
  }
  if (!asked.target) throw new Error("The command has no URL.");
  if (!/^[a-z]+:\/\//i.test(asked.target) && !asked.target.startsWith("/")) asked.target = "http://" + asked.target;
  const has = (name: string) => asked.headers.some(([n]) => n.toLowerCase() === name);
  if (isGet && sent.length > 0) asked.target += (asked.target.includes("?") ? "&" : "?") + sent.join("&");
  else if (sent.length > 0) {
    if (!has("content-type")) asked.headers.push(["Content-Type", isJSON ? "application/json" : "application/x-www-form-urlencoded"]);
    if (isJSON && !has("accept")) asked.headers.push(["Accept", "application/json"]);
  }
  asked.method ||= isHead ? "HEAD" : (sent.length > 0 || isForm) && !isGet ? "POST" : "GET";
  return asked;
}

const named = new Set(["--request", "--header", "--user-agent", "--cookie", "--referer", "--user", "--url", "-X", "-H", "-A", "-b", "-e", "-u"]);

/** takesValue reports whether the next word is the value of an option. */
function takesValue(option: string): boolean { return named.has(option) || data.has(option) || withValue.has(option); }

function base64(text: string): string { return btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join("")); }
