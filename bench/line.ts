/** One measured goal: ours against a floor taken in the same run on the same machine. */
export interface BenchLine {
  /** Number of the goal, such as `G13`. */
  goal: string;
  name: string;
  /** What the bare engine takes or gives without us; null: there is none to compare with. */
  floor: number | null;
  ours: number;
  /** ours / floor. */
  ratio: number | null;
  unit: string;
  /** In words, such as `ratio <= 1.5`. */
  target: string;
  met: boolean;
}

/** What must hold; a ratio that nobody took does not hold, and "none" always does. `addedMax` bounds ours minus floor, in the line's unit. */
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

/** One JSON object a line on stdout: for people with `jq`, and for machines. */
export function printLine(line: BenchLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Nearest-rank percentile; `rank` from 0 to 100. */
export function percentile(values: readonly number[], rank: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((rank / 100) * sorted.length) - 1)] ?? Number.NaN;
}

/** Median: one disturbed round of three does not decide. */
export const median = (values: readonly number[]) => percentile(values, 50);

/** Three digits that matter. */
const rounded = (value: number) => Number(value.toPrecision(3));
