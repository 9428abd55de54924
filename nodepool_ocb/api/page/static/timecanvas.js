/**
 * The drawing of the timeline: a lane for each node, a bar for each run, hatches for waiting. It knows sizes and colours, and no
 * data of its own. Each bar has a letter beside its colour.
 */
import { cleared } from "./surface.js";

const LANE = 24;
const HEAD = 26;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];
const TICK = 90; // pixels between two times, at least

/** Sizes for a width in pixels and a range of times {from, to}. */
export function layout(width, range) {
  const names = Math.max(90, Math.min(260, Math.round(width * 0.22)));
  return { lane: LANE, head: HEAD, names, width, range, scale: Math.max(1, width - names - 12) / Math.max(1, range.to - range.from) };
}

/** The height of so many lanes. */
export function height(sizes, lanes) {
  return sizes.head + sizes.lane * lanes;
}

/** Where a time is. */
export function x(sizes, at) {
  return sizes.names + (at - sizes.range.from) * sizes.scale;
}

/** The lane and the time at a point. */
export function under(sizes, left, top, scroll) {
  return { lane: top < sizes.head ? -1 : Math.floor((top - sizes.head + scroll) / sizes.lane), at: sizes.range.from + (left - sizes.names) / sizes.scale };
}

/** Draw it. `lanes`: [{node, bars}]; a bar: {from, to, letter, waits, mark}. `cursor`: {lane, bar}. */
export function draw(canvas, sizes, scroll, lanes, cursor, palette) {
  const { pen, width, height: tall } = cleared(canvas, palette);
  const frame = { pen, sizes, scroll, palette, width, tall };
  grid(frame);
  const first = Math.max(0, Math.floor(scroll / sizes.lane));
  const last = Math.min(lanes.length, Math.ceil((scroll + tall - sizes.head) / sizes.lane));
  for (let lane = first; lane < last; lane += 1) drawLane(frame, lanes[lane], lane, cursor);
  head(frame);
}

function grid({ pen, sizes, palette, width, tall }) {
  pen.fillStyle = palette.line;
  for (const at of times(sizes, width)) pen.fillRect(Math.round(x(sizes, at)), sizes.head, 1, tall);
}

function head({ pen, sizes, palette, width }) {
  pen.fillStyle = palette.back;
  pen.fillRect(0, 0, width, sizes.head - 1);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = palette.quiet;
  pen.textAlign = "left";
  const long = sizes.range.to - sizes.range.from > 86400;
  for (const at of times(sizes, width)) {
    const text = words(at, long);
    const left = x(sizes, at) + 3;
    if (left + pen.measureText(text).width <= width) pen.fillText(text, left, sizes.head / 2); // else it would be cut
  }
  pen.fillStyle = palette.line;
  pen.fillRect(0, sizes.head - 1, width, 1);
}

/** The times of the grid. */
function times(sizes, width) {
  const least = TICK / sizes.scale;
  const step = STEPS.find((each) => each >= least) ?? STEPS.at(-1) * Math.ceil(least / STEPS.at(-1));
  const zone = new Date(sizes.range.from * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at = Math.ceil((sizes.range.from - zone) / step) * step + zone; x(sizes, at) < width && found.length < 100; at += step) found.push(at);
  return found;
}

function words(at, long) {
  const day = new Date(at * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const clock = `${two(day.getHours())}:${two(day.getMinutes())}`;
  return long ? `${two(day.getMonth() + 1)}-${two(day.getDate())} ${clock}` : day.getSeconds() ? `${clock}:${two(day.getSeconds())}` : clock;
}

function drawLane(frame, lane, number, cursor) {
  const { pen, sizes, scroll, palette, width } = frame;
  const top = sizes.head + number * sizes.lane - scroll;
  pen.save();
  pen.beginPath();
  pen.rect(sizes.names, top, width - sizes.names, sizes.lane);
  pen.clip();
  for (const bar of lane.bars) if (bar.waits) drawBar(frame, bar, top, false);
  for (const bar of lane.bars) if (!bar.waits) drawBar(frame, bar, top, false);
  if (number === cursor.lane && lane.bars[cursor.bar]) drawBar(frame, lane.bars[cursor.bar], top, true);
  pen.restore();
  pen.fillStyle = number === cursor.lane ? palette.raised : palette.back;
  pen.fillRect(0, top, sizes.names, sizes.lane);
  pen.fillStyle = palette.text;
  pen.textAlign = "left";
  pen.font = "12px system-ui, sans-serif";
  pen.fillText(fitted(pen, lane.node, sizes.names - 12), 6, top + sizes.lane / 2);
  pen.fillStyle = palette.line;
  pen.fillRect(0, top + sizes.lane - 1, width, 1);
}

function drawBar({ pen, sizes, palette, width }, bar, top, marked) {
  const from = Math.max(sizes.names - 4, x(sizes, bar.from));
  const to = Math.min(width + 4, x(sizes, bar.to));
  const wide = Math.max(3, to - from);
  if (to < sizes.names || from > width) return;
  const [y, tall] = bar.waits ? [top + sizes.lane - 9, 6] : [top + 3, sizes.lane - 11];
  const colour = palette.cells[bar.letter];
  if (bar.waits) hatch(pen, { from, y, wide, tall }, palette.quiet);
  else {
    pen.fillStyle = colour.back;
    pen.fillRect(from, y, wide, tall);
    pen.font = "600 10px system-ui, sans-serif";
    pen.fillStyle = colour.text;
    pen.textAlign = "left";
    if (wide > 14) pen.fillText(fitted(pen, wide > 60 ? `${bar.letter} ${bar.role}` : bar.letter, wide - 4), from + 3, y + tall / 2 + 0.5);
  }
  if (!marked) return;
  pen.strokeStyle = palette.text;
  pen.lineWidth = 2;
  pen.strokeRect(from - 1, y - 1, wide + 2, tall + 2);
}

/** Slanted lines. */
function hatch(pen, { from, y, wide, tall }, colour) {
  pen.save();
  pen.beginPath();
  pen.rect(from, y, wide, tall);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = from - tall - (from % 5); at < from + wide; at += 5) {
    pen.moveTo(at, y + tall);
    pen.lineTo(at + tall, y);
  }
  pen.stroke();
  pen.restore();
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let most = Math.max(1, Math.floor((text.length * width) / pen.measureText(text).width) - 1);
  while (most > 1 && pen.measureText(`${text.slice(0, most)}…`).width > width) most -= 1;
  return `${text.slice(0, most)}…`;
}
