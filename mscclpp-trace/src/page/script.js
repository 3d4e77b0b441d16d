"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const svg = document.getElementById("lanes");
  const details = document.getElementById("details");
  const operations = new Map([...svg.querySelectorAll(".op")].map((op) => [Number(op.dataset.n), op]));
  const lanes = new Map();
  for (const [n, op] of operations) {
    const lane = lanes.get(op.dataset.lane) || [];
    lane.push(n);
    lanes.set(op.dataset.lane, lane);
  }
  for (const lane of lanes.values()) lane.sort((a, b) => data.slices[a][0] - data.slices[b][0]);
  const into = new Map(), out = new Map();
  const add = (map, key, value) => map.has(key) ? map.get(key).push(value) : map.set(key, [value]);
  for (const [from, to, what] of data.arrows) {
    add(into, to, [from, what]);
    add(out, from, [to, what]);
  }
  const title = (n) => operations.get(n)?.querySelector("title").textContent || "";
  const place = (n) => operations.get(n)?.dataset.place || "an operation that is not drawn";
  const describe = (n) => {
    const lines = [place(n) + ": " + title(n)];
    for (const [from, what] of into.get(n) || []) lines.push(`waits for ${what} of ${place(from)}, ${title(from).split("\n")[0]}`);
    for (const [to, what] of out.get(n) || []) lines.push(`${what} received by ${place(to)}, ${title(to).split("\n")[0]}`);
    return lines.join("\n");
  };
  let selected = null;
  const select = (n, focus) => {
    const op = operations.get(n);
    if (!op) return;
    operations.get(selected)?.classList.remove("selected");
    operations.get(selected)?.setAttribute("tabindex", "-1");
    selected = n;
    op.classList.add("selected");
    op.setAttribute("tabindex", "0");
    details.textContent = describe(n);
    const group = document.getElementById("selected-arrows");
    group.replaceChildren();
    const middle = (m) => {
      const box = operations.get(m);
      return Number(box.getAttribute("y")) + Number(box.getAttribute("height")) / 2;
    };
    const draw = (from, to) => {
      if (!operations.has(from) || !operations.has(to)) return;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", "arrow selected");
      path.setAttribute("d", `M${x(data.slices[from][1])} ${middle(from)}L${x(data.slices[to][2])} ${middle(to)}`);
      group.append(path);
    };
    for (const [from] of into.get(n) || []) draw(from, n);
    for (const [to] of out.get(n) || []) draw(n, to);
    if (focus) op.focus({ preventScroll: false });
  };
  const x = (time) => data.x + time / data.end * data.width;
  svg.addEventListener("pointerover", (event) => {
    const op = event.target.closest(".op");
    if (op) details.textContent = describe(Number(op.dataset.n));
  });
  svg.addEventListener("click", (event) => {
    const op = event.target.closest(".op");
    if (!op) return;
    select(Number(op.dataset.n), true);
    show(data.slices[Number(op.dataset.n)][1]);
  });
  svg.addEventListener("focusin", (event) => {
    const op = event.target.closest(".op");
    if (op && Number(op.dataset.n) !== selected) select(Number(op.dataset.n), false);
  });
  svg.addEventListener("keydown", (event) => {
    const op = event.target.closest(".op");
    if (!op) return;
    const n = Number(op.dataset.n), lane = lanes.get(op.dataset.lane), at = lane.indexOf(n);
    const names = [...lanes.keys()], row = names.indexOf(op.dataset.lane);
    const beside = (other) => other && other.reduce((best, m) =>
      Math.abs(data.slices[m][0] - data.slices[n][0]) < Math.abs(data.slices[best][0] - data.slices[n][0]) ? m : best);
    const next = {
      ArrowRight: () => lane[at + 1], ArrowLeft: () => lane[at - 1], Home: () => lane[0], End: () => lane[lane.length - 1],
      ArrowDown: () => beside(lanes.get(names[row + 1])), ArrowUp: () => beside(lanes.get(names[row - 1])),
      Enter: () => ((event.shiftKey ? out : into).get(n) || []).map(([m]) => m).filter((m) => operations.has(m)).pop(),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const target = next();
    if (target === undefined) return;
    select(target, true);
    show(data.slices[target][1]);
  });
  const slider = document.getElementById("now");
  const cells = [...document.querySelectorAll("[data-c]")].sort((a, b) => a.dataset.c - b.dataset.c);
  const cursor = document.getElementById("cursor");
  const show = (time) => {
    slider.value = time;
    const text = data.unit === "steps" ? `step ${Math.round(time)}` : `${time.toFixed(2)} us`;
    slider.setAttribute("aria-valuetext", text);
    document.getElementById("at").textContent = text;
    cursor.setAttribute("x1", x(time));
    cursor.setAttribute("x2", x(time));
    const state = [...data.initial], now = new Set();
    let last = -1;
    for (const [at, cell, content] of data.changes) {
      if (at > time + 1e-9) break;
      if (at !== last) now.clear();
      last = at;
      state[cell] = content;
      now.add(cell);
    }
    cells.forEach((td, cell) => {
      const [ranks, background, whole, text] = data.contents[state[cell]];
      td.textContent = ranks;
      td.title = td.dataset.name + ": " + text;
      td.style.backgroundImage = background;
      td.classList.toggle("parts", !whole);
      td.classList.toggle("now", now.has(cell));
    });
  };
  cells.forEach((td) => td.addEventListener("click", () => { details.textContent = td.title; }));
  slider.addEventListener("input", () => show(Number(slider.value)));
  document.querySelectorAll("[data-go]").forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    const n = Number(link.dataset.go);
    select(n, true);
    show(data.slices[n][1]);
  }));
  show(data.now);
  if (data.first !== null) select(data.first, false);
})();
