"use strict";
(() => {
  const data = JSON.parse(document.getElementById("numbers").textContent);
  const formulas = document.getElementById("formulas").content.children;
  const prior = data.prior;
  const byId = (id) => document.getElementById(id);
  const SHOWN = 15, MODELS = 12, COLUMNS = 40;

  // --- numbers ---------------------------------------------------------------------------------------------------

  function logSum(values) {
    const top = Math.max(...values);
    return top === -Infinity ? top : top + Math.log(values.reduce((sum, v) => sum + Math.exp(v - top), 0));
  }

  // Everything that the page shows at one position of the slider; delta is added to the log prior for each unit.
  function weigh(delta) {
    const tilted = prior.log_mass.map((value, k) => value + delta * prior.units[k]);
    const total = logSum(tilted);
    const weights = tilted.map((value) => Math.exp(value - total));
    const mix = (rows) => rows[0].map((_, j) => rows.reduce((sum, row, k) => sum + weights[k] * row[j], 0));
    const found = {
      inclusion: mix(prior.inclusion),
      sizes: mix(prior.sizes),
      effective: Math.exp(2 * total - logSum(prior.log_squared.map((v, k) => v + 2 * delta * prior.units[k]))),
      models: data.models
        .map((model, row) => ({ row, members: model.members, p: Math.exp(model.log_share + delta * model.units - total) }))
        .sort((a, b) => b.p - a.p),
    };
    found.listed = Math.min(1, found.models.reduce((sum, model) => sum + model.p, 0));
    found.mean = found.sizes.reduce((sum, p, size) => sum + p * size, 0);
    if (data.exact) {
      found.covered = prior.all ? Math.min(1, Math.exp(total - logSum(prior.all.map(([u, v]) => v + delta * u)))) : 1;
    } else if (prior.visits) {
      const tilt = (counts, times) => logSum(counts.map((c, k) => Math.log(c) + times * delta * prior.units[k]));
      if (prior.alone) found.unvisited = Math.exp(tilt(prior.alone, 1) - tilt(prior.visits, 1));
      found.reuse = Math.exp(2 * tilt(prior.visits, 1) - tilt(prior.visits, 2) - tilt(prior.visits, 0));
    }
    return found;
  }

  const percent = (share) =>
    share > 0.9995 && share < 1 ? "more than 99.9 %" : share > 0 && share < 0.001 ? "less than 0.1 %"
      : `${(100 * share).toFixed(1).replace(/\.0$/, "")} %`;
  const short = (value, digits = 3) => String(Number(value.toPrecision(digits)));
  const many = (value) => Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  const factor = (log2) => (log2 >= 0 ? `× ${short(2 ** log2)}` : `× 1/${short(2 ** -log2)}`);

  // --- marks that answer the mouse and the keyboard ------------------------------------------------------------------

  const tip = byId("tip");
  let current = null;
  function show(mark) {
    current = mark;
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - 4);
    tip.style.left = `${left}px`;
    tip.style.top = `${at.top - own.height - 6 > 0 ? at.top - own.height - 6 : at.bottom + 6}px`;
  }
  const hide = () => { tip.hidden = true; };
  const marked = (event) => (event.target.closest ? event.target.closest("[data-tip]") : null);
  document.addEventListener("mouseover", (event) => (marked(event) ? show(marked(event)) : hide()));
  document.addEventListener("focusin", (event) => (marked(event) ? show(marked(event)) : hide()));
  document.addEventListener("focusout", hide);
  // Focus may scroll the page: the words stay with their mark.
  document.addEventListener("scroll", () => (tip.hidden ? undefined : show(current)), { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hide();
    const mark = marked(event), group = mark && mark.closest("[data-roving]");
    if (!group) return undefined;
    const marks = [...group.querySelectorAll("[data-tip]")], at = marks.indexOf(mark);
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: marks.length - 1 }[event.key];
    if (next === undefined || !marks[next]) return undefined;
    event.preventDefault();
    mark.setAttribute("tabindex", "-1");
    marks[next].setAttribute("tabindex", "0");
    return marks[next].focus();
  });
  // One stop of the Tab key for each group of marks; arrow keys move inside.
  function rove(group) {
    group.querySelectorAll("[data-tip]").forEach((mark, k) => mark.setAttribute("tabindex", k ? "-1" : "0"));
  }

  // --- drawing -------------------------------------------------------------------------------------------------------

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function shape(parent, name, attributes, words) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (words !== undefined) {
      made.setAttribute("data-tip", words);
      made.setAttribute("role", "img");
      made.setAttribute("aria-label", words);
    }
    parent.append(made);
    return made;
  }
  const write = (parent, x, y, words, anchor = "middle") => {
    shape(parent, "text", { x, y, "text-anchor": anchor }).textContent = words;
  };
  const plots = [];
  function plot(id, height, draw) {
    const figure = byId(id);
    if (!figure) return () => {};
    const room = figure.querySelector(".plot"), caption = figure.querySelector("figcaption").textContent;
    const redraw = () => {
      const focused = [...room.querySelectorAll("[data-tip]")].indexOf(document.activeElement);
      const width = Math.max(room.clientWidth, 240), tall = typeof height === "function" ? height(width) : height;
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
      svg.setAttribute("role", "group");
      svg.setAttribute("aria-label", caption);
      svg.setAttribute("data-roving", "");
      draw(svg, width, tall);
      room.replaceChildren(svg);
      rove(svg);
      if (focused >= 0) svg.querySelectorAll("[data-tip]")[focused]?.focus();
    };
    plots.push(redraw);
    redraw();
    return redraw;
  }
  const ticks = (low, high, most) => {
    const raw = (high - low) / most || 1, base = 10 ** Math.floor(Math.log10(raw));
    const step = base * [1, 2, 5, 10].find((s) => s * base >= raw * 0.999);
    const found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(Number(v.toPrecision(10)));
    return found;
  };
  const powers = (low, high) => {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), found = [];
    for (let k = first; k <= last; k += Math.max(1, Math.ceil((last - first) / 5))) found.push(10 ** k);
    return found;
  };
  const label = (v) => (Math.abs(v) >= 1e4 && Math.abs(v) < 1e9 ? many(v) : short(v, 4));
  // Axes with their names; returns the two scales.
  function frame(svg, width, height, [x0, x1], [y0, y1], xName, yName, log = false) {
    const left = 52, right = width - 22, top = 18, bottom = height - 40, by = log ? Math.log : (v) => v;
    const x = (v) => left + ((by(v) - by(x0)) / (by(x1) - by(x0) || 1)) * (right - left);
    const y = (v) => bottom - ((by(v) - by(y0)) / (by(y1) - by(y0) || 1)) * (bottom - top);
    shape(svg, "path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` });
    for (const v of log ? powers(x0, x1) : ticks(x0, x1, width < 420 ? 4 : 8)) write(svg, x(v), bottom + 16, label(v));
    for (const v of log ? powers(y0, y1) : ticks(y0, y1, 5)) write(svg, left - 6, y(v) + 4, label(v), "end");
    write(svg, (left + right) / 2, height - 6, xName);
    write(svg, 2, 10, yName, "start");
    return [x, y];
  }
  const words = (term) => data.terms[term].name;
  const sentence = (model) => model.members.map(words).join(" + ") || `(no ${data.noun})`;
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  function typeset(term) {
    const made = element("span");
    made.append(...[...formulas[term].childNodes].map((node) => node.cloneNode(true)));
    return made;
  }

  // --- the prior -----------------------------------------------------------------------------------------------------

  const slider = byId("delta");
  let now = weigh(0);

  const live = byId("live-terms"), bars = [], values = [];
  live.className = "live";
  live.setAttribute("data-roving", "");
  // Terms that count at some position of the slider.
  const counts = data.terms.map((term) => term.probability);
  for (let at = prior.least; at <= prior.most; at += 1) {
    weigh(at * Math.LN2).inclusion.forEach((p, j) => { counts[j] = Math.max(counts[j], p); });
  }
  const shown = counts.map((p, j) => [p, j]).filter(([p, j]) => p >= 0.01 || j < 3).map(([, j]) => j).slice(0, SHOWN);
  shown.forEach((j) => {
    const term = data.terms[j];
    const bar = element("div", { class: "bar", role: "img" }, element("i"), element("s"));
    bar.lastChild.style.left = `${100 * term.probability}%`;
    const value = element("span", { class: "value", "data-term": j });
    live.append(element("div", {}, element("div", { class: "scroll" }, typeset(j)), bar, value));
    bars.push(bar);
    values.push(value);
  });

  const drawSizes = plot("sizes", 190, (svg, width, height) => {
    const likely = now.sizes.map((p, size) => [p, size]).filter(([p]) => p >= 0.0005).map(([, size]) => size);
    const low = Math.min(...likely), high = Math.max(...likely), count = high - low + 1;
    const [, y] = frame(svg, width, height, [low, low], [0, 1], `number of ${data.noun}s`, "probability");
    const room = (width - 74) / count, each = Math.min(room, 90), every = Math.ceil(26 / room);
    svg.querySelectorAll("text").forEach((text) => text.getAttribute("y") == height - 24 && text.remove());
    for (let size = low; size <= high; size += 1) {
      const p = now.sizes[size] || 0, at = 52 + room * (size - low + 0.5);
      shape(svg, "rect", { class: "fill", x: at - each * 0.4, y: y(p), width: each * 0.8, height: Math.max(0.5, y(0) - y(p)) },
        `${size} ${data.noun}${size === 1 ? "" : "s"}: ${p.toFixed(4)}`);
      if ((size - low) % every === 0) write(svg, at, height - 24, size);
    }
  });

  const rows = shown.length, rowOf = new Map(shown.map((j, row) => [j, row]));
  const drawSpace = plot("space", () => rows * 20 + 30, (svg, width) => {
    const left = Math.min(190, width * 0.36), letters = Math.floor(left / 7);
    for (let j = 0; j < rows; j += 1) write(svg, left - 8, j * 20 + 15, cut(`${shown[j] + 1} ${words(shown[j])}`, letters), "end");
    let from = 0;
    const leading = now.models.slice(0, COLUMNS), total = leading.reduce((sum, model) => sum + model.p, 0);
    leading.forEach((model, rank) => {
      const wide = (model.p / total) * (width - left);
      if (wide < 0.4) return;
      const group = shape(svg, "g", {}, `model ${rank + 1}: ${model.p.toFixed(4)}\n${sentence(model)}`);
      shape(group, "rect", { class: "pale", x: left + from, y: 0, width: Math.max(wide - 1, 0.4), height: rows * 20, opacity: 0.25 });
      for (const j of model.members) {
        const row = rowOf.get(j);
        if (row !== undefined) shape(group, "rect", { class: "fill", x: left + from, y: row * 20 + 1, width: Math.max(wide - 1, 0.4), height: 18 });
      }
      from += wide;
    });
    write(svg, 2, rows * 20 + 18, `${leading.length} models with ${percent(Math.min(1, total))} of the probability of those held`, "start");
  });

  function meaning(log2) {
    const delta = log2 * Math.LN2;
    if (prior.kind === "complexity") return `a = ${short(prior.value * 2 ** log2)}${log2 ? ` (fitted: ${short(prior.value)})` : ""}`;
    if (prior.kind === "inclusion") {
      const q = 1 / (1 + ((1 - prior.value) / prior.value) * Math.exp(-delta));
      return `q = ${short(q)}${log2 ? ` (fitted: ${short(prior.value)})` : ""}`;
    }
    if (prior.kind === "leaves") return `weight of a leaf ${factor(log2)}`;
    let text = `odds ${factor(log2)}`;
    if (prior.prior_sizes) {
      const tilted = prior.prior_sizes.map((v, s) => v + delta * s), all = logSum(tilted);
      text += `: the prior expects ${short(tilted.reduce((sum, v, s) => sum + s * Math.exp(v - all), 0))} terms`;
    }
    return text;
  }

  function doubt() {
    if (now.covered !== undefined && now.covered < 0.95) {
      return `The models held are only ${percent(now.covered)} of all at this prior, so these probabilities are rough. Fit again with it.`;
    }
    if (now.unvisited > 0.05) {
      return `At this prior, models that no chain visited are estimated to hold ${percent(now.unvisited)} of the posterior. Fit again with it before you rely on these numbers.`;
    }
    if (now.reuse < 0.1) {
      return `At this prior only ${percent(now.reuse)} of the sampling steps count, so better models may be missing. Fit again with it before you rely on these numbers.`;
    }
    return "";
  }

  function known() {
    if (data.exact) return now.covered === 1 ? "all models are held: exact" : `the models held are ${percent(now.covered)} of all`;
    if (now.unvisited < 0.001) return "unvisited models: less than 0.1 %";
    if (now.unvisited !== undefined) return `unvisited models: about ${percent(now.unvisited)}`;
    return "nobody knows what was not met";
  }

  function update() {
    const log2 = Number(slider.value), text = `${meaning(log2)}${log2 ? "" : " (as fitted)"}`;
    now = weigh(log2 * Math.LN2);
    byId("delta-value").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    bars.forEach((bar, k) => {
      const j = shown[k], p = now.inclusion[j], said = `${words(j)}: ${p.toFixed(4)}, in the fit ${data.terms[j].probability.toFixed(4)}`;
      bar.firstChild.style.width = `${100 * p}%`;
      bar.dataset.tip = said;
      bar.setAttribute("aria-label", said);
      values[k].textContent = p.toFixed(4);
    });
    byId("effective").textContent = now.effective < 100 ? now.effective.toFixed(2) : many(now.effective);
    byId("mean-size").textContent = now.mean.toFixed(3);
    byId("covered").textContent = known();
    const warning = byId("warning"), why = doubt();
    warning.hidden = !why;
    if (warning.textContent !== why) warning.textContent = why;
    const leading = now.models.slice(0, MODELS).filter((model, rank) => rank < 3 || model.p >= 0.0005);
    byId("listed").textContent = `${many(leading.length)} of ${many(data.held)} models held; ` +
      `the page knows ${many(data.models.length)} by name, with ${percent(now.listed)} of their probability.`;
    byId("live-models").replaceChildren(...leading.map((model) => {
      const parts = model.members.flatMap((j, k) => (k ? [" + ", typeset(j)] : [typeset(j)]));
      return element("li", {}, element("span", { class: "value" }, model.p.toFixed(4)),
        element("span", { class: "scroll" }, ...(parts.length ? parts : [`no ${data.noun}`])));
    }));
    drawSizes();
    drawSpace();
  }
  slider.addEventListener("input", update);
  byId("reset").addEventListener("click", () => { slider.value = 0; update(); });

  // --- chains --------------------------------------------------------------------------------------------------------

  if (data.chains) {
    plot("agreement", (width) => Math.min(width * 0.8, 380), (svg, width, height) => {
      const [x, y] = frame(svg, width, height, [0, 1], [0, 1], "renormalised", "frequency");
      shape(svg, "path", { class: "diagonal", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` });
      data.terms.forEach((term) => {
        const e = 2 * (term.mcse || 0), at = x(term.renormalised);
        shape(svg, "path", { class: "tick", d: `M${at} ${y(Math.max(0, term.probability - e))}V${y(Math.min(1, term.probability + e))}` });
        shape(svg, "circle", { class: "fill", cx: at, cy: y(term.probability), r: 4.5 },
          `${term.name}\nfrequency ${term.probability.toFixed(4)}, renormalised ${term.renormalised.toFixed(4)}`);
      });
    });
    const choice = byId("traced");
    const drawRunning = plot("running", 260, (svg, width, height) => {
      const trace = data.chains.terms[Number(choice.value)], steps = data.chains.steps;
      const all = trace.lines.flat(), wide = Math.max(0.005, (Math.max(...all) - Math.min(...all)) * 0.05);
      const low = Math.max(0, Math.min(...all) - wide), high = Math.min(1, Math.max(...all) + wide);
      const [x, y] = frame(svg, width, height, [0, steps[steps.length - 1]], [low, high], "steps of a chain", "probability so far");
      trace.lines.forEach((line, c) => {
        shape(svg, "polyline", { class: "line", points: line.map((v, k) => `${x(steps[k]).toFixed(1)},${y(v).toFixed(1)}`).join(" ") },
          `chain ${c + 1} ends at ${line[line.length - 1].toFixed(4)}`);
      });
    });
    if (choice) choice.addEventListener("change", drawRunning);
  }

  // --- predictions -----------------------------------------------------------------------------------------------------

  const check = data.check;
  plot("scatter", (width) => Math.min(width * 0.8, 440), (svg, width, height) => {
    const means = check.points.flatMap(([mean, , , seen]) => [mean, seen]);
    const least = Math.min(...means), most = Math.max(...means), log = least > 0 && most > 100 * least;
    const gap = log ? (most / least) ** 0.05 : (most - least || 1) * 0.05;
    const ends = log ? [least / gap, most * gap] : [least - gap, most + gap], [low, high] = ends;
    const more = log ? " (logarithmic)" : "";
    const [x, y] = frame(svg, width, height, ends, ends, `predicted${more}`, `observed${more}`, log);
    shape(svg, "path", { class: "diagonal", d: `M${x(low)} ${y(low)}L${x(high)} ${y(high)}` });
    check.points.forEach(([mean, from, to, seen]) => shape(svg, "circle",
      { class: seen < from || seen > to ? "ring" : "fill", cx: x(mean), cy: y(seen), r: seen < from || seen > to ? 4 : 3.2 },
      `predicted ${short(mean, 4)} (${short(from, 4)} to ${short(to, 4)})\nobserved ${short(seen, 4)}`));
  });
  plot("coverage", (width) => Math.min(width * 0.7, 300), (svg, width, height) => {
    const [x, y] = frame(svg, width, height, [0, 1], [0, 1], "level of the interval", "share of rows inside");
    shape(svg, "path", { class: "diagonal", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` });
    check.coverage.forEach(([level, share]) => {
      const e = 2 * Math.sqrt((level * (1 - level)) / check.rows);
      shape(svg, "path", { class: "tick", d: `M${x(level)} ${y(Math.max(0, share - e))}V${y(Math.min(1, share + e))}` });
      shape(svg, "circle", { class: "fill", cx: x(level), cy: y(share), r: 4.5 }, `${percent(level)} intervals hold ${percent(share)} of the rows`);
    });
  });
  plot("reliability", (width) => Math.min(width * 0.8, 380), (svg, width, height) => {
    const [x, y] = frame(svg, width, height, [0, 1], [0, 1], "predicted probability", "share observed");
    shape(svg, "path", { class: "diagonal", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` });
    check.bins.forEach(([predicted, seen, count]) => {
      const e = 2 * Math.sqrt((predicted * (1 - predicted)) / count);
      shape(svg, "path", { class: "tick", d: `M${x(predicted)} ${y(Math.max(0, seen - e))}V${y(Math.min(1, seen + e))}` });
      shape(svg, "circle", { class: "fill", cx: x(predicted), cy: y(seen), r: 3 + Math.min(6, Math.sqrt(count) / 4) },
        `predicted ${predicted.toFixed(3)}, observed ${seen.toFixed(3)} in ${many(count)} rows`);
    });
  });

  update();
  document.querySelectorAll("[data-roving]").forEach(rove);
  let wait = 0;
  addEventListener("resize", () => { cancelAnimationFrame(wait); wait = requestAnimationFrame(() => plots.forEach((redraw) => redraw())); });
  document.documentElement.dataset.ready = "yes";
})();
