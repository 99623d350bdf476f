// Marks the searched text in a part of the page, where the browser can do it without touching the document.
"use strict";

const Highlights = (() => {
  const MOST = 2000;

  function mark(place, text) {
    if (!globalThis.Highlight) return;
    const ranges = [];
    const wanted = text.trim().toLowerCase();
    if (wanted) {
      const thoughts = [...place.querySelectorAll(".folded.thoughts")];
      Chat.showFolds(thoughts.filter((thought) => thought.textContent.toLowerCase().includes(wanted)), true);
      const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
      while (walker.nextNode() && ranges.length < MOST) {
        const held = walker.currentNode.data.toLowerCase();
        if (held.length !== walker.currentNode.length) continue; // rare letters change length: places would be wrong
        for (let at = held.indexOf(wanted); at >= 0; at = held.indexOf(wanted, at + wanted.length)) {
          const range = new Range();
          range.setStart(walker.currentNode, at);
          range.setEnd(walker.currentNode, at + wanted.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  return { mark };
})();
