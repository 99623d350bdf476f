"use strict";
// The page is complete without this: one button opens all lists of candidates, and paper shows all that is folded.

(() => {
  const all = [...document.querySelectorAll("details")];
  const lists = all.filter((each) => !each.classList.contains("fold"));
  const openAll = document.getElementById("open-all");
  if (openAll) {
    openAll.hidden = false;
    openAll.addEventListener("click", () => {
      const open = lists.some((list) => !list.open);
      for (const list of lists) list.open = open;
      openAll.textContent = open ? "Close all candidates" : "Open all candidates";
    });
  }
  addEventListener("beforeprint", () => { for (const each of all) each.open = true; });
})();
