import type { Page } from "playwright-core";

/**
 * Returns what lies wrong on the page: parts that overlap, stick out of their container or are cut off, and rows of buttons that
 * break. Parts that scroll away count as far as they are visible.
 */
export async function layoutFaults(page: Page): Promise<string[]> {
  // The debugger evaluates the functions in the page.
  const source = [
    ...[nameOf, cutsOff, scrolls, isSeen, ancestorsOf, visibleOf, layerOf, partsOf, overlaps, isPainted],
    ...[sticksOut, isCutBy, cutTexts, shownBy, cutFields, brokenRows, strayChoices, allFaults],
  ].join("\n");
  return page.evaluate(`(() => { ${source}\nreturn allFaults(); })()`);
}

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

interface Part {
  element: HTMLElement;
  box: Box;
  ancestors: Element[];
  visible: Box;
  layer: Element | null;
}

type Axis = "overflowX" | "overflowY";

function allFaults(): string[] {
  // A dialog covers the page.
  const root = [...document.querySelectorAll("[role=dialog], [role=alertdialog]")].at(-1) ?? document.body;
  const parts = partsOf(root);
  const { scrollWidth } = document.documentElement;
  const faults = [
    ...(scrollWidth > innerWidth ? [`the page is ${scrollWidth} px wide`] : []),
    ...overlaps(parts),
    ...parts.flatMap(sticksOut),
    ...cutTexts(root),
    ...parts.flatMap(cutFields),
    ...brokenRows(root),
    ...strayChoices(root),
  ];
  return [...new Set(faults)];
}

function nameOf(element: Element): string {
  const name = element.getAttribute("aria-label") ?? element.textContent?.trim() ?? "";
  return `${[element.tagName.toLowerCase(), ...element.classList].join(".")} "${name.slice(0, 40)}"`;
}

function cutsOff(element: Element, axis: Axis): boolean {
  return ["hidden", "clip"].includes(getComputedStyle(element)[axis]);
}

function scrolls(element: Element, axis: Axis): boolean {
  return ["auto", "scroll"].includes(getComputedStyle(element)[axis]);
}

/** Smaller parts are for screen readers. */
function isSeen(element: Element): boolean {
  const { width, height } = element.getBoundingClientRect();
  const options = { opacityProperty: true, visibilityProperty: true };
  return width >= 4 && height >= 4 && element.checkVisibility(options) && element.closest("[inert]") === null;
}

function ancestorsOf(element: Element): Element[] {
  const { parentElement: parent } = element;
  return parent === null || parent === document.body ? [] : [parent, ...ancestorsOf(parent)];
}

/** Returns the part of a box that no ancestor cuts off, or null if nothing is left. */
function visibleOf(box: Box, ancestors: Element[]): Box | null {
  const fixed = ancestors.findIndex((one) => getComputedStyle(one).position === "fixed");
  let { left, top, right, bottom } = box;
  for (const one of fixed < 0 ? ancestors : ancestors.slice(0, fixed + 1)) {
    const bounds = one.getBoundingClientRect();
    if (getComputedStyle(one).overflowX !== "visible") {
      left = Math.max(left, bounds.left);
      right = Math.min(right, bounds.right);
    }
    if (getComputedStyle(one).overflowY !== "visible") {
      top = Math.max(top, bounds.top);
      bottom = Math.min(bottom, bounds.bottom);
    }
  }
  return right - left > 1 && bottom - top > 1 ? { left, top, right, bottom } : null;
}

/** Parts that stay while the page scrolls lie over others. They are compared among themselves. */
function layerOf(element: Element, ancestors: Element[]): Element | null {
  return [element, ...ancestors].find((one) => ["fixed", "sticky"].includes(getComputedStyle(one).position)) ?? null;
}

function partsOf(root: Element): Part[] {
  const interactive =
    "a[href], button, input, select, textarea, summary, [role=button], [role=slider], [role=menuitem], [role=option]";
  return [...root.querySelectorAll<HTMLElement>(interactive)].filter(isSeen).flatMap((element) => {
    const box = element.getBoundingClientRect();
    const ancestors = ancestorsOf(element);
    const visible = visibleOf(box, ancestors);
    return visible === null ? [] : [{ element, box, ancestors, visible, layer: layerOf(element, ancestors) }];
  });
}

function overlaps(parts: Part[]): string[] {
  return parts.flatMap((one, index) =>
    parts.slice(index + 1).flatMap((other) => {
      const [a, b] = [one.visible, other.visible];
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (width <= 2 || height <= 2 || one.layer !== other.layer || one.element.contains(other.element)) return [];
      return [`${nameOf(one.element)} overlaps ${nameOf(other.element)}`];
    }),
  );
}

function isPainted(element: Element): boolean {
  const { backgroundColor, borderRightWidth, borderRightStyle } = getComputedStyle(element);
  const hasEdge = borderRightStyle !== "none" && Number.parseFloat(borderRightWidth) > 0;
  return hasEdge || !/^rgba\(.*, 0\)$|\/ 0\)$|^transparent$/.test(backgroundColor);
}

function sticksOut({ element, box, ancestors }: Part): string[] {
  const end = ancestors.findIndex((one) => scrolls(one, "overflowX"));
  const within = end < 0 ? ancestors : ancestors.slice(0, end);
  const isOutside = end < 0 && (box.left < -2 || box.right > innerWidth + 2);
  const containers = within.filter((one) => {
    const bounds = one.getBoundingClientRect();
    const isOut = box.left < bounds.left - 2 || box.right > bounds.right + 2;
    const isEdge = isPainted(one) || cutsOff(one, "overflowX");
    return isOut && isEdge && getComputedStyle(one).textOverflow !== "ellipsis";
  });
  return [
    ...(isOutside ? [`${nameOf(element)} lies outside of the window`] : []),
    ...containers.map((one) => `${nameOf(element)} sticks out of ${nameOf(one)}`),
  ];
}

/** Whether the ancestor cuts the line. A line that it hides as a whole is hidden on purpose. */
function isCutBy(line: Box, one: Element): boolean {
  const bounds = one.getBoundingClientRect();
  if (line.bottom <= bounds.top + 1 || line.top >= bounds.bottom - 1) return false;
  const isCutX = cutsOff(one, "overflowX") && (line.right > bounds.right + 2 || line.left < bounds.left - 2);
  const cut = Math.max(line.bottom - bounds.bottom, bounds.top - line.top);
  return isCutX || (cutsOff(one, "overflowY") && cut > (line.bottom - line.top) / 4);
}

function cutTexts(root: Element): string[] {
  const faults: string[] = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text !== null; text = texts.nextNode()) {
    const parent = text.parentElement;
    if (parent === null || text.nodeValue?.trim() === "" || parent.closest("select, textarea") || !isSeen(parent))
      continue;
    const all = [parent, ...ancestorsOf(parent)];
    if (all.some((one) => one.getBoundingClientRect().width < 4 && cutsOff(one, "overflowX"))) continue;
    const end = all.findIndex(
      (one) =>
        scrolls(one, "overflowX") || scrolls(one, "overflowY") || getComputedStyle(one).textOverflow === "ellipsis",
    );
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const one of end < 0 ? all : all.slice(0, end))
      if ([...range.getClientRects()].some((line) => isCutBy(line, one)))
        faults.push(`"${text.nodeValue?.trim().slice(0, 40)}" is cut by ${nameOf(one)}`);
  }
  return faults;
}

/** Returns what a field shows: the chosen option, or the text that asks for a value. */
function shownBy(element: HTMLElement): string {
  if (element instanceof HTMLSelectElement) return element.selectedOptions[0]?.text ?? "";
  return element instanceof HTMLInputElement && element.value === "" ? element.placeholder : "";
}

function cutFields({ element }: Part): string[] {
  const style = getComputedStyle(element);
  const canvas = document.createElement("canvas").getContext("2d");
  const shown = shownBy(element);
  if (canvas === null || shown === "" || style.textOverflow === "ellipsis") return [];
  canvas.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const room = element.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight);
  return canvas.measureText(shown).width > room + 1 ? [`${nameOf(element)} cuts "${shown}"`] : [];
}

/** Where rows of a table are lines, the buttons of a row stand in one line, and tables in answers are whole. */
function brokenRows(root: Element): string[] {
  if (innerWidth < 800) return [];
  const cut = [...root.querySelectorAll(".table-scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1);
  const broken = [...root.querySelectorAll("td.acts .row, .play-bar, .log-bar")].flatMap((row) => {
    const boxes = [...row.children].filter(isSeen).map((one) => one.getBoundingClientRect());
    const middles = new Set(boxes.map(({ top, bottom }) => Math.round((top + bottom) / 32)));
    return middles.size > 1 ? [`${nameOf(row)} takes ${middles.size} lines`] : [];
  });
  return [...broken, ...cut.map((one) => `the table ${nameOf(one)} scrolls sideways`)];
}

/** Choices beside a search stand in one line: none of them is left over for a line of its own. */
function strayChoices(root: Element): string[] {
  return [...root.querySelectorAll("search")].flatMap((search) => {
    const choices = [...search.querySelectorAll("select")].filter(isSeen);
    const [first] = choices;
    const stray = choices.filter(
      (one) => Math.abs(one.getBoundingClientRect().top - (first?.getBoundingClientRect().top ?? 0)) > 4,
    );
    return stray.map((one) => `${nameOf(one)} stands in another line than ${first === undefined ? "" : nameOf(first)}`);
  });
}
