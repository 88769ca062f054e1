// The difference of two texts, line by line.

export interface Line { kind: "same" | "gone" | "new"; text: string; before: number; now: number }

const mostSteps = 4000; // of the shortest edit script that is looked for

/** diff returns the lines of both texts in one order: Myers's algorithm between equal ends. */
export function diff(before: string, now: string): Line[] {
  const a = before.split("\n"), b = now.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const lines: Line[] = [];
  const add = (kind: Line["kind"], i: number, j: number) => lines.push({ kind, text: (kind === "new" ? b[j] : a[i]) as string, before: i + 1, now: j + 1 });
  for (let i = 0; i < start; i++) add("same", i, i);
  let i = start, j = start;
  for (const step of script(a.slice(start, a.length - end), b.slice(start, b.length - end))) {
    add(step, i, j);
    if (step !== "new") i++;
    if (step !== "gone") j++;
  }
  for (; i < a.length; i++, j++) add("same", i, j);
  return lines;
}

function script(a: string[], b: string[]): Line["kind"][] {
  const trace: Map<number, number>[] = [], v = new Map([[1, 0]]);
  for (let d = 0; d <= Math.min(a.length + b.length, mostSteps); d++) {
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1) ? v.get(k + 1) ?? 0 : (v.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      v.set(k, x);
      if (x >= a.length && x - k >= b.length) return back(trace, a.length, b.length);
    }
    if (d * d > 4_000_000) break; // too different: one block replaces the other
  }
  return [...a.map(() => "gone" as const), ...b.map(() => "new" as const)];
}

function back(trace: Map<number, number>[], x: number, y: number): Line["kind"][] {
  const steps: Line["kind"][] = [];
  for (let d = trace.length - 1; d > 0; d--) {
    const v = trace[d] as Map<number, number>, k = x - y;
    const from = k === -d || k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1) ? k + 1 : k - 1;
    const px = v.get(from) ?? 0, py = px - from;
    while (x > px && y > py) { steps.push("same"); x--; y--; }
    steps.push(from === k + 1 ? "new" : "gone");
    x = px; y = py;
  }
  while (x > 0 && y > 0) { steps.push("same"); x--; y--; }
  return steps.reverse();
}

/** near returns the changed lines, each with so many lines around it; undefined stands for lines that are left out. */
export function near(lines: Line[], around = 3): (Line | undefined)[] {
  const keep = new Uint8Array(lines.length);
  lines.forEach((l, i) => { if (l.kind !== "same") keep.fill(1, Math.max(0, i - around), i + around + 1); });
  const list: (Line | undefined)[] = [];
  lines.forEach((l, i) => { if (keep[i]) list.push(l); else if (list.length === 0 || list[list.length - 1] !== undefined) list.push(undefined); });
  return list.some((l) => l) ? list : [];
}

interface File { name: string; text: string }

/** Pair is a file in two versions; a text is empty where the version has no such file. */
export interface Pair { name: string; before: string; now: string }

const lastPart = (name: string) => name.slice(name.lastIndexOf("/") + 1);

/** paired pairs the files of two versions by their names, and files in other folders by the last part of their names. */
export function paired(before: File[], now: File[]): Pair[] {
  const gone = before.filter((b) => !now.some((n) => n.name === b.name)), added = now.filter((n) => !before.some((b) => b.name === n.name));
  const movedFrom = (n: File) => {
    const same = gone.filter((b) => lastPart(b.name) === lastPart(n.name));
    return same.length === 1 && added.filter((a) => lastPart(a.name) === lastPart(n.name)).length === 1 ? same[0] : undefined;
  };
  const pairs = now.map((n) => ({ of: before.find((b) => b.name === n.name) ?? (added.includes(n) ? movedFrom(n) : undefined), now: n }));
  return [
    ...pairs.map((p) => ({ name: p.now.name, before: p.of?.text ?? "", now: p.now.text })),
    ...gone.filter((b) => !pairs.some((p) => p.of === b)).map((b) => ({ name: b.name, before: b.text, now: "" })),
  ];
}
