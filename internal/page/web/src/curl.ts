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

/** readCurl reads a command. It throws an Error that says what is missing. */
export function readCurl(text: string): Asked {
  const list = words(text.trim().replace(/^\$\s+/, ""));
  if (list[0] !== "curl" && list[0] !== "curl.exe") throw new Error("This is no curl command: it begins with another word.");
  const asked: Asked = { method: "", target: "", headers: [] };
  let isPost = false, isHead = false, isGet = false;
  for (let i = 1; i < list.length; i++) {
    let word = list[i] as string, inline: string | undefined;
    const equals = word.startsWith("--") ? word.indexOf("=") : -1;
    if (equals > 0) { inline = word.slice(equals + 1); word = word.slice(0, equals); } else if (/^-[XHAbedumFow]./.test(word)) { inline = word.slice(2); word = word.slice(0, 2); }
    const value = () => inline ?? list[++i] ?? "";
    if (word === "-X" || word === "--request") asked.method = value().toUpperCase();
    else if (word === "-H" || word === "--header") { const h = value(), at = h.indexOf(":"); if (at > 0) asked.headers.push([h.slice(0, at).trim(), h.slice(at + 1).trim()]); }
    else if (word === "-A" || word === "--user-agent") asked.headers.push(["User-Agent", value()]);
    else if (word === "-b" || word === "--cookie") asked.headers.push(["Cookie", value()]);
    else if (word === "-e" || word === "--referer") asked.headers.push(["Referer", value()]);
    else if (word === "-u" || word === "--user") asked.headers.push(["Authorization", "Basic " + base64(value())]);
    else if (data.has(word)) { value(); isPost = true; }
    else if (word === "-G" || word === "--get") isGet = true;
    else if (word === "-I" || word === "--head") isHead = true;
    else if (word === "--url") asked.target = value();
    else if (withValue.has(word)) { if (word === "-F" || word === "--form") isPost = true; value(); }
    else if (!word.startsWith("-") && asked.target === "") asked.target = word;
  }
  if (!asked.target) throw new Error("The command has no URL.");
  if (!/^[a-z]+:\/\//i.test(asked.target) && !asked.target.startsWith("/")) asked.target = "http://" + asked.target;
  asked.method ||= isHead ? "HEAD" : isPost && !isGet ? "POST" : "GET";
  return asked;
}

function base64(text: string): string { return btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join("")); }
