// Small charts of measured points: nothing is interpolated but the line between two of them.
"use strict";

const Charts = (() => {
  const { make, draw } = Dom;
  const [WIDTH, HEIGHT] = [360, 200];
  const BOX = { left: 52, right: 12, top: 10, bottom: 26 };
  const DOTS = 60; // points up to which each is drawn

  // 1, 2, 2.5 or 5 times a power of ten: about `count` of them between the ends.
  function stepOf(low, high, count = 5) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  }

  // Ticks with the decimals that their step needs.
  function ticks(low, high) {
    const step = stepOf(low, high);
    const decimals = [0, 1, 2, 3, 4, 5].find((count) => Math.abs(step - Number(step.toFixed(count))) < step * 1e-6) ?? 6;
    const found = [];
    for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + step * 1e-9; tick++) found.push(tick * step);
    const large = Math.max(Math.abs(low), Math.abs(high)) >= 1e5 || decimals > 4;
    return found.map((value) => [value, large ? value.toExponential(1) : value.toFixed(decimals).replace(/^-(?=0(\.0*)?$)/, "").replace("-", "−")]);
  }

  // What an axis shows: an all-zero one begins at 0, a single value has room around it.
  function range(values) {
    const [low, high] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
    if (low === 0 && high === 0) return [0, 1];
    if (low === high) return [low - Math.abs(low) * 0.1, high + Math.abs(high) * 0.1];
    return [low, high];
  }

  // Out to the next ticks.
  function rounded([low, high]) {
    const step = stepOf(low, high);
    return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  }

  // series: [{name, points: [[x, y], ...]}], one for each run, in the order of their colours.
  function line(title, series) {
    const all = series.flatMap(({ points }) => points);
    const [x0, x1] = range(all.map(([x]) => x));
    const [y0, y1] = rounded(range(all.map(([, y]) => y)));
    const x = (value) => BOX.left + ((value - x0) / (x1 - x0)) * (WIDTH - BOX.left - BOX.right);
    const y = (value) => HEIGHT - BOX.bottom - ((value - y0) / (y1 - y0)) * (HEIGHT - BOX.top - BOX.bottom);
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}, ${series.map(({ name, points }) => `${name}: ${points.length} points, last ${points.at(-1)[1]}`).join("; ")}` });
    for (const [value, words] of ticks(y0, y1)) {
      svg.append(draw("line", { class: "grid", x1: BOX.left, x2: WIDTH - BOX.right, y1: y(value), y2: y(value) }), draw("text", { class: "tick", x: BOX.left - 6, y: y(value) + 4, "text-anchor": "end", text: words }));
    }
    for (const [value, words] of ticks(x0, x1)) svg.append(draw("text", { class: "tick", x: x(value), y: HEIGHT - 8, "text-anchor": "middle", text: words }));
    series.forEach(({ points, run }, place) => {
      const kind = `c${((run ?? place) % 6) + 1}`;
      svg.append(draw("polyline", { class: `curve ${kind}${place ? " dashed" : ""}`, points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }));
      if (points.length <= DOTS) svg.append(...points.map(([a, b]) => draw("circle", { class: `dot ${kind}`, cx: x(a).toFixed(1), cy: y(b).toFixed(1), r: 2 }, draw("title", { text: `${a}: ${b}` }))));
    });
    return make("figure", { class: "chart" }, make("figcaption", {}, make("strong", { text: title }), same(series)), svg);
  }

  // Runs whose curves lie on each other, which could not be seen.
  function same(series) {
    const texts = series.map(({ points }) => JSON.stringify(points));
    const words = series.flatMap(({ name }, i) => {
      const first = texts.indexOf(texts[i]);
      return first < i ? [`${name} is the same as ${series[first].name}`] : [];
    });
    return words.length ? make("span", { class: "muted", text: ` ${words.join(", ")}` }) : null;
  }

  return { line, ticks, range };
})();
