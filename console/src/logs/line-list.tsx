import { type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";

/** Rows have a fixed height, so that a list of any length scrolls without measuring them. The open row adds its details. */
const rowPx = 24;
const narrowRowPx = 62;
const narrow = matchMedia("(max-width: 60rem)");

/** Rows beyond the visible ones. The rows change when the list scrolls by `stepRows`. */
const marginRows = 20;
const stepRows = 10;

/** After a jump, the list renders the visible rows first and those beyond them after this time. One frame cannot afford both. */
const marginDelayMs = 50;

/** Distance to the end at which the list counts as scrolled to it. */
const endPx = 12;
/** Distance to the start at which older lines are read. */
const startPx = 600;

interface Props {
  /** Oldest first. */
  lines: readonly FoundLogEntry[];
  /** The search that found the lines. */
  search: string | null;
  openId: string | undefined;
  isFollowing: boolean;
  onFollow: (isFollowing: boolean) => void;
  onReachStart: () => void;
  row: (line: FoundLogEntry) => ReactNode;
  details: (line: FoundLogEntry) => ReactNode;
}

/** The rows that are in the page. */
interface RowWindow {
  first: number;
  count: number;
  /** The rows beyond the visible ones are still missing. */
  isPartial: boolean;
}

const startRows = 80;

/**
 * A virtual list of log lines. It keeps the visible lines in place while older ones are added above. Lines of another search
 * begin at the open one, else at the newest.
 */
export function LineList({ lines, search, openId, isFollowing, onFollow, onReachStart, row, details }: Props) {
  const height = useRowHeight();
  const box = useRef<HTMLDivElement>(null);
  const [window, setWindow] = useRowWindow(lines, isFollowing);
  const [openPx, measure] = useHeight();
  const openAt = openId === undefined ? -1 : lines.findIndex(({ id }) => id === openId);
  const topOf = (index: number) => index * height + (openAt >= 0 && index > openAt ? openPx : 0);

  const look = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current as HTMLDivElement;
    const before = openAt >= 0 && scrollTop > topOf(openAt) ? Math.min(openPx, scrollTop - topOf(openAt)) : 0;
    const [topRow, rows] = [Math.floor((scrollTop - before) / height), Math.ceil(clientHeight / height) + 1];
    setWindow((now) => windowAt(now, topRow, rows));
    return { isAtEnd: scrollHeight - clientHeight - scrollTop <= endPx, isNearStart: scrollTop < startPx };
  };

  useMargin(window.isPartial, look);
  const earlier = useRef({ firstId: lines[0]?.id, search });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the list moves when its lines change.
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const { firstId, search: before } = earlier.current;
    earlier.current = { firstId: lines[0]?.id, search };
    const added = firstId === undefined || lines[0]?.id === firstId ? 0 : lines.findIndex(({ id }) => id === firstId);
    const isOther = search !== before;
    if (isFollowing || (isOther && openAt < 0)) element.scrollTop = element.scrollHeight;
    else if (isOther) element.scrollTop = placeOf(openAt * height, element);
    else if (added > 0) element.scrollTop += added * height;
    look();
  }, [lines, isFollowing, height]);

  const wanted = useRef(openId);
  // The line of a link is shown once, when it is found.
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || wanted.current === undefined || openAt < 0) return;
    wanted.current = undefined;
    element.scrollTop = placeOf(openAt * height, element);
  }, [openAt, height]);

  const shown = lines.slice(window.first, window.first + window.count);
  return (
    <section
      ref={box}
      className="log-scroll"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable with the keyboard.
      tabIndex={0}
      aria-label="Log lines"
      onScroll={() => {
        const { isAtEnd, isNearStart } = look();
        if (isAtEnd !== isFollowing) onFollow(isAtEnd);
        if (isNearStart) onReachStart();
      }}
    >
      <div className="log-all" style={{ height: lines.length * height + (openAt >= 0 ? openPx : 0) }}>
        <div className="log-rows" style={{ transform: `translateY(${topOf(window.first)}px)` }}>
          {shown.map((line) => {
            const isOpen = line.id === openId;
            return (
              <div key={line.id} className={`ll ${line.level.toLowerCase()}${isOpen ? " open" : ""}`}>
                {row(line)}
                {isOpen && <div ref={measure}>{details(line)}</div>}
              </div>
            );
          })}
        </div>
      </div>
    </section>
  );
}

/** Keeps the rows that are in the page. Older lines above move them along: the browser lays out no others. */
function useRowWindow(lines: readonly FoundLogEntry[], isFollowing: boolean) {
  const [window, setWindow] = useState<RowWindow>({
    first: isFollowing ? Math.max(0, lines.length - startRows) : 0,
    count: startRows,
    isPartial: false,
  });
  const firstId = lines[0]?.id;
  const [known, setKnown] = useState(firstId);
  if (known !== firstId) {
    setKnown(firstId);
    const added = lines.findIndex(({ id }) => id === known);
    if (added > 0) setWindow({ ...window, first: window.first + added });
  }
  return [window, setWindow] as const;
}

/** Renders the rows beyond the visible ones a moment after a jump. */
function useMargin(isPartial: boolean, look: () => void): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the list looks at where it is then.
  useEffect(() => {
    if (!isPartial) return;
    const timer = setTimeout(look, marginDelayMs);
    return () => clearTimeout(timer);
  }, [isPartial]);
}

/** Returns the rows to render around the visible ones, or only those when none of the rendered rows is near. */
function windowAt(now: RowWindow, topRow: number, rows: number): RowWindow {
  const first = Math.floor(Math.max(0, topRow - marginRows) / stepRows) * stepRows;
  const count = rows + 2 * marginRows + stepRows;
  if (first >= now.first + now.count || now.first >= first + count)
    return { first: Math.max(0, topRow), count: rows, isPartial: true };
  const isSame = now.first === first && now.count === count;
  return isSame && !now.isPartial ? now : { first, count, isPartial: false };
}

/** Returns the scroll position that shows a row one third below the top of the list. */
const placeOf = (topPx: number, { clientHeight }: HTMLElement) => Math.max(0, topPx - clientHeight / 3);

function useRowHeight(): number {
  const isNarrow = useSyncExternalStore(
    (notify) => {
      narrow.addEventListener("change", notify);
      return () => narrow.removeEventListener("change", notify);
    },
    () => narrow.matches,
  );
  return isNarrow ? narrowRowPx : rowPx;
}

/** Follows the height of an element that may come and go. */
function useHeight(): [px: number, measure: (element: HTMLElement | null) => void] {
  const [px, setPx] = useState(0);
  const observer = useRef<ResizeObserver>(null);
  const measure = useCallback((element: HTMLElement | null) => {
    observer.current?.disconnect();
    if (element === null) return;
    observer.current = new ResizeObserver(() => setPx(element.offsetHeight));
    observer.current.observe(element);
  }, []);
  return [px, measure];
}
