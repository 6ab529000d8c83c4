// What tests/page looks at in the page, put into it for one question.
({
  // Texts whose colour has too little contrast with what is behind it (WCAG 2: 4.5, or 3 if large).
  pale() {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const over = (back, color) => {
      canvas.fillStyle = `rgb(${back.join(" ")})`;
      canvas.fillRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    };
    const behind = (node) => {
      const chain = [];
      for (let at = node; at; at = at.parentElement) chain.unshift(at);
      return chain.reduce((back, at) => over(back, getComputedStyle(at).backgroundColor), [255, 255, 255]);
    };
    const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode, owner = text.parentElement;
      if (!text.data.trim() || !owner.checkVisibility() || owner.closest(".unseen, script, style")) continue;
      const style = getComputedStyle(owner), back = behind(owner), front = over(back, style.color);
      const [a, b] = [light(back), light(front)].sort((x, y) => y - x);
      const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
      if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5))
        found.push(`${((a + 0.05) / (b + 0.05)).toFixed(2)}: ${text.data.trim().slice(0, 40)} (${owner.className || owner.tagName})`);
    }
    return found;
  },
  // What stands out of a window of that width at the right, but for what scrolls by itself. (A phone's browser would widen the window.)
  wide(width) {
    const found = Math.max(document.documentElement.scrollWidth, innerWidth) > width ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
    for (const node of document.body.querySelectorAll("*")) {
      if (!node.checkVisibility() || node.closest(".unseen, svg, pre, .table, .display")) continue;
      const box = node.getBoundingClientRect();
      if (box.width > 0 && box.right > width + 0.5) found.push(`${node.tagName}.${node.className} ends at ${box.right.toFixed(0)}`);
    }
    return found;
  },
  // Buttons too small for a finger.
  small() {
    return [...document.querySelectorAll("button")].filter((b) => b.checkVisibility()).map((b) => [b, b.getBoundingClientRect()])
        .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([b]) => b.getAttribute("aria-label") || b.textContent);
  },
  // Elements and attributes that a hostile answer would like to have, in the messages.
  foreign() {
    const tags = [...document.querySelectorAll("#thread img, #thread script, #thread iframe, #thread object, #thread embed, #thread link, #thread style, #thread form, #thread video")]
        .map((node) => node.tagName);
    const links = [...document.querySelectorAll("#thread a")].filter((a) => !/^https?:$/.test(a.protocol) || !a.relList.contains("noopener"))
        .map((a) => a.href);
    const handlers = [...document.querySelectorAll("#thread *")].flatMap((node) => node.getAttributeNames().filter((name) => name.startsWith("on")));
    return [...tags, ...links, ...handlers];
  },
})
