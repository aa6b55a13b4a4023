"use strict";
// Numbers out of the page's data, and into words.

const ARRAYS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array };

/** Numbers out of base64, as `interlock.report.page.array` writes them. */
function decode(packed) {
  if (!packed || !packed.bdata) return packed;
  const text = atob(packed.bdata);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new ARRAYS[packed.dtype](bytes.buffer);
}

function formatMs(value) {
  return Math.abs(value) >= 1 || value === 0 ? `${+value.toPrecision(5)} ms` : `${+(1e3 * value).toPrecision(4)} us`;
}

function formatBytes(value) {
  const step = value >= 1e9 ? [1e9, "GB"] : value >= 1e6 ? [1e6, "MB"] : value >= 1e3 ? [1e3, "kB"] : [1, "B"];
  return `${+(value / step[0]).toPrecision(4)} ${step[1]}`;
}
