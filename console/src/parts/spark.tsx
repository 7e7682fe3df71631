const [width, height] = [190, 34];

/** A small line without axes. The number above it is the text for screen readers. */
export function Spark({ values }: { values: (number | null)[] }) {
  // One value is no line yet, and a dot reads as dirt.
  if (values.filter((value) => value !== null).length < 2)
    return <svg className="spark" width={width} height={height} aria-hidden="true" />;
  const top = Math.max(...values.map((value) => value ?? 0), 1e-9);
  const step = width / Math.max(1, values.length - 1);
  const y = (value: number) => (2 + (height - 4) * (1 - value / top)).toFixed(1);
  // A value that was not measured is a gap. A single one between gaps is drawn one unit long.
  const parts = values.map((value, index) => {
    if (value === null) return "";
    const isFirst = (values[index - 1] ?? null) === null;
    const isAlone = isFirst && (values[index + 1] ?? null) === null;
    return `${isFirst ? "M" : "L"}${(index * step).toFixed(1)} ${y(value)}${isAlone ? "h1" : ""}`;
  });
  const filled = values.filter((value) => value !== null).length === values.length && values.length > 1;
  return (
    <svg
      className="spark"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {filled && <path className="spark-area" d={`${parts.join("")}V${height}H0Z`} />}
      <path className="spark-line" d={parts.join("")} vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
