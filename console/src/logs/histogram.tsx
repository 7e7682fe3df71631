import { memo, useRef, useState } from "react";
import type { LogCounts } from "../../../src/contract/logs/search.ts";
import type { RevisionMark } from "./revision-marks.ts";

const heightPx = 56;
const ticks = 5;

interface Props {
  counts: LogCounts;
  range: { from: string; to: string };
  marks: readonly RevisionMark[];
  /** Narrows the range to a part of it. */
  onRange: (from: string, to: string) => void;
}

/** Matching lines over time by level. A click or a drag narrows the range. Time that was not read is hatched. */
export const Histogram = memo(function Histogram({ counts, range, marks, onRange }: Props) {
  const { step_ms: step, histogram } = counts;
  const [startMs, endMs] = [Date.parse(range.from), Date.parse(range.to)];
  const first = Math.floor(startMs / step);
  const bars = Math.max(1, Math.floor(endMs / step) - first + 1);
  const max = Math.max(1, ...histogram.map(({ errors, warnings, others }) => errors + warnings + others));
  const unread = counts.next_cursor === null ? 0 : Date.parse(counts.read_to) / step - first;
  const svg = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const barAt = (clientX: number) => {
    const { left, width } = (svg.current as SVGSVGElement).getBoundingClientRect();
    return Math.max(0, Math.min(bars - 1, Math.floor(((clientX - left) / width) * bars)));
  };
  const choose = () => {
    if (drag === null) return;
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to) + 1];
    setDrag(null);
    onRange(new Date((first + from) * step).toISOString(), new Date((first + to) * step).toISOString());
  };
  const total = counts.matches.toLocaleString("en");
  return (
    <div className="histogram">
      <svg
        ref={svg}
        viewBox={`0 0 ${bars * 10} ${heightPx}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${total} matching lines from ${timeText(startMs)} to ${timeText(endMs)}`}
        onPointerDown={({ button, clientX, pointerId, currentTarget }) => {
          if (button !== 0) return;
          currentTarget.setPointerCapture(pointerId);
          setDrag({ from: barAt(clientX), to: barAt(clientX) });
        }}
        onPointerMove={({ clientX }) => drag !== null && setDrag({ ...drag, to: barAt(clientX) })}
        onPointerUp={choose}
        onPointerCancel={() => setDrag(null)}
      >
        {unread > 0 && <rect className="unread" width={Math.min(bars, unread) * 10} height={heightPx} />}
        {histogram.map(({ at, errors, warnings, others }) => {
          const x = (Date.parse(at) / step - first) * 10 + 1;
          const [e, w, o] = [errors, warnings, others].map((count) => (count / max) * (heightPx - 2));
          return (
            <g key={at}>
              <title>{`${timeText(Date.parse(at))}: ${errors + warnings + others} lines, ${errors} errors`}</title>
              <rect className="others" x={x} width="8" y={heightPx - (e ?? 0) - (w ?? 0) - (o ?? 0)} height={o} />
              <rect className="warnings" x={x} width="8" y={heightPx - (e ?? 0) - (w ?? 0)} height={w} />
              <rect className="errors" x={x} width="8" y={heightPx - (e ?? 0)} height={e} />
            </g>
          );
        })}
        {marks.map(({ atMs, text }) => (
          <g key={`${atMs}${text}`} className="served">
            <title>{`${timeText(atMs)}, ${text}`}</title>
            <line x1={(atMs / step - first) * 10} x2={(atMs / step - first) * 10} y2={heightPx} />
          </g>
        ))}
        {drag !== null && (
          <rect
            className="chosen"
            x={Math.min(drag.from, drag.to) * 10}
            width={(Math.abs(drag.to - drag.from) + 1) * 10}
            height={heightPx}
          />
        )}
      </svg>
      <div className="ticks" aria-hidden="true">
        {Array.from({ length: ticks }, (_, index) => {
          const at = startMs + ((endMs - startMs) * index) / (ticks - 1);
          return <span key={at}>{tickText(at, endMs - startMs)}</span>;
        })}
      </div>
    </div>
  );
});

const dayMs = 86_400_000;
const timeText = (ms: number) => new Date(ms).toLocaleString([], { hourCycle: "h23" });

function tickText(ms: number, rangeMs: number): string {
  const at = new Date(ms);
  if (rangeMs > 2 * dayMs) return at.toLocaleDateString([], { month: "short", day: "numeric" });
  const seconds = rangeMs < 300_000 ? ({ second: "2-digit" } as const) : {};
  return at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...seconds });
}
