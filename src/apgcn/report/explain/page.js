"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int32: Int32Array };

function unpack({ kind, bytes }) {
  const raw = atob(bytes), buffer = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) buffer[i] = raw.charCodeAt(i);
  return new KINDS[kind](buffer.buffer);
}

const [x, y, prediction, probabilities, steps, label, set, pointers, columns, weights, seeds, neighbours, complete, taken] = [
  "x", "y", "prediction", "probabilities", "steps", "label", "set", "pointers", "columns", "weights", "seeds",
  "neighbours", "complete", "first_steps",
].map((name) => unpack(data[name]));
const count = data.ids.length, classes = data.classes.length;
const certainty = Float32Array.from({ length: count }, (_, i) => probabilities[i * classes + prediction[i]]);
const number = new Map(data.ids.map((id, i) => [id, i]));
const by = (id) => document.getElementById(id);

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text; // text of users never becomes markup
  made.append(...children);
  return made;
}

// Colours: steps from blue to red; classes those that also the colour-blind tell apart (Okabe and Ito), then around the circle.
const APART = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900"];
const byStep = (k) => `hsl(${220 - 220 * (k - 1) / Math.max(1, data.max_steps - 1)} 75% 50%)`;
const byClass = (c) => c < 0 ? "#9aa2ad" : classes <= APART.length ? APART[c] : `hsl(${(c * 360) / classes} 65% ${c % 2 ? 42 : 55}%)`;
let colouring = "steps";
const colourOf = (i) => colouring === "steps" ? byStep(steps[i]) : byClass(colouring === "label" ? label[i] : prediction[i]);

// The view: a square of the plane onto the canvas.
const canvas = by("graph"), pen = canvas.getContext("2d");
let view = { x: 0, y: 0, size: 1 }, chosen = -1, waiting = false;
const scale = () => Math.min(canvas.width, canvas.height) / view.size;
const toScreen = (i) => [(x[i] - view.x) * scale() + canvas.width / 2, (y[i] - view.y) * scale() + canvas.height / 2];

function showWhole() {
  view = { x: 0.5, y: 0.5, size: 1.05 };
  by("told").textContent = "";
  draw();
}

function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; paint(); });
}

function paint() {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(box.width * ratio) || canvas.height !== Math.round(box.height * ratio)) {
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
  }
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const at = Array.from({ length: count }, (_, i) => toScreen(i));
  const inside = ([px, py]) => px > -20 && py > -20 && px < canvas.width + 20 && py < canvas.height + 20;
  pen.lineWidth = Math.max(0.5, ratio * 0.6);
  pen.strokeStyle = "rgba(128, 136, 148, 0.25)";
  pen.beginPath();
  for (let i = 0; i < count; i++) {
    const here = inside(at[i]);
    for (let e = pointers[i]; e < pointers[i + 1]; e++) {
      const j = columns[e];
      if ((data.directed ? j !== i : j < i) && (here || inside(at[j]))) { pen.moveTo(...at[i]); pen.lineTo(...at[j]); }
    }
  }
  pen.stroke();
  const size = ratio * Math.max(1.5, Math.min(9, 60 / Math.sqrt(count) / Math.sqrt(view.size)));
  const groups = new Map();
  for (let i = 0; i < count; i++) {
    if (!inside(at[i])) continue;
    const colour = colourOf(i);
    if (!groups.has(colour)) groups.set(colour, []);
    groups.get(colour).push(i);
  }
  for (const [colour, nodes] of groups) {
    pen.fillStyle = colour;
    pen.beginPath();
    for (const i of nodes) {
      const r = size * (0.5 + certainty[i]), [px, py] = at[i];
      if (set[i] === 1) pen.rect(px - r, py - r, 2 * r, 2 * r);
      else { pen.moveTo(px + r, py); pen.arc(px, py, r, 0, 7); }
    }
    pen.fill();
  }
  if (chosen >= 0) {
    pen.strokeStyle = getComputedStyle(document.body).color;
    pen.lineWidth = ratio;
    pen.beginPath();
    for (let e = pointers[chosen]; e < pointers[chosen + 1]; e++) { pen.moveTo(...at[chosen]); pen.lineTo(...at[columns[e]]); }
    pen.stroke();
    pen.lineWidth = 2 * ratio;
    pen.beginPath();
    pen.arc(...at[chosen], 2.5 * size + 4 * ratio, 0, 7);
    pen.stroke();
  }
}

// What node i hears: shares of seeds say from whom, and weigh what is said.
function heard(i) {
  const told = [], last = Math.min(data.max_steps, taken[i], complete[i]);
  let row = new Map([[i, 1]]);
  for (let k = 0; ; k++) {
    const state = new Float64Array(classes);
    for (const [j, share] of row) for (let c = 0; c < classes; c++) state[c] += share * seeds[j * classes + c];
    told.push({ k, says: softmax(state), from: row });
    if (k === last) return told;
    row = data.frozen ? origins(i, k + 1) : spread(row, new Map());
  }
}

// One step back: what was said comes from whom the speakers heard.
function spread(row, into) {
  for (const [j, share] of row)
    for (let e = pointers[j]; e < pointers[j + 1]; e++)
      into.set(columns[e], (into.get(columns[e]) || 0) + share * weights[e]);
  return into;
}

// Step by step back to the seeds; who had halted before a step still said what it said last.
function origins(i, k) {
  const levels = Array.from({ length: k + 1 }, () => new Map());
  levels[k].set(i, 1);
  for (let level = k; level > 0; level--) {
    const listening = new Map();
    for (const [j, share] of levels[level]) {
      if (taken[j] < level) levels[taken[j]].set(j, (levels[taken[j]].get(j) || 0) + share);
      else listening.set(j, share);
    }
    spread(listening, levels[level - 1]);
  }
  return levels[0];
}

function softmax(state) {
  const scaled = Array.from(state, (value) => value / data.temperature), top = Math.max(...scaled);
  const raised = scaled.map((value) => Math.exp(value - top)), sum = raised.reduce((a, b) => a + b, 0);
  return raised.map((value) => value / sum);
}

const best = (values) => values.reduce((top, value, i) => value > values[top] ? i : top, 0);
const percent = (value) => `${(100 * value).toFixed(1)}\u00a0%`;

function link(i) {
  const made = element("button", data.ids[i]);
  made.className = "link";
  made.type = "button";
  made.addEventListener("click", () => choose(i, true));
  return made;
}

function note(text) {
  const made = element("p", text);
  made.className = "note";
  return made;
}

function choose(i, move) {
  chosen = i;
  by("told").textContent = "";
  if (move) view = { x: x[i], y: y[i], size: Math.min(view.size, 0.25) };
  const own = Array.from(probabilities.slice(i * classes, (i + 1) * classes));
  const order = own.map((_, c) => c).sort((a, b) => own[b] - own[a]).slice(0, 8);
  const facts = element("table", null, ...[
    ["prediction", `${data.classes[prediction[i]]}, ${percent(certainty[i])}`],
    ["known label", label[i] < 0 ? "none" : `${data.classes[label[i]]}${data.sets[set[i]] ? ` (${data.sets[set[i]]})` : ""}`],
    ["steps", steps[i].toFixed(steps[i] % 1 ? 1 : 0)],
    ["neighbours", String(neighbours[i])],
  ].map(([name, value]) => element("tr", null, element("td", name), element("td", value))));
  const chances = element("table", null, ...order.map((c) => {
    const meter = element("span");
    meter.className = "meter";
    meter.style.width = `${8 * own[c]}rem`;
    meter.style.background = byClass(c);
    return element("tr", null, element("td", data.classes[c]), element("td", percent(own[c])), element("td", null, meter));
  }));
  const told = element("table", null, element("tr", null, ...["step", "what it then says", "from whom most"].map((text) => element("th", text))));
  for (const { k, says, from } of heard(i)) {
    const top = best(says);
    const most = [...from].filter(([j]) => j !== i).sort((a, b) => b[1] - a[1]).slice(0, 3);
    const cell = element("td", k ? null : "itself alone");
    most.forEach(([j, share], place) => {
      if (place) cell.append(", ");
      cell.append(link(j), ` ${percent(share)}`);
    });
    told.append(element("tr", null, element("td", String(k)), element("td", `${data.classes[top]} ${percent(says[top])}`), cell));
  }
  by("node").replaceChildren(
    element("h3", data.ids[i]), facts, element("h3", "Probabilities"), chances,
    element("h3", "What it heard"), told,
    note("Its answer is a mean over these steps, not what it says after the last. Shares are of all that it then knows; what is not named comes from itself and others."),
    note(complete[i] < steps[i] ? "What it heard after that comes from nodes that are not drawn." : ""),
    note(data.initialisations > 1 ? "What it heard is of the first initialisation; all else is the mean." : ""),
  );
  by("node").dataset.node = data.ids[i];
  draw();
}

function nearest(px, py) {
  let found = -1, least = 400 * (devicePixelRatio || 1) ** 2;
  for (let i = 0; i < count; i++) {
    const [ax, ay] = toScreen(i), distance = (ax - px) ** 2 + (ay - py) ** 2;
    if (distance < least) { least = distance; found = i; }
  }
  return found;
}

// Hands: click, drag, wheel, search.
let held = null;
const place = (event) => {
  const box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
  return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
};
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  held = { from: place(event), view: { ...view }, moved: false };
});
canvas.addEventListener("pointermove", (event) => {
  if (!held) return;
  const [px, py] = place(event), dx = px - held.from[0], dy = py - held.from[1];
  if (Math.hypot(dx, dy) > 4) held.moved = true;
  if (held.moved) { view.x = held.view.x - dx / scale(); view.y = held.view.y - dy / scale(); draw(); }
});
canvas.addEventListener("pointerup", (event) => {
  if (held && !held.moved) {
    const i = nearest(...place(event));
    if (i >= 0) choose(i, false);
  }
  held = null;
});
canvas.addEventListener("pointercancel", () => { held = null; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const [px, py] = place(event), before = scale(), factor = Math.exp(event.deltaY * 0.0015);
  const fixed = [(px - canvas.width / 2) / before + view.x, (py - canvas.height / 2) / before + view.y];
  view.size = Math.min(4, Math.max(0.002, view.size * factor));
  view.x = fixed[0] - (px - canvas.width / 2) / scale();
  view.y = fixed[1] - (py - canvas.height / 2) / scale();
  draw();
}, { passive: false });
by("colour").addEventListener("change", (event) => { colouring = event.target.value; legend(); draw(); });
by("whole").addEventListener("click", showWhole);
by("search").addEventListener("input", (event) => {
  const typed = event.target.value.trim();
  if (number.has(typed)) { by("told").textContent = ""; choose(number.get(typed), true); return; }
  const near = [];
  for (let i = 0; i < count && near.length < 20 && typed; i++) if (data.ids[i].includes(typed)) near.push(data.ids[i]);
  by("found").replaceChildren(...near.map((id) => { const option = element("option"); option.value = id; return option; }));
  by("told").textContent = typed && !near.length ? "no such node" : "";
});
addEventListener("resize", draw);

function legend() {
  const entries = colouring === "steps"
    ? Array.from({ length: data.max_steps }, (_, k) => [byStep(k + 1), `K = ${k + 1}`])
    : data.classes.map((name, c) => [byClass(c), name]);
  if (colouring === "label") entries.push([byClass(-1), "unknown"]);
  by("legend").replaceChildren(...entries.slice(0, 40).map(([colour, name]) => {
    const dot = element("i");
    dot.style.background = colour;
    return element("span", null, dot, name);
  }));
}

function summarise() {
  by("title").textContent = `${data.name}: who listened how far`;
  const part = count < data.all_nodes ? `; the ${count.toLocaleString("en")} nodes around ${data.around} are drawn` : "";
  const judged = Object.entries(data.judged).filter(([, one]) => one.nodes).map(([name, one]) => `${percent(one.accuracy)} right on ${one.nodes} ${name} nodes`);
  by("subtitle").textContent = `${data.model}, ${data.all_nodes.toLocaleString("en")} nodes${part}; ${judged.join("; ")}.`;
  const most = Math.max(...data.tables.flatMap((table) => table.rows.map((row) => row.steps)));
  by("tables").replaceChildren(...data.tables.map((table) => element("div", null, element("h3", table.title), element("table", null,
    element("tr", null, element("th", ""), element("th", "nodes"), element("th", "K")),
    ...table.rows.map((row) => {
      const meter = element("span");
      meter.className = "meter";
      meter.style.width = `${5 * row.steps / most}rem`;
      return element("tr", null, element("td", row.name), element("td", row.nodes.toLocaleString("en")), element("td", row.steps.toFixed(2)), element("td", null, meter));
    })))));
  by("heldout").textContent = `Held-out nodes (${data.confusion.set} set): what they are, and what is said of them`;
  by("confusion").replaceChildren(
    element("tr", null, element("th", "is \\ said"), ...data.classes.map((name) => element("th", name))),
    ...data.confusion.counts.map((row, c) => element("tr", null, element("td", data.classes[c]), ...row.map((value, d) => {
      const cell = element("td", value || "");
      if (value) cell.style.background = `hsl(${c === d ? 145 : 10} 60% 50% / ${Math.min(0.6, 0.1 + value / Math.max(...row))})`;
      return cell;
    }))),
  );
  const plot = by("reliability").getContext("2d"), ink = getComputedStyle(document.body).color;
  const px = (value) => 40 + 260 * value, py = (value) => 220 - 200 * value;
  plot.strokeStyle = plot.fillStyle = ink;
  plot.font = "12px system-ui";
  plot.strokeRect(px(0), py(1), 260, 200);
  plot.setLineDash([4, 4]);
  plot.beginPath(); plot.moveTo(px(0), py(0)); plot.lineTo(px(1), py(1)); plot.stroke();
  plot.setLineDash([]);
  plot.fillText("certainty", px(0.4), 245);
  plot.fillText("right", 4, py(0.5));
  plot.fillText("0", 28, py(0) + 4); plot.fillText("1", 28, py(1) + 8); plot.fillText("1", px(1) - 4, 236);
  const all = data.reliability.reduce((sum, one) => sum + one.nodes, 0);
  plot.fillStyle = "#1f5fd0";
  for (const one of data.reliability) {
    plot.beginPath();
    plot.arc(px(one.certainty), py(one.accuracy), 3 + 12 * Math.sqrt(one.nodes / all), 0, 7);
    plot.fill();
  }
}

// Accuracy against work, where other prices of a step were tried.
function bought() {
  by("work").textContent = data.work ? `${data.work[0].toUpperCase()}${data.work.slice(1)}.` : "Nobody counted.";
  if (!data.curve.length) return;
  by("curve").hidden = false;
  by("points").replaceChildren(
    element("tr", null, ...["penalty", "right", "K", "messages"].map((text) => element("th", text))),
    ...data.curve.map((one) => element("tr", null, ...[String(one.penalty), percent(one.accuracy), one.steps.toFixed(2), one.messages === null ? "–" : percent(one.messages)].map((text) => element("td", text)))),
  );
  const counted = data.curve.every((one) => one.messages !== null);
  const share = (one) => counted ? one.messages : one.steps / data.max_steps;
  const plot = by("bought").getContext("2d"), worth = data.curve.map((one) => one.accuracy);
  const low = Math.min(...worth), high = Math.max(...worth), ink = getComputedStyle(document.body).color;
  const px = (value) => 50 + 250 * value, py = (value) => 210 - 180 * (value - low) / Math.max(high - low, 1e-9);
  plot.strokeStyle = plot.fillStyle = ink;
  plot.font = "12px system-ui";
  plot.strokeRect(px(0), 20, 250, 200);
  plot.fillText(counted ? "messages of all there are" : "K / T", px(0.2), 250);
  plot.fillText("right", 2, 14);
  plot.fillText("0", px(0) - 3, 236); plot.fillText("100 %", px(1) - 20, 236);
  plot.fillText(percent(high), 2, py(high) + 4); if (high > low) plot.fillText(percent(low), 2, py(low) + 4);
  plot.strokeStyle = plot.fillStyle = "#1f5fd0";
  plot.beginPath();
  for (const one of [...data.curve].sort((a, b) => share(a) - share(b))) plot.lineTo(px(share(one)), py(one.accuracy));
  plot.stroke();
  for (const one of data.curve) { plot.beginPath(); plot.arc(px(share(one)), py(one.accuracy), 4, 0, 7); plot.fill(); }
}

summarise();
bought();
legend();
showWhole();
if (data.around !== null) choose(number.get(data.around), true);
