"use strict";
// The heat map of the traffic: cells on a canvas, told by mouse and by arrow keys.

// Cividis, which colour-blind readers see as others do.
const CIVIDIS = [[0, 32, 76], [0, 57, 110], [64, 77, 107], [95, 99, 110], [124, 123, 120], [155, 148, 119], [188, 174, 108], [222, 203, 84], [255, 234, 70]];

class HeatMap {
  constructor(canvas, status, heat) {
    this.canvas = canvas;
    this.status = status;
    this.side = heat.side;
    this.step = heat.ranks_per_cell;
    this.cells = decode(heat.cells);
    this.most = this.cells.reduce((most, value) => Math.max(most, value), 0);
    this.row = this.column = 0;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.draw();
  }

  /** One canvas pixel for each cell; the style sheet enlarges it without smoothing. */
  draw() {
    this.canvas.width = this.canvas.height = this.side;
    const image = new ImageData(this.side, this.side);
    this.cells.forEach((value, k) => {
      const at = this.most ? (CIVIDIS.length - 1) * value / this.most : 0, low = Math.min(Math.floor(at), CIVIDIS.length - 2);
      for (let c = 0; c < 3; c++) image.data[4 * k + c] = CIVIDIS[low][c] + (at - low) * (CIVIDIS[low + 1][c] - CIVIDIS[low][c]);
      image.data[4 * k + 3] = 255;
    });
    this.canvas.getContext("2d").putImageData(image, 0, 0);
  }

  point(event) {
    const cell = (offset, length) => Math.min(this.side - 1, Math.max(0, Math.floor(offset / length * this.side)));
    this.tell(cell(event.offsetY, this.canvas.clientHeight), cell(event.offsetX, this.canvas.clientWidth));
  }

  onKey(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, across] = moves[event.key], within = (place) => Math.min(this.side - 1, Math.max(0, place));
    this.tell(within(this.row + down), within(this.column + across));
  }

  tell(row, column) {
    this.row = row;
    this.column = column;
    const ranks = (place) => (this.step === 1 ? `rank ${place}` : `ranks ${place * this.step} to ${(place + 1) * this.step - 1}`);
    this.status.textContent = `From ${ranks(row)} to ${ranks(column)}: ${formatBytes(this.cells[row * this.side + column])}`;
  }
}
