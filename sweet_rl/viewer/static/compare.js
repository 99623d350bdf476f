// A draft laid against the target: side by side, behind a slider, as a difference, or blended. Pictures are
// scaled to one width, and the shorter one is filled with white, as the metrics see them.
"use strict";

const Compare = (() => {
  const { make } = Dom;
  const MODES = [
    ["pair", "Side by side", "s"],
    ["slider", "Slider", "w"],
    ["difference", "Difference", "x"],
    ["blend", "Blend", "b"],
  ];
  const RANGES = {
    slider: { label: "Slider", min: 0, max: 100, step: 0.5 },
    difference: { label: "Strength", min: 1, max: 8, step: 0.5 },
    blend: { label: "Draft", min: 0, max: 100, step: 1 },
  };
  const ZOOMS = [0.5, 0.75, 1, 1.5, 2, 3, 4, 6];
  // What one has chosen stays from row to row.
  const chosen = { mode: "pair", zoom: 1, slider: 50, difference: 2, blend: 50 };
  let current = null; // the stage on the screen, for keys

  // frames: [{name, title, picture, note, reward, isAnswer}], the last one is the target.
  // picture(id): an image's address, or null. The stage is asked by `show(place)`.
  function stage(frames, picture, start) {
    const target = frames.at(-1);
    let place = start;
    const strip = make("div", { class: "film", role: "group", "aria-label": "Drafts" });
    const panel = make("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": "The pictures compared" });
    const range = make("input", { type: "range", class: "range", oninput: () => set(chosen.mode, Number(range.value)) });
    const rangeName = make("span", {});
    const rangeBox = make("label", { class: "range-box" }, rangeName, range);
    const modes = MODES.map(([name, text, key]) =>
      make("button", { type: "button", text, title: `${text} (${key})`, data: { mode: name }, onclick: () => setMode(name) }),
    );
    const zoomText = make("span", { class: "zoom-text", "aria-live": "polite" });
    const zoomOut = make("button", { class: "ghost", type: "button", text: "−", "aria-label": "Smaller", title: "Smaller (−)", onclick: () => zoom(-1) });
    const zoomIn = make("button", { class: "ghost", type: "button", text: "+", "aria-label": "Larger", title: "Larger (+)", onclick: () => zoom(1) });
    const bar = make(
      "div",
      { class: "stage-bar" },
      make("div", { class: "modes", role: "group", "aria-label": "How to compare" }, modes),
      rangeBox,
      make("div", { class: "zoom" }, zoomOut, zoomText, zoomIn),
    );
    const buttons = frames.map((frame, i) => thumbnail(frame, frame === target, picture, () => show(i)));
    strip.append(...buttons.slice(0, -1));
    const element = make("div", { class: "stage" }, make("div", { class: "frames" }, strip, buttons.at(-1)), bar, panel);

    function show(next) {
      place = Math.min(Math.max(next, 0), frames.length - 1);
      draw();
      reveal("auto");
    }

    // The chosen draft's frame into the middle of the strip.
    function reveal(behavior) {
      const button = buttons[place];
      if (strip.contains(button)) strip.scrollTo({ left: button.offsetLeft - strip.clientWidth / 2 + button.offsetWidth / 2, behavior });
    }

    function setMode(mode) {
      chosen.mode = mode;
      draw();
    }

    function set(name, value) {
      chosen[name] = value;
      panel.style.setProperty(`--${name}`, String(value));
      if (chosen.mode === name) range.value = String(value);
    }

    function zoom(step) {
      const at = ZOOMS.indexOf(chosen.zoom);
      chosen.zoom = ZOOMS[Math.min(Math.max(at + step, 0), ZOOMS.length - 1)];
      const middle = [panel.scrollLeft + panel.clientWidth / 2, panel.scrollTop];
      const before = panel.scrollWidth;
      applyZoom();
      const grown = panel.scrollWidth / before;
      panel.scrollTo({ left: middle[0] * grown - panel.clientWidth / 2, top: middle[1] * grown, behavior: "instant" });
    }

    function applyZoom() {
      panel.style.setProperty("--zoom", String(chosen.zoom));
      zoomText.textContent = `${Math.round(100 * chosen.zoom)} %`;
      zoomOut.disabled = chosen.zoom === ZOOMS[0];
      zoomIn.disabled = chosen.zoom === ZOOMS.at(-1);
    }

    function draw() {
      const frame = frames[place];
      const both = frame !== target && [frame, target].every((one) => address(one, picture));
      const { mode } = chosen;
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === place)));
      for (const button of modes) {
        button.setAttribute("aria-pressed", String(button.dataset.mode === chosen.mode));
        button.disabled = !both;
      }
      const limits = both ? RANGES[mode] : undefined;
      rangeBox.classList.toggle("unused", limits === undefined);
      range.disabled = limits === undefined;
      if (limits) {
        rangeName.textContent = limits.label;
        for (const name of ["min", "max", "step"]) range[name] = limits[name];
        range.value = String(chosen[mode]);
      }
      panel.dataset.mode = both ? mode : "pair";
      for (const name of Object.keys(RANGES)) panel.style.setProperty(`--${name}`, String(chosen[name]));
      applyZoom();
      const plate =
        !both || mode === "pair"
          ? make("div", { class: `plate pair${frame === target ? " alone" : ""}` }, (frame === target ? [target] : [frame, target]).map((one) => sheet(one, picture)))
          : layers(frame, target, picture, (share) => mode === "slider" && set("slider", 100 * share));
      panel.replaceChildren(plate);
    }

    draw();
    new ResizeObserver(() => reveal("instant")).observe(strip); // also when it first comes on the screen
    current = { show, setMode, zoom, step: (by) => show(place + by), element };
    return current;
  }

  const address = (frame, picture) => (frame.picture?.id ? picture(frame.picture.id) : null);

  function image(frame, picture, more = {}) {
    const { width, height } = frame.picture;
    return make("img", { src: address(frame, picture), width, height, alt: frame.title, decoding: "async", draggable: "false", ...more });
  }

  function why(frame) {
    return frame.picture?.id ? "Left out of this file: it would have been larger than --export_mb allows." : (frame.note ?? frame.picture?.note ?? "No picture.");
  }

  function thumbnail(frame, isTarget, picture, onclick) {
    const shown = address(frame, picture) ? image(frame, picture, { loading: "lazy", alt: "" }) : make("span", { class: "no-picture", text: "no picture", title: why(frame) });
    return make(
      "button",
      { type: "button", class: `frame${isTarget ? " target" : ""}`, title: frame.title, onclick },
      make("span", { class: "thumb" }, shown),
      make("span", { class: "frame-name" }, make("span", { text: frame.name }), frame.isAnswer ? make("span", { class: "answer-mark", text: "answer" }) : null),
      frame.reward === undefined ? null : Show.reward(frame.reward, frame.title),
    );
  }

  // One picture with its name over it.
  function sheet(frame, picture) {
    const shown = address(frame, picture) ? image(frame, picture) : make("p", { class: "no-picture", text: why(frame) });
    const size = frame.picture?.id ? `${frame.picture.width} × ${frame.picture.height}` : "";
    return make("figure", { class: "sheet" }, make("figcaption", {}, make("strong", { text: frame.title }), make("span", { class: "muted", text: size })), shown);
  }

  // Both pictures on one place, the draft above.
  function layers(frame, target, picture, onDrag) {
    const tallest = Math.max(...[frame, target].map((one) => one.picture.height / one.picture.width));
    const line = make("span", { class: "wipe", "aria-hidden": "true" });
    const plate = make(
      "div",
      { class: "plate over" },
      make("div", { class: "layer below" }, image(target, picture)),
      make("div", { class: "layer above" }, image(frame, picture)),
      line,
      make("span", { class: "corner left", text: frame.title }),
      make("span", { class: "corner right", text: target.title }),
    );
    plate.style.aspectRatio = `1 / ${tallest}`;
    const follow = (event) => {
      const box = plate.getBoundingClientRect();
      onDrag(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
    };
    plate.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button !== 0) return;
      plate.setPointerCapture(event.pointerId);
      follow(event);
    });
    plate.addEventListener("pointermove", (event) => plate.hasPointerCapture(event.pointerId) && follow(event));
    return plate;
  }

  const keys = Object.fromEntries(MODES.map(([name, , key]) => [key, () => current?.setMode(name)]));
  Object.assign(keys, {
    h: () => current?.step(-1),
    l: () => current?.step(1),
    "+": () => current?.zoom(1),
    "-": () => current?.zoom(-1),
  });
  const help = [
    [["l", "h"], "next, previous draft"],
    [MODES.map(([, , key]) => key), MODES.map(([, text]) => text.toLowerCase()).join(", ")],
    [["+", "-"], "larger, smaller pictures"],
  ];

  return { stage, keys, help, address, image, why };
})();
