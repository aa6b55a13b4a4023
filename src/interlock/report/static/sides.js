"use strict";
// Two algorithms on one time axis. Draws what Python computed.

class Sides {
  constructor(canvas, sides) {
    this.canvas = canvas;
    this.sides = sides;
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(name) {
    this.names = [name, this.sides.best];
    this.draw();
  }

  draw() {
    if (!this.names || !this.canvas.clientWidth) return;
    const scale = window.devicePixelRatio || 1, wide = this.canvas.clientWidth, high = this.canvas.clientHeight;
    this.canvas.width = wide * scale;
    this.canvas.height = high * scale;
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const ink = this.canvas.getContext("2d");
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.font = "12px system-ui, sans-serif";
    const drawn = this.names.map((name) => this.sides.by_name[name]);
    const last = 1.02 * Math.max(...drawn.map((each) => each.makespan));
    const loads = drawn.map((each) => decode(each.loads)), most = Math.max(1, ...loads.map((load) => Math.max(...load)));
    const bars = Math.min(150, wide / 4), left = bars + 12, across = wide - left - 10, panel = (high - 40) / 2;
    drawn.forEach((each, place) => {
      const top = place * panel + 20, tall = panel - 28, row = tall / each.rows, use = decode(each.use);
      ink.textAlign = "left";
      ink.textBaseline = "alphabetic";
      ink.fillStyle = colour("--ink");
      ink.fillText(`${this.names[place]}: ${formatMs(each.makespan)}`, left, top - 5);
      ink.fillText(formatBytes(Math.max(...loads[place])), 0, top - 5, bars);
      ink.fillStyle = colour("--accent");
      loads[place].forEach((load, k) => ink.fillRect(0, top + k * row, bars * load / most, Math.max(0.5, row - (row > 3 ? 1 : 0))));
      ink.fillStyle = colour("--soft");
      ink.fillRect(left, top, across * each.makespan / last, tall);
      const cell = across * each.makespan / last / each.bins;
      ink.fillStyle = colour("--accent");
      for (let k = 0; k < each.rows; k++) {
        for (let bin = 0; bin < each.bins; bin++) {
          const busy = use[k * each.bins + bin];
          if (!busy) continue;
          ink.globalAlpha = busy / 255;
          ink.fillRect(left + bin * cell, top + k * row, cell + 0.3, Math.max(0.5, row - (row > 3 ? 1 : 0)));
        }
      }
      ink.globalAlpha = 1;
      ink.strokeStyle = colour("--ink");
      ink.beginPath();
      ink.moveTo(left + across * each.makespan / last, top - 3);
      ink.lineTo(left + across * each.makespan / last, top + tall + 3);
      ink.stroke();
    });
    const at = left + across * this.sides.bound / last;
    ink.strokeStyle = colour("--bound");
    ink.fillStyle = colour("--bound");
    ink.lineWidth = 2;
    ink.setLineDash([6, 4]);
    ink.beginPath();
    ink.moveTo(at, 18);
    ink.lineTo(at, high - 22);
    ink.stroke();
    ink.setLineDash([]);
    ink.lineWidth = 1;
    ink.textAlign = at > wide / 2 ? "right" : "left";
    ink.textBaseline = "top";
    ink.fillText(`bound ${formatMs(this.sides.bound)}`, at, high - 18);
    ink.fillStyle = colour("--ink");
    ink.textAlign = "left";
    ink.fillText("0", left, high - 18);
  }
}
