/** One measured goal: our figure against a floor of the same run on the same machine. */
export interface BenchLine {
  /** Number of the goal, such as `G13`. */
  goal: string;
  name: string;
  /** The figure of the bare engine without Pierhead; null when there is nothing to compare with. */
  floor: number | null;
  ours: number;
  /** ours / floor. */
  ratio: number | null;
  unit: string;
  /** Text such as `ratio <= 1.5`. */
  target: string;
  met: boolean;
}

/** The condition to meet. A missing ratio fails, "none" always passes. `addedMax` bounds ours minus floor, in the line's unit. */
export type BenchTarget =
  | { ratioMin: number }
  | { ratioMax: number }
  | { addedMax: number }
  | { oursMin: number }
  | { oursMax: number }
  | "none";

export interface Measured {
  goal: string;
  name: string;
  floor: number | null;
  ours: number;
  unit: string;
  target: BenchTarget;
}

export function benchLine({ target, ...measured }: Measured): BenchLine {
  const { floor, ours, unit } = measured;
  const ratio = floor === null ? null : rounded(ours / floor);
  const rest = { floor: floor === null ? null : rounded(floor), ours: rounded(ours), ratio };
  const line = (words: string, met: boolean) => ({ ...measured, ...rest, target: words, met });
  if (target === "none") return line("none", true);
  if ("ratioMin" in target) return line(`ratio >= ${target.ratioMin}`, ratio !== null && ratio >= target.ratioMin);
  if ("ratioMax" in target) return line(`ratio <= ${target.ratioMax}`, ratio !== null && ratio <= target.ratioMax);
  if ("addedMax" in target) {
    return line(`ours <= floor + ${target.addedMax} ${unit}`, ours <= (floor ?? 0) + target.addedMax);
  }
  if ("oursMin" in target) return line(`ours >= ${target.oursMin} ${unit}`, ours >= target.oursMin);
  return line(`ours <= ${target.oursMax} ${unit}`, ours <= target.oursMax);
}

/** Writes one JSON object per line to stdout, for `jq` and other programs. */
export function printLine(line: BenchLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Returns the nearest-rank percentile; `rank` is 0 to 100. */
export function percentile(values: readonly number[], rank: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((rank / 100) * sorted.length) - 1)] ?? Number.NaN;
}

/** Returns the median, so that one disturbed round of three does not decide. */
export const median = (values: readonly number[]) => percentile(values, 50);

/** Rounds to three significant digits. */
const rounded = (value: number) => Number(value.toPrecision(3));
