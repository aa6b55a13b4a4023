"use strict";
// Reads the figures that Python computed and draws them; computes nothing itself.
const page = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };

function colours() {
  const style = getComputedStyle(root);
  return { ink: style.getPropertyValue("--ink").trim(), paper: style.getPropertyValue("--paper").trim(), line: style.getPropertyValue("--line").trim() };
}

function layout(extra) {
  const c = colours();
  const axis = { gridcolor: c.line, zerolinecolor: c.line, automargin: true };
  return Object.assign({
    paper_bgcolor: c.paper, plot_bgcolor: c.paper, font: { color: c.ink, size: 13 },
    margin: { l: 60, r: 20, t: 64, b: 50 }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
  }, extra, { xaxis: Object.assign({}, axis, extra.xaxis), yaxis: Object.assign({}, axis, extra.yaxis) });
}

function draw(id, figure) {
  const place = byId(id);
  if (place && figure) Plotly.react(place, figure.data, layout(figure.layout), config);
}

function drawShared() {
  for (const [id, figure] of Object.entries(page.figures)) draw(id, figure);
}

function choose(name) {
  const chosen = page.choices[name];
  if (!chosen) return;
  byId("explanation").textContent = chosen.explanation;
  byId("drawing").innerHTML = chosen.drawing;
  byId("stages").innerHTML = chosen.stages;
  draw("timeline", chosen.timeline);
  for (const row of document.querySelectorAll("tr[data-name]")) row.setAttribute("aria-selected", String(row.dataset.name === name));
  byId("choice").value = name;
}

function setTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
  byId("theme").textContent = dark ? "Light mode" : "Dark mode";
  drawShared();
  if (byId("choice")) choose(byId("choice").value);
}

byId("theme").addEventListener("click", () => setTheme(root.dataset.theme !== "dark"));
if (byId("choice")) {
  byId("choice").addEventListener("change", (event) => choose(event.target.value));
  for (const row of document.querySelectorAll("tr[data-name]")) {
    row.tabIndex = 0;
    row.addEventListener("click", () => choose(row.dataset.name));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(row.dataset.name); }
    });
  }
}
setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches);
root.dataset.ready = "true";
