// Draws the lanes of one name on a canvas. What is narrower than two pixels is added up for
// each pixel, and drawn as the share of the time in which the lane held and waited.

const axis = 22; // pixels above the lanes

// A Drawing is one picture of lanes.
class Drawing {
  // shape has the height of a row and of the bar in it; rows are lanes.
  constructor(c, width, height, view, shape, rows, scroll) {
    Object.assign(this, {c, width, height, view, shape, rows, scroll});
    this.gutter = Drawing.gutter(width);
    this.plot = Math.max(1, width - this.gutter);
    this.perPixel = (view.to - view.from) / this.plot;
  }

  static gutter(width) { return width < 600 ? 44 : 112; }

  x(time) { return this.gutter + (time - this.view.from) / this.perPixel; }

  top(row) { return axis + row * this.shape.row - this.scroll; }

  // box returns the part of a range of time that is visible: x and width, or null.
  box(from, to, least) {
    if (to < this.view.from || from > this.view.to) return null;
    const x = Math.max(this.gutter - 4, this.x(from));
    return [x, Math.max(least, Math.min(this.width + 4, this.x(to)) - x)];
  }

  all(name, selected) {
    this.name = name;
    this.flags = this.placeFlags();
    this.background();
    const {c} = this;
    c.save();
    c.beginPath();
    c.rect(this.gutter, axis, this.plot, this.height);
    c.clip();
    this.bands();
    const first = Math.max(0, Math.floor(this.scroll / this.shape.row));
    for (let row = first; row < this.rows.length && this.top(row) < this.height; row++) this.lane(this.rows[row], this.top(row));
    this.kinds();
    this.outlines(selected);
    c.restore();
    this.violations();
  }

  // background draws the axis, the labels and what is left out.
  background() {
    const {c} = this;
    for (const [from, to] of run.gaps) {
      const box = this.box(from, to, 1);
      if (box) hatch(c, box[0], axis, box[1], this.height - axis);
    }
    c.lineWidth = 1;
    c.strokeStyle = colours.rule;
    c.beginPath();
    for (let row = 0; row <= this.rows.length; row++) {
      const y = Math.round(this.top(row)) + 0.5;
      if (y < axis || y > this.height) continue;
      const border = row > 0 && this.rows[row]?.slot !== this.rows[row - 1].slot;
      c.moveTo(border ? 0 : this.gutter, y);
      c.lineTo(this.width, y);
    }
    c.stroke();
    this.ticks();
    c.fillStyle = colours.text;
    c.textAlign = "right";
    this.rows.forEach((lane, row) => {
      const y = this.top(row) + this.shape.row / 2;
      if (y > axis + 4 && y < this.height) c.fillText(this.label(lane), this.gutter - 6, y);
    });
  }

  // label names the clients of a lane that are in the range, and its goroutine.
  label(lane) {
    const clients = clientsIn(lane.slot, this.view.from, this.view.to), wide = this.gutter > 60;
    const who = clients.length > 1 ? clients[0] + "…" + clients.at(-1) : clients[0] ?? "–";
    return wide ? (clients.length > 1 ? "clients " : "client ") + who + " · " + lane.lane : who + "·" + lane.lane;
  }

  ticks() {
    const {c} = this, least = 100 * this.perPixel / 1e9; // seconds between two
    let step = 10 ** Math.floor(Math.log10(least));
    while (step < least) step *= step * 2 < least ? 5 : 2;
    const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
    c.strokeStyle = colours.rule;
    c.fillStyle = colours.soft;
    c.textAlign = "center";
    for (let n = Math.ceil(this.view.from / 1e9 / step); n * step * 1e9 <= this.view.to; n++) {
      const x = this.x(n * step * 1e9), text = clock(n * step * 1e9, digits), half = c.measureText(text).width / 2;
      c.beginPath();
      c.moveTo(x, axis - 4);
      c.lineTo(x, this.height);
      c.stroke();
      const free = this.flags.every(([left, right]) => x + half < left || x - half > right);
      if (free && x - half > this.gutter && x + half < this.width) c.fillText(text, x, axis / 2);
    }
  }

  // bands draws faults behind the lanes.
  bands() {
    const {c} = this;
    c.fillStyle = colours.fault;
    c.globalAlpha = 0.16;
    for (const f of run.faults) {
      const box = this.box(f.from, f.to, 1);
      if (box) this.rows.forEach((lane, row) => lane.feels(f) && c.fillRect(box[0], this.top(row), box[1], this.shape.row));
    }
    c.globalAlpha = 1;
  }

  // kinds writes on the first row of a fault what it is, if there is room.
  kinds() {
    const {c} = this;
    c.textAlign = "left";
    for (const f of run.faults) {
      const box = this.box(f.from, f.to, 1), row = this.rows.findIndex((lane, row) => lane.feels(f) && this.top(row) >= axis);
      if (!box || row < 0 || this.top(row) > this.height) continue;
      const x = Math.max(box[0], this.gutter) + 4, y = this.top(row) + this.shape.row / 2;
      if (c.measureText(f.kind).width + 8 > box[0] + box[1] - x) continue;
      c.lineWidth = 3;
      c.strokeStyle = colours.card;
      c.strokeText(f.kind, x, y);
      c.fillStyle = colours.fault;
      c.fillText(f.kind, x, y);
    }
  }

  lane(lane, y) {
    const held = new Float32Array(this.plot + 2), waited = new Float32Array(this.plot + 2);
    const small = 2 * this.perPixel, marks = [];
    let crowded = false;
    for (let at = lane.from(this.view.from); at < lane.attempts.length; at++) {
      const i = lane.attempts[at];
      if (attempts.called[i] > this.view.to) break;
      if (last(i) - attempts.called[i] < small) {
        crowded = true;
        this.cover(waited, attempts.called[i], attempts.waited[i]);
        if (attempts.over[i] >= 0) this.cover(held, attempts.waited[i], attempts.over[i]);
      } else {
        this.attempt(i, y);
      }
      const lost = attempts.end[i] === ends.lost && attempts.over[i] >= 0;
      if (lost || attempts.result[i] !== results.held && last(i) - attempts.called[i] > 3 * this.perPixel) marks.push(i);
    }
    if (crowded) this.shares(held, waited, y);
    this.marks(marks, y);
  }

  // cover adds a range of time to the pixels that it is in.
  cover(pixels, from, to) {
    const a = (from - this.view.from) / this.perPixel, b = (to - this.view.from) / this.perPixel;
    for (let p = Math.max(0, Math.floor(a)); p <= Math.min(pixels.length - 1, Math.floor(b)); p++) {
      pixels[p] += Math.min(b, p + 1) - Math.max(a, p);
    }
  }

  // shares draws for each pixel the share of time held, and above it that waited. Equal
  // neighbours are one box.
  shares(held, waited, y) {
    const {c} = this, {row, bar} = this.shape, bottom = y + (row + bar) / 2;
    const part = (share, left) => (share > 0 ? Math.min(left, Math.max(3, Math.round(share * bar))) : 0);
    let begun = 0, h = 0, w = 0;
    for (let p = 0; p <= held.length; p++) {
      const nextH = p < held.length ? part(held[p], bar) : 0, nextW = p < held.length ? part(waited[p], bar - nextH) : 0;
      if (nextH === h && nextW === w && p < held.length) continue;
      if (h > 0) {
        c.fillStyle = colours.hold;
        c.fillRect(this.gutter + begun, bottom - h, p - begun, h);
      }
      if (w > 0) {
        c.fillStyle = colours.waited;
        c.fillRect(this.gutter + begun, bottom - h - w, p - begun, w);
      }
      [begun, h, w] = [p, nextH, nextW];
    }
  }

  // attempt draws one that is wide enough.
  attempt(i, y) {
    const {c} = this, {row, bar} = this.shape, middle = y + row / 2;
    const wait = this.box(attempts.called[i], attempts.waited[i], 1);
    if (wait) {
      c.fillStyle = colours.waited;
      c.fillRect(wait[0], middle - 2, wait[1], 4);
      if (wait[1] > 30 && attempts.queued[i] >= 0) c.fillRect(this.x(attempts.queued[i]), middle - bar / 2, 1, bar);
    }
    if (attempts.over[i] < 0) return;
    const height = attempts.need[i] >= attempts.limit[i] ? bar : bar / 2;
    const certain = Math.max(attempts.waited[i], Math.min(attempts.alive[i], attempts.over[i]));
    const pale = this.box(certain, attempts.over[i], 0), solid = this.box(attempts.waited[i], certain, 1);
    c.fillStyle = colours.hold;
    if (pale) {
      c.globalAlpha = 0.35;
      c.fillRect(pale[0], middle - height / 2, pale[1], height);
      c.globalAlpha = 1;
    }
    if (!solid) return;
    c.fillRect(solid[0], middle - height / 2, solid[1], height);
    const x = Math.max(solid[0], this.gutter), room = Math.min(solid[0] + solid[1], this.width) - x;
    if (height < 10 || room < 60 || c.measureText(attempts.token[i]).width + 8 > room) return;
    c.fillStyle = colours.onhold;
    c.textAlign = "left";
    c.fillText(attempts.token[i], x + 4, middle + 0.5);
  }

  // marks draws how attempts ended that were not simply released, where there is room;
  // losses everywhere.
  marks(list, y) {
    const {c} = this, middle = y + this.shape.row / 2;
    let busyUntil = -Infinity;
    for (const i of list) {
      const lost = attempts.over[i] >= 0, x = this.x(lost ? attempts.over[i] : attempts.waited[i]);
      if (x < this.gutter - 4 || x > this.width + 4 || !lost && x < busyUntil) continue;
      busyUntil = x + 9;
      c.lineWidth = lost ? 2.5 : 1.5;
      c.strokeStyle = lost ? colours.low : colours.text;
      c.beginPath();
      if (lost) {
        c.moveTo(x - 4, middle - 4);
        c.lineTo(x + 4, middle + 4);
        c.moveTo(x + 4, middle - 4);
        c.lineTo(x - 4, middle + 4);
      } else if (attempts.result[i] === results.busy) {
        c.arc(x, middle, 3, 0, 7);
      } else {
        c.moveTo(x, middle - 5);
        c.lineTo(x, middle + 5);
      }
      c.stroke();
    }
  }

  // outlines marks the attempts of violations, and the one that was chosen.
  outlines(selected) {
    const {c} = this, {row, bar} = this.shape;
    const outline = (i, colour, more) => {
      const at = this.rows.findIndex((lane) => lane.has(i));
      const box = this.box(attempts.over[i] >= 0 ? attempts.waited[i] : attempts.called[i], last(i), 4);
      if (at < 0 || !box) return;
      c.strokeStyle = colour;
      c.lineWidth = 2;
      c.strokeRect(box[0] - more, this.top(at) + (row - bar) / 2 - more, box[1] + 2 * more, bar + 2 * more);
    };
    for (const i of inViolation.keys()) if (attempts.name[i] === this.name) outline(i, colours.bad, 1);
    if (selected >= 0) outline(selected, colours.focus, 2.5);
  }

  // placeFlags returns where the labels of violations are: left, right, x, text. Where two
  // would overlap there is the first.
  placeFlags() {
    const flags = [];
    run.violations.forEach((v, number) => {
      const x = this.x(v.at);
      if (v.name !== this.name || x < this.gutter || x > this.width) return;
      const text = "violation " + (number + 1), width = this.c.measureText(text).width;
      const left = x + 14 + width > this.width ? x - 14 - width : x - 6;
      if (left > (flags.at(-1)?.[1] ?? -1)) flags.push([left, left + width + 20, x, text]);
    });
    return flags;
  }

  // violations draws a line for each moment at which a rule was broken, and the labels.
  violations() {
    const {c} = this;
    c.strokeStyle = c.fillStyle = colours.bad;
    c.lineWidth = 1.5;
    for (const v of run.violations) {
      const x = this.x(v.at);
      if (v.name !== this.name || x < this.gutter || x > this.width) continue;
      c.setLineDash([5, 3]);
      c.beginPath();
      c.moveTo(x, axis);
      c.lineTo(x, this.height);
      c.stroke();
      c.setLineDash([]);
      c.beginPath();
      c.moveTo(x - 6, axis - 9);
      c.lineTo(x + 6, axis - 9);
      c.lineTo(x, axis);
      c.fill();
    }
    for (const [left, , x, text] of this.flags) {
      c.textAlign = left < x - 6 ? "right" : "left";
      c.fillText(text, left < x - 6 ? x - 9 : x + 9, axis / 2);
    }
  }
}
