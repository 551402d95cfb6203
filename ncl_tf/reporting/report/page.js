"use strict";

/* The theme: the system's, until the button changes it. */
{
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  system.addEventListener("change", name);
  button.hidden = false;
  name();
}

/* A link to a folded block opens it. */
{
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();
}

/* The patient view: one strip per vital sign, the score beneath, and the hour under the pointer read out. */
class Monitor {
  constructor(box, readout, monitor, stay) {
    Object.assign(this, { box, readout, monitor, stay, count: stay.hours.length });
    const positive = stay.label.indexOf(1);
    this.hour = positive < 0 ? this.count - 1 : positive;
    this.draw();
  }

  draw() {
    const width = Math.max(this.box.clientWidth, 280), narrow = width < 600;
    this.left = narrow ? 44 : 60;
    this.right = width - (narrow ? 78 : 120);
    this.cell = (this.right - this.left) / this.count;
    this.svg = element("svg", { "aria-hidden": "true", focusable: "false" });
    this.shade = element("g", {}, this.svg);
    this.readings = [];
    this.now = element("text", { class: "now", y: 18, "text-anchor": "middle" }, this.svg);
    let top = 30;
    this.monitor.channels.forEach((channel, position) => {
      top = this.vital(channel, this.stay.values[position], position, top, narrow ? 50 : 64);
    });
    top = this.score(top, narrow ? 84 : 110);
    const bottom = this.lanes(top);
    this.positiveHours(24, bottom);
    this.cursor = element("line", { class: "cursor", y1: 24, y2: bottom }, this.svg);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${bottom + 30}`);
    this.svg.setAttribute("height", bottom + 30);
    this.box.replaceChildren(this.svg);
    this.box.setAttribute("aria-valuemax", this.count - 1);
    this.move(this.hour);
  }

  x(hour) { return this.left + (hour + 0.5) * this.cell; }

  vital(channel, values, position, top, height) {
    const known = values.filter((value) => value !== null), { step } = channel;
    const low = step * Math.floor(Math.min(...known) / step), high = step * Math.ceil(Math.max(...known) / step);
    const scale = known.length ? [low, high > low ? high : low + step] : [0, step];
    const y = this.strip(`${channel.title}, ${channel.unit}`, ...scale, top, height);
    const points = values.map((value, hour) => (value === null ? null : [this.x(hour), y(value)])).filter(Boolean);
    element("path", { class: `trace c${position}`, d: path(points) }, this.svg);
    for (const [cx, cy] of points) element("circle", { class: `f${position}`, cx, cy, r: 1.8 }, this.svg);
    const [value, note] = this.numbers(top + 18, height);
    this.readings.push((hour) => {
      let last = hour;
      while (last >= 0 && values[last] === null) last -= 1;
      value.textContent = last < 0 ? "–" : values[last].toFixed(channel.decimals);
      value.setAttribute("class", `value f${position}${last === hour ? "" : " old"}`);
      note.textContent = last < 0 ? "not measured" : last === hour ? "" : `${hour - last} h ago`;
      if (last < 0) return `${channel.title.toLowerCase()} not measured yet`;
      const age = last === hour ? "" : ` (${hour - last} h ago)`;
      return `${channel.title.toLowerCase()} ${value.textContent} ${channel.unit}${age}`;
    });
    return top + height + 28;
  }

  score(top, height) {
    const { score, risk, state } = this.stay, limit = this.monitor.threshold, { states } = this.monitor;
    const y = this.strip(`Predicted score for ${this.monitor.task}, x 100`, 0, 100, top, height);
    const points = score.map((value, hour) => [this.x(hour), y(100 * value)]);
    const ends = [[points[0][0], y(0)], [points[points.length - 1][0], y(0)]];
    element("path", { class: "area", d: path([ends[0], ...points, ends[1]]) }, this.svg);
    element("path", { class: "trace score", d: path(points) }, this.svg);
    element("line", { class: "threshold", x1: this.left, x2: this.right, y1: y(100 * limit), y2: y(100 * limit) }, this.svg);
    element("text", { class: "scale", x: this.left - 8, y: y(100 * limit) + 4, "text-anchor": "end" }, this.svg, (100 * limit).toFixed());
    const [value, note, below] = this.numbers(top + 18, height);
    this.readings.push((hour) => {
      value.textContent = (100 * score[hour]).toFixed(1);
      value.setAttribute("class", "value scorevalue");
      note.textContent = states[state[hour]];
      note.setAttribute("class", state[hour] === 1 ? "alarm" : "");
      below.textContent = risk ? `risk ${(100 * risk[hour]).toFixed(1)} %` : "";
      return [`score ${value.textContent}`, below.textContent, note.textContent].filter(Boolean).join(", ");
    });
    return top + height + 26;
  }

  /* A titled strip with its scale; returns value -> y. */
  strip(title, low, high, top, height) {
    element("text", { class: "title", x: this.left, y: top + 10 }, this.svg, title);
    const y = (value) => top + 18 + height - ((value - low) / (high - low)) * height;
    for (const value of [low, high]) {
      element("line", { class: "hairline", x1: this.left, x2: this.right, y1: y(value), y2: y(value) }, this.svg);
      element("text", { class: "scale", x: this.left - 8, y: y(value) + 4, "text-anchor": "end" }, this.svg, `${value}`);
    }
    return y;
  }

  /* The number beside a strip, and two notes below it. */
  numbers(top, height) {
    const x = this.right + 12, middle = top + height / 2;
    return [4, 20, 36].map((below) => element("text", { x, y: middle + below }, this.svg));
  }

  /* The label and the model's score, hour by hour; then the axis. */
  lanes(top) {
    const { label, state } = this.stay;
    const lanes = {
      label: { "lane-label": label.map((one) => one === 1) },
      alarm: { "lane-silenced": state.map((one) => one === 2), "lane-alarm": state.map((one) => one === 1) },
    };
    for (const [name, marks] of Object.entries(lanes)) {
      element("text", { x: this.left - 8, y: top + 9, "text-anchor": "end" }, this.svg, name);
      element("rect", { class: "lane", x: this.left, y: top + 4, width: this.right - this.left, height: 2 }, this.svg);
      for (const [mark, hours] of Object.entries(marks)) this.spans(hours, mark, top, 10, this.svg);
      top += 18;
    }
    this.readings.push((hour) => `label: ${{ 1: this.monitor.task, 0: `no ${this.monitor.task}` }[this.stay.label[hour]] ?? "none"}`);
    const every = [6, 12, 24, 48, 96].find((step) => step * this.cell > 34) ?? 192;
    this.stay.hours.forEach((hour, position) => {
      if (hour % every) return;
      element("line", { class: "hairline", x1: this.x(position), x2: this.x(position), y1: top, y2: top + 6 }, this.svg);
      element("text", { class: "axis", x: this.x(position), y: top + 20, "text-anchor": "middle" }, this.svg, `${hour}`);
    });
    element("text", { x: this.right + 12, y: top + 20 }, this.svg, "hour");
    return top;
  }

  positiveHours(top, bottom) {
    this.spans(this.stay.label.map((label) => label === 1), "positive", top, bottom - top, this.shade);
  }

  /* Rectangles over the stretches of hours for which the condition holds. */
  spans(hours, name, y, height, parent) {
    for (let first = 0; first < this.count; first += 1) {
      if (!hours[first]) continue;
      let last = first;
      while (hours[last + 1]) last += 1;
      const x = this.left + first * this.cell;
      element("rect", { class: name, x, y, width: (last - first + 1) * this.cell, height }, parent);
      first = last;
    }
  }

  move(hour) {
    this.hour = Math.max(0, Math.min(this.count - 1, hour));
    const x = this.x(this.hour), name = `hour ${this.stay.hours[this.hour]}`;
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.now.setAttribute("x", Math.max(x, 34));
    this.now.textContent = name;
    const said = this.readings.map((read) => read(this.hour)).join("; ");
    this.readout.textContent = `H${name.slice(1)}: ${said}.`;
    this.box.setAttribute("aria-valuenow", this.hour);
    this.box.setAttribute("aria-valuetext", this.readout.textContent);
  }

  point(clientX) {
    this.move(Math.floor((clientX - this.svg.getBoundingClientRect().left - this.left) / this.cell));
  }
}

function element(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function path(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

{
  const monitors = JSON.parse(document.getElementById("monitors").textContent);
  const box = document.getElementById("monitor"), select = document.getElementById("stay");
  if (box) {
    let shown;
    const show = () => {
      const [monitor, stay] = select.value.split("-").map(Number);
      shown = new Monitor(box, document.getElementById("readout"), monitors[monitor], monitors[monitor].stays[stay]);
      document.getElementById("model").textContent = `Model: ${monitors[monitor].model}.`;
      document.getElementById("silence").textContent = monitors[monitor].silence;
    };
    const keys = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -6, PageUp: 6, Home: -Infinity, End: Infinity };
    box.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      shown.move(shown.hour + keys[event.key]);
    });
    for (const kind of ["pointermove", "pointerdown"]) box.addEventListener(kind, (event) => shown.point(event.clientX));
    select.addEventListener("change", show);
    show();
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth !== width) { width = box.clientWidth; shown.draw(); }
    }).observe(box);
  }
}
