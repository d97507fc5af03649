// Draws the charts of a page with uPlot, changes between light and dark, and
// keeps a live page up to date.
//
// A chart is <figure class="chart"> with its data as JSON, in the form of
// Chart in chart.go. A page with data-refresh on its body is fetched again
// after so many seconds; elements with data-live and an id take on what has
// changed. A form
// with data-admin posts to what its buttons say, with its token in a header.
"use strict";
(() => {
	// css returns a colour of the stylesheet, as it is under the present theme.
	const probe = document.body.appendChild(document.createElement("span"));
	probe.hidden = true;
	const css = name => {
		probe.style.color = `var(${name})`;
		return getComputedStyle(probe).color;
	};

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

	function format(axis, v, step) {
		if (v == null) return "–";
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
		(chart.marks || []).forEach(() => tables.push([[], []])); // their entries in the legend
		return uPlot.join(tables);
	}

	// places numbers the series, except that a faint one shares the number of the
	// strong one after it, and that references have none.
	function places(series) {
		let n = -1;
		return series.map((s, i) => {
			if (s.look === "dashed" || s.look === "dotted") return -1;
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
			space: (u, i, min, max) => side === 3 ? 36 : 12 + 7 * Math.max(5, ...[min, max].map(v => format(a, v, 0).length)),
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
			if (!zoomed && !x.log && lo > 0 && lo < hi / 20) lo = 0;
			return shown = [lo, hi];
		};
		const yRange = (u, lo, hi) => {
			if (lo == null) return [null, null];
			// The first points of a course swing widely and would flatten the rest.
			const from = zoomed || x.log ? shown[0] : shown[0] + (shown[1] - shown[0]) / 20;
			let low = Infinity, high = -Infinity;
			chart.series.forEach((s, k) => {
				if (!u.series[k + 1].show || s.look === "dashed" && !y.percent) return;
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
			dash: s.look === "dashed" ? [6, 5] : s.look === "dotted" ? [2, 3] : place[i] >= colours ? [10, 3, 2, 3] : undefined,
			value: (u, v, k, at) => format(y, at == null ? last(u, k) : v),
		}));
		const colour = k => css(chart.marks[k].tick ? "--soft" : "--m" + k % 3);
		(chart.marks || []).forEach((m, k) => series.push({label: m.name, class: m.tick ? "tick" : null, stroke: colour(k), width: 1, dash: [2, 3], points: {show: false}, value: () => ""}));

		const marks = u => (chart.marks || []).forEach((m, k) => {
			if (!u.series[1 + chart.series.length + k].show) return;
			const {ctx, bbox} = u, px = devicePixelRatio, foot = bbox.top + bbox.height;
			ctx.save();
			ctx.strokeStyle = ctx.fillStyle = colour(k);
			ctx.lineWidth = px;
			const dense = m.at.length > 24; // lines would hide the chart: strokes at its top
			ctx.setLineDash(dense ? [] : [2 * px, 3 * px]);
			ctx.beginPath();
			for (const v of m.at) {
				const at = Math.round(u.valToPos(v, "x", true));
				if (at < bbox.left || at > bbox.left + bbox.width) continue;
				if (m.tick) {
					ctx.moveTo(at, foot - 7 * px);
					ctx.lineTo(at - 3 * px, foot);
					ctx.lineTo(at + 3 * px, foot);
				} else if (dense) {
					ctx.moveTo(at, bbox.top + 9 * k * px);
					ctx.lineTo(at, bbox.top + (9 * k + 7) * px);
				} else {
					ctx.moveTo(at, bbox.top);
					ctx.lineTo(at, foot);
				}
			}
			if (m.tick) ctx.fill(); else ctx.stroke();
			ctx.restore();
		});

		const room = (u, values) => 18 + 7 * Math.max(3, ...(values || []).map(v => v.length));
		const size = () => ({width: box.clientWidth, height: Math.round(Math.max(220, Math.min(360, box.clientWidth * 0.42)))});
		const u = new uPlot({
			...size(), padding: [12, 24, 0, 0],
			scales: {x: {time: false, distr: x.log ? 3 : 1, range: xRange}, y: {distr: y.log ? 3 : 1, range: yRange}},
			axes: [axis(x, 2, 34), axis(y, 3, room)],
			series: [{label: x.label, value: (u, v, k, at) => format(x, at == null ? last(u, 0) : v, 0)}, ...series],
			legend: {markers: {
				stroke: (u, k) => chart.series[k - 1]?.look === "faint" ? `color-mix(in srgb, ${series[k - 1].stroke} 60%, ${css("--page")})` : series[k - 1].stroke,
				dash: (u, k) => !series[k - 1].dash ? "solid" : series[k - 1].dash[0] < 3 ? "dotted" : "dashed",
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
		const keys = keyboard(figure, box, u);
		figure.drawn = {
			destroy: () => { resize.disconnect(); keys.abort(); u.destroy(); },
			// update reports whether it could.
			update: text => {
				const fresh = read(text);
				if (zoomed) return true;
				if (shape(fresh) !== shape(chart)) return false;
				delete chart.marks;
				Object.assign(chart, fresh);
				u.setData(join(chart));
				const names = [chart.x.label, ...[...chart.series, ...chart.marks || []].map(s => s.name)];
				u.root.querySelectorAll(".u-legend .u-label").forEach((l, i) => { l.textContent = u.series[i].label = names[i]; });
				return true;
			},
		};
	}

	// shape is what cannot change in a chart that is drawn.
	const shape = chart => JSON.stringify([chart.title, chart.x, chart.y, chart.series.map(s => s.look), (chart.marks || []).map(m => m.tick)]);

	// keyboard lets the arrow keys move along a chart, and the legend's entries be
	// switched with Enter and space.
	function keyboard(figure, box, u) {
		const stop = new AbortController(), signal = stop.signal;
		const title = figure.querySelector("h3").textContent;
		let told = box.querySelector("[aria-live]");
		if (!told) {
			told = box.appendChild(document.createElement("p"));
			told.className = "unseen";
			told.setAttribute("aria-live", "polite");
		}
		box.tabIndex = 0;
		box.setAttribute("role", "group");
		box.setAttribute("aria-label", `Chart: ${title}. Arrow keys move along it; its numbers are in the table below.`);
		box.addEventListener("keydown", e => {
			const step = {ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity}[e.key];
			if (e.target !== box || !step || u.data[0].length === 0) return;
			e.preventDefault();
			const end = u.data[0].length - 1;
			const i = Math.max(0, Math.min(end, (u.cursor.idx ?? (step > 0 ? -1 : end + 1)) + step));
			u.setCursor({left: u.valToPos(u.data[0][i], "x"), top: u.over.clientHeight / 2});
			told.textContent = [...u.root.querySelectorAll(".u-legend .u-series")].map(r => r.textContent.trim()).join(", ");
		}, {signal});
		box.addEventListener("blur", () => u.setCursor({left: -10, top: -10}), {signal});
		u.root.querySelectorAll(".u-legend tr:not(:first-child) th").forEach(th => {
			th.tabIndex = 0;
			th.setAttribute("role", "button");
			const pressed = () => th.setAttribute("aria-pressed", !th.parentElement.classList.contains("u-off"));
			pressed();
			th.addEventListener("click", () => setTimeout(pressed), {signal});
			th.addEventListener("keydown", e => {
				if (e.key !== "Enter" && e.key !== " ") return;
				e.preventDefault();
				th.click();
			}, {signal});
		});
		return stop;
	}

	const figures = () => document.querySelectorAll("figure.chart");
	const redraw = figure => {
		figure.drawn?.destroy();
		draw(figure);
	};

	// The theme is that of the system, until the button says otherwise.
	const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)"), button = document.getElementById("theme");
	const store = {
		get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
		set: v => { try { localStorage.setItem("theme", v); } catch { /* the choice lasts as long as the page */ } },
	};
	const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
	const repaint = () => {
		if (button) button.textContent = isDark() ? "Light" : "Dark";
		figures().forEach(redraw);
	};
	if (["light", "dark"].includes(store.get())) root.dataset.theme = store.get();
	if (button) {
		button.hidden = false;
		button.title = "change between light and dark";
		button.addEventListener("click", () => {
			store.set(root.dataset.theme = isDark() ? "light" : "dark");
			repaint();
		});
	}
	dark.addEventListener("change", repaint);
	repaint();

	// morph makes a like b. What is the same is left alone, so that the focus, what
	// is open or scrolled, and what is drawn stay.
	function morph(a, b) {
		if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) return a.replaceWith(b);
		if (a.nodeType !== Node.ELEMENT_NODE) {
			if (a.data !== b.data) a.data = b.data;
			return;
		}
		if (a.className === "plot") return;
		const data = a.matches("figure.chart") && b.querySelector("script").textContent;
		const fresh = data && data !== a.querySelector("script").textContent;
		for (const {name} of [...a.attributes]) if (!b.hasAttribute(name) && !(name === "open" && a.matches("details"))) a.removeAttribute(name);
		for (const {name, value} of b.attributes) if (a.getAttribute(name) !== value) a.setAttribute(name, value);
		const was = [...a.childNodes], is = [...b.childNodes];
		is.forEach((n, i) => i < was.length ? morph(was[i], n) : a.append(n));
		was.slice(is.length).forEach(n => n.remove());
		if (fresh && a.drawn && !a.drawn.update(data)) redraw(a);
	}

	const seconds = +document.body.dataset.refresh;
	if (!seconds) return;
	const lost = document.getElementById("lost");
	let asked = 0;
	async function refresh() {
		const turn = ++asked;
		try {
			const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(1000 * seconds)});
			if (!answer.ok) throw new Error(answer.statusText);
			const page = new DOMParser().parseFromString(await answer.text(), "text/html");
			if (turn !== asked) return; // there is a later one
			for (const old of document.querySelectorAll("[data-live]")) morph(old, page.getElementById(old.id));
			figures().forEach(f => f.drawn || draw(f));
			lost.hidden = true;
		} catch {
			if (turn !== asked) return;
			if (lost.hidden) lost.textContent = "no answer since " + new Date().toLocaleTimeString([], {hour12: false});
			lost.hidden = false;
		}
	}
	setInterval(() => document.hidden || refresh(), 1000 * seconds);
	const admin = document.querySelector("form[data-admin]");
	if (!admin) return;
	admin.hidden = false;
	admin.addEventListener("submit", async e => {
		e.preventDefault();
		const result = admin.querySelector("output"), what = Object.fromEntries(new FormData(admin));
		result.className = result.textContent = "";
		try {
			const answer = await fetch("admin/" + e.submitter.value, {
				method: "POST", headers: {"Content-Type": "application/json", Authorization: "Bearer " + what.token},
				body: JSON.stringify({alias: what.alias, version: +what.version, reason: what.reason}),
			});
			result.className = answer.ok ? "good" : "bad";
			result.textContent = await answer.text();
		} catch {
			result.className = "bad";
			result.textContent = "no answer";
		}
		refresh();
	});
})();
