export interface Line {
  name: string;
  /** null: no measurement, drawn as a gap. */
  values: (number | null)[];
}

const [width, height, left, bottom] = [480, 150, 44, 20];

/** Lines over time as SVG. The caption and the label give the latest values as text, for screen readers too. */
export function Chart(props: { title: string; unit: string; times: number[]; lines: Line[]; markers: number[] }) {
  const { title, unit, times, lines, markers } = props;
  const [begin = 0, end = 1] = [times[0], times.at(-1)];
  const max = niceMax(Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0))));
  // A point stands for the step that begins at its time: events within the last step are drawn at the step's start.
  const x = (at: number) => left + ((at - begin) / Math.max(1, end - begin)) * (width - left - 4);
  const y = (value: number) => height - bottom - (value / max) * (height - bottom - 8);
  return (
    <figure className="chart card">
      <figcaption className="row spread">
        <b>{unit === "" ? title : `${title}, ${unit}`}</b>
        <span className="soft">{lines.map(({ name, values }) => `${name} ${latest(values)}`).join(" · ")}</span>
      </figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${title}: ${lines.map(summaryOf).join("; ")}`}>
        {[0, max / 2, max].map((value) => (
          <g key={value}>
            <line className="axis" x1={left} x2={width} y1={y(value)} y2={y(value)} />
            <text x={left - 4} y={y(value) + 4} textAnchor="end">
              {numberText(value)}
            </text>
          </g>
        ))}
        {markers
          .filter((at) => at >= begin)
          .map((at) => ({ at, place: x(Math.min(at, end)) }))
          .map(({ at, place }) => (
            <line key={at} className="marker" x1={place} x2={place} y1={8} y2={height - bottom} />
          ))}
        {lines.map(({ name, values }, index) => (
          <path key={name} className={`line-${index}`} d={pathOf(values, times, x, y)} />
        ))}
        <text x={left} y={height - 4}>
          {clock(begin)}
        </text>
        <text x={width} y={height - 4} textAnchor="end">
          {clock(end)}
        </text>
      </svg>
    </figure>
  );
}

const clock = (at: number) =>
  new Date(at).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

function pathOf(
  values: (number | null)[],
  times: number[],
  x: (at: number) => number,
  y: (value: number) => number,
): string {
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

/** Rounds up to 1, 2 or 5 times a power of ten. */
function niceMax(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10) * power;
}

const numberText = (value: number) => String(value >= 100 ? Math.round(value) : Number(value.toPrecision(2)));

const latest = (values: (number | null)[]) => {
  const found = values.findLast((value) => value !== null);
  return found === undefined || found === null ? "–" : numberText(found);
};

const summaryOf = ({ name, values }: Line) => `${name} now ${latest(values)}`;
