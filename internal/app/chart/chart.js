// Draws the charts of a page with uPlot, and keeps a live page up to date.
//
// A chart is <figure class="chart"> with its data as JSON, in the form of
// Chart in chart.go. A page with data-refresh on its body is fetched again
// after so many seconds; elements with data-live and an id take on what has
// changed.
"use strict";
(() => {
	const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

	// number writes v with thin spaces between groups of three digits, to the
	// precision of step where that is given.
	function number(v, step) {
		const a = Math.abs(v);
		if (a !== 0 && (a < 1e-4 || a >= 1e15)) return power(v);
		const digits = step ? decimals(step) : a >= 1000 ? 0 : Math.max(0, 3 - Math.floor(Math.log10(a || 1)));
		const [whole, part] = v.toFixed(digits).split(".");
		const fraction = step || !part ? part : part.replace(/0+$/, "");
		return whole.replace(/\B(?=(\d{3})+$)/g, "\u2009") + (fraction ? "." + fraction : "");
	}

	// decimals is how many of them step has: 1 for 2.5.
	const decimals = step => ((+step.toPrecision(6)).toFixed(12).replace(/0+$/, "").split(".")[1] || "").length;

	// power writes v as a power of ten, with a factor where it is not 1.
	function power(v) {
		const [factor, exponent] = v.toExponential().split("e");
		const raised = [...exponent.replace("+", "")].map(c => c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
		return (factor === "1" ? "" : (+factor).toPrecision(3) + "·") + "10" + raised;
	}

	const clock = (v, step) => new Date(1000 * v).toLocaleTimeString([], {hour12: false, hour: "2-digit", minute: "2-digit", second: step >= 60 ? undefined : "2-digit"});

	function format(axis, v, step) {
		if (v == null) return "–";
		if (axis.time) return clock(v, step);
		if (axis.percent) return number(100 * v, 100 * (step || 1e-4)) + "\u2009%";
		return axis.log && step ? (Math.abs(v) >= 1e7 || v < 1e-3 ? power(v) : number(v)) : number(v, step);
	}

	// read returns a chart without the points that have no ordinate.
	function read(text) {
		const chart = JSON.parse(text);
		for (const s of chart.series) {
			s.x = (s.x || []).filter((_, i) => s.y[i] !== null);
			s.y = (s.y || []).filter(v => v !== null);
		}
		return chart;
	}

	// join puts series, each with abscissae of its own, on common ones.
	function join(chart) {
		const tables = chart.series.map(s => [s.x, s.y]);
		if (chart.marks) tables.push([[], []]); // its entry in the legend
		return uPlot.join(tables);
	}

	// places numbers the series, except that a faint one shares the number of the
	// strong one after it, and that dashed ones have none.
	function places(series) {
		let n = -1;
		return series.map((s, i) => {
			if (s.look === "dashed") return -1;
			if (i === 0 || series[i - 1].look !== "faint") n++;
			return n;
		});
	}
	const colours = 7; // those beyond are told apart by dashes

	// ticks of a logarithmic axis: powers of ten, and what lies between them
	// where there are few.
	function ticks(u, i, min, max) {
		const out = [];
		for (let k = Math.floor(Math.log10(min)); k <= Math.log10(max); k++) {
			for (const m of max / min < 100 ? [1, 2, 5] : [1]) {
				const v = +(m + "e" + k); // 10 ** k may be off
				if (v >= min * (1 - 1e-9) && v <= max * (1 + 1e-9)) out.push(v);
			}
		}
		return out;
	}

	function axis(a, side, room) {
		const line = css("--line"), font = "12px system-ui, sans-serif";
		return {
			stroke: css("--soft"), font, label: a.label || undefined, labelFont: font, labelSize: 22, labelGap: 2, gap: 6, side,
			grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1, size: 5},
			space: (u, i, min, max) => side === 3 ? 36 : 12 + 7 * Math.max(5, ...[min, max].map(v => format(a, v, a.time ? (max - min) / 5 : 0).length)),
			values: (u, splits, i, space, step) => splits.map(v => v === null ? "" : format(a, v, step || 1)),
			size: room, ...a.log && {splits: ticks, filter: (u, splits) => splits},
		};
	}

	function draw(figure) {
		const chart = read(figure.querySelector("script").textContent);
		const box = figure.querySelector(".plot");
		const {x, y} = chart;
		let shown = [0, 0]; // abscissae
		let zoomed = false;

		const xRange = (u, lo, hi) => {
			if (lo == null) return [null, null];
			if (lo === hi) return shown = x.log ? [lo / 2, lo * 2] : [lo - 1, hi + 1];
			if (!zoomed && !x.log && !x.time && lo > 0 && lo < hi / 20) lo = 0;
			return shown = [lo, hi];
		};
		const yRange = (u, lo, hi) => {
			if (lo == null) return [null, null];
			if (y.min < y.max && !zoomed) return [y.min, y.max];
			// The first points of a course swing widely and would flatten the rest.
			const from = zoomed || x.log || x.time ? shown[0] : shown[0] + (shown[1] - shown[0]) / 20;
			let low = Infinity, high = -Infinity;
			chart.series.forEach((s, k) => {
				if (!u.series[k + 1].show || s.look === "dashed") return;
				const least = s.y.length > 20 ? from : shown[0];
				s.y.forEach((v, i) => {
					if (s.x[i] >= least && s.x[i] <= shown[1] || i === s.y.length - 1 && !zoomed) [low, high] = [Math.min(low, v), Math.max(high, v)];
				});
			});
			if (low > high) [low, high] = [lo, hi];
			if (y.log) return uPlot.rangeLog(low, high, 10, false);
			if (y.zero) low = Math.min(0, low);
			const top = y.percent ? Math.max(high, 1) : Infinity;
			if (low === high) [low, high] = [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
			const [a, b] = uPlot.rangeNum(low, high, 0.06, false);
			return [low >= 0 ? Math.max(a, 0) : a, Math.min(b, top)];
		};

		const last = (u, i) => u.data[i].findLast(v => v != null);
		const place = places(chart.series);
		const series = chart.series.map((s, i) => ({
			label: s.name, stroke: css(place[i] < 0 ? "--soft" : "--s" + place[i] % colours), spanGaps: true, points: {show: s.x.length < 2},
			width: s.look ? 1.25 : 2, alpha: s.look === "faint" ? 0.6 : 1,
			dash: s.look === "dashed" ? [6, 5] : place[i] >= colours ? [10, 3, 2, 3] : undefined,
			value: (u, v, k, at) => format(y, at == null ? last(u, k) : v),
		}));
		if (chart.marks) series.push({label: chart.markName, stroke: css("--soft"), width: 1, dash: [2, 3], points: {show: false}, value: () => ""});

		const marks = u => {
			if (!chart.marks || !u.series.at(-1).show) return;
			const {ctx, bbox} = u;
			ctx.save();
			ctx.strokeStyle = css("--soft");
			ctx.lineWidth = devicePixelRatio;
			ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
			ctx.beginPath();
			for (const m of chart.marks) {
				const at = Math.round(u.valToPos(m, "x", true));
				if (at < bbox.left || at > bbox.left + bbox.width) continue;
				ctx.moveTo(at, bbox.top);
				ctx.lineTo(at, bbox.top + bbox.height);
			}
			ctx.stroke();
			ctx.restore();
		};

		const room = (u, values) => 18 + 7 * Math.max(3, ...(values || []).map(v => v.length));
		const size = () => ({width: box.clientWidth, height: Math.round(Math.max(220, Math.min(360, box.clientWidth * 0.42)))});
		const u = new uPlot({
			...size(), padding: [12, 24, 0, 0],
			scales: {x: {time: !!x.time, distr: x.log ? 3 : 1, range: xRange}, y: {distr: y.log ? 3 : 1, range: yRange}},
			axes: [axis(x, 2, x.label ? 34 : 30), axis(y, 3, room)],
			series: [{label: x.label || "time", value: (u, v, k, at) => format(x, at == null ? last(u, 0) : v, x.time ? 1 : 0)}, ...series],
			legend: {markers: {
				stroke: (u, k) => chart.series[k - 1]?.look === "faint" ? `color-mix(in srgb, ${series[k - 1].stroke} 60%, ${css("--page")})` : series[k - 1].stroke,
				dash: (u, k) => series[k - 1].dash ? "dashed" : "solid",
			}},
			cursor: {
				focus: {prox: -1},
				// Of a series without a point here, the point before it.
				dataIdx: (u, k, i) => {
					let j = i;
					while (j > 0 && u.data[k][j] == null) j--;
					return j;
				},
			},
			hooks: {draw: [marks], setSelect: [u => { zoomed = u.select.width > 0; }]},
		}, join(chart), box);
		u.over.addEventListener("dblclick", () => { zoomed = false; }, true);
		const resize = new ResizeObserver(() => u.setSize(size()));
		resize.observe(box);
		figure.drawn = {
			destroy: () => { resize.disconnect(); u.destroy(); },
			update: text => {
				const fresh = read(text);
				if (zoomed || fresh.series.length !== chart.series.length) return;
				Object.assign(chart, fresh);
				u.setData(join(chart));
			},
		};
	}

	const figures = root => root.querySelectorAll("figure.chart");
	figures(document).forEach(draw);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures(document).forEach(f => {
		f.drawn.destroy();
		draw(f);
	}));

	// take gives the page the content of a newer one.
	function take(page) {
		for (const old of document.querySelectorAll("[data-live]")) {
			const now = page.getElementById(old.id);
			const [was, is] = [[...figures(old)], [...figures(now)]];
			if (was.length === 0 || was.length !== is.length) {
				was.forEach(f => f.drawn.destroy());
				old.replaceWith(now);
				figures(now).forEach(draw);
				continue;
			}
			was.forEach((f, i) => {
				const text = is[i].querySelector("script").textContent;
				if (text === f.querySelector("script").textContent) return;
				f.querySelector("script").textContent = text;
				f.querySelector("table.numbers").replaceWith(is[i].querySelector("table.numbers"));
				f.drawn.update(text);
			});
		}
	}

	const seconds = +document.body.dataset.refresh;
	if (!seconds) return;
	const lost = document.getElementById("lost");
	setInterval(async () => {
		if (document.hidden) return;
		try {
			const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(1000 * seconds)});
			if (!answer.ok) throw new Error(answer.statusText);
			take(new DOMParser().parseFromString(await answer.text(), "text/html"));
			lost.hidden = true;
		} catch {
			if (lost.hidden) lost.textContent = "no answer since " + clock(Date.now() / 1000, 1);
			lost.hidden = false;
		}
	}, 1000 * seconds);
})();
