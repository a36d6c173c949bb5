// A View is the range of time that is shown. Timelines that share one move together.
class View {
  constructor() {
    this.watchers = [];
    this.from = run.from;
    this.to = run.to;
  }

  // show changes the range; it stays inside the run, and is a microsecond at least.
  show(from, to) {
    const width = Math.min(Math.max(to - from, 1000), run.to - run.from);
    this.from = Math.min(Math.max((from + to - width) / 2, run.from), run.to - width);
    this.to = this.from + width;
    for (const changed of this.watchers) changed();
  }

  // zoom makes the range so many times as wide; the moment at stays where it is.
  zoom(factor, at = (this.from + this.to) / 2) {
    const wanted = Math.min(Math.max((this.to - this.from) * factor, 1000), run.to - run.from);
    factor = wanted / (this.to - this.from);
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  // move moves by a share of the range.
  move(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  whole() { this.show(run.from, run.to); }

  // center makes a range of time visible, with what is around it.
  center(from, to) {
    const width = Math.max(to - from, (this.to - this.from) / 50);
    this.show(from - 2 * width, to + 2 * width);
  }
}

// tip is the box beside the pointer or beside the attempt that was chosen with keys.
const tip = {
  element: document.getElementById("tip"),

  show([head, ...lines], x, y) {
    const bold = document.createElement("b");
    bold.textContent = head;
    this.element.replaceChildren(bold, lines.join("\n"));
    this.element.hidden = false;
    const box = this.element.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4));
    const below = y + 18 + box.height < innerHeight;
    this.element.style.transform = `translate(${left}px, ${Math.max(4, below ? y + 18 : y - box.height - 12)}px)`;
  },

  hide() { this.element.hidden = true; },
};

// A Timeline shows lanes in an element that scrolls.
class Timeline {
  constructor(element, name, view, rows, shape) {
    Object.assign(this, {element, name, view, rows, shape, selected: -1, visible: false, asked: false});
    this.canvas = element.querySelector("canvas");
    this.changed = () => this.ask();
    view.watchers.push(this.changed);
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(element); // also unseen: it may be printed
    new IntersectionObserver(([entry]) => {
      this.visible = entry.isIntersecting;
      this.ask();
    }, {rootMargin: "200px"}).observe(element);
    element.addEventListener("scroll", this.changed);
    element.addEventListener("keydown", (e) => this.key(e));
    element.addEventListener("focus", () => this.focused());
    element.addEventListener("blur", () => this.select(-1));
    this.listen();
  }

  // ask draws before the next picture of the browser, once.
  ask() {
    if (this.asked || !this.visible) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  draw() {
    const content = axis + this.rows.length * this.shape.row + 1;
    this.canvas.parentElement.style.height = content + "px";
    const width = this.element.clientWidth, height = Math.min(content, this.element.clientHeight);
    if (width === 0 || height === 0) return;
    this.canvas.style.height = height + "px";
    this.drawing = new Drawing(fit(this.canvas, width, height), width, height, this.view, this.shape, this.rows, this.element.scrollTop);
    this.drawing.all(this.name, this.selected);
  }

  // row returns the row that an attempt is in.
  row(i) { return this.rows.findIndex((lane) => lane.has(i)); }

  time(x) { return this.view.from + (x - this.drawing.gutter) * this.drawing.perPixel; }

  // hit returns what is at a point of the canvas: an attempt, a fault, or nothing.
  hit(x, y) {
    const d = this.drawing, lane = this.rows[Math.floor((y - axis + d.scroll) / d.shape.row)];
    if (!lane || y < axis || x < d.gutter) return {};
    const time = this.time(x), attempt = lane.nearest(time, 4 * d.perPixel);
    if (attempt >= 0) return {attempt, lines: describe(attempt)};
    const fault = run.faults.find((f) => lane.feels(f) && f.from <= time && time <= f.to);
    return fault ? {lines: describeFault(fault)} : {};
  }

  // listen follows the pointer: it shows what is under it, and moves the range.
  listen() {
    const {canvas} = this;
    let held = null;
    canvas.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      held = {x: e.clientX, y: e.clientY, from: this.view.from, to: this.view.to, scroll: this.element.scrollTop, moved: false};
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!held) return this.hover(e);
      held.moved ||= Math.abs(e.clientX - held.x) + Math.abs(e.clientY - held.y) > 4;
      if (!held.moved) return;
      tip.hide();
      canvas.classList.add("moving");
      const by = (held.x - e.clientX) * this.drawing.perPixel;
      this.view.show(held.from + by, held.to + by);
      if (e.pointerType === "mouse") this.element.scrollTop = held.scroll + held.y - e.clientY;
    });
    const release = (e) => {
      canvas.classList.remove("moving");
      if (e.type === "pointerup" && held && !held.moved) this.select(this.hit(e.offsetX, e.offsetY).attempt ?? -1);
      held = null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => held || tip.hide());
    canvas.addEventListener("wheel", (e) => {
      const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
      if (!sideways && !e.ctrlKey && !e.metaKey && document.activeElement !== this.element) return;
      e.preventDefault();
      tip.hide();
      if (sideways) this.view.move((e.deltaX || e.deltaY) / 1000);
      else this.view.zoom(Math.exp(Math.max(-200, Math.min(200, e.deltaY)) / 250), this.time(Math.max(e.offsetX, this.drawing.gutter)));
    }, {passive: false});
  }

  hover(e) {
    const {lines} = this.hit(e.offsetX, e.offsetY);
    if (lines) tip.show(lines, e.clientX, e.clientY);
    else tip.hide();
  }

  // focused chooses an attempt when the keyboard comes here: one of a violation if there
  // is one in the range, else one in the middle.
  focused() {
    if (this.selected >= 0 || !this.element.matches(":focus-visible")) return;
    this.draw();
    const seen = (i) => attempts.called[i] <= this.view.to && last(i) >= this.view.from;
    const broken = [...inViolation.keys()].filter((i) => attempts.name[i] === this.name && seen(i));
    const middle = (this.view.from + this.view.to) / 2;
    const near = this.rows.map((lane) => lane.nearest(middle, this.view.to - this.view.from)).filter((i) => i >= 0);
    this.select(broken[0] ?? near.find((i) => attempts.token[i]) ?? near[0] ?? -1);
  }

  // select shows what happened in an attempt, and makes it visible; -1 is none.
  select(i) {
    this.selected = i;
    this.ask();
    const said = document.getElementById("said");
    if (i < 0) {
      said.textContent = "";
      tip.hide();
      return;
    }
    if (last(i) < this.view.from || attempts.called[i] > this.view.to) {
      const half = (this.view.to - this.view.from) / 2, at = (attempts.called[i] + last(i)) / 2;
      this.view.show(at - half, at + half);
    }
    this.draw();
    const row = this.row(i);
    const top = row * this.shape.row, room = this.element.clientHeight - axis - this.shape.row;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + room) this.element.scrollTop = top - room;
    this.draw();
    this.point();
    said.textContent = describe(i).join(". ");
  }

  // point puts the tip beside the attempt that was chosen, if it is visible.
  point() {
    const i = this.selected, row = this.row(i);
    if (row < 0 || last(i) < this.view.from || attempts.called[i] > this.view.to) return tip.hide();
    const box = this.canvas.getBoundingClientRect(), to = Math.min(last(i), this.view.to);
    tip.show(describe(i), box.left + this.drawing.x(to), box.top + this.drawing.top(row) + this.shape.row / 2);
  }

  // step chooses the attempt so many places further in the lane.
  step(by) {
    if (this.selected < 0) return this.focused();
    const lane = this.rows[this.row(this.selected)];
    this.select(lane.attempts[lane.attempts.indexOf(this.selected) + by] ?? this.selected);
  }

  // change chooses the attempt that is nearest in time in the row below or above.
  change(by) {
    if (this.selected < 0) return this.focused();
    const time = (attempts.called[this.selected] + last(this.selected)) / 2;
    const lane = this.rows[this.row(this.selected) + by];
    if (lane) this.select(lane.nearest(time, Infinity));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const at = this.selected >= 0 ? Math.min(Math.max(attempts.waited[this.selected], this.view.from), this.view.to) : undefined;
    const keys = {
      "+": () => this.view.zoom(0.5, at), "=": () => this.view.zoom(0.5, at), "-": () => this.view.zoom(2, at),
      "ArrowLeft": () => this.view.move(-0.2), "ArrowRight": () => this.view.move(0.2),
      "Home": () => this.view.show(run.from, run.from + this.view.to - this.view.from),
      "End": () => this.view.show(run.to - this.view.to + this.view.from, run.to),
      "0": () => this.view.whole(),
      "n": () => this.step(1), "p": () => this.step(-1),
      "ArrowDown": () => this.change(1), "ArrowUp": () => this.change(-1),
      "Enter": () => this.selected >= 0 && this.view.center(attempts.called[this.selected], last(this.selected)),
      "Escape": () => this.select(-1),
      "v": () => nextViolation(),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
    if (this.selected < 0) return;
    this.draw();
    this.point();
  }
}
