// What a model looked at, as pages show it: a heat map, the heads as lines, all heads at once, the beam as a tree, and what
// else it could have said. `show(place, data)` draws into an element, as the state has it that an earlier call gave back,
// and tells `changed` which map is shown; text gets in as text nodes only.

const SVG = "http://www.w3.org/2000/svg";
const FAINT = 0.02; // lines of less weight are not drawn
const WIDEST = 90; // words of a heat map that are labelled
const LINE = 20; // pixels from one label to the next
const LONGEST = 24; // characters of a label in a picture

export function show(place, data, before = {}, changed = () => {}) {
  const sites = data.maps.map((map) => new Site(map, data));
  const views = { "Heat map": heatMap, Lines: lines, "All heads": allHeads };
  if (data.tree?.length) views.Beam = tree;
  if (data.candidates?.length) views["Next words"] = candidates;
  const state = { site: sites.findLastIndex((site) => site.across), head: -1, words: true, view: "Heat map", ...before };
  if (!sites[state.site]) state.site = sites.length - 1;
  if (state.head >= sites[state.site].heads) state.head = -1;
  if (!views[state.view]) state.view = "Heat map";
  const draw = () => {
    const controls = part("div", "controls");
    controls.setAttribute("role", "toolbar");
    controls.setAttribute("aria-label", "View");
    for (const name of Object.keys(views)) {
      const tab = part("button", "tab", name);
      tab.type = "button";
      tab.name = name;
      tab.setAttribute("aria-pressed", String(name === state.view));
      tab.onclick = () => set({ view: name }, name);
      controls.append(tab);
    }
    if (["Heat map", "Lines"].includes(state.view)) {
      controls.append(choose("Site", sites.map((site) => site.name), state.site, (i) => set({ site: i, head: -1 }, "Site")));
      const heads = ["mean of heads", ...Array.from({ length: sites[state.site].heads }, (_, i) => `head ${i}`)];
      controls.append(choose("Head", heads, state.head + 1, (i) => set({ head: i - 1 }, "Head")));
    }
    const text = sites.some((site) => site.sides.some((side) => side.kind === "text"));
    if (text && ["Heat map", "Lines", "All heads"].includes(state.view)) {
      const label = part("label"), box = part("input");
      box.type = "checkbox";
      box.name = "words";
      box.checked = state.words;
      box.onchange = () => set({ words: box.checked }, "words");
      label.append(box, " whole words");
      controls.append(label);
    }
    const told = part("p", "told");
    told.setAttribute("aria-live", "polite");
    const stage = part("div", "stage");
    views[state.view]({ stage, told, data, sites, state, set, wide: place.clientWidth });
    place.replaceChildren(controls, told, stage);
    if (data.left_out.length) place.append(part("p", "remark", `Left out, as all would be too much: ${data.left_out.join(", ")}.`));
    changed(sites[state.site].across ? sites[state.site].matrix(state.head, true) : across(data));
  };
  const set = (change, focus) => {
    Object.assign(state, change);
    draw();
    place.querySelector(`.controls [name="${focus}"]`)?.focus();
  };
  draw();
  return state;
}

// Words of the output, words of the source, and how each of the first looked at the second, by the last site across.
export function across(data) {
  const map = data.maps.findLast((each) => each.across);
  return map ? new Site(map, data).matrix(-1, true) : null;
}

// One place where something attends: weights (heads, rows, columns), with labels of both sides.
class Site {
  constructor(map, data) {
    Object.assign(this, map);
    const bytes = Uint8Array.from(atob(map.weights), (char) => char.charCodeAt(0));
    this.numbers = new Float32Array(bytes.buffer);
    this.sides = [data.sides[map.rows], data.sides[map.columns]];
  }

  // A matrix of rows and its labels: of one head, or -1 for their mean; by words or by pieces.
  matrix(head, words) {
    const [rows, columns] = this.sides.map((side) => side.labels.length);
    const chosen = head < 0 ? [...Array(this.heads).keys()] : [head];
    let cells = Array.from({ length: rows }, (_, r) =>
      Array.from({ length: columns }, (_, c) => {
        let sum = 0;
        for (const h of chosen) sum += this.numbers[(h * rows + r) * columns + c];
        return sum / chosen.length;
      }),
    );
    if (words) cells = merged(cells, ...this.sides.map((side) => side.groups));
    return { cells, labels: this.sides.map((side) => (words ? side.words : side.labels)) };
  }
}

// A word receives what its pieces receive together, and gives what they give on average.
function merged(cells, rows, columns) {
  const order = (groups) => [...new Set(groups)];
  const [tall, wide] = [order(rows), order(columns)];
  return tall.map((group) => {
    const own = cells.filter((_, r) => rows[r] === group);
    return wide.map((to) => {
      let sum = 0;
      for (const row of own) row.forEach((weight, c) => (sum += columns[c] === to ? weight : 0));
      return sum / own.length;
    });
  });
}

function part(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

function shape(tag, given, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

function choose(name, options, chosen, then) {
  const made = part("select");
  made.name = name;
  made.setAttribute("aria-label", name);
  options.forEach((text, i) => made.append(new Option(text, i, false, i === chosen)));
  made.onchange = () => then(Number(made.value));
  return made;
}

const grey = (weight) => `rgb(${Array(3).fill(Math.round(255 * Math.min(Math.max(weight, 0), 1))).join()})`;
const shown = (label) => label.replace(/\s+/g, " ") || "␣";
const short = (label) => (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label);
const brief = (label) => short(shown(label));
const most = (row, names, count) =>
  row.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, count)
    .map(([weight, i]) => `${shown(names[i])} ${weight.toFixed(2)}`).join(", ");

// Pixels that the widest of some labels takes.
const pen = document.createElement("canvas").getContext("2d");
pen.font = "14px system-ui, sans-serif";
function room(labels) {
  return Math.max(...labels.map((label) => pen.measureText(brief(label)).width));
}

// A piece of a word, its mark for a space made faint.
function piece(text, name = "word") {
  const made = part("span", name);
  for (const each of shown(text).split(/(▁+)/)) made.append(each.startsWith("▁") ? part("span", "space", each) : each);
  return made;
}

// Of which places of a side the labels are drawn in cells of so many pixels: of all, of every so many, or (0) of none.
function every(side, cell) {
  if (cell >= LINE) return 1;
  return side.kind === "text" ? 0 : side.period * ([1, 2, 5, 10, 20, 50, 100].find((n) => n * side.period * cell >= LINE) ?? 200);
}

// Source along the top, target at the left, black for 0 to white for 1; a cell is pointed at, or reached by the arrow keys.
function heatMap({ stage, told, sites, state }) {
  const { cells, labels } = sites[state.site].matrix(state.head, state.words);
  const [rows, columns] = labels, sides = sites[state.site].sides, texts = sides.every((side) => side.kind === "text");
  const white = texts ? 1 : Math.max(...cells.flat()) || 1; // among many steps of a series no weight is near 1
  const counts = texts ? labels.map(() => Math.max(rows.length, columns.length)) : labels.map((each) => each.length);
  const [high, wide] = counts.map((count) => (count > WIDEST ? 8 : count > 20 ? 26 : 34));
  const [down, along] = [high, wide].map((cell, i) => every(sides[i], cell)), many = !down || !along;
  const left = down ? 16 + room(rows) : 4, top = along ? 18 + 0.87 * room(columns) : 4;
  const lean = many ? 0 : Math.max(...columns.map((label, c) => 0.5 * room([label]) - wide * (columns.length - c - 0.8)));
  const size = [left + wide * columns.length + Math.max(0, lean) + 8, top + high * rows.length + 8].map(Math.ceil);
  const picture = shape("svg", { viewBox: `0 0 ${size.join(" ")}`, width: size[0], height: size[1], role: "img" });
  picture.setAttribute("aria-label", `Attention of ${rows.length} ${texts ? "words" : "places"} to ${columns.length}; arrow keys go from cell to cell`);
  picture.setAttribute("tabindex", 0);
  columns.forEach((label, c) => {
    const [x, y] = [left + wide * (c + 0.5) + 5, top - 6];
    const given = { x, y, transform: `rotate(-60 ${x} ${y})`, "data-column": c };
    if (c % along === 0) picture.append(shape("text", given, brief(label)));
  });
  rows.forEach((label, r) => {
    const given = { x: left - 8, y: top + high * (r + 0.5) + 5, "text-anchor": "end", "data-row": r };
    if (r % down === 0) picture.append(shape("text", given, brief(label)));
  });
  const grid = shape("g", { "shape-rendering": "crispEdges" });
  cells.forEach((row, r) =>
    row.forEach((weight, c) => {
      const place = { x: left + wide * c, y: top + high * r, width: wide, height: high };
      grid.append(shape("rect", { ...place, fill: grey(weight / white), "data-row": r, "data-column": c }));
    }),
  );
  const frame = { x: left, y: top, width: wide * columns.length, height: high * rows.length };
  grid.append(shape("rect", { ...frame, fill: "none", stroke: "currentColor", "pointer-events": "none" }));
  const ring = shape("rect", { class: "ring", width: wide, height: high, visibility: "hidden" });
  picture.append(grid, ring);
  const how = many ? "Too many words to label: point at a cell" : `Point at a cell or a ${texts ? "word" : "label"}`;
  const rest = sites[state.site].remark ?? `${how}; black is 0, white is ${Number(white.toPrecision(2))}.`;
  told.textContent = rest;
  const point = (row, column) => {
    const at = row !== undefined && column !== undefined;
    if (at) told.textContent = `${shown(rows[row])} ← ${shown(columns[column])}: ${cells[row][column].toFixed(3)}`;
    else if (row !== undefined) told.textContent = `${shown(rows[row])} ← ${most(cells[row], columns, 4)}`;
    else told.textContent = rest;
    ring.setAttribute("visibility", at ? "visible" : "hidden");
    if (at) [ring.x, ring.y].forEach((each, i) => (each.baseVal.value = i ? top + high * row : left + wide * column));
    for (const label of picture.querySelectorAll("text"))
      label.classList.toggle("lit", [row, column].some((n, i) => n !== undefined && label.dataset[i ? "column" : "row"] === String(n)));
  };
  picture.onmousemove = ({ target: { dataset } }) => point(dataset.row, dataset.column);
  picture.onmouseleave = picture.onblur = () => point();
  let cursor = null;
  picture.onkeydown = (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const last = [rows.length - 1, columns.length - 1];
    cursor = cursor ? cursor.map((n, i) => Math.min(Math.max(n + step[i], 0), last[i])) : [0, 0];
    point(...cursor);
  };
  stage.append(picture);
}

// Two columns of words, and a line for each weight.
function lines({ stage, told, sites, state, wide }) {
  const { cells, labels } = sites[state.site].matrix(state.head, state.words);
  const [rows, columns] = labels, step = 26, left = 12 + room(rows), far = 12 + room(columns);
  const right = left + Math.min(240, Math.max(80, wide - left - far - 1));
  const size = [right + far, step * Math.max(rows.length, columns.length) + 10].map(Math.ceil);
  const picture = shape("svg", { viewBox: `0 0 ${size.join(" ")}`, width: size[0], height: size[1], role: "group" });
  picture.setAttribute("aria-label", "Lines from each word to what it attends to");
  const paths = shape("g", {});
  cells.forEach((row, r) =>
    row.forEach((weight, c) => {
      if (weight < FAINT) return;
      const [y1, y2] = [step * (r + 0.6), step * (c + 0.6)];
      const given = { x1: left + 6, y1, x2: right - 6, y2, "stroke-opacity": Math.min(1, weight), class: "tie" };
      paths.append(shape("line", { ...given, "stroke-width": 1 + 3 * weight, "data-row": r, "data-column": c }));
    }),
  );
  picture.append(paths);
  const name = (label, i, side) => {
    const given = { y: step * (i + 0.6) + 5, tabindex: 0, [`data-${side}`]: i };
    given.x = side === "row" ? left : right;
    given["text-anchor"] = side === "row" ? "end" : "start";
    const text = shape("text", given, brief(label));
    const light = (on) => {
      for (const line of paths.children) line.classList.toggle("dim", on && line.dataset[side] !== String(i));
      const others = side === "row" ? most(cells[i], columns, 5) : most(cells.map((row) => row[i]), rows, 5);
      told.textContent = on ? `${shown(label)} ${side === "row" ? "←" : "→"} ${others}` : rest;
    };
    text.onmouseenter = text.onfocus = () => light(true);
    text.onmouseleave = text.onblur = () => light(false);
    return text;
  };
  const rest = (told.textContent = "Point at a word.");
  picture.append(...rows.map((label, i) => name(label, i, "row")), ...columns.map((label, i) => name(label, i, "column")));
  stage.append(picture);
}

// Every site and head as a small picture; one that is chosen opens as a heat map.
function allHeads({ stage, told, sites, state, set }) {
  told.textContent = "Choose a head to see it whole.";
  sites.forEach((site, s) => {
    const line = part("div", "site");
    line.append(part("span", "name", site.name));
    for (let head = 0; head < site.heads; head++) {
      const { cells } = site.matrix(head, state.words);
      const button = part("button", "small"), canvas = part("canvas");
      [canvas.width, canvas.height] = [cells[0].length, cells.length];
      const pixels = new ImageData(canvas.width, canvas.height);
      cells.flat().forEach((weight, i) => pixels.data.set([...Array(3).fill(255 * weight), 255], 4 * i));
      canvas.getContext("2d").putImageData(pixels, 0, 0);
      button.type = "button";
      button.setAttribute("aria-label", `${site.name}, head ${head}`);
      button.title = `${site.name}, head ${head}`;
      button.onclick = () => set({ site: s, head, view: "Heat map" }, "Heat map");
      button.append(canvas);
      line.append(button);
    }
    stage.append(line);
  });
}

// Hypotheses that the search kept, step by step; those that ended tell their score.
function tree({ stage, told, data }) {
  told.textContent = "What the search kept at each step; bold is what it chose. Numbers are log-probabilities so far; what ended has a score.";
  const under = new Map();
  data.tree.forEach((node, i) => under.set(node.parent, [...(under.get(node.parent) ?? []), i]));
  const branch = (parent) => {
    const list = part("ul", "tree");
    for (const i of under.get(parent) ?? []) {
      let [last, names] = [i, [piece(data.tree[i].text)]];
      while ((under.get(last) ?? []).length === 1 && data.tree[last].score === null) {
        last = under.get(last)[0];
        names.push(piece(data.tree[last].text));
      }
      const node = data.tree[last], item = part("li", node.best ? "best" : "");
      item.append(...names.flatMap((each) => [each, " "]), part("span", "score", node.log_prob.toFixed(2)));
      if (node.score !== null) item.append(part("span", "final", `score ${node.score.toFixed(3)}`));
      if (under.has(last)) item.append(branch(last));
      list.append(item);
    }
    return list;
  };
  stage.append(branch(-1));
  reachable(stage, "Beam");
}

// At each step, what was said and what else was likely.
function candidates({ stage, told, data }) {
  told.textContent = "The likeliest words at each step, and how probable each was.";
  const table = part("table", "candidates"), body = part("tbody");
  data.candidates.forEach((step, t) => {
    const row = part("tr");
    const name = part("th");
    name.scope = "row";
    name.append(piece(data.sides.target.labels[t]));
    row.append(name);
    for (const [word, probability] of step) {
      const cell = part("td", word === data.sides.target.labels[t] ? "said" : "");
      cell.style.setProperty("--share", probability);
      cell.append(piece(word), part("span", "score", ` ${probability.toFixed(3)}`));
      row.append(cell);
    }
    body.append(row);
  });
  table.append(body);
  stage.append(table);
  reachable(stage, "Next words");
}

// What may be wider than the page can be moved by keys.
function reachable(stage, name) {
  stage.tabIndex = 0;
  stage.setAttribute("role", "group");
  stage.setAttribute("aria-label", name);
}
