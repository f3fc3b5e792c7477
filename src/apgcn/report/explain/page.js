"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const ARRAYS = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int32: Int32Array };

function decodeArray({ dtype, data: encoded }) {
  const bytes = atob(encoded), buffer = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) buffer[i] = bytes.charCodeAt(i);
  return new ARRAYS[dtype](buffer.buffer);
}

// One value per node, except: indptr, indices and weights are the normalised adjacency in CSR form; probabilities and z0
// have a row per node and a column per class.
const [x, y, prediction, probabilities, steps, label, set, indptr, indices, weights, z0, inDegrees, exactSteps, memberSteps] = [
  "x", "y", "prediction", "probabilities", "steps", "label", "set", "indptr", "indices", "weights", "z0", "in_degrees",
  "exact_steps", "first_member_steps",
].map((name) => decodeArray(data[name]));
const count = data.ids.length, classes = data.classes.length;
const confidence = Float32Array.from({ length: count }, (_, i) => probabilities[i * classes + prediction[i]]);
const indexOf = new Map(data.ids.map((id, i) => [id, i]));
const byId = (id) => document.getElementById(id);

function element(name, text, ...children) {
  const created = document.createElement(name);
  if (text !== undefined && text !== null) created.textContent = text; // text of users never becomes markup
  created.append(...children);
  return created;
}

// Colours: steps from blue to red; classes from a palette for the colour-blind (Okabe and Ito), or around the colour circle
// if there are too many of them.
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900"];
const stepColour = (k) => `hsl(${220 - 220 * (k - data.first_step) / Math.max(1, data.max_steps - data.first_step)} 75% 50%)`;
const classColour = (c) => c < 0 ? "#9aa2ad" : classes <= PALETTE.length ? PALETTE[c] : `hsl(${(c * 360) / classes} 65% ${c % 2 ? 42 : 55}%)`;
let colourBy = "steps";
const nodeColour = (i) => colourBy === "steps" ? stepColour(steps[i]) : classColour(colourBy === "label" ? label[i] : prediction[i]);

// The view: the square of the layout that is visible on the canvas, by its centre and side.
const canvas = byId("graph"), context = canvas.getContext("2d");
let view = { x: 0, y: 0, size: 1 }, selected = -1, isScheduled = false;
const scale = () => Math.min(canvas.width, canvas.height) / view.size;
const toScreen = (i) => [(x[i] - view.x) * scale() + canvas.width / 2, (y[i] - view.y) * scale() + canvas.height / 2];

function resetView() {
  view = { x: 0.5, y: 0.5, size: 1.05 };
  byId("status").textContent = "";
  scheduleDraw();
}

function scheduleDraw() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => { isScheduled = false; draw(); });
}

function draw() {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(box.width * ratio) || canvas.height !== Math.round(box.height * ratio)) {
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
  }
  context.clearRect(0, 0, canvas.width, canvas.height);
  const points = Array.from({ length: count }, (_, i) => toScreen(i));
  const isVisible = ([px, py]) => px > -20 && py > -20 && px < canvas.width + 20 && py < canvas.height + 20;
  context.lineWidth = Math.max(0.5, ratio * 0.6);
  context.strokeStyle = "rgba(128, 136, 148, 0.25)";
  context.beginPath();
  for (let i = 0; i < count; i++) {
    const visible = isVisible(points[i]);
    for (let e = indptr[i]; e < indptr[i + 1]; e++) {
      const j = indices[e];
      if ((data.directed ? j !== i : j < i) && (visible || isVisible(points[j]))) { context.moveTo(...points[i]); context.lineTo(...points[j]); }
    }
  }
  context.stroke();
  const size = ratio * Math.max(1.5, Math.min(9, 60 / Math.sqrt(count) / Math.sqrt(view.size)));
  const byColour = new Map();
  for (let i = 0; i < count; i++) {
    if (!isVisible(points[i])) continue;
    const colour = nodeColour(i);
    if (!byColour.has(colour)) byColour.set(colour, []);
    byColour.get(colour).push(i);
  }
  for (const [colour, nodes] of byColour) {
    context.fillStyle = colour;
    context.beginPath();
    for (const i of nodes) {
      const r = size * (0.5 + confidence[i]), [px, py] = points[i];
      if (set[i] === 1) context.rect(px - r, py - r, 2 * r, 2 * r);
      else { context.moveTo(px + r, py); context.arc(px, py, r, 0, 7); }
    }
    context.fill();
  }
  if (selected >= 0) {
    context.strokeStyle = getComputedStyle(document.body).color;
    context.lineWidth = ratio;
    context.beginPath();
    for (let e = indptr[selected]; e < indptr[selected + 1]; e++) { context.moveTo(...points[selected]); context.lineTo(...points[indices[e]]); }
    context.stroke();
    context.lineWidth = 2 * ratio;
    context.beginPath();
    context.arc(...points[selected], 2.5 * size + 4 * ratio, 0, 7);
    context.stroke();
  }
}

// The states z_i^k of node i for k = 0, 1, ..., as probabilities, each with the coefficients r of z_i^k = sum_j r_j z_j^0.
function propagationTrace(i) {
  const trace = [], last = Math.min(data.max_steps, memberSteps[i], exactSteps[i]);
  let coefficients = new Map([[i, 1]]);
  for (let k = 0; ; k++) {
    const state = new Float64Array(classes);
    for (const [j, coefficient] of coefficients) for (let c = 0; c < classes; c++) state[c] += coefficient * z0[j * classes + c];
    trace.push({ k, probabilities: softmax(state), coefficients });
    if (k === last) return trace;
    coefficients = data.freeze_halted ? frozenCoefficients(i, k + 1) : multiplyByAdjacency(coefficients, new Map());
  }
}

// Adds the product of a sparse row with the normalised adjacency to `result`.
function multiplyByAdjacency(row, result) {
  for (const [j, coefficient] of row)
    for (let e = indptr[j]; e < indptr[j + 1]; e++)
      result.set(indices[e], (result.get(indices[e]) || 0) + coefficient * weights[e]);
  return result;
}

// The coefficients of z_i^k with frozen states: step by step back to z^0, where a node that had halted at an earlier step
// contributes its state of that step.
function frozenCoefficients(i, k) {
  const levels = Array.from({ length: k + 1 }, () => new Map());
  levels[k].set(i, 1);
  for (let level = k; level > 0; level--) {
    const updated = new Map();
    for (const [j, coefficient] of levels[level]) {
      if (memberSteps[j] < level) levels[memberSteps[j]].set(j, (levels[memberSteps[j]].get(j) || 0) + coefficient);
      else updated.set(j, coefficient);
    }
    multiplyByAdjacency(updated, levels[level - 1]);
  }
  return levels[0];
}

function softmax(logits) {
  const scaled = Array.from(logits, (value) => value / data.temperature), largest = Math.max(...scaled);
  const exponentials = scaled.map((value) => Math.exp(value - largest)), sum = exponentials.reduce((a, b) => a + b, 0);
  return exponentials.map((value) => value / sum);
}

const argmax = (values) => values.reduce((best, value, i) => value > values[best] ? i : best, 0);
const percent = (value) => `${(100 * value).toFixed(1)}\u00a0%`;

function nodeLink(i) {
  const button = element("button", data.ids[i]);
  button.className = "link";
  button.type = "button";
  button.addEventListener("click", () => selectNode(i, true));
  return button;
}

function note(text) {
  const paragraph = element("p", text);
  paragraph.className = "note";
  return paragraph;
}

function meter(width, colour) {
  const bar = element("span");
  bar.className = "meter";
  bar.style.width = `${width}rem`;
  if (colour) bar.style.background = colour;
  return bar;
}

function selectNode(i, moveView) {
  selected = i;
  byId("status").textContent = "";
  if (moveView) view = { x: x[i], y: y[i], size: Math.min(view.size, 0.25) };
  const nodeProbabilities = Array.from(probabilities.slice(i * classes, (i + 1) * classes));
  const order = nodeProbabilities.map((_, c) => c).sort((a, b) => nodeProbabilities[b] - nodeProbabilities[a]).slice(0, 8);
  const facts = element("table", null, ...[
    ["prediction", `${data.classes[prediction[i]]}, ${percent(confidence[i])}`],
    ["known label", label[i] < 0 ? "none" : `${data.classes[label[i]]}${data.set_names[set[i]] ? ` (${data.set_names[set[i]]})` : ""}`],
    ["propagation steps K", steps[i].toFixed(steps[i] % 1 ? 1 : 0)],
    ["in-neighbours", String(inDegrees[i])],
  ].map(([name, value]) => element("tr", null, element("td", name), element("td", value))));
  const classTable = element("table", null, ...order.map((c) => element("tr", null,
    element("td", data.classes[c]), element("td", percent(nodeProbabilities[c])),
    element("td", null, meter(8 * nodeProbabilities[c], classColour(c))))));
  const traceTable = element("table", null, element("tr", null, ...["step", "prediction from its state", "largest contributions"].map((text) => element("th", text))));
  for (const { k, probabilities: stateProbabilities, coefficients } of propagationTrace(i)) {
    const top = argmax(stateProbabilities);
    const largest = [...coefficients].filter(([j]) => j !== i).sort((a, b) => b[1] - a[1]).slice(0, 3);
    const cell = element("td", k ? null : "itself only");
    largest.forEach(([j, coefficient], place) => {
      if (place) cell.append(", ");
      cell.append(nodeLink(j), ` ${percent(coefficient)}`);
    });
    traceTable.append(element("tr", null, element("td", String(k)), element("td", `${data.classes[top]} ${percent(stateProbabilities[top])}`), cell));
  }
  byId("node").replaceChildren(
    element("h3", data.ids[i]), facts, element("h3", "Probabilities"), classTable,
    element("h3", "Propagation, step by step"), traceTable,
    note("Step k is the state after k propagation steps, a weighted sum of the initial predictions z⁰ of the nodes within k edges; the contributions are these weights, without that of the node itself. The output is a weighted mean over the steps, not the last state."),
    note(exactSteps[i] < steps[i] ? "Later steps depend on nodes that are not drawn." : ""),
    note(data.ensemble_size > 1 ? "The steps shown are those of the first ensemble member; everything else is the mean of the ensemble." : ""),
  );
  byId("node").dataset.node = data.ids[i];
  scheduleDraw();
}

function nearestNode(px, py) {
  let nearest = -1, smallest = 400 * (devicePixelRatio || 1) ** 2;
  for (let i = 0; i < count; i++) {
    const [nodeX, nodeY] = toScreen(i), distance = (nodeX - px) ** 2 + (nodeY - py) ** 2;
    if (distance < smallest) { smallest = distance; nearest = i; }
  }
  return nearest;
}

// Interaction: click, drag, wheel, search.
let drag = null;
const canvasPoint = (event) => {
  const box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
  return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
};
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  drag = { start: canvasPoint(event), view: { ...view }, moved: false };
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const [px, py] = canvasPoint(event), dx = px - drag.start[0], dy = py - drag.start[1];
  if (Math.hypot(dx, dy) > 4) drag.moved = true;
  if (drag.moved) { view.x = drag.view.x - dx / scale(); view.y = drag.view.y - dy / scale(); scheduleDraw(); }
});
canvas.addEventListener("pointerup", (event) => {
  if (drag && !drag.moved) {
    const i = nearestNode(...canvasPoint(event));
    if (i >= 0) selectNode(i, false);
  }
  drag = null;
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const [px, py] = canvasPoint(event), before = scale(), factor = Math.exp(event.deltaY * 0.0015);
  const fixed = [(px - canvas.width / 2) / before + view.x, (py - canvas.height / 2) / before + view.y];
  view.size = Math.min(4, Math.max(0.002, view.size * factor));
  view.x = fixed[0] - (px - canvas.width / 2) / scale();
  view.y = fixed[1] - (py - canvas.height / 2) / scale();
  scheduleDraw();
}, { passive: false });
byId("colour").addEventListener("change", (event) => { colourBy = event.target.value; showLegend(); scheduleDraw(); });
byId("reset").addEventListener("click", resetView);
byId("search").addEventListener("input", (event) => {
  const typed = event.target.value.trim();
  if (indexOf.has(typed)) { byId("status").textContent = ""; selectNode(indexOf.get(typed), true); return; }
  const matches = [];
  for (let i = 0; i < count && matches.length < 20 && typed; i++) if (data.ids[i].includes(typed)) matches.push(data.ids[i]);
  byId("matches").replaceChildren(...matches.map((id) => { const option = element("option"); option.value = id; return option; }));
  byId("status").textContent = typed && !matches.length ? "no such node" : "";
});
addEventListener("resize", scheduleDraw);

function showLegend() {
  const entries = colourBy === "steps"
    ? Array.from({ length: data.max_steps + 1 - data.first_step }, (_, n) => data.first_step + n).map((k) => [stepColour(k), `K = ${k}`])
    : data.classes.map((name, c) => [classColour(c), name]);
  if (colourBy === "label") entries.push([classColour(-1), "unknown"]);
  byId("legend").replaceChildren(...entries.slice(0, 40).map(([colour, name]) => {
    const dot = element("i");
    dot.style.background = colour;
    return element("span", null, dot, name);
  }));
}

function showHeader() {
  byId("title").textContent = `${data.name}: propagation steps per node`;
  const part = count < data.num_nodes ? `; the ${count.toLocaleString("en")} nodes around ${data.center} are drawn` : "";
  const accuracies = Object.entries(data.evaluation).filter(([, metrics]) => metrics.nodes).map(([name, metrics]) => `accuracy ${percent(metrics.accuracy)} on ${metrics.nodes} ${name} nodes`);
  byId("subtitle").textContent = `${data.model}, ${data.num_nodes.toLocaleString("en")} nodes${part}; ${accuracies.join("; ")}.`;
}

function showStepsTables() {
  const largest = Math.max(...data.tables.flatMap((table) => table.rows.map((row) => row.steps))) || 1;  // 1 where every K is 0
  byId("tables").replaceChildren(...data.tables.map((table) => element("div", null, element("h3", table.title), element("table", null,
    element("tr", null, element("th", ""), element("th", "nodes"), element("th", "mean K")),
    ...table.rows.map((row) => element("tr", null, element("td", row.name), element("td", row.nodes.toLocaleString("en")),
      element("td", row.steps.toFixed(2)), element("td", null, meter(5 * row.steps / largest))))))));
}

function showConfusion() {
  byId("confusion-title").textContent = `Held-out nodes (${data.confusion.set} set): labels and predictions`;
  byId("confusion").replaceChildren(
    element("tr", null, element("th", "label \\ prediction"), ...data.classes.map((name) => element("th", name))),
    ...data.confusion.counts.map((row, c) => element("tr", null, element("td", data.classes[c]), ...row.map((value, d) => {
      const cell = element("td", value || "");
      if (value) cell.style.background = `hsl(${c === d ? 145 : 10} 60% 50% / ${Math.min(0.6, 0.1 + value / Math.max(...row))})`;
      return cell;
    }))),
  );
}

function showReliability() {
  const plot = byId("reliability").getContext("2d"), ink = getComputedStyle(document.body).color;
  const px = (value) => 40 + 260 * value, py = (value) => 220 - 200 * value;
  plot.strokeStyle = plot.fillStyle = ink;
  plot.font = "12px system-ui";
  plot.strokeRect(px(0), py(1), 260, 200);
  plot.setLineDash([4, 4]);
  plot.beginPath(); plot.moveTo(px(0), py(0)); plot.lineTo(px(1), py(1)); plot.stroke();
  plot.setLineDash([]);
  plot.fillText("confidence", px(0.4), 245);
  plot.fillText("accuracy", px(0), 14);
  plot.fillText("0", 28, py(0) + 4); plot.fillText("1", 28, py(1) + 8); plot.fillText("1", px(1) - 4, 236);
  const total = data.reliability.reduce((sum, bin) => sum + bin.nodes, 0);
  plot.fillStyle = "#1f5fd0";
  for (const bin of data.reliability) {
    plot.beginPath();
    plot.arc(px(bin.confidence), py(bin.accuracy), 3 + 12 * Math.sqrt(bin.nodes / total), 0, 7);
    plot.fill();
  }
}

// The cost of the propagation, and accuracy against cost if the model was trained with other penalties.
function showCost() {
  byId("cost").textContent = data.cost ? `${data.cost[0].toUpperCase()}${data.cost.slice(1)}.` : "The cost was not counted.";
  if (!data.curve.length) return;
  byId("curve").hidden = false;
  byId("points").replaceChildren(
    element("tr", null, ...["penalty", "accuracy", "mean K", "messages"].map((text) => element("th", text))),
    ...data.curve.map((point) => element("tr", null, ...[String(point.penalty), percent(point.accuracy), point.steps.toFixed(2), point.messages === null ? "–" : percent(point.messages)].map((text) => element("td", text)))),
  );
  const isCounted = data.curve.every((point) => point.messages !== null);
  const cost = (point) => isCounted ? point.messages : point.steps / data.max_steps;
  const plot = byId("curve-plot").getContext("2d"), accuracies = data.curve.map((point) => point.accuracy);
  const low = Math.min(...accuracies), high = Math.max(...accuracies), ink = getComputedStyle(document.body).color;
  const px = (value) => 50 + 250 * value, py = (value) => 210 - 180 * (value - low) / Math.max(high - low, 1e-9);
  plot.strokeStyle = plot.fillStyle = ink;
  plot.font = "12px system-ui";
  plot.strokeRect(px(0), 20, 250, 200);
  plot.fillText(isCounted ? "edge messages, of those of all steps" : "mean K / T", px(0.05), 250);
  plot.fillText("accuracy", 2, 14);
  plot.fillText("0", px(0) - 3, 236); plot.fillText("100 %", px(1) - 20, 236);
  plot.fillText(percent(high), 2, py(high) + 4); if (high > low) plot.fillText(percent(low), 2, py(low) + 4);
  plot.strokeStyle = plot.fillStyle = "#1f5fd0";
  plot.beginPath();
  for (const point of [...data.curve].sort((a, b) => cost(a) - cost(b))) plot.lineTo(px(cost(point)), py(point.accuracy));
  plot.stroke();
  for (const point of data.curve) { plot.beginPath(); plot.arc(px(cost(point)), py(point.accuracy), 4, 0, 7); plot.fill(); }
}

showHeader();
showStepsTables();
showCost();
showConfusion();
showReliability();
showLegend();
resetView();
if (data.center !== null) selectNode(indexOf.get(data.center), true);
