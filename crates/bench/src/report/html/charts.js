// Read-out, zoom and choice of view for the charts. They stand without this script: it draws them again, from the same
// figures and by the same rules as chart.rs and scale.rs, when a part of them is to be seen.
"use strict";
(() => {
  const charts = [];
  const groups = new Map();

  // Figures, as figure.rs writes them.
  const significant = (v) => v.toFixed(v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2);
  const count = (v) => String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, ",");
  const short = (v) => String(+v.toFixed(3));
  const formats = {
    rate: (v) => (v >= 100 ? count(v) : significant(v)) + "/s",
    us: (v) => v < 999.5 ? significant(v) + " µs" : v < 999500 ? significant(v / 1e3) + " ms" : significant(v / 1e6) + " s",
    bytes: (v) => v < 1e6 ? significant(v / 1e3) + " kB" : v < 1e9 ? significant(v / 1e6) + " MB" : significant(v / 1e9) + " GB",
    number: (v) => v >= 1000 ? count(v) : short(v),
  };
  const plain = (v) => v < 1000 ? short(v) : v < 1e7 ? count(v) : short(v / 1e6) + " M";
  const ticks = {
    rate: plain,
    number: plain,
    us: (v) => v < 1e3 ? short(v) + " µs" : v < 1e6 ? short(v / 1e3) + " ms" : short(v / 1e6) + " s",
    bytes: (v) => v < 1e6 ? short(v / 1e3) + " kB" : v < 1e9 ? short(v / 1e6) + " MB" : short(v / 1e9) + " GB",
  };

  // Axes, as scale.rs divides them.
  const linear = (max, whole) => {
    if (!(max > 0)) max = 1;
    const rough = max / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((d) => d * power)
      .find((s) => s >= rough * 0.999 && (!whole || Number.isInteger(s))) || power * 10;
    return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, n) => n * step);
  };
  const logarithmic = (min, max) => {
    if (!(min > 0)) min = 0.1;
    if (!(max > min)) max = min * 10;
    const low = Math.floor(Math.log10(min * 1.001));
    const high = Math.ceil(Math.log10(max * 0.999));
    const digits = high - low <= 3 ? [1, 2, 5] : [1];
    const list = [];
    for (let power = low; power <= high; power++) {
      for (const digit of digits) if (digit === 1 || power < high) list.push(digit * 10 ** power);
    }
    const first = Math.max(list.findLastIndex((t) => t <= min * 1.001), 0);
    let last = list.findIndex((t) => t >= max * 0.999);
    if (last < 0) last = list.length - 1;
    return list.slice(first, Math.min(Math.max(last, first + 1), list.length - 1) + 1);
  };
  const two = (n) => String(n).padStart(2, "0");
  const clock = (s, longest) => longest < 300 ? s + " s"
    : longest < 3600 ? Math.floor(s / 60) + ":" + two(s % 60)
    : Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + (s % 60 ? ":" + two(s % 60) : "") + " h";
  const timeTicks = (low, high) => {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400];
    const span = Math.max(high - low, 1);
    const step = steps.find((s) => span / s <= 9) || Math.ceil(span / 9 / 3600) * 3600;
    const list = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9; t += step) list.push([t, clock(t, high)]);
    return list;
  };
  const percentile = (nines) => {
    const digits = Math.min(Math.max(Math.floor(nines + 1e-6), 0), 10);
    return +(100 - 100 / 10 ** nines).toFixed(digits < 2 ? 1 : digits - 1) + " %";
  };
  const percentileTicks = (low, high) => {
    const inside = (n) => n >= low - 1e-9 && n <= high + 1e-9;
    const list = [];
    for (let n = 0; n <= high; n++) if (inside(n)) list.push([n, percentile(n)]);
    const between = high - low < 2 ? [0.5, 0.2] : high - low <= 4 ? [0.5] : [];
    for (const part of between) {
      for (let n = 0; n <= high; n++) {
        const at = n - Math.log10(part);
        if (inside(at) && (n === 0 || high - low < 2)) list.push([at, percentile(at)]);
      }
    }
    return list;
  };

  const acrossTicks = {
    time: timeTicks,
    percentile: percentileTicks,
    load: (low, high) => linear(high).filter((v) => v >= low && v <= high).map((v) => [v, plain(v) + "/s"]),
  };

  const escapes = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&#39;" };
  const escaped = (text) => text.replace(/[<>&"']/g, (c) => escapes[c]);
  const element = (name, properties) => Object.assign(document.createElement(name), properties);

  /** The group's horizontal range and cursor: shared, so that charts over the same time move together. */
  class Group {
    constructor() {
      this.charts = [];
      this.range = null;
    }
    zoom(range) {
      this.range = range;
      for (const chart of this.charts) chart.draw();
    }
    point(x) {
      for (const chart of this.charts) chart.point(x);
    }
  }

  class Chart {
    constructor(data) {
      Object.assign(this, data);
      [this.width, this.height, this.left, this.right, this.top, this.bottom] = data.frame;
      this.figure = document.getElementById(data.id);
      this.svg = this.figure.querySelector("svg");
      this.hidden = new Set();
      if (!groups.has(data.group)) groups.set(data.group, new Group());
      this.owner = groups.get(data.group);
      this.owner.charts.push(this);
      this.over = document.createElementNS("http://www.w3.org/2000/svg", "g");
      this.svg.append(this.over);
      this.read = this.figure.appendChild(element("div", { className: "read", hidden: true }));
      this.tools();
      this.legend();
      this.listen();
    }

    lines() {
      return this.views[this.shown].lines.filter((line) => !this.hidden.has(line.name));
    }

    /** Everything there is, from left to right. */
    extent() {
      let high = this.until;
      for (const line of this.views[this.shown].lines) for (const [x] of line.points) high = Math.max(high, x);
      return [0, (this.across === "load" ? high * 1.04 : high) || 1];
    }

    range() {
      return this.owner.range || this.extent();
    }

    /** Lines as they are drawn, from the visible points and one more on either side; areas raised by those below. */
    visible() {
      const [low, high] = this.range();
      const cut = (points) => {
        const first = Math.max(points.findIndex(([x]) => x >= low) - 1, 0);
        const after = points.findIndex(([x]) => x > high);
        return points.slice(first, after < 0 ? points.length : after + 1);
      };
      if (!this.stacked) return this.lines().map((line) => ({ ...line, top: cut(line.points), ground: [] }));
      const all = this.lines().flatMap((line) => line.points.map(([x]) => x));
      const xs = [...new Set(all)].sort((a, b) => a - b);
      let below = xs.map((x) => [x, 0]);
      return this.lines().map((line) => {
        const own = new Map(line.points);
        const top = below.map(([x, sum]) => [x, sum + (own.get(x) || 0)]);
        const ground = below;
        below = top;
        return { ...line, top: cut(top), ground: cut(ground) };
      });
    }

    draw() {
      const [low, high] = this.range();
      const drawn = this.visible();
      // The points beyond either end too: what leads to them is in view.
      const inside = drawn.flatMap((line) => line.top).map(([, y]) => y);
      const log = this.across !== "time" || this.logarithmic;
      if (this.level) inside.push(this.level[0]);
      // Leaders, shards: there is no half of one.
      const whole = this.quantity === "number" && drawn.every((line) => line.points.every(([, y]) => Number.isInteger(y)));
      const list = log ? logarithmic(Math.min(...inside), Math.max(...inside)) : linear(Math.max(0, ...inside), whole);
      const [bottom, top] = [list[0], list[list.length - 1]];
      this.x = (v) => this.left + (v - low) / (high - low) * (this.width - this.left - this.right);
      this.y = (v) => {
        const share = log ? Math.log10(Math.max(v, bottom) / bottom) / Math.log10(top / bottom) : (v - bottom) / (top - bottom);
        return this.height - this.bottom - share * (this.height - this.top - this.bottom);
      };
      this.svg.querySelector(".axes").innerHTML = this.axes(list);
      this.svg.querySelector(".plot").innerHTML = drawn.map((line) => this.line(line)).join("");
      this.svg.querySelector(".marks").innerHTML = this.marks();
      this.over.innerHTML = "";
      this.read.hidden = true;
      this.reset.hidden = !this.owner.range;
    }

    line(line) {
      if (line.mark === "disc") {
        return line.top.map(([x, y]) => `<circle class="bar ${line.class}" cx="${this.x(x)}" cy="${this.y(y)}" r="3.6"/>`).join("");
      }
      if (line.mark === "cross") {
        const cross = ([x, y]) => `M${this.x(x) - 3.4} ${this.y(y) - 3.4}l6.8 6.8m-6.8 0l6.8 -6.8`;
        return `<path class="line ${line.class}" d="${line.top.map(cross).join("")}"/>`;
      }
      const path = (points) => points.map(([x, y], n) => (n ? "L" : "M") + this.x(x).toFixed(1) + " " + this.y(y).toFixed(1)).join("");
      // A line over time ends where nothing was measured, and begins again, as in chart.rs.
      const broken = (points) => {
        if (this.across !== "time" || this.stacked) return path(points);
        const steps = points.slice(1).map(([x], n) => x - points[n][0]).sort((a, b) => a - b);
        const step = steps.length ? steps[Math.floor(steps.length / 2)] : Infinity;
        let from = 0;
        let out = "";
        points.forEach(([x], n) => {
          if (n && x - points[n - 1][0] > step * 4) {
            out += path(points.slice(from, n));
            from = n;
          }
        });
        return out + path(points.slice(from));
      };
      const dashed = line.dashed ? " dashed" : "";
      const edge = `<path class="line ${line.class}${dashed}" d="${broken(line.top)}"/>`;
      if (!this.stacked) return edge;
      const ground = path([...line.ground].reverse()).replace("M", "L");
      return `<path class="area ${line.class}" d="${path(line.top)}${ground}Z"/>` + edge;
    }

    axes(list) {
      const [low, high] = this.range();
      const right = this.width - this.right;
      const bottom = this.height - this.bottom;
      let out = "";
      if (this.warm > low) {
        const end = Math.min(this.x(this.warm), right);
        out += `<rect class="warm" x="${this.left}" y="${this.top}" width="${end - this.left}" height="${bottom - this.top}"/>`
          + `<text class="warm-name" x="${this.left + 4}" y="${this.top + 11}">warm-up</text>`;
      }
      const held = (x) => Math.min(Math.max(this.x(x), this.left), right);
      if (this.stretch) {
        const [from, to] = this.stretch.map(held);
        out += `<rect class="stretch" x="${from}" y="${this.top}" width="${Math.max(to - from, 1.5)}" height="${bottom - this.top}"/>`;
      }
      for (const value of list) {
        const y = this.y(value);
        out += `<path class="grid" d="M${this.left} ${y}H${right}"/>`
          + `<text class="y" x="${this.left - 6}" y="${y + 3.5}">${value === 0 ? "0" : ticks[this.quantity](value)}</text>`;
      }
      for (const [value, label] of acrossTicks[this.across](low, high)) {
        const x = this.x(value);
        if (this.across === "percentile") out += `<path class="grid" d="M${x} ${this.top}V${bottom}"/>`;
        out += `<path class="tick" d="M${x} ${bottom}v4"/><text class="x" x="${x}" y="${bottom + 17}">${label}</text>`;
      }
      out += `<path class="axis" d="M${this.left} ${bottom}H${right}"/>`;
      if (this.level) {
        const y = this.y(this.level[0]);
        out += `<g class="level"><path d="M${this.left} ${y}H${right}"/>`
          + `<text x="${this.left + 4}" y="${y - 4}">${escaped(this.level[1])}</text></g>`;
      }
      return out;
    }

    /** What happened: labels where they fit without touching each other, otherwise numbers, as events.rs places them. */
    marks() {
      const right = this.width - this.right;
      const [character, row] = this.label;
      const events = this.events.map(([t, label], index) => ({ x: this.x(t), label, index }))
        .filter((event) => event.x >= this.left && event.x <= right);
      const rows = (text, squeezed) => {
        const taken = [[], [], []];
        for (const event of events) {
          event.text = text(event);
          const width = ([...event.text].length + 1) * character;
          event.leftwards = event.x + width > right;
          const [from, to] = event.leftwards ? [event.x - width, event.x] : [event.x, event.x + width];
          event.row = taken.findIndex((row) => row.every(([start, end]) => end <= from || start >= to));
          if (event.row < 0 && !squeezed) return false;
          if (event.row < 0) event.row = event.index % 3;
          taken[event.row].push([from, to]);
        }
        return true;
      };
      if (!rows((event) => [...event.label].slice(0, 34).join(""), false)) rows((event) => String(event.index + 1), true);
      return events.map((event) => `<g class="event"><title>${escaped(event.label)}</title>`
        + `<path d="M${event.x} ${this.top - 14}V${this.height - this.bottom}"/>`
        + `<text x="${event.x + (event.leftwards ? -3 : 3)}" y="${this.top - 6 + event.row * row}" `
        + `text-anchor="${event.leftwards ? "end" : "start"}">${escaped(event.text)}</text></g>`).join("");
    }

    /** All x that have a point in view. */
    stops() {
      const [low, high] = this.range();
      const all = this.lines().flatMap((line) => line.points.map(([x]) => x)).filter((x) => x >= low && x <= high);
      return [...new Set(all)].sort((a, b) => a - b);
    }

    /** What the line is at x: one value; of points that nothing joins, all that lie there. */
    valuesAt(line, x) {
      if (line.mark !== "line") return line.points.filter(([at]) => at === x).map(([, y]) => y);
      const exact = this.across === "time";
      const found = line.points.find(([at]) => exact ? at === x : at >= x - 1e-9);
      return found ? [found[1]] : [];
    }

    /** Shows the cursor and the read-out at x; hides them without one. */
    point(x) {
      this.cursor = x;
      if (x === null || x === undefined) {
        this.over.innerHTML = "";
        this.read.hidden = true;
        return;
      }
      const at = this.x(x);
      let marks = `<path d="M${at} ${this.top}V${this.height - this.bottom}"/>`;
      let rows = "";
      let sum = 0;
      const lines = this.lines();
      for (const line of lines) {
        for (const value of this.valuesAt(line, x)) {
          sum += value;
          marks += `<circle class="${line.class}" r="3.5" cx="${at}" cy="${this.y(this.stacked ? sum : value)}"/>`;
          rows += `<tr><td><i class="key ${line.class}"></i>${escaped(line.name)}</td><td>${formats[this.quantity](value)}</td></tr>`;
        }
      }
      if (this.stacked && lines.length > 1) rows += `<tr><td>all</td><td><b>${formats[this.quantity](sum)}</b></td></tr>`;
      const head = this.across === "time" ? "second " + Math.floor(x) : this.across === "load" ? plain(x) + "/s offered" : percentile(x);
      const warm = this.across === "time" && x < this.warm ? " (warm-up)" : "";
      this.over.setAttribute("class", "cursor");
      this.over.innerHTML = marks;
      this.read.innerHTML = `<b>${head}</b>${warm}<table>${rows}</table>`;
      this.read.hidden = rows === "";
      const scale = this.svg.clientWidth / this.width;
      const box = this.svg.getBoundingClientRect();
      const home = this.figure.getBoundingClientRect();
      const leftwards = at > this.width * 0.6;
      this.read.style.top = box.top - home.top + this.top * scale + 4 + "px";
      this.read.style.left = box.left - home.left + at * scale + (leftwards ? -12 - this.read.offsetWidth : 12) + "px";
    }

    /** Buttons: the views, and the way back from a zoom. */
    tools() {
      const tools = this.figure.appendChild(element("div", { className: "tools" }));
      const views = this.views.length < 2 ? [] : this.views.map((view, index) => {
        const button = element("button", { type: "button", textContent: view.name });
        button.onclick = () => charts.filter((chart) => chart.views.length === this.views.length).forEach((chart) => chart.show(index));
        return button;
      });
      const buttons = [...views];
      this.reset = element("button", { type: "button", textContent: "reset zoom", hidden: true, onclick: () => this.owner.zoom(null) });
      // Latency over time begins at zero; where one second dwarfs all others, a logarithmic axis shows them.
      if (this.across === "time" && this.quantity === "us") {
        const toggle = element("button", { type: "button", textContent: "log", title: "logarithmic axis" });
        toggle.setAttribute("aria-pressed", false);
        toggle.onclick = () => {
          this.logarithmic = !this.logarithmic;
          toggle.setAttribute("aria-pressed", this.logarithmic);
          this.draw();
        };
        buttons.unshift(toggle);
      }
      tools.append(this.reset, ...buttons);
      this.pressed = () => views.forEach((button, index) => button.setAttribute("aria-pressed", index === this.shown));
      this.pressed();
    }

    show(index) {
      this.shown = index;
      const name = this.figure.querySelector("figcaption .view");
      if (name) name.textContent = this.views[index].name;
      this.pressed();
      this.draw();
    }

    /** A click on a name in the legend hides its line, another shows it again. */
    legend() {
      const names = this.views[this.shown].lines.map((line) => line.name);
      this.figure.querySelectorAll(".legend span").forEach((label, index) => {
        if (names.length < 2) return;
        const button = element("button", { type: "button", innerHTML: label.innerHTML, title: "hide or show" });
        button.setAttribute("aria-pressed", "true");
        button.onclick = () => {
          const name = names[index];
          if (!this.hidden.delete(name)) this.hidden.add(name);
          button.setAttribute("aria-pressed", !this.hidden.has(name));
          this.draw();
        };
        label.replaceWith(button);
      });
    }

    listen() {
      const svg = this.svg;
      const valueOf = (event) => {
        const box = svg.getBoundingClientRect();
        const [low, high] = this.range();
        const at = (event.clientX - box.left) / box.width * this.width;
        const share = (at - this.left) / (this.width - this.left - this.right);
        return low + Math.min(Math.max(share, 0), 1) * (high - low);
      };
      const nearest = (x) => {
        const stops = this.stops();
        return stops.length ? stops.reduce((best, stop) => Math.abs(stop - x) < Math.abs(best - x) ? stop : best) : null;
      };
      let from = null;
      svg.onpointerdown = (event) => {
        if (event.button !== 0) return;
        from = valueOf(event);
        if (event.pointerType === "mouse") event.preventDefault();
        svg.focus({ preventScroll: true });
        if (event.isTrusted) svg.setPointerCapture(event.pointerId);
      };
      svg.onpointermove = (event) => {
        const x = valueOf(event);
        this.owner.point(nearest(x));
        if (from === null) return;
        const [a, b] = [this.x(Math.min(from, x)), this.x(Math.max(from, x))];
        this.over.innerHTML += `<rect class="band" x="${a}" y="${this.top}" width="${b - a}" height="${this.height - this.top - this.bottom}"/>`;
      };
      svg.onpointerup = (event) => {
        if (from !== null) this.select(from, valueOf(event));
        from = null;
      };
      svg.onpointercancel = () => { from = null; };
      svg.onpointerleave = () => { if (from === null) this.owner.point(null); };
      svg.ondblclick = () => this.owner.zoom(null);
      svg.setAttribute("tabindex", "0");
      svg.onblur = () => this.owner.point(null);
      svg.onkeydown = (event) => {
        const stops = this.stops();
        const index = stops.indexOf(this.cursor);
        const [low, high] = this.range();
        if (event.key === "ArrowRight") this.owner.point(stops[Math.min(index + 1, stops.length - 1)]);
        else if (event.key === "ArrowLeft") this.owner.point(stops[Math.max(index - 1, 0)]);
        else if (event.key === "+" && index >= 0) this.select(Math.max(this.cursor - (high - low) / 4, low), Math.min(this.cursor + (high - low) / 4, high));
        else if (event.key === "Escape" || event.key === "-") this.owner.zoom(null);
        else return;
        event.preventDefault();
      };
    }

    /** Zooms to what lies between two values, unless that is too little to be meant. */
    select(a, b) {
      const [low, high] = [Math.min(a, b), Math.max(a, b)];
      const least = this.across === "time" ? 1.5 : 0.05;
      const drawn = (high - low) / (this.range()[1] - this.range()[0]);
      if (high - low >= least && drawn > 0.015) this.owner.zoom([low, high]);
    }
  }

  for (const data of JSON.parse(document.getElementById("data").textContent)) charts.push(new Chart(data));
  for (const chart of charts) chart.draw();
})();
