// What the page knows of the run: the attempts, by name and lane, and how they are told.

const results = {none: 0, held: 1, busy: 2, failed: 3};
const ends = {open: 0, released: 1, lost: 2, unknown: 3};
const everything = 1 << 30; // the limit of a lock for readers and writers

const run = JSON.parse(document.getElementById("data").textContent);
const attempts = run.attempts;
for (const key of Object.keys(attempts)) attempts[key] ??= []; // a run without attempts has null

// Times are counted from the call in the data; here all are moments. -1 is none.
for (const key of ["queued", "cancelled", "waited", "alive", "told", "over"]) {
  attempts[key] = Float64Array.from(attempts[key], (t, i) => (t < 0 ? -1 : t + attempts.called[i]));
}

// last returns when the last thing that is drawn of an attempt ends.
function last(i) { return Math.max(attempts.waited[i], attempts.over[i]); }

// inViolation has for an attempt the numbers of the violations that it is part of.
const inViolation = new Map();
run.violations.forEach((v, number) => {
  for (const i of v.attempts) inViolation.set(i, [...(inViolation.get(i) ?? []), number]);
});

// living has from when to when a client did something.
const living = new Map();
for (let i = 0; i < attempts.called.length; i++) {
  const life = living.get(attempts.client[i]) ?? [attempts.called[i], 0];
  living.set(attempts.client[i], [life[0], Math.max(life[1], last(i))]);
}

// slots are the clients that share rows: one that was killed, and the one that came after
// it. slotOf has the number of a client's slot.
const slots = [], slotOf = new Map();
for (const client of [...living.keys()].sort((a, b) => living.get(a)[0] - living.get(b)[0] || a - b)) {
  let slot = slots.findIndex((clients) => living.get(clients.at(-1))[1] < living.get(client)[0]);
  if (slot < 0) slot = slots.push([]) - 1;
  slots[slot].push(client);
}
slots.sort((a, b) => a[0] - b[0]);
slots.forEach((clients, slot) => clients.forEach((client) => slotOf.set(client, slot)));

// clientsIn returns the clients of a slot that did something in a range of time.
function clientsIn(slot, from, to) {
  return slots[slot].filter((client) => living.get(client)[0] <= to && living.get(client)[1] >= from);
}

// A Lane has the attempts of one goroutine on one name, in the order of their calls.
// reached[k] is the latest end of its first k+1 attempts, so that a search by time is
// right even where attempts overlap.
class Lane {
  constructor(slot, lane) {
    Object.assign(this, {slot, lane, attempts: [], reached: []});
  }

  // has reports whether an attempt on the lane's name is in it.
  has(i) { return slotOf.get(attempts.client[i]) === this.slot && attempts.lane[i] === this.lane; }

  // feels reports whether a fault concerns a client of the lane.
  feels(fault) { return fault.client < 0 || slotOf.get(fault.client) === this.slot; }

  add(i) {
    this.reached.push(Math.max(last(i), this.reached.at(-1) ?? -1));
    this.attempts.push(i);
  }

  // from returns the position of the first attempt that ends at time or later.
  from(time) {
    let low = 0, high = this.attempts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.reached[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // nearest returns the attempt closest to time, -1 if none is closer than most.
  nearest(time, most) {
    let best = -1, distance = most;
    for (let at = this.from(time - most); at < this.attempts.length; at++) {
      const i = this.attempts[at];
      if (attempts.called[i] > time + most) break;
      const d = Math.max(attempts.called[i] - time, time - last(i), 0);
      if (d < distance || d === distance && attempts.over[i] >= time) [best, distance] = [i, d];
    }
    return best;
  }
}

// lanes has the lanes of each name, by slot and goroutine.
const lanes = run.names.map(() => []);
for (let i = 0; i < attempts.called.length; i++) {
  const all = lanes[attempts.name[i]];
  let lane = all.find((l) => l.has(i));
  if (!lane) all.push(lane = new Lane(slotOf.get(attempts.client[i]), attempts.lane[i]));
  lane.add(i);
}
for (const all of lanes) all.sort((a, b) => a.slot - b.slot || a.lane - b.lane);

// clock returns a moment as the texts of violations have it, with so many digits.
function clock(time, digits) {
  const size = 10 ** digits, units = Math.round(time / 1e9 * size), minutes = Math.floor(units / size / 60);
  const seconds = ((units - minutes * 60 * size) / size).toFixed(digits) + "s";
  if (minutes === 0) return seconds;
  return (minutes >= 60 ? Math.floor(minutes / 60) + "h" : "") + minutes % 60 + "m" + seconds;
}

// place returns a moment as exactly as matters in a range of so many nanoseconds.
function place(time, range) {
  return clock(time, Math.min(9, Math.max(1, Math.ceil(2 - Math.log10(range / 1e9)))));
}

// span returns a length of time.
function span(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size) return Number((ns / size).toPrecision(3)) + unit;
  }
  return Math.round(ns) + "ns";
}

// units returns how much of the name an attempt takes.
function units(i) {
  const need = attempts.need[i], limit = attempts.limit[i];
  if (need >= limit) return limit === everything ? "as writer" : "exclusively";
  return limit === everything ? "as reader" : need + " of " + limit + " units";
}

// outcome returns how an attempt ended.
function outcome(i) {
  const since = (t) => place(t, 1e5);
  switch (attempts.result[i]) {
    case results.none: return "no answer: the process was killed, or is stuck";
    case results.busy: return "refused at " + since(attempts.waited[i]);
    case results.failed: return (attempts.cancelled[i] >= 0 ? "cancelled at " + since(attempts.cancelled[i]) : "failed") + ", returned at " + since(attempts.waited[i]);
  }
  const held = "held " + units(i) + " for " + span(attempts.over[i] - attempts.waited[i]) + " from " + since(attempts.waited[i]);
  switch (attempts.end[i]) {
    case ends.released: return held + ", released";
    case ends.lost: return held + ", lost" + (attempts.told[i] >= 0 ? ", told at " + since(attempts.told[i]) : "");
    case ends.unknown: return held + ", the answer to Unlock is unknown";
  }
  return held + " at least, without an end";
}

// describe returns an attempt in lines: the first says which, the others what happened.
function describe(i) {
  const lines = [attempts.token[i] ? "token " + attempts.token[i] : attempts.try[i] ? "a try without a grant" : "an acquire without a grant"];
  lines.push("client " + attempts.client[i] + ", goroutine " + attempts.lane[i] + ", " + run.names[attempts.name[i]]);
  lines.push((attempts.try[i] ? "tried" : "waited") + " for " + span(attempts.waited[i] - attempts.called[i]) + " from " + place(attempts.called[i], 1e5) +
    (attempts.queued[i] >= 0 ? ", in line at " + place(attempts.queued[i], 1e5) : ""));
  lines.push(outcome(i));
  if (attempts.writes[i] > 0) lines.push("writes: " + attempts.writes[i] + (attempts.refused[i] > 0 ? ", of them refused: " + attempts.refused[i] : ""));
  if (attempts.err[i] > 0) lines.push("error: " + run.errors[attempts.err[i]]);
  const broke = inViolation.get(i);
  if (broke) lines.push("part of violation " + broke.map((n) => n + 1).join(", "));
  return lines;
}

function describeFault(f) {
  return [f.kind, (f.client < 0 ? "all clients" : "client " + f.client) + ", for " + span(f.to - f.from) + " from " + place(f.from, 1e7)];
}
