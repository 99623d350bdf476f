"use strict";
// The page is complete without this: one button opens all lists of candidates, a link opens the section that it
// leads to, and paper shows every section.

(() => {
  const folds = document.querySelectorAll(".fold");
  const lists = [...document.querySelectorAll("details:not(.fold)")];
  const openAll = document.getElementById("open-all");
  if (openAll && lists.length) {
    openAll.hidden = false;
    openAll.addEventListener("click", () => {
      const open = lists.some((list) => !list.open);
      for (const list of lists) list.open = open;
      openAll.textContent = open ? "Close all candidates" : "Open all candidates";
    });
  }
  const unfold = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector(":scope > .fold, :scope > section:only-child > .fold");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
  addEventListener("beforeprint", () => { for (const each of folds) each.open = true; });
})();
