"use strict";
// A timeline on a canvas: bars in rows, which one can zoom by time and by row. Draws what Python computed.

/** Bars of each row with the part of its height they take: side by side where they overlap in time. */
function layOut(data, view, numRows) {
  const row = decode(view.row), offsets = decode(view.offsets);
  const rows = Array.from({ length: numRows }, () => ({ bars: [], top: [], high: [], bands: new Map() }));
  const order = Array.from(data.start.keys()).sort((a, b) => data.start[a] - data.start[b]);
  for (const bar of order) {
    const band = data.groups[data.group[bar]].band;
    const first = offsets ? offsets[bar] : bar, last = offsets ? offsets[bar + 1] : bar + 1;
    for (let k = first; k < last; k++) {
      const bands = rows[row[k]].bands;
      if (!bands.has(band)) bands.set(band, []);
      bands.get(band).push(bar);
    }
  }
  for (const target of rows) {
    const used = [...target.bands.keys()].sort();
    used.forEach((band, place) => stack(data, target, target.bands.get(band), place / used.length, 1 / used.length));
  }
  return rows;
}

/** Lay the bars of one band, in order of start, on as many tracks as overlap just then. */
function stack(data, target, bars, top, high) {
  const slack = 1e-7 * data.last;
  let ends = [], tracks = [], first = 0;
  const close = (last) => {
    for (let k = first; k < last; k++) {
      target.bars.push(bars[k]);
      target.top.push(top + high * tracks[k] / ends.length);
      target.high.push(high / ends.length);
    }
    first = last;
    ends = [];
  };
  bars.forEach((bar, k) => {
    if (ends.length && ends.every((end) => end <= data.start[bar] + slack)) close(k);
    let track = ends.findIndex((end) => end <= data.start[bar] + slack);
    if (track < 0) track = ends.length;
    ends[track] = data.end[bar];
    tracks[k] = track;
  });
  close(bars.length);
}

class Timeline {
  constructor(place, rowNames) {
    this.place = place;
    this.rowNames = rowNames;
    this.canvas = place.querySelector("canvas");
    this.status = place.querySelector("#timeline-status");
    this.find = place.querySelector("#find");
    this.viewSelect = place.querySelector("#view");
    this.viewSelect.addEventListener("change", () => this.chooseView());
    this.find.addEventListener("input", () => this.showRow(this.find.value));
    for (const button of place.querySelectorAll("[data-do]")) button.addEventListener("click", () => this.act(button.dataset.do));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  show(timeline) {
    this.timeline = timeline;
    this.views = {};
    const legend = this.place.querySelector(".legend");
    legend.replaceChildren(...timeline.groups.map((group) => {
      const entry = document.createElement("li");
      entry.innerHTML = `<i style="background:${group.colour}"></i>`;
      entry.append(group.name);
      return entry;
    }));
    this.chooseView();
  }

  chooseView() {
    const name = this.viewSelect.value, view = this.timeline.views[name];
    this.names = this.rowNames[view.rows];
    if (!this.views[name]) {
      const data = this.decoded(view.bars || this.timeline.bars);
      this.views[name] = { data, rows: layOut(data, view, this.names.length), heat: this.decodedHeat(view.heat) };
    }
    Object.assign(this, this.views[name]);
    this.find.value = "";
    this.whole();
  }

  decoded(packed) {
    const data = { groups: this.timeline.groups, columns: {} };
    for (const name of ["start", "end", "group", "critical"]) data[name] = decode(packed[name]);
    for (const [name, column] of Object.entries(packed.columns)) data.columns[name] = decode(column);
    data.last = data.end.reduce((most, end) => Math.max(most, end), 0) || 1;
    return data;
  }

  decodedHeat(packed) {
    if (!packed) return null;
    const critical = Object.fromEntries(Object.entries(packed.critical).map(([name, column]) => [name, decode(column)]));
    return { bins: packed.bins, cells: decode(packed.cells), critical };
  }

  /** Whether rows are too thin for bars, so that each phase gets a heat map of all rows in sight. */
  get isHeat() { return this.heat && this.height / (this.r1 - this.r0) < 6; }

  whole() {
    this.hovered = null;
    this.zoomTo(0, this.data.last, 0, this.names.length);
  }

  zoomTo(t0, t1, r0, r1) {
    const last = this.data.last, count = this.names.length;
    const span = Math.min(last, Math.max(t1 - t0, last * 1e-6)), rows = Math.min(count, Math.max(r1 - r0, 1));
    this.t0 = Math.max(0, Math.min(t0, last - span));
    this.t1 = this.t0 + span;
    this.r0 = Math.max(0, Math.min(r0, count - rows));
    this.r1 = this.r0 + rows;
    this.draw();
    this.tell();
  }

  /** Show one row alone, named in full or by its number. */
  showRow(words) {
    const wanted = words.trim().toLowerCase();
    if (!wanted) return this.zoomTo(this.t0, this.t1, 0, this.names.length);
    let row = this.names.findIndex((name) => name.toLowerCase() === wanted);
    if (row < 0 && /^\d+$/.test(wanted) && Number(wanted) < this.names.length) row = Number(wanted);
    if (row < 0) row = this.names.findIndex((name) => name.toLowerCase().startsWith(wanted));
    if (row >= 0) this.zoomTo(this.t0, this.t1, row, row + 1);
    else this.status.textContent = `No row is called ${words}.`;
  }

  act(what) {
    const span = this.t1 - this.t0, middle = (this.t0 + this.t1) / 2;
    if (what === "in") this.zoomTo(middle - span / 4, middle + span / 4, this.r0, this.r1);
    else if (what === "out") this.zoomTo(middle - span, middle + span, this.r0, this.r1);
    else if (what === "left") this.zoomTo(this.t0 - span / 4, this.t1 - span / 4, this.r0, this.r1);
    else if (what === "right") this.zoomTo(this.t0 + span / 4, this.t1 + span / 4, this.r0, this.r1);
    else if (what === "whole") { this.find.value = ""; this.whole(); }
  }

  actOnRows(what) {
    const rows = this.r1 - this.r0, middle = (this.r0 + this.r1) / 2;
    if (what === "in") this.zoomTo(this.t0, this.t1, middle - rows / 4, middle + rows / 4);
    else if (what === "out") this.zoomTo(this.t0, this.t1, middle - rows, middle + rows);
    else { const by = (what === "up" ? -1 : 1) * Math.max(1, rows / 4); this.zoomTo(this.t0, this.t1, this.r0 + by, this.r1 + by); }
  }

  tell() {
    const first = this.names[Math.floor(this.r0)], last = this.names[Math.ceil(this.r1) - 1];
    const rows = first === last ? first : `${first} to ${last}`;
    this.status.textContent = `${formatMs(this.t0)} to ${formatMs(this.t1)}, ${rows}. ${this.timeline.note}`;
  }

  words(bar) {
    const parts = Object.entries(this.data.columns).map(([name, column]) =>
      name === "bytes" ? formatBytes(column[bar]) : `${name} ${column[bar]}`);
    const span = `${formatMs(this.data.start[bar])} to ${formatMs(this.data.end[bar])}`;
    return `${this.data.groups[this.data.group[bar]].name}: ${parts.join(", ")}; ${span}`;
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("dblclick", () => this.act("whole"));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const at = this.timeAt(event.offsetX), by = Math.exp(event.deltaY / 300);
      this.zoomTo(at - (at - this.t0) * by, at + (this.t1 - at) * by, this.r0, this.r1);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.grip = { x: event.offsetX, y: event.offsetY, t0: this.t0, t1: this.t1, isTouch: event.pointerType === "touch" };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onRelease(event));
    canvas.addEventListener("pointercancel", () => { this.grip = null; this.draw(); });
    canvas.addEventListener("pointerleave", () => { if (!this.grip) { this.hover(null); } });
  }

  onKey(event) {
    const moves = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "whole", Home: "whole" };
    const rows = { ArrowUp: event.shiftKey ? "in" : "up", ArrowDown: event.shiftKey ? "out" : "down" };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in rows) this.actOnRows(rows[event.key]);
    else if (event.key in moves) this.act(moves[event.key]);
    else if (event.key === "n" || event.key === "p") this.step(event.key === "n" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  /** The next or previous bar in sight, in order of time: what hovering is to a mouse. */
  step(by) {
    const seen = new Set();
    for (let row = Math.floor(this.r0); row < Math.ceil(this.r1); row++) {
      for (const bar of this.rows[row].bars) if (this.data.end[bar] >= this.t0 && this.data.start[bar] <= this.t1) seen.add(bar);
    }
    const order = [...seen].sort((a, b) => this.data.start[a] - this.data.start[b] || a - b);
    if (order.length) this.hover(order[(order.indexOf(this.hovered) + by + order.length) % order.length]);
  }

  onMove(event) {
    if (!this.grip && this.isHeat) {
      this.status.textContent = this.heatWords(event.offsetX, event.offsetY) || "";
      return;
    }
    if (!this.grip) return this.hover(this.barAt(event.offsetX, event.offsetY));
    if (this.grip.isTouch) {
      const by = (this.grip.x - event.offsetX) * (this.grip.t1 - this.grip.t0) / this.width;
      return this.zoomTo(this.grip.t0 + by, this.grip.t1 + by, this.r0, this.r1);
    }
    this.draw();
    const ink = this.canvas.getContext("2d");
    ink.strokeStyle = this.colours.accent;
    ink.strokeRect(this.grip.x, this.grip.y, event.offsetX - this.grip.x, event.offsetY - this.grip.y);
  }

  onRelease(event) {
    const grip = this.grip;
    this.grip = null;
    if (!grip) return;
    const across = Math.abs(event.offsetX - grip.x), down = Math.abs(event.offsetY - grip.y);
    if (across < 6 && down < 6) return this.hover(this.barAt(event.offsetX, event.offsetY));
    if (grip.isTouch) return;
    const times = [grip.x, event.offsetX].map((x) => this.timeAt(x)).sort((a, b) => a - b);
    const rows = [grip.y, event.offsetY].map((y) => this.rowAt(y)).sort((a, b) => a - b);
    const [t0, t1] = across < 6 ? [this.t0, this.t1] : times;
    // A drag along one row zooms in time alone.
    const [r0, r1] = down < 12 ? [this.r0, this.r1] : [Math.floor(rows[0]), Math.ceil(rows[1])];
    this.zoomTo(t0, t1, r0, r1);
  }

  timeAt(x) { return this.t0 + Math.min(1, Math.max(0, (x - this.left) / this.width)) * (this.t1 - this.t0); }
  rowAt(y) { return this.r0 + Math.min(1, Math.max(0, y / this.height)) * (this.r1 - this.r0); }

  barAt(x, y) {
    if (!this.data || x < this.left || y > this.height) return null;
    const at = this.rowAt(y), row = this.rows[Math.min(Math.floor(at), this.rows.length - 1)];
    const within = at - Math.floor(at), time = this.timeAt(x), near = 2 * (this.t1 - this.t0) / this.width;
    let best = null, distance = Infinity;
    row.bars.forEach((bar, k) => {
      if (time < this.data.start[bar] - near || time > this.data.end[bar] + near) return;
      const away = Math.abs(row.top[k] + row.high[k] / 2 - within);
      if (away < distance) { best = bar; distance = away; }
    });
    return best;
  }

  hover(bar) {
    if (bar === this.hovered) return;
    this.hovered = bar;
    this.draw();
    if (bar === null) this.tell();
    else this.status.textContent = this.words(bar);
  }

  draw() {
    if (!this.data || !this.canvas.clientWidth) return;
    const scale = window.devicePixelRatio || 1, wide = this.canvas.clientWidth, high = this.canvas.clientHeight;
    if (this.canvas.width !== wide * scale || this.canvas.height !== high * scale) {
      this.canvas.width = wide * scale;
      this.canvas.height = high * scale;
    }
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    this.colours = { ink: colour("--ink"), paper: colour("--paper"), line: colour("--line"), accent: colour("--accent") };
    const ink = this.canvas.getContext("2d");
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.clearRect(0, 0, wide, high);
    ink.font = "12px system-ui, sans-serif";
    const longest = this.names.reduce((most, name) => (name.length > most.length ? name : most), "");
    this.left = Math.min(wide / 3, ink.measureText(longest).width + 12);
    this.width = wide - this.left - 8;
    this.height = high - 28;
    this.drawAxes(ink);
    if (this.isHeat) return this.drawHeat(ink);
    ink.save();
    ink.beginPath();
    ink.rect(this.left, 0, this.width, this.height);
    ink.clip();
    for (let row = Math.floor(this.r0); row < Math.ceil(this.r1); row++) this.drawRow(ink, row);
    ink.restore();
  }

  /** A panel per phase, rows of all ranks in sight, colour by how busy their ports are; the critical path on top. */
  drawHeat(ink) {
    const { bins, cells, critical } = this.heat, groups = this.data.groups, count = this.names.length;
    const panel = this.height / groups.length, tall = panel - 18, span = this.t1 - this.t0;
    const first = Math.floor(this.r0), last = Math.min(count, Math.ceil(this.r1)), row = tall / (last - first);
    const x = (time) => this.left + (time - this.t0) / span * this.width, cell = this.data.last / bins;
    ink.save();
    ink.textBaseline = "top";
    groups.forEach((group, place) => {
      const top = place * panel + 16;
      ink.textAlign = "left";
      ink.fillStyle = this.colours.ink;
      ink.fillText(group.name, this.left, top - 14);
      ink.textAlign = "right";
      ink.fillText(this.names[first], this.left - 6, top, this.left - 8);
      ink.fillText(this.names[last - 1], this.left - 6, top + tall - 12, this.left - 8);
      ink.fillStyle = group.colour;
      for (let k = first; k < last; k++) {
        for (let bin = Math.max(0, Math.floor(this.t0 / cell)); bin < bins && bin * cell < this.t1; bin++) {
          const busy = cells[(place * count + k) * bins + bin];
          if (!busy) continue;
          ink.globalAlpha = 0.15 + 0.85 * busy / 255;
          const from = Math.max(this.left, x(bin * cell));
          ink.fillRect(from, top + (k - first) * row, Math.min(this.left + this.width, x((bin + 1) * cell)) - from + 0.3, Math.max(0.6, row));
        }
      }
      ink.globalAlpha = 1;
      ink.strokeStyle = this.colours.ink;
      ink.lineWidth = 2.5;
      ink.beginPath();
      for (let k = 0; k < critical.start.length; k++) {
        if (critical.group[k] !== place || critical.row[k] < first || critical.row[k] >= last) continue;
        const y = top + (critical.row[k] - first + 0.5) * row;
        ink.moveTo(Math.max(this.left, x(critical.start[k])), y);
        ink.lineTo(Math.min(this.left + this.width, Math.max(x(critical.end[k]), x(critical.start[k]) + 3)), y);
      }
      ink.stroke();
    });
    ink.restore();
  }

  /** What a heat map tells where one hovers. */
  heatWords(x, y) {
    const groups = this.data.groups, panel = this.height / groups.length, place = Math.floor(y / panel);
    if (x < this.left || place < 0 || place >= groups.length) return null;
    const first = Math.floor(this.r0), last = Math.min(this.names.length, Math.ceil(this.r1));
    const within = (y - place * panel - 16) / (panel - 18), row = first + Math.floor(within * (last - first));
    if (within < 0 || row >= last) return null;
    const bin = Math.min(this.heat.bins - 1, Math.floor(this.timeAt(x) / this.data.last * this.heat.bins));
    const busy = this.heat.cells[(place * this.names.length + row) * this.heat.bins + bin] / 255;
    return `${this.names[row]}, ${groups[place].name}: ${(100 * busy).toFixed(0)} % of its port at ${formatMs(this.timeAt(x))}`;
  }

  drawAxes(ink) {
    ink.fillStyle = this.colours.ink;
    ink.strokeStyle = this.colours.line;
    const step = this.height / (this.r1 - this.r0), every = Math.max(1, Math.ceil(15 / step));
    ink.textBaseline = "middle";
    ink.textAlign = "right";
    for (let row = Math.ceil(Math.floor(this.r0) / every) * every; !this.isHeat && row < Math.ceil(this.r1); row += every) {
      const y = (row - this.r0 + 0.5) * step;
      if (y > 4 && y < this.height - 4) ink.fillText(this.names[row], this.left - 6, y, this.left - 8);
    }
    const span = this.t1 - this.t0, rough = span / Math.max(5, Math.floor(this.width / 110));
    const power = 10 ** Math.floor(Math.log10(rough)), tick = power * [1, 2, 5, 10].find((times) => times * power >= rough);
    ink.textBaseline = "top";
    ink.textAlign = "center";
    ink.beginPath();
    for (let k = Math.ceil(this.t0 / tick); k * tick <= this.t1; k++) {
      const x = this.left + (k * tick - this.t0) / span * this.width;
      ink.moveTo(x, 0);
      ink.lineTo(x, this.height + 5);
      if (x > this.left + 12 || k > 0) ink.fillText(formatMs(k * tick), Math.min(x, this.left + this.width - 22), this.height + 9);
    }
    ink.stroke();
  }

  drawRow(ink, place) {
    const row = this.rows[place], data = this.data, step = this.height / (this.r1 - this.r0);
    const top = (place - this.r0) * step, gap = step > 6 ? Math.min(3, step * 0.12) : 0;
    const scale = this.width / (this.t1 - this.t0);
    row.bars.forEach((bar, k) => {
      if (data.end[bar] < this.t0 || data.start[bar] > this.t1) return;
      const x = this.left + (Math.max(data.start[bar], this.t0 - 1) - this.t0) * scale;
      const wide = Math.max(0.7, (Math.min(data.end[bar], this.t1 + 1) - Math.max(data.start[bar], this.t0 - 1)) * scale);
      const track = (step - 2 * gap) * row.high[k], y = top + gap + (step - 2 * gap) * row.top[k];
      const high = Math.max(0.7, track - (track > 4 ? 1 : 0));
      ink.fillStyle = data.groups[data.group[bar]].colour;
      ink.fillRect(x, y, wide, high);
      const isMarked = data.critical && data.critical[bar];
      if (isMarked && high <= 3) {  // too thin for an outline: a line of its own
        ink.fillStyle = this.colours.ink;
        ink.fillRect(x, y, Math.max(2, wide), Math.max(2, high));
        return;
      }
      if (!isMarked && bar !== this.hovered) return;
      ink.lineWidth = bar === this.hovered ? 2.5 : 1.2;
      ink.strokeStyle = this.colours.ink;
      ink.strokeRect(x + 0.5, y + 0.5, Math.max(1, wide - 1), Math.max(1, high - 1));
    });
    ink.lineWidth = 1;
  }

  /** The whole timeline for Perfetto, where all of it is here. */
  chromeTrace() {
    const events = this.names.map((name, row) => ({ ph: "M", pid: row, name: "process_name", args: { name } }));
    this.rows.forEach((row, place) => row.bars.forEach((bar, k) => {
      const facts = Object.fromEntries(Object.entries(this.data.columns).map(([name, column]) => [name, column[bar]]));
      const start = 1e3 * this.data.start[bar], name = this.data.groups[this.data.group[bar]].name;
      events.push({ ph: "X", pid: place, tid: 1 + Math.round(1e4 * row.top[k]), name, ts: start, dur: 1e3 * this.data.end[bar] - start, args: facts });
    }));
    return JSON.stringify({ displayTimeUnit: "ns", otherData: { times: "simulated" }, traceEvents: events });
  }
}
