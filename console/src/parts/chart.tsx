import { type KeyboardEvent, memo, type PointerEvent, useLayoutEffect, useRef, useState } from "react";

export interface Line {
  name: string;
  /** null: no measurement, drawn as a gap. */
  values: (number | null)[];
  isBad?: boolean;
}

/** Something that happened at a time: a revision that began to serve, restarts, or an alert. */
export interface Marker {
  kind: "revision" | "restart" | "alert";
  at: number;
  text: string;
  label?: string;
}

interface Props {
  title: string;
  /** What the values refer to, such as `in 5 min`. */
  note?: string;
  format: (value: number) => string;
  times: number[];
  lines: Line[];
  /** The first line a day earlier. */
  before?: Line | undefined;
  /** What the first line cannot exceed. It is drawn when the line comes near. */
  limit?: Line | undefined;
  markers: Marker[];
  /** The lowest end of the axis, so that idle lines do not fill the chart and ticks differ. */
  least: number;
  /** The point that all charts of the page show; null: the latest one. */
  at: number | null;
  onAt: (index: number | null) => void;
}

const [height, left, right, top, bottom] = [168, 48, 12, 22, 22];
const latestPoints = 3;
const tickTextWidth = 56;
/** A limit up to this many times the highest value is drawn. */
const limitShare = 4;

const topOf = ({ values }: Line) => Math.max(0, ...values.map((value) => value ?? 0));

/**
 * Lines over time as SVG. The charts of a page share one point in time, which the pointer or the arrow keys move. The
 * values at that point are text, for screen readers too.
 */
export function Chart({ title, note = "", format, times, lines, before, limit, markers, least, at, onAt }: Props) {
  const plot = useRef<HTMLDivElement>(null);
  const width = useWidth(plot);
  const [begin = 0, end = 1] = [times[0], times.at(-1)];
  const all = [...lines, ...(before === undefined ? [] : [before])];
  const used = Math.max(...all.map(topOf));
  // Far above the line, the limit would press it to the floor.
  const drawnLimit = limit !== undefined && used * limitShare >= topOf(limit) ? limit : undefined;
  const max = niceMax(Math.max(least, used, drawnLimit === undefined ? 0 : topOf(drawnLimit)));
  const named = [...all, ...(limit === undefined ? [] : [limit])];
  const x = (time: number) => left + ((time - begin) / Math.max(1, end - begin)) * (width - left - right);
  const y = (value: number) => height - bottom - (value / max) * (height - bottom - top);
  const last = times.length - 1;
  const shown = at === null ? last : Math.min(at, last);
  // The measurements of the last minutes may be on their way. An older value is not the latest one.
  const shownIn = ({ values }: Line) =>
    values[shown] ?? (at === null ? values.slice(-latestPoints).findLast((value) => value !== null) : null);
  const textOf = (line: Line) => {
    const value = shownIn(line) ?? null;
    return value === null ? "–" : format(value);
  };
  const spoken = `${timeText(times[shown] ?? end)}: ${named.map((line) => `${line.name} ${textOf(line)}`).join(", ")}`;
  const move = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - box.left - left) / Math.max(1, width - left - right);
    onAt(Math.min(last, Math.max(0, Math.round(share * last))));
  };
  const step = (event: KeyboardEvent) => {
    const next = pointAfter(event.key, shown, last);
    if (next === undefined) return;
    event.preventDefault();
    onAt(next);
  };
  return (
    <figure className="chart card">
      <figcaption>
        <b className="chart-title">{title}</b>
        <span className="softer">{at === null ? note : timeText(times[shown] ?? end)}</span>
        <span className="legend">
          {lines.map((line, index) => (
            <span key={line.name}>
              <i className={line.isBad ? "is-bad" : `line-${index}`} aria-hidden="true" />
              {line.name} <b>{textOf(line)}</b>
            </span>
          ))}
          {before !== undefined && (
            <span>
              <i className="line-before" aria-hidden="true" />
              {before.name} <b>{textOf(before)}</b>
            </span>
          )}
          {limit !== undefined && (
            <span>
              {drawnLimit !== undefined && <i className="line-limit" aria-hidden="true" />}
              {limit.name} <b>{textOf(limit)}</b>
              {drawnLimit === undefined && ", far above"}
            </span>
          )}
        </span>
      </figcaption>
      <div
        ref={plot}
        className="plot"
        role="slider"
        tabIndex={0}
        aria-label={`${title} over time`}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={shown}
        aria-valuetext={spoken}
        onPointerMove={move}
        onPointerDown={move}
        onPointerLeave={() => onAt(null)}
        onKeyDown={step}
        onBlur={() => onAt(null)}
      >
        {width > 0 && (
          <svg width={width} height={height} aria-hidden="true">
            <Drawing {...{ width, max, times, lines, before, markers, format }} limit={drawnLimit} />
            {at !== null && <Cursor {...{ lines, x, y, shown }} time={times[shown] ?? end} />}
          </svg>
        )}
      </div>
    </figure>
  );
}

/** The line at the shared point in time, with a dot on each line. */
function Cursor({ lines, x, y, shown, time }: { lines: Line[]; x: Scale; y: Scale; shown: number; time: number }) {
  return (
    <>
      <line className="cursor" x1={x(time)} x2={x(time)} y1={top} y2={height - bottom} />
      {lines.map(({ name, values, isBad = false }, index) => {
        const value = values[shown] ?? null;
        if (value === null) return null;
        return <circle key={name} className={isBad ? "is-bad" : `line-${index}`} cx={x(time)} cy={y(value)} r="3.5" />;
      })}
    </>
  );
}

/** Returns the point that a key moves to; null: the latest one; undefined: the key moves nothing. */
function pointAfter(key: string, from: number, last: number): number | null | undefined {
  const big = Math.max(1, Math.round(last / 10));
  const to: Record<string, number> = {
    ...{ ArrowLeft: from - 1, ArrowRight: from + 1, PageDown: from - big, PageUp: from + big, Home: 0, End: last },
  };
  if (key === "Escape") return null;
  const wanted = Object.hasOwn(to, key) ? to[key] : undefined;
  return wanted === undefined ? undefined : Math.min(last, Math.max(0, wanted));
}

/** What does not move with the cursor: grid, axes, markers and lines. */
const Drawing = memo(function Drawing(
  props: Pick<Props, "times" | "lines" | "before" | "limit" | "markers" | "format"> & { width: number; max: number },
) {
  const { width, max, times, lines, before, limit, markers, format } = props;
  const [begin = 0, end = 1] = [times[0], times.at(-1)];
  const x = (time: number) => left + ((time - begin) / Math.max(1, end - begin)) * (width - left - right);
  const y = (value: number) => height - bottom - (value / max) * (height - bottom - top);
  const floor = height - bottom;
  const labelled = labelledOf(markers, x);
  return (
    <>
      {[0, max / 2, max].map((value) => (
        <g key={value}>
          <line className="axis" x1={left} x2={width - right} y1={y(value)} y2={y(value)} />
          <text x={left - 8} y={y(value) + 4} textAnchor="end">
            {format(value)}
          </text>
        </g>
      ))}
      {ticksOf(begin, end, width).map((time) => (
        <text key={time} {...tickPlace(x(time), width)} y={height - 4}>
          {tickText(time, end - begin)}
        </text>
      ))}
      {limit !== undefined && <path className="line-limit" d={pathOf(limit.values, times, x, y)} />}
      {before !== undefined && <path className="line-before" d={pathOf(before.values, times, x, y)} />}
      {lines.map(({ name, values, isBad = false }, index) => (
        <g key={name}>
          {lines.length < 3 && index === 0 && <path className="area" d={areaOf(values, times, x, y, floor)} />}
          <path className={isBad ? "is-bad" : `line-${index}`} d={pathOf(values, times, x, y)} />
          {values.map((value, place) => {
            // A value between two gaps has no line.
            if (value === null || (values[place - 1] ?? values[place + 1] ?? null) !== null) return null;
            const at = times[place] ?? begin;
            return <circle key={at} className={isBad ? "is-bad" : `line-${index}`} cx={x(at)} cy={y(value)} r="2.5" />;
          })}
        </g>
      ))}
      {markers
        .filter((marker) => marker.at >= begin && marker.at <= end + 3_600_000)
        .map((marker) => ({ ...marker, place: x(Math.min(marker.at, end)) }))
        .map(({ kind, at, text, label, place }) => (
          <g key={`${kind}${at}${text}`} className={`marker ${kind}`}>
            <title>{text}</title>
            {kind === "revision" && <line x1={place} x2={place} y1={top - 4} y2={floor} />}
            {kind === "revision" && label !== undefined && labelled.has(label) && (
              <text x={Math.min(place, width - right - 4)} y={top - 8} textAnchor="middle">
                {label}
              </text>
            )}
            {kind === "restart" && <rect x={place - 1.5} y={floor - 6} width="3" height="8" rx="1" />}
            {kind === "alert" && <path d={`M${place} ${floor - 7}l5 9h-10z`} />}
          </g>
        ))}
    </>
  );
});

const labelWidth = 18;

/** Returns the labels that have room. Of labels that would overlap, the newest one counts. */
function labelledOf(markers: readonly Marker[], x: Scale): Set<string> {
  const shown = new Set<string>();
  let right = Number.POSITIVE_INFINITY;
  for (const { at, label } of markers.toSorted((one, other) => other.at - one.at)) {
    if (label === undefined || right - x(at) < labelWidth) continue;
    shown.add(label);
    right = x(at);
  }
  return shown;
}

/** Returns the width of an element in pixels, so that the text of a drawing in it keeps its size. */
function useWidth(element: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const found = element.current;
    if (found === null) return;
    const observer = new ResizeObserver(() => setWidth(found.clientWidth));
    observer.observe(found);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

export const timeText = (at: number) =>
  new Date(at).toLocaleString([], {
    ...{ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  });

const minuteMs = 60_000;
const tickStepsMs = [10, 15, 30, 60, 120, 240, 360, 720, 1_440, 2_880].map((minutes) => minutes * minuteMs);

/** Returns round local times for the axis, at least 90 pixels apart. */
function ticksOf(begin: number, end: number, width: number): number[] {
  const most = Math.max(1, Math.floor((width - left - right) / 90));
  const step = tickStepsMs.find((one) => (end - begin) / one <= most) ?? tickStepsMs.at(-1) ?? minuteMs;
  const offset = new Date(end).getTimezoneOffset() * minuteMs;
  const first = Math.ceil((begin - offset) / step) * step + offset;
  const ticks: number[] = [];
  for (let at = first; at <= end; at += step) ticks.push(at);
  return ticks;
}

/** The text of a tick at the right edge ends there, because the drawing would cut it. */
const tickPlace = (x: number, width: number) =>
  x > width - tickTextWidth / 2 ? ({ x: width, textAnchor: "end" } as const) : ({ x, textAnchor: "middle" } as const);

const tickText = (at: number, spanMs: number) =>
  spanMs > 2 * 86_400_000
    ? new Date(at).toLocaleDateString([], { month: "short", day: "numeric" })
    : new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

type Scale = (value: number) => number;

function pathOf(values: (number | null)[], times: number[], x: Scale, y: Scale): string {
  let isPenDown = false;
  const parts = values.map((value, index) => {
    if (value === null) {
      isPenDown = false;
      return "";
    }
    const step = `${isPenDown ? "L" : "M"}${x(times[index] ?? 0).toFixed(1)} ${y(value).toFixed(1)}`;
    // A point between two gaps has no length and would be invisible, so it is drawn one unit long.
    const isAlone = !isPenDown && (values[index + 1] ?? null) === null;
    isPenDown = true;
    return isAlone ? `${step}h1` : step;
  });
  return parts.join("");
}

/** The area under a line, one for each part between gaps. */
function areaOf(values: (number | null)[], times: number[], x: Scale, y: Scale, floor: number): string {
  const parts: string[] = [];
  let from = -1;
  for (let index = 0; index <= values.length; index += 1) {
    const isThere = index < values.length && values[index] !== null;
    if (isThere && from < 0) from = index;
    if (isThere || from < 0) continue;
    const line = pathOf(values.slice(from, index), times.slice(from, index), x, y);
    parts.push(`${line}L${x(times[index - 1] ?? 0).toFixed(1)} ${floor}L${x(times[from] ?? 0).toFixed(1)} ${floor}Z`);
    from = -1;
  }
  return parts.join("");
}

/** Rounds up to 1, 2 or 5 times a power of ten. */
function niceMax(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10) * power;
}
