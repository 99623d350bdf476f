"use strict";
// The page is complete without this: tips at what is pointed at, and one button for all lists of candidates.

(() => {
  const tip = document.getElementById("tip");

  function show(event) {
    const marked = event.target.closest("[data-tip]");
    tip.hidden = !marked;
    if (!marked) return;
    tip.textContent = marked.dataset.tip;
    const at = marked.getBoundingClientRect();
    const left = Math.min(at.left + at.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 8);
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above < 8 ? at.bottom + 8 : above}px`;
  }

  document.addEventListener("pointerover", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const lists = [...document.querySelectorAll("details")];
  const openAll = document.getElementById("open-all");
  if (openAll) {
    openAll.hidden = false;
    openAll.addEventListener("click", () => {
      const open = lists.some((list) => !list.open);
      for (const list of lists) list.open = open;
      openAll.textContent = open ? "Close all candidates" : "Open all candidates";
    });
  }
  addEventListener("beforeprint", () => { for (const list of lists) list.open = true; });
})();
