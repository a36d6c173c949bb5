// What all drawings have in common: colours, the size of a canvas, hatching.

const font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

// colours are those of the style sheet: of the screen, or of paper while it prints.
const colours = {};
function readColours(element) {
  const style = getComputedStyle(element);
  for (const name of ["card", "text", "soft", "rule", "edge", "hold", "onhold", "waited", "low", "fault", "bad", "focus"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
}

// fit makes the bitmap of a canvas as fine as the screen, and returns its context.
function fit(canvas, width, height) {
  const fine = devicePixelRatio || 1, w = Math.round(width * fine), h = Math.round(height * fine);
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const c = canvas.getContext("2d");
  c.setTransform(fine, 0, 0, fine, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = font;
  c.textBaseline = "middle";
  return c;
}

// hatch fills a box with slanted lines.
function hatch(c, x, y, width, height) {
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  c.strokeStyle = colours.soft;
  c.globalAlpha = 0.35;
  c.lineWidth = 1;
  c.beginPath();
  for (let at = Math.floor((x - height) / 8) * 8; at < x + width; at += 8) {
    c.moveTo(at, y + height);
    c.lineTo(at + height, y);
  }
  c.stroke();
  c.restore();
}
