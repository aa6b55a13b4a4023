"use strict";
// Reads what Python computed and shows it; computes no result itself.
const page = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const choiceByName = {};
let timeline = null;
let sides = null;

function read(name) {
  if (!(name in choiceByName)) {
    const held = document.querySelector(`script[data-choice="${CSS.escape(name)}"]`);
    choiceByName[name] = held && JSON.parse(held.textContent);
  }
  return choiceByName[name];
}

/** Colour and thicken the drawing's links by load, and say it where one hovers. */
function showLoad(load) {
  const busy = decode(load.busy), moved = decode(load.bytes), names = page.rows.link;
  for (const mark of byId("drawing").querySelectorAll("[data-links]")) {
    const links = mark.dataset.links.split(" ").map(Number);
    const share = Math.max(...links.map((link) => busy[link]));
    mark.style.setProperty("--load", `${100 * share}%`);
    mark.style.strokeWidth = String(1.5 + 5 * share);
    const title = mark.firstChild || mark.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "title"));
    title.textContent = links.map((link) =>
      `${names[link]}: busy ${(100 * busy[link]).toFixed(1)} %${moved ? `, ${formatBytes(moved[link])}` : ""}`).join("\n");
  }
}

function showTrace(name, address) {
  const place = byId("trace");
  place.replaceChildren();
  if (!address && !timeline.timeline.bars) return;  // merged, and too large for Perfetto as well
  const link = place.appendChild(document.createElement(address ? "a" : "button"));
  if (address) {
    link.href = address;
    link.textContent = "Full Perfetto trace";
    return;
  }
  link.type = "button";
  link.textContent = "Save Perfetto trace";
  link.addEventListener("click", () => {
    const saved = document.createElement("a");
    saved.href = URL.createObjectURL(new Blob([timeline.chromeTrace()], { type: "application/json" }));
    saved.download = `${name}.trace.json`;
    saved.click();
    URL.revokeObjectURL(saved.href);
  });
}

function choose(name) {
  const chosen = read(name);
  if (!chosen) return;
  byId("explanation").textContent = chosen.explanation;
  for (const part of ["busiest", "stages"]) byId(part).innerHTML = chosen[part];
  showLoad(chosen.load);
  timeline.show(chosen.timeline);
  showTrace(name, chosen.trace);
  for (const row of document.querySelectorAll("tr[data-name]")) row.setAttribute("aria-selected", String(row.dataset.name === name));
  byId("choice").value = name;
}

function setTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
  byId("theme").textContent = dark ? "Light mode" : "Dark mode";
  if (timeline) timeline.draw();
  if (sides) sides.draw();
}

function makeChoosable() {
  timeline = new Timeline(byId("timeline"), page.rows);
  byId("choice").addEventListener("change", (event) => choose(event.target.value));
  for (const row of document.querySelectorAll("tr[data-name]")) {
    if (!document.querySelector(`script[data-choice="${CSS.escape(row.dataset.name)}"]`)) continue;
    row.tabIndex = 0;
    row.addEventListener("click", () => choose(row.dataset.name));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(row.dataset.name); }
    });
  }
  choose(byId("choice").value);
}

byId("theme").addEventListener("click", () => setTheme(root.dataset.theme !== "dark"));
setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches);
if (page.heat) {
  const heat = new HeatMap(byId("traffic"), byId("heat-status"), page.heat);
  byId("heat-most").textContent = formatBytes(heat.most);
}
if (page.sides) {
  sides = new Sides(byId("sides"), page.sides);
  const against = (name) => { byId("cause").textContent = page.sides.by_name[name].cause; sides.show(name); };
  byId("other").addEventListener("change", (event) => against(event.target.value));
  against(byId("other").value);
}
if (byId("choice")) makeChoosable();
root.dataset.ready = "true";
