// The buttons, the overview of the whole run, and the links to violations.

const byID = (id) => document.getElementById(id);
const main = new View();
const timelines = [...document.querySelectorAll(".lanes[data-name]")].map((element) => {
  const name = Number(element.dataset.name);
  return new Timeline(element, name, main, lanes[name], {row: 19, bar: 12});
});

// around returns the range of time in which a violation is seen best: all of its attempts,
// or if they are too far apart, the moment at which it was certain.
function around(v) {
  const holds = v.attempts.map((i) => [attempts.over[i] >= 0 ? attempts.waited[i] : attempts.called[i], last(i)]);
  if (holds.length === 0) return [v.at - (run.to - run.from) / 200, v.at + (run.to - run.from) / 200];
  const shortest = Math.max(1000, Math.min(...holds.map(([from, to]) => to - from)));
  const from = Math.min(v.at, ...holds.map((h) => h[0])), to = Math.max(v.at, ...holds.map((h) => h[1]));
  if (to - from > 60 * shortest) return [v.at - 8 * shortest, v.at + 8 * shortest];
  return [from - (to - from) * 0.5, to + (to - from) * 0.5];
}

// violation is the number of the one that was shown last.
let violation = -1;

// showViolation goes to a violation.
function showViolation(number) {
  const v = run.violations[number];
  violation = number;
  main.show(...around(v));
  const timeline = timelines.find((t) => t.name === v.name);
  byID("name-" + v.name).scrollIntoView({block: "start"});
  timeline.visible = true;
  timeline.element.focus({preventScroll: true});
  timeline.select(v.attempts.at(-1) ?? -1);
}

function nextViolation() {
  const shown = run.violations.map((v, number) => (v.name >= 0 ? number : -1)).filter((number) => number >= 0);
  if (shown.length > 0) showViolation(shown.find((number) => number > violation) ?? shown[0]);
}

// drawFirst shows the gravest violation at the top, with the lanes that are part of it and a
// few that were busy then.
function drawFirst(element) {
  const v = run.violations[0], view = new View();
  view.show(...around(v));
  const part = (lane) => lane.attempts.some((i) => v.attempts.includes(i));
  const busy = (lane) => {
    const i = lane.attempts[lane.from(view.from)];
    return i !== undefined && attempts.called[i] <= view.to;
  };
  const chosen = new Set(lanes[v.name].filter(part));
  for (const lane of lanes[v.name]) if (chosen.size < 6 && busy(lane)) chosen.add(lane);
  return new Timeline(element, v.name, view, lanes[v.name].filter((lane) => chosen.has(lane)), {row: 26, bar: 16});
}

// drawOverview draws the grants of the whole run, its faults and violations, and what is
// shown of it.
function drawOverview() {
  const canvas = byID("overview"), width = canvas.clientWidth, height = canvas.clientHeight;
  if (width === 0) return;
  const c = fit(canvas, width, height), x = (time) => (time - run.from) / (run.to - run.from) * width;
  c.fillStyle = colours.card;
  c.fillRect(0, 0, width, height);
  c.fillStyle = colours.fault;
  c.globalAlpha = 0.16;
  for (const f of run.faults) c.fillRect(x(f.from), 0, Math.max(1, x(f.to) - x(f.from)), height);
  c.globalAlpha = 1;
  const most = Math.max(1, ...run.grants), bin = width / run.grants.length;
  c.fillStyle = colours.hold;
  run.grants.forEach((n, i) => c.fillRect(i * bin, height - n / most * (height - 6), bin, n / most * (height - 6)));
  for (const [from, to] of run.gaps) hatch(c, x(from), 0, x(to) - x(from), height);
  const left = x(main.from), right = Math.max(left + 3, x(main.to));
  c.fillStyle = colours.card;
  c.globalAlpha = 0.6;
  c.fillRect(0, 0, left, height);
  c.fillRect(right, 0, width - right, height);
  c.globalAlpha = 1;
  c.strokeStyle = colours.text;
  c.lineWidth = 1.5;
  c.strokeRect(left, 0.75, right - left, height - 1.5);
  c.fillStyle = colours.bad;
  for (const v of run.violations) {
    c.beginPath();
    c.moveTo(x(v.at) - 5, 0);
    c.lineTo(x(v.at) + 5, 0);
    c.lineTo(x(v.at), 9);
    c.fill();
    c.fillRect(x(v.at) - 0.75, 0, 1.5, height);
  }
}

// listenOverview moves the range to where the overview is pressed.
function listenOverview(canvas) {
  const go = (e) => {
    const at = run.from + e.offsetX / canvas.clientWidth * (run.to - run.from), half = (main.to - main.from) / 2;
    main.show(at - half, at + half);
  };
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    go(e);
  });
  canvas.addEventListener("pointermove", (e) => canvas.hasPointerCapture(e.pointerId) && go(e));
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    main.zoom(Math.exp(e.deltaY / 250));
  }, {passive: false});
}

const drawn = [...timelines];

// redraw draws everything again, in the colours of an element.
function redraw(element) {
  readColours(element);
  for (const t of drawn) t.draw();
  if (byID("overview")) drawOverview();
}

function start() {
  document.documentElement.classList.add("scripted");
  readColours(document.documentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(document.documentElement));
  addEventListener("beforeprint", () => redraw(byID("paper")));
  addEventListener("afterprint", () => redraw(document.documentElement));
  addEventListener("scroll", () => {
    const chosen = drawn.find((t) => t.selected >= 0);
    if (chosen) chosen.point();
    else tip.hide();
  }, {passive: true});
  if (!byID("controls")) return;
  const buttons = {
    zoomin: () => main.zoom(0.5), zoomout: () => main.zoom(2), earlier: () => main.move(-0.25), later: () => main.move(0.25),
    whole: () => main.whole(), nextviolation: nextViolation,
  };
  for (const [id, act] of Object.entries(buttons)) byID(id)?.addEventListener("click", act);
  main.watchers.push(() => {
    const range = main.to - main.from;
    byID("shown").textContent = place(main.from, range) + " to " + place(main.to, range) + ", " + span(range);
    drawOverview();
  });
  new ResizeObserver(drawOverview).observe(byID("overview"));
  listenOverview(byID("overview"));
  document.addEventListener("click", (e) => {
    const link = e.target.closest("a[data-violation]");
    if (!link) return;
    e.preventDefault();
    showViolation(Number(link.dataset.violation));
  });
  if (byID("firstlanes")) drawn.push(drawFirst(byID("firstlanes")));
  const first = run.violations.find((v) => v.name >= 0);
  if (first) main.show(...around(first));
  else main.whole();
}

start();
