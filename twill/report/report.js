"use strict";
// The report's script. It draws the timelines again so that they zoom, pan, fold and filter; it zooms the other drawings as a
// whole; and it highlights an operation in every drawing, table and listing. Every element of an operation has `data-op`, a list
// of operation ids. Without this script the page shows the same content as static drawings.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("js");
  const SVG = "http://www.w3.org/2000/svg";
  const INK = "#1b1f24", FAINT = "#6b7380", RULE = "#d5d9e0", RED = "#c81e1e", LANE_FILL = "#f6f7f9", PAPER = "#ffffff";
  const FONT = "DejaVu Sans, Verdana, Arial, sans-serif";

  const element = (parent, name, attributes, text) => {
    const made = name === "svg" || parent instanceof SVGElement ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  // --- operations: highlight, select, search -------------------------------------------------------------------------------

  const index = new Map();
  const register = (scope) => {
    for (const one of scope.querySelectorAll("[data-op]"))
      for (const op of one.dataset.op.split(" ")) {
        if (!index.has(op)) index.set(op, new Set());
        index.get(op).add(one);
      }
  };
  const forget = (scope) => {
    for (const one of scope.querySelectorAll("[data-op]")) for (const op of one.dataset.op.split(" ")) index.get(op)?.delete(one);
  };
  let selected = [], hovered = [], lit = new Set();

  const show = () => {
    const ops = hovered.length ? hovered : selected;
    for (const one of lit) one.classList.remove("hit");
    lit = new Set(ops.flatMap((op) => [...(index.get(op) || [])]));
    for (const one of lit) one.classList.add("hit");
    document.body.classList.toggle("focus", ops.length > 0);
  };

  const opsOf = (target) => {
    const one = target.closest?.("[data-op]");
    return one ? one.dataset.op.split(" ").filter((op) => op in data.ops) : [];
  };

  const inside = (target) => {
    // Scroll only the listings, so that the drawing under the pointer stays where it is.
    for (const pane of document.querySelectorAll(".pane pre")) {
      const line = [...pane.querySelectorAll(".line.hit")][0];
      if (line && !pane.contains(target)) pane.scrollTop = line.offsetTop - pane.offsetTop - pane.clientHeight / 3;
    }
  };

  const select = (ops, target) => {
    selected = ops;
    hovered = [];
    show();
    inside(target || document.body);
    inspect(ops);
  };

  const inspect = (ops) => {
    document.querySelector(".inspector")?.remove();
    const row = ops.length === 1 && [...document.querySelectorAll("#operations tbody tr")].find((tr) => tr.dataset.op === ops[0]);
    if (!row) return;
    const box = element(document.body, "div", { class: "inspector", role: "status" });
    const close = element(box, "button", { type: "button" }, "Close");
    close.addEventListener("click", () => select([]));
    const list = element(box, "dl");
    const heads = [...document.querySelectorAll("#operations thead th")].map((th) => th.textContent);
    [...row.cells].forEach((cell, i) => {
      if (!cell.textContent) return;
      element(list, "dt", {}, heads[i]);
      element(list, "dd", {}, cell.textContent);
    });
  };

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const ops = opsOf(event.target);
    if (ops.join(" ") !== hovered.join(" ")) { hovered = ops; show(); }
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.target.closest("button, a, input, label, .inspector, .row-label")) return;
    const ops = opsOf(event.target);
    if (ops.length || event.target.closest(".drawing")) select(ops, event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; found.textContent = ""; select([]); }
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  });

  const search = document.getElementById("search"), found = document.getElementById("found");
  const matches = (text) => {
    const rows = [...document.querySelectorAll("#operations tbody tr")];
    const wanted = text.toLowerCase();
    return rows.filter((tr) => tr.textContent.toLowerCase().includes(wanted)).map((tr) => tr.dataset.op);
  };
  search.addEventListener("input", () => {
    const ops = search.value.trim() ? matches(search.value.trim()) : [];
    found.textContent = search.value.trim() ? `${ops.length} of ${Object.keys(data.ops).length}` : "";
    select(ops);
  });

  for (const button of document.querySelectorAll("[data-copy]"))
    button.addEventListener("click", () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      const done = () => { button.textContent = "Copied"; setTimeout(() => (button.textContent = "Copy"), 1500); };
      const byHand = () => {
        const area = element(document.body, "textarea", {}, text);
        area.select();
        document.execCommand("copy");
        area.remove();
        done();
      };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand); else byHand();
    });

  for (const head of document.querySelectorAll(".pane h3")) {
    head.title = "Fold or unfold";
    head.addEventListener("click", () => head.parentElement.classList.toggle("closed"));
  }

  // --- timelines -----------------------------------------------------------------------------------------------------------

  const MARGIN = 112, RIGHT = 24, TOP = 26, LANE = 26, THIN = 12, GAP = 10;
  const hiddenIterations = new Set(), folded = new Set(), charts = [];

  const caption = (op, k, room) => {
    const dot = op.lastIndexOf(".");
    const verb = dot < 0 ? "" : op.slice(0, dot), value = op.slice(dot + 1);
    const stem = /^\d+$/.test(value) && verb ? "" : value.replace(/(.)_\d+$/, "$1");
    const name = verb ? `${verb} ${stem}`.trim() : stem;
    return [`${name} [${k}]`, name, `${verb || name} [${k}]`, verb || name].find((text) => text.length * 5.2 + 4 <= room) || "";
  };

  const widest = (left, right, marks) => {
    const cuts = [left, ...marks.filter((x) => x > left && x < right), right];
    let best = [left, left];
    for (let i = 1; i < cuts.length; i++) if (cuts[i] - cuts[i - 1] > best[1] - best[0]) best = [cuts[i - 1], cuts[i]];
    return best;
  };

  class Chart {
    constructor(host, chart) {
      this.host = host;
      this.chart = chart;
      this.view = [0, chart.span];
      this.left = Math.max(MARGIN, 40 + 6.8 * Math.max(...chart.rows.map((row) => row.name.length)));
      host.replaceChildren();
      this.tools();
      this.svg = element(host, "svg", { class: "live", "font-family": FONT });
      this.gestures();
      this.draw();
      charts.push(this);
    }

    tools() {
      const bar = element(this.host, "div", { class: "tools" });
      const button = (text, title, act) => element(bar, "button", { type: "button", title }, text).addEventListener("click", act);
      button("+", "Zoom in", () => this.zoom(0.5));
      button("−", "Zoom out", () => this.zoom(2));
      button("◀", "Earlier", () => this.pan(-0.5));
      button("▶", "Later", () => this.pan(0.5));
      button("Steady state", "Show one interval of the steady state", () => this.show(this.chart.frame[0], this.chart.frame[1]));
      button("All", "Show everything", () => this.show(0, this.chart.span));
      button("Fold units", "Fold or unfold all units", () => this.foldKind((kind) => kind !== "group"));
      button("Fold groups", "Fold or unfold all groups", () => this.foldKind((kind) => kind === "group"));
      const sample = Object.entries(data.colors).filter(([group]) => group !== "-").pop() || Object.entries(data.colors)[0];
      for (let k = 0; k < data.iterations; k++) {
        const label = element(bar, "label");
        const box = element(label, "input", { type: "checkbox", "data-iteration": k });
        box.checked = !hiddenIterations.has(k);
        element(label, "span", { class: "swatch", style: `background:${sample[1].bars[k][0]}` });
        label.append(`iteration ${k}`);
        box.addEventListener("change", () => {
          box.checked ? hiddenIterations.delete(k) : hiddenIterations.add(k);
          for (const other of document.querySelectorAll(`[data-iteration="${k}"]`)) other.checked = box.checked;
          redraw();
        });
      }
      element(bar, "span", {}, this.chart.notes);
      element(bar, "span", {}, "Drag to pan, Ctrl + wheel to zoom, click a row's name to fold it.");
    }

    show(from, to) {
      const least = this.chart.span / 400, width = Math.min(this.chart.span, Math.max(least, to - from));
      const start = Math.min(Math.max(0, from), this.chart.span - width);
      this.view = [start, start + width];
      this.draw();
    }

    pan(part) {
      const by = part * (this.view[1] - this.view[0]);
      this.show(this.view[0] + by, this.view[1] + by);
    }

    zoom(factor, at = (this.view[0] + this.view[1]) / 2) {
      this.show(at - (at - this.view[0]) * factor, at + (this.view[1] - at) * factor);
    }

    foldKind(wanted) {
      const names = this.chart.rows.filter((row) => wanted(row.kind)).map((row) => row.name);
      const all = names.every((name) => folded.has(name));
      for (const name of names) all ? folded.delete(name) : folded.add(name);
      redraw();
    }

    gestures() {
      const time = (event) => {
        const box = this.svg.getBoundingClientRect();
        const part = (event.clientX - box.left - this.left) / (this.width - this.left - RIGHT);
        return this.view[0] + part * (this.view[1] - this.view[0]);
      };
      this.svg.addEventListener("wheel", (event) => {
        if (!(event.ctrlKey || event.metaKey || event.shiftKey)) return;
        event.preventDefault();
        this.zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, time(event));
      }, { passive: false });
      let last = null, moved = 0;
      this.svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || event.pointerType === "touch") return; // a finger scrolls
        last = event.clientX;
        moved = 0;
      });
      window.addEventListener("pointermove", (event) => {
        if (last === null) return;
        const by = ((last - event.clientX) / (this.width - this.left - RIGHT)) * (this.view[1] - this.view[0]);
        moved += Math.abs(event.clientX - last);
        last = event.clientX;
        if (moved > 3) { this.svg.classList.add("grabbing"); this.show(this.view[0] + by, this.view[1] + by); }
      });
      window.addEventListener("pointerup", () => { last = null; this.svg.classList.remove("grabbing"); });
      this.svg.addEventListener("click", (event) => { if (moved > 3) event.preventDefault(); moved = 0; });
      this.svg.addEventListener("dblclick", (event) => this.zoom(0.5, time(event)));
    }

    at(time) { return this.left + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (this.width - this.left - RIGHT); }

    draw() {
      forget(this.svg);
      this.svg.replaceChildren();
      this.width = Math.max(900, this.host.clientWidth - 2);
      const clip = `clip-${this.host.dataset.chart}`;
      const defs = element(this.svg, "defs");
      const under = element(this.svg, "g", { "clip-path": `url(#${clip})` });
      const bars = element(this.svg, "g", { "clip-path": `url(#${clip})` });
      const frame = element(this.svg, "g", { "clip-path": `url(#${clip})` });
      const texts = element(this.svg, "g", { "clip-path": `url(#${clip})`, "pointer-events": "none" });
      const labels = element(this.svg, "g");
      let y = TOP;
      for (const row of this.chart.rows) y = this.row(row, y, under, bars, texts, labels);
      this.axis(under, frame, labels, y);
      element(element(defs, "clipPath", { id: clip }), "rect", { x: this.left, y: 0, width: this.width - this.left - RIGHT, height: y + 20 });
      this.svg.setAttribute("width", this.width);
      this.svg.setAttribute("height", y + 24);
      register(this.svg);
      show();
    }

    row(row, y, under, bars, texts, labels) {
      const thin = folded.has(row.name), lane = thin ? THIN : LANE;
      const height = thin ? THIN : LANE * Math.max(1, row.lanes.length);
      element(under, "rect", { x: this.left, y: y - 2, width: this.width - this.left - RIGHT, height, fill: LANE_FILL });
      const label = element(labels, "g", { class: "row-label", "data-row": row.name });
      const middle = y + height / 2;
      const text = { x: this.left - 10, "text-anchor": "end", "font-size": 11, "font-weight": "bold", fill: INK };
      element(label, "text", { ...text, y: middle + (row.note && !thin ? -3 : 3) }, `${thin ? "▸" : "▾"} ${row.name}`);
      if (row.note && !thin) element(label, "text", { ...text, "font-size": 9, "font-weight": "normal", fill: FAINT, y: middle + 10 }, row.note);
      element(label, "title", {}, thin ? "Unfold" : "Fold");
      label.addEventListener("click", () => { thin ? folded.delete(row.name) : folded.add(row.name); redraw(); });
      row.lanes.forEach((bars_, i) => {
        for (const bar of bars_) this.bar(bar, y + (thin ? 0 : i * lane), lane - 4, thin, bars, texts);
      });
      return y + height + GAP;
    }

    bar([op, k, start, end, tail, waits], y, height, thin, bars, texts) {
      if (hiddenIterations.has(k) || tail < this.view[0] || start > this.view[1]) return;
      const known = data.ops[op], count = data.iterations, shade = ((k % count) + count) % count;
      const colors = data.colors[known && known.group !== null ? String(known.group) : "-"] || data.colors["-"];
      const [fill, edge, ink] = waits ? [PAPER, RED, RED] : colors.bars[shade];
      const tip = waits ? `waits for ${op}: ${end - start} cycles` : `${op}, iteration ${k}: cycles ${start} to ${tail}`;
      const marks = this.chart.frame.slice(0, 2).map((time) => this.at(time)).sort((a, b) => a - b);
      const [left, right, last] = [start, end, tail].map((time) => this.at(time));
      const box = (x, width, fill_, stroke) => {
        const made = element(bars, "rect", { x, y, width, height, fill: fill_, stroke, "stroke-width": 0.7 });
        if (known) made.dataset.op = op;
        element(made, "title", {}, tip + (known ? `\n${known.name}` : ""));
      };
      if (last > right) box(left, last - left, ...colors.pale);
      if (right > left) box(left, Math.max(1, right - left), fill, edge);
      if (thin) return;
      const limit = (a, b) => widest(Math.max(a, this.left), Math.min(b, this.width - RIGHT), marks);
      const begun = limit(left, right), rest = limit(Math.max(left, right), last);
      const options = [[begun, ink], [rest, INK]].map(([[a, b], color]) => {
        const text = waits ? (op.length * 5.2 + 4 <= b - a ? op : "") : caption(op, k, b - a);
        return [text, (a + b) / 2, color];
      });
      const [text, x, color] = options[0][0].length >= options[1][0].length ? options[0] : options[1];
      if (!text) return;
      const made = element(texts, "text", { x, y: y + height / 2 + 3, "font-size": 8.5, "text-anchor": "middle", fill: color }, text);
      if (known) made.dataset.op = op;
    }

    axis(under, frame, labels, bottom) {
      const [from, to] = this.view, { interval } = this.chart;
      const steps = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5].map((e) => n * 10 ** e)).sort((a, b) => a - b);
      const fine = steps.find((step) => (to - from) / step <= 12);
      const step = (to - from) / interval >= 1.5 ? interval : fine;
      for (let time = Math.ceil(from / step - 1e-9) * step; time <= to + 1e-9; time += step) {
        const x = this.at(time), last = x > this.width - RIGHT - 30;
        element(under, "path", { d: `M${x},${TOP - 8}V${bottom + 2}`, stroke: RULE, fill: "none" });
        element(labels, "text", { x, y: bottom + 16, "font-size": 10, "text-anchor": last ? "end" : "middle", fill: FAINT }, Math.round(time));
      }
      element(labels, "text", { x: this.left - 10, y: bottom + 16, "font-size": 10, "text-anchor": "end", fill: FAINT }, "cycle");
      const [left, right] = this.chart.frame.slice(0, 2).map((time) => this.at(time));
      const shape = { fill: "none", stroke: RED, "stroke-width": 2, "stroke-dasharray": "7 4", "pointer-events": "none" };
      element(frame, "rect", { x: left, y: TOP - 8, width: Math.max(0, right - left), height: bottom - TOP + 4, ...shape });
      element(frame, "text", { x: Math.max(left, this.left) + 6, y: TOP - 13, "font-size": 10, "font-weight": "bold", fill: RED }, this.chart.frame[2]);
    }
  }

  const redraw = () => charts.forEach((chart) => chart.draw());

  // --- other drawings: zoom and pan as a whole -------------------------------------------------------------------------------

  const zoomable = (host) => {
    const svg = host.querySelector("svg");
    const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
    let box = [0, 0, width, height];
    const apply = () => svg.setAttribute("viewBox", box.join(" "));
    const zoom = (factor, x = box[0] + box[2] / 2, y = box[1] + box[3] / 2) => {
      const part = Math.min(1, Math.max(0.05, (box[2] / width) * factor)) / (box[2] / width);
      box = [x - (x - box[0]) * part, y - (y - box[1]) * part, box[2] * part, box[3] * part];
      move(0, 0);
    };
    const move = (dx, dy) => {
      box[0] = Math.min(Math.max(0, box[0] + dx), width - box[2]);
      box[1] = Math.min(Math.max(0, box[1] + dy), height - box[3]);
      apply();
    };
    const tools = element(null, "div", { class: "tools" });
    const button = (text, title, act) => element(tools, "button", { type: "button", title }, text).addEventListener("click", act);
    button("+", "Zoom in", () => zoom(0.7));
    button("−", "Zoom out", () => zoom(1 / 0.7));
    button("All", "Show everything", () => zoom(100));
    host.prepend(tools);
    svg.addEventListener("wheel", (event) => {
      if (!(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      const seen = svg.getBoundingClientRect();
      const x = box[0] + ((event.clientX - seen.left) / seen.width) * box[2], y = box[1] + ((event.clientY - seen.top) / seen.height) * box[3];
      zoom(event.deltaY > 0 ? 1.25 : 0.8, x, y);
    }, { passive: false });
    let last = null, moved = 0;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || box[2] >= width) return;
      last = [event.clientX, event.clientY];
      moved = 0;
    });
    window.addEventListener("pointermove", (event) => {
      if (!last) return;
      const scale = box[2] / svg.getBoundingClientRect().width;
      moved += Math.abs(event.clientX - last[0]) + Math.abs(event.clientY - last[1]);
      move((last[0] - event.clientX) * scale, (last[1] - event.clientY) * scale);
      last = [event.clientX, event.clientY];
    });
    window.addEventListener("pointerup", () => (last = null));
    svg.addEventListener("click", (event) => { if (moved > 3) event.preventDefault(); moved = 0; });
  };

  register(document);
  for (const host of document.querySelectorAll(".drawing")) {
    const chart = data.charts[host.dataset.chart];
    if (!chart) { zoomable(host); continue; }
    forget(host);
    new Chart(host, chart);
  }
  let pending = 0;
  window.addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(redraw); });
})();
