// What differs between two texts: lines side by side, and within a changed line its words.
"use strict";

const Diff = (() => {
  const MAX_CELLS = 4_000_000; // of the table below; a text that needs more is shown as wholly changed
  const SIMILAR = 0.5; // two changed lines that share less of the shorter one are not marked word by word

  // Longest common subsequence as [i, j] pairs of equal elements.
  function common(a, b) {
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start++;
    let endA = a.length;
    let endB = b.length;
    while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) (endA--, endB--);

    const pairs = [];
    for (let i = 0; i < start; i++) pairs.push([i, i]);
    pairs.push(...commonMiddle(a, b, start, endA, endB));
    for (let i = 0; endA + i < a.length; i++) pairs.push([endA + i, endB + i]);
    return pairs;
  }

  function commonMiddle(a, b, start, endA, endB) {
    const rows = endA - start;
    const columns = endB - start;
    if (!rows || !columns || (rows + 1) * (columns + 1) > MAX_CELLS) return [];
    const width = columns + 1;
    const length = new Uint32Array((rows + 1) * width); // of the best match of the two remainders
    for (let i = rows - 1; i >= 0; i--) {
      for (let j = columns - 1; j >= 0; j--) {
        length[i * width + j] =
          a[start + i] === b[start + j]
            ? length[(i + 1) * width + j + 1] + 1
            : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
    const pairs = [];
    for (let i = 0, j = 0; i < rows && j < columns; ) {
      if (a[start + i] === b[start + j]) pairs.push([start + i++, start + j++]);
      else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) i++;
      else j++;
    }
    return pairs;
  }

  // Rows of {left, right, same}: positions of lines, null where a side has none. Where lines changed, the nth one
  // removed stands beside the nth one added. Trailing blanks do not count.
  function lines(leftLines, rightLines) {
    const left = leftLines.map((line) => line.trimEnd());
    const right = rightLines.map((line) => line.trimEnd());
    const rows = [];
    let i = 0;
    let j = 0;
    for (const [a, b] of [...common(left, right), [left.length, right.length]]) {
      while (i < a || j < b) rows.push({ left: i < a ? i++ : null, right: j < b ? j++ : null, same: false });
      if (a < left.length) rows.push({ left: i++, right: j++, same: true });
    }
    return rows;
  }

  const WORDS = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

  // Which characters of two changed lines differ: two boolean arrays, or null when hardly anything is shared.
  function words(left, right) {
    const a = left.match(WORDS) ?? [];
    const b = right.match(WORDS) ?? [];
    const pairs = common(a, b);
    const shared = pairs.reduce((sum, [i]) => sum + a[i].trim().length, 0);
    const shorter = Math.min(left.replace(/\s/g, "").length, right.replace(/\s/g, "").length);
    if (!shared || shared < SIMILAR * shorter) return null;
    return [marks(a, new Set(pairs.map(([i]) => i))), marks(b, new Set(pairs.map(([, j]) => j)))];
  }

  const marks = (tokens, kept) => tokens.flatMap((token, i) => Array(token.length).fill(!kept.has(i)));

  return { lines, words };
})();
