// Runs in a world of its own beside the page's scripts, which cannot reach it. Brings the page to rest, then
// says what the browser computed: JSON of {width, height, boxes: [[tag, x, y, width, height, text, color,
// background, fontSize, fontWeight, parent], ...]}.
async (maxBoxes, maxText, patience) => {
  const within = (promise) =>
    Promise.race([promise, new Promise((resolve) => setTimeout(resolve, patience))]);

  const settle = async () => {
    const style = document.createElement("style");
    style.textContent = "*, *::before, *::after { caret-color: transparent !important; }";
    document.documentElement.append(style);
    for (const bar of document.querySelectorAll("progress:indeterminate")) bar.value = 0;
    for (const svg of document.querySelectorAll("svg")) {
      if (svg.pauseAnimations) {
        svg.pauseAnimations();
        svg.setCurrentTime(0);
      }
    }
    for (const marquee of document.querySelectorAll("marquee")) {
      const still = document.createElement("div"); // what moves a marquee cannot be reached
      for (const { name, value } of marquee.attributes) still.setAttribute(name, value);
      still.append(...marquee.childNodes);
      marquee.replaceWith(still);
    }
    const images = [...document.images].slice(0, maxBoxes);
    await within(Promise.all([document.fonts.ready, ...images.map((image) => image.decode().catch(() => {}))]));
    for (const animation of document.getAnimations()) {
      try {
        animation.finish();
      } catch {
        animation.cancel(); // an endless one: as if it had never begun
      }
    }
    scrollTo(0, 0);
  };

  const parse = (text) => {
    const rgb = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(text);
    if (rgb) return [+rgb[1], +rgb[2], +rgb[3], rgb[4] === undefined ? 1 : +rgb[4]];
    const canvas = document.createElement("canvas"); // lab(), oklch(), color(): the browser converts them
    canvas.width = canvas.height = 1;
    const context = canvas.getContext("2d");
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (color, behind, opacity) => {
    const share = color[3] * opacity;
    return [0, 1, 2].map((i) => Math.round(color[i] * share + behind[i] * (1 - share)));
  };
  const painted = (style) => {
    const color = parse(style.backgroundColor);
    if (color[3] > 0) return color;
    const stop = /gradient\(.*?(rgba?\([^)]*\))/.exec(style.backgroundImage);
    return stop ? parse(stop[1]) : color;
  };

  const words = (text) => text.replace(/\s+/g, " ").trim();
  const own = (element, tag) => {
    if (tag === "input") {
      const quiet = ["checkbox", "radio", "range", "color", "file", "image", "hidden"].includes(element.type);
      const shown = element.type === "password" ? "" : element.value;
      return quiet ? "" : shown || element.placeholder || { submit: "Submit", reset: "Reset" }[element.type] || "";
    }
    if (tag === "textarea") return element.value || element.placeholder;
    if (tag === "select") return element.selectedOptions[0]?.text ?? "";
    let text = "";
    for (const node of element.childNodes) text += node.nodeType === Node.TEXT_NODE ? node.data : " ";
    return text;
  };

  const measure = () => {
    const skipped = new Set(["script", "style", "template", "br", "option", "optgroup", "source", "track"]);
    const seen = new Map(); // element: [index of its box or its nearest ancestor's, color behind, opacity]
    const boxes = [];
    const canvas = document.body && painted(getComputedStyle(document.documentElement));
    seen.set(document.documentElement, [null, over(canvas ?? [0, 0, 0, 0], [255, 255, 255], 1), 1]);
    const walker = document.createTreeWalker(document.body ?? document.documentElement, NodeFilter.SHOW_ELEMENT);
    for (let element = walker.currentNode; element && boxes.length < maxBoxes; element = walker.nextNode()) {
      const tag = element.localName;
      const above = seen.get(element.parentElement) ?? [null, [255, 255, 255], 1];
      if (skipped.has(tag) || element.parentElement?.closest("svg, select")) continue;
      const style = getComputedStyle(element);
      const opacity = above[2] * +style.opacity;
      const background = painted(style);
      const behind = over(background, above[1], opacity);
      const place = element.getBoundingClientRect();
      const x = place.x + scrollX;
      const y = place.y + scrollY;
      const visible =
        style.visibility === "visible" && opacity > 0.02 && place.width > 0 && place.height > 0 &&
        x + place.width > 0 && y + place.height > 0 && x < innerWidth;
      seen.set(element, [visible ? boxes.length : above[0], behind, opacity]);
      if (!visible) continue;
      const round = (number) => Math.round(number * 100) / 100;
      const fill = tag === "body" && background[3] === 0 && canvas[3] > 0 ? above[1] : behind;
      boxes.push([
        tag.slice(0, 40), round(x), round(y), round(place.width), round(place.height),
        words(own(element, tag).slice(0, 20 * maxText)).slice(0, maxText),
        over(parse(style.color), behind, opacity),
        background[3] > 0 || fill !== behind ? fill : null,
        round(parseFloat(style.fontSize)), parseInt(style.fontWeight) || 400, above[0],
      ]);
    }
    return boxes;
  };

  await settle();
  const root = document.scrollingElement ?? document.documentElement;
  const height = Math.max(root.scrollHeight, innerHeight); // browsers differ where a page is low
  return JSON.stringify({ width: root.scrollWidth, height, boxes: measure() });
}
