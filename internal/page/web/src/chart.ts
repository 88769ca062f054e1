// The chart of an hour, which is loaded when it is first shown.
import uPlot from "uplot";
import type { Hour } from "./api";

const height = 170;

/** widthOf returns the width of an element without its padding. */
function widthOf(at: HTMLElement): number {
  const style = getComputedStyle(at);
  return Math.max(240, at.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

function color(name: string): string { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/** resolved returns a color of the style sheet as a canvas understands it. */
function resolved(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value || color(name);
}

const rows = (h: Hour): uPlot.AlignedData => {
  const first = Date.parse(h.at) / 1000;
  return [h.allowed.map((_, i) => first + i * 60), h.allowed, h.refused, h.observed];
};

/** Mark is a line at a time, in s since the epoch, with a text. */
export interface Mark { at: number; text: string }

/** place draws marks over a chart. */
function place(u: uPlot, marks: Mark[]) {
  for (const old of u.over.querySelectorAll(".mark")) old.remove();
  const width = u.over.clientWidth;
  for (const m of marks) {
    const x = Math.min(width, u.valToPos(m.at, "x")); // the current minute has its beginning at the edge
    if (x < 0) continue;
    const line = document.createElement("span");
    line.className = x > width - 40 ? "mark left" : "mark";
    line.style.left = `${x}px`;
    line.textContent = m.text;
    u.over.append(line);
  }
}

/** draw draws an hour into an element. */
export function draw(at: HTMLElement, first: Hour) {
  let plot: uPlot | undefined, hour = first, marks: Mark[] = [];
  const make = () => {
    plot?.destroy();
    const axis: uPlot.Axis = { stroke: resolved("--faint"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const bars = uPlot.paths.bars;
    plot = new uPlot({
      width: widthOf(at), height, padding: [8, 24, 0, 0],
      hooks: { draw: [(u) => place(u, marks)] },
      cursor: { y: false, points: { show: false } }, legend: { live: true },
      scales: { y: { range: (_u, _min, max) => [0, Math.max(5, max * 1.1)] } },
      axes: [axis, { ...axis, size: 56, values: (_u, list) => list.map((v) => v >= 1000 ? `${v / 1000}k` : String(v)) }],
      series: [
        { label: "minute", value: (_u, v) => v == null ? "" : new Date(v * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }) },
        { label: "allowed", stroke: resolved("--good"), width: 1.5, points: { show: false } },
        { label: "refused", stroke: resolved("--bad"), fill: resolved("--bad-soft"), points: { show: false }, ...(bars ? { paths: bars({ size: [0.7, 20] }) } : {}) },
        { label: "observed", stroke: resolved("--warn"), width: 1.5, dash: [4, 3], points: { show: false } },
      ],
    }, rows(hour), at);
  };
  make();
  const resize = new ResizeObserver(() => { const w = widthOf(at); if (plot && plot.width !== w) plot.setSize({ width: w, height }); });
  resize.observe(at);
  const theme = new MutationObserver(make), scheme = matchMedia("(prefers-color-scheme: dark)");
  theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  scheme.addEventListener("change", make);
  return {
    set(next: Hour, more: Mark[]) { hour = next; marks = more; plot?.setData(rows(hour)); },
    end() { resize.disconnect(); theme.disconnect(); scheme.removeEventListener("change", make); plot?.destroy(); },
  };
}
