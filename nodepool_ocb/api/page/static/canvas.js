/**
 * The drawing of the matrix: the rows and columns that are visible, on a canvas. It knows sizes and colours, and no data of its
 * own. Each state has a letter beside its colour.
 */
import { cleared } from "./surface.js";

const ROW = 20;
const HEAD = 96;
const LEAST_CELL = 20;
const MOST_CELL = 72;

/** Sizes for a width in pixels and a number of columns. */
export function layout(width, columns) {
  const names = Math.max(110, Math.min(280, Math.round(width * 0.28)));
  const cell = Math.max(LEAST_CELL, Math.min(MOST_CELL, Math.floor((width - names - 8) / Math.max(1, columns))));
  return { row: ROW, head: HEAD, names, cell, columns };
}

/** The size in pixels of all of it. */
export function extent(sizes, rows) {
  return { width: sizes.names + sizes.cell * sizes.columns + 40, height: sizes.head + sizes.row * rows };
}

/** The rows that are visible: the first one, and the one after the last. */
export function visible(sizes, top, height, rows) {
  const first = Math.max(0, Math.floor(top / sizes.row));
  return { first, last: Math.min(rows, Math.ceil((top + height - sizes.head) / sizes.row)) };
}

/** The cell at a point of the canvas: {row, column}; -1 stands for the names of nodes and of roles. */
export function cellAt(sizes, x, y, scroll) {
  const column = x < sizes.names ? -1 : Math.floor((x - sizes.names + scroll.left) / sizes.cell);
  const row = y < sizes.head ? -1 : Math.floor((y - sizes.head + scroll.top) / sizes.row);
  return { row, column };
}

/**
 * Draw it. `data`: {roles, rows: [{node, rack, marks, states}]}; `cursor`: {row, column};
 * `chosen(node, role)`: whether a noderole is chosen.
 */
export function draw(canvas, sizes, scroll, data, cursor, chosen, palette) {
  const { pen, width, height } = cleared(canvas, palette);
  const range = visible(sizes, scroll.top, height, data.rows.length);
  const columns = {
    first: Math.max(0, Math.floor(scroll.left / sizes.cell)),
    last: Math.min(sizes.columns, Math.ceil((scroll.left + width - sizes.names) / sizes.cell)),
  };
  const frame = { pen, sizes, scroll, data, cursor, chosen, palette, range, columns, width };
  for (let row = range.first; row < range.last; row += 1) drawRow(frame, row);
  drawNames(frame);
  drawHead(frame);
  return range;
}

function drawRow({ pen, sizes, scroll, data, cursor, chosen, palette, columns }, row) {
  const { node, states } = data.rows[row];
  const y = sizes.head + row * sizes.row - scroll.top;
  pen.font = "600 11px system-ui, sans-serif";
  pen.textAlign = "center";
  for (let column = columns.first; column < columns.last; column += 1) {
    const letter = states[column];
    const x = sizes.names + column * sizes.cell - scroll.left;
    if (letter !== ".") {
      const { back, text } = palette.cells[letter];
      pen.fillStyle = back;
      pen.fillRect(x + 1, y + 1, sizes.cell - 2, sizes.row - 2);
      pen.fillStyle = text;
      pen.fillText(letter, x + sizes.cell / 2, y + sizes.row / 2 + 0.5);
      if (chosen(node, data.roles[column].role)) {
        pen.strokeStyle = palette.accent;
        pen.lineWidth = 2;
        pen.strokeRect(x + 2, y + 2, sizes.cell - 4, sizes.row - 4);
      }
    }
    if (row === cursor.row && column === cursor.column) {
      pen.strokeStyle = palette.text;
      pen.lineWidth = 2;
      pen.strokeRect(x + 0.5, y + 0.5, sizes.cell - 1, sizes.row - 1);
    }
  }
}

function drawNames({ pen, sizes, scroll, data, cursor, palette, range }) {
  pen.fillStyle = palette.back;
  pen.fillRect(0, sizes.head, sizes.names, 1e5);
  pen.textAlign = "left";
  pen.font = "12px system-ui, sans-serif";
  for (let row = range.first; row < range.last; row += 1) {
    const { node, rack, marks } = data.rows[row];
    const y = sizes.head + row * sizes.row - scroll.top + sizes.row / 2 + 0.5;
    if (row === cursor.row) {
      pen.fillStyle = palette.raised;
      pen.fillRect(0, y - sizes.row / 2, sizes.names, sizes.row);
    }
    const side = [marks ? marks.toUpperCase().split("").join(" ") : "", rack].filter(Boolean).join(" ");
    pen.fillStyle = palette.quiet;
    const taken = side ? pen.measureText(side).width + 10 : 0;
    if (side) pen.fillText(side, sizes.names - taken + 2, y);
    pen.fillStyle = palette.text;
    pen.fillText(fitted(pen, node, sizes.names - taken - 14), 6, y);
  }
}

function drawHead({ pen, sizes, scroll, data, cursor, palette, columns, width }) {
  pen.fillStyle = palette.back;
  pen.fillRect(0, 0, width, sizes.head);
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "left";
  for (let column = columns.first; column < columns.last; column += 1) {
    const x = sizes.names + column * sizes.cell - scroll.left + sizes.cell / 2;
    if (x < sizes.names) continue;
    pen.save();
    pen.translate(x, sizes.head - 8);
    pen.rotate(-Math.PI / 3.2);
    pen.fillStyle = column === cursor.column ? palette.text : palette.quiet;
    pen.fillText(fitted(pen, data.roles[column].role, sizes.head + 6), 0, 0);
    pen.restore();
  }
  pen.fillStyle = palette.line;
  pen.fillRect(0, sizes.head - 1, width, 1);
}

/** The text, cut at the end where it is too long. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let most = Math.max(1, Math.floor((text.length * width) / pen.measureText(text).width) - 1);
  while (most > 1 && pen.measureText(`${text.slice(0, most)}…`).width > width) most -= 1;
  return `${text.slice(0, most)}…`;
}
