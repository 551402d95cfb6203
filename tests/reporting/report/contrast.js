// Contrast of every text with its background (WCAG 2.1): those below 4.5, or 3 for large text.
(() => {
  const parse = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const shade = parse(getComputedStyle(document.querySelector(".swatch")).backgroundColor);
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, style = getComputedStyle(node);
    const text = walker.currentNode.data.trim(), hidden = ["SCRIPT", "NOSCRIPT", "OPTION"].includes(node.tagName);
    if (!text || hidden || !node.getClientRects().length) continue;
    const svg = node.namespaceURI.endsWith("svg"), size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    for (const back of svg ? [behind(node), shade] : [behind(node)]) {
      const got = ratio(parse(svg ? style.fill : style.color), back);
      count += 1;
      if (got < needed) found.push(`${node.tagName}.${node.getAttribute("class")} "${text.slice(0, 30)}" ${got.toFixed(2)}`);
    }
  }
  return { count, found };
})();
