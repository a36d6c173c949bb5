// Returns the texts of the page whose contrast against their background is too low,
// by WCAG 2: 4.5, and 3 for large text. Colours that are partly transparent are drawn
// over what is below them, up to the canvas.
(() => {
	const parse = text => {
		const canvas = parse.canvas ??= Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = text;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return [r, g, b, a / 255];
	};
	const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
	const luminance = c => {
		const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const background = element => {
		const layers = [];
		for (let e = element; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] > 0) layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reverse().reduce((below, c) => over(c, below), parse("canvas").slice(0, 3));
	};
	const opacity = element => {
		let product = 1;
		for (let e = element; e; e = e.parentElement) product *= Number(getComputedStyle(e).opacity);
		return product;
	};
	const low = [];
	let texts = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode());) {
		const e = node.parentElement;
		const style = getComputedStyle(e);
		const box = e.getBoundingClientRect();
		if (!node.data.trim() || !e.checkVisibility({visibilityProperty: true}) || box.width <= 1 || box.height <= 1) continue;
		texts++;
		const back = background(e);
		const front = parse(e instanceof SVGElement ? style.fill : style.color);
		front[3] *= opacity(e);
		const [light, dark] = [luminance(over(front, back)), luminance(back)].sort((a, b) => b - a);
		const ratio = (light + 0.05) / (dark + 0.05);
		const size = parseFloat(style.fontSize);
		const large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
		if (ratio < (large ? 3 : 4.5)) low.push(`${ratio.toFixed(2)} ${e.tagName}.${e.getAttribute("class") ?? ""} ${JSON.stringify(node.data.trim().slice(0, 40))}`);
	}
	return {Texts: texts, Low: low};
})()
