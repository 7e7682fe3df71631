import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import type { BenchLine } from "./line.ts";

const headings = ["", "goal", "what", "floor", "ours", "unit", "ratio", "target"] as const;

/** Pads each column to its widest cell and aligns numbers to the right. */
export function tableOf(lines: readonly BenchLine[]): string {
  const rows = [headings, ...lines.map(cellsOf)];
  const widths = headings.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => padded(cell, column, widths))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

function cellsOf({ goal, name, floor, ours, unit, ratio, target, met }: BenchLine): string[] {
  return [met ? "ok" : "MISSED", goal, name, `${floor ?? "-"}`, `${ours}`, unit, `${ratio ?? "-"}`, target];
}

const numeric = new Set(["floor", "ours", "ratio"]);

function padded(cell: string, column: number, widths: number[]): string {
  const width = widths[column] ?? 0;
  return numeric.has(headings[column] ?? "") ? cell.padStart(width) : cell.padEnd(width);
}

const resultsFile = fileURLToPath(new URL("results.md", import.meta.url));

/** Writes the lines between the marks of this bench. The results of other benches stay. */
export async function saveResults(
  name: string,
  lines: readonly BenchLine[],
  run: { size: string; database: string },
): Promise<void> {
  const text = await readFile(resultsFile, "utf8");
  const [begin, end] = [`<!-- begin ${name} -->`, `<!-- end ${name} -->`];
  const [before, rest] = [text.slice(0, text.indexOf(begin)), text.slice(text.indexOf(end))];
  if (!text.includes(begin) || !text.includes(end)) throw new Error(`bench/results.md has no marks for ${name}`);
  await writeFile(resultsFile, `${before}${begin}\n${sectionOf(name, lines, run)}${rest}`);
}

function sectionOf(name: string, lines: readonly BenchLine[], run: { size: string; database: string }): string {
  const rows = [headings, headings.map(() => "--"), ...lines.map(cellsOf)];
  const table = rows.map((row) => `| ${row.join(" | ")} |\n`).join("");
  const facts = [
    new Date().toISOString().slice(0, 10),
    `commit ${commit()}`,
    `${availableParallelism()} cores of ${cpus()[0]?.model ?? "an unknown CPU"}`,
    `load average ${(loadavg()[0] ?? 0).toFixed(1)}`,
    `Node ${process.versions.node}`,
    run.database,
    `\`npm run bench -- ${name} --size ${run.size}\``,
  ];
  return `\n${facts.join(", ")}:\n\n${table}\n`;
}

function commit(): string {
  const git = (...args: string[]) => execFileSync("git", args, { encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "--untracked-files=no", "--", "src") === "" ? "" : " with changes";
  return git("rev-parse", "--short", "HEAD") + changed;
}
